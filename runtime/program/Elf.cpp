//===- Elf.cpp ------------------------------------------------------------===//
#include "runtime/program/Elf.h"
#include "runtime/base/Quote.h"
#include "runtime/base/Version.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

/// Copies a T from `offset`, which need not be aligned; false where the file
/// ends before it does.
template <typename T>
bool readAt(std::span<const uint8_t> file, uint64_t offset, T &value) {
  if (offset > file.size() || file.size() - offset < sizeof(T))
    return false;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return true;
}

Status badElf(const std::string &how) {
  return Status::error("the executable is damaged: " + how);
}

/// The bytes of a section, checked to lie in the file.
Status getContents(std::span<const uint8_t> file, const Elf64_Shdr &section,
                   const std::string &label,
                   std::span<const uint8_t> &contents) {
  if (section.sh_type == SHT_NOBITS)
    return badElf(label + " has no contents in the file");
  if (section.sh_offset > file.size() ||
      section.sh_size > file.size() - section.sh_offset)
    return badElf(label + " at offset " + std::to_string(section.sh_offset) +
                  " with " + std::to_string(section.sh_size) +
                  " bytes is outside the file of " +
                  std::to_string(file.size()) + " bytes");
  contents = file.subspan(section.sh_offset, section.sh_size);
  return {};
}

class FileDescriptor {
public:
  explicit FileDescriptor(int fd) : fd(fd) {}
  ~FileDescriptor() {
    if (fd >= 0)
      ::close(fd);
  }
  FileDescriptor(const FileDescriptor &) = delete;
  FileDescriptor &operator=(const FileDescriptor &) = delete;
  int get() const { return fd; }

private:
  int fd;
};

} // namespace

Status cleave::runtime::findElfSection(std::span<const uint8_t> file,
                                       std::string_view name,
                                       std::span<const uint8_t> &contents) {
  Elf64_Ehdr header;
  if (!readAt(file, 0, header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return Status::error("is not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return Status::error("is not a 64-bit little-endian ELF file");
  if (header.e_shoff == 0)
    return badElf("it has no section table");
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    return badElf("its section headers have " +
                  std::to_string(header.e_shentsize) + " bytes, expects " +
                  std::to_string(sizeof(Elf64_Shdr)));
  // Section 0 holds the counts that do not fit the header.
  Elf64_Shdr first;
  if (!readAt(file, header.e_shoff, first))
    return badElf("its section table is outside the file");
  uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  uint64_t names =
      header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  if (count > (file.size() - header.e_shoff) / sizeof(Elf64_Shdr))
    return badElf("its section table of " + std::to_string(count) +
                  " entries is outside the file");
  auto getHeader = [&](uint64_t index) {
    Elf64_Shdr section;
    std::memcpy(&section,
                file.data() + header.e_shoff + index * sizeof(Elf64_Shdr),
                sizeof(section));
    return section;
  };
  if (names >= count)
    return badElf("its table of section names has index " +
                  std::to_string(names) + " of " + std::to_string(count));
  std::span<const uint8_t> strings;
  CLEAVE_RETURN_IF_ERROR(getContents(file, getHeader(names),
                                     "the table of section names", strings));
  std::string_view text(reinterpret_cast<const char *>(strings.data()),
                        strings.size());
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Shdr section = getHeader(i);
    if (section.sh_name >= text.size())
      continue;
    std::string_view rest = text.substr(section.sh_name);
    if (rest.size() > name.size() && rest[name.size()] == '\0' &&
        rest.starts_with(name))
      return getContents(file, section, "section " + quote(name), contents);
  }
  return Status::error("has no section " + quote(name) +
                       ": it was not made by cleave compile");
}

Status cleave::runtime::readProgramBytes(const std::string &path,
                                         std::vector<uint8_t> &bytes,
                                         std::string &version) {
  auto system = [&](const char *what) {
    return Status::error(path + ": cannot " + what + ": " +
                         std::strerror(errno));
  };
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0)
    return system("open");
  struct stat info;
  if (::fstat(fd.get(), &info) != 0)
    return system("read");
  if (!S_ISREG(info.st_mode))
    return Status::error(path + ": is not a regular file");
  if (uint64_t(info.st_size) > 2 * limits::programBytes)
    return Status::error(
        path + ": has " + std::to_string(info.st_size) + " bytes, at most " +
        std::to_string(2 * limits::programBytes) + " are legal");
  std::vector<uint8_t> file(size_t(info.st_size));
  for (size_t done = 0; done < file.size();) {
    ssize_t got = ::read(fd.get(), file.data() + done, file.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return system("read");
    if (got == 0) { // shrunk since
      file.resize(done);
      break;
    }
    done += size_t(got);
  }
  if (file.size() >= programMagic.size() &&
      std::memcmp(file.data(), programMagic.data(), programMagic.size()) == 0) {
    bytes = std::move(file);
    version.clear();
    return {};
  }
  std::span<const uint8_t> section;
  if (Status status = findElfSection(file, programSection, section);
      !status.ok())
    return Status::error(path + ": " + status.message());
  bytes.assign(section.begin(), section.end());
  // Programs are read without it all the same.
  if (!findElfSection(file, CLEAVE_VERSION_SECTION, section).ok())
    section = {};
  version.assign(section.begin(), std::find(section.begin(), section.end(), 0));
  return {};
}
