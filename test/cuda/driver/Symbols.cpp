//===- Symbols.cpp --------------------------------------------------------===//
#include "test/cuda/driver/Symbols.h"
#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <string>

/// Where the executable was loaded, from where it was linked to be.
static uintptr_t getLoadOffset() {
  uintptr_t offset = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *result) {
        *static_cast<uintptr_t *>(result) = info->dlpi_addr;
        return 1; // the executable is the first
      },
      &offset);
  return offset;
}

/// Of the running executable, which the system has loaded: it is as an ELF file
/// should be.
static void *findInFile(const char *name) {
  std::ifstream file("/proc/self/exe", std::ios::binary | std::ios::ate);
  std::string bytes(size_t(std::max<std::streamoff>(0, file.tellg())), 0);
  file.seekg(0);
  file.read(bytes.data(), std::streamsize(bytes.size()));
  auto read = [&](size_t offset, auto &value) {
    if (offset + sizeof value > bytes.size())
      return false;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return true;
  };
  Elf64_Ehdr header;
  if (!read(0, header))
    return nullptr;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, strings;
    if (!read(header.e_shoff + i * sizeof table, table) ||
        table.sh_type != SHT_SYMTAB ||
        !read(header.e_shoff + table.sh_link * sizeof strings, strings))
      continue;
    for (size_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (read(table.sh_offset + at, symbol) && symbol.st_shndx != SHN_UNDEF &&
          std::strcmp(bytes.c_str() + strings.sh_offset + symbol.st_name,
                      name) == 0)
        return reinterpret_cast<void *>(getLoadOffset() + symbol.st_value);
    }
  }
  return nullptr;
}

void *cleave::simulated::findSymbol(const char *name) {
  if (void *exported = dlsym(RTLD_DEFAULT, name))
    return exported;
  return findInFile(name);
}
