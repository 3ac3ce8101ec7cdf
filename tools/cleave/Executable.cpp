//===- Executable.cpp -----------------------------------------------------===//
//
// The code for GPUs is found as the runtime's main finds it: by the symbols of
// runtime/abi/Kernel.h and runtime/cuda/kernels/Images.h. Their addresses are
// those of a program that is loaded at 0, and pointers have the values that the
// dynamic linker would give them there.
//
//===----------------------------------------------------------------------===//
#include "Executable.h"
#include "runtime/abi/Kernel.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cstddef>
#include <cstring>
#include <map>

using namespace cleave;
using namespace cleave::tool;
using llvm::object::ELF64LE;
using llvm::object::ELF64LEFile;
namespace elf = llvm::ELF;

namespace {

/// An ELF file as it lies in memory once it is loaded.
class Image {
public:
  static llvm::Expected<Image> create(llvm::StringRef bytes) {
    auto file = ELF64LEFile::create(bytes);
    if (!file)
      return file.takeError();
    Image image(bytes, *file);
    if (llvm::Error error = image.index())
      return error;
    return image;
  }

  /// The address of a symbol.
  std::optional<uint64_t> find(llvm::StringRef symbol) const {
    auto found = symbols.find(symbol);
    if (found == symbols.end())
      return std::nullopt;
    return found->second;
  }

  /// The file from an address on.
  llvm::Expected<llvm::StringRef> getRest(uint64_t address) const {
    auto start = file.toMappedAddr(address);
    if (!start)
      return start.takeError();
    return bytes.drop_front(size_t(*start - bytes.bytes_begin()));
  }
  llvm::Expected<llvm::StringRef> getBytes(uint64_t address,
                                           uint64_t size) const {
    auto rest = getRest(address);
    if (!rest)
      return rest.takeError();
    if (size > rest->size())
      return llvm::createStringError(llvm::Twine(size) + " bytes at address " +
                                     llvm::Twine(address) +
                                     " go beyond the end of the file");
    return rest->take_front(size);
  }
  template <typename T>
  llvm::Expected<T> read(uint64_t address) const {
    auto data = getBytes(address, sizeof(T));
    if (!data)
      return data.takeError();
    T value;
    std::memcpy(&value, data->bytes_begin(), sizeof(T));
    return value;
  }
  /// What the pointer at an address points to.
  llvm::Expected<uint64_t> readPointer(uint64_t address) const {
    auto found = pointers.find(address);
    if (found != pointers.end())
      return found->second;
    return read<uint64_t>(address);
  }
  /// Likewise, where that ends in a zero.
  llvm::Expected<llvm::StringRef> readText(uint64_t address) const {
    auto text = readPointer(address);
    if (!text)
      return text.takeError();
    auto rest = getRest(*text);
    if (!rest)
      return rest.takeError();
    return rest->take_until([](char c) { return c == '\0'; });
  }

private:
  Image(llvm::StringRef bytes, ELF64LEFile file)
      : bytes(bytes), file(std::move(file)) {}

  llvm::Error index() {
    auto sections = file.sections();
    if (!sections)
      return sections.takeError();
    for (const ELF64LE::Shdr &section : *sections) {
      llvm::Error error = llvm::Error::success();
      if (section.sh_type == elf::SHT_SYMTAB ||
          section.sh_type == elf::SHT_DYNSYM)
        error = indexSymbols(section);
      else if (section.sh_type == elf::SHT_RELA)
        error = indexPointers(section);
      if (error)
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error indexSymbols(const ELF64LE::Shdr &section) {
    auto names = file.getStringTableForSymtab(section);
    if (!names)
      return names.takeError();
    auto all = file.symbols(&section);
    if (!all)
      return all.takeError();
    for (const ELF64LE::Sym &symbol : *all) {
      if (symbol.st_shndx == elf::SHN_UNDEF ||
          symbol.getBinding() != elf::STB_GLOBAL)
        continue;
      auto name = symbol.getName(*names);
      if (!name)
        return name.takeError();
      symbols[*name] = symbol.st_value;
    }
    return llvm::Error::success();
  }

  llvm::Error indexPointers(const ELF64LE::Shdr &section) {
    auto all = file.relas(section);
    if (!all)
      return all.takeError();
    for (const ELF64LE::Rela &each : *all)
      if (each.getType(/*isMips64EL=*/false) == elf::R_X86_64_RELATIVE)
        pointers[each.r_offset] = uint64_t(int64_t(each.r_addend));
    return llvm::Error::success();
  }

  llvm::StringRef bytes;
  ELF64LEFile file;
  llvm::StringMap<uint64_t> symbols;
  std::map<uint64_t, uint64_t> pointers;
};

/// The word behind a directive, such as "8.0" behind ".version ".
llvm::StringRef findWord(llvm::StringRef ptx, llvm::StringRef directive) {
  return ptx.split(directive).second.take_until(llvm::isSpace);
}

llvm::Expected<CudaModule> readModule(llvm::StringRef ptx,
                                      llvm::StringRef cubin) {
  CudaModule module;
  module.ptxBytes = ptx.size();
  module.cubinBytes = cubin.size();
  module.ptxVersion = findWord(ptx, "\n.version ");
  module.ptxTarget = findWord(ptx, "\n.target ");
  if (module.ptxVersion.empty() || module.ptxTarget.empty())
    return llvm::createStringError("the PTX says no version or no target");
  if (cubin.empty())
    return module;
  llvm::Expected<Cubin> read = readCubin(cubin);
  if (!read)
    return read.takeError();
  module.cubin = std::move(*read);
  return module;
}

/// The runtime's, by the symbols of Images.h.
llvm::Expected<std::optional<CudaModule>> readOwnModule(const Image &image) {
  auto get = [&](llvm::StringRef symbol) -> llvm::Expected<llvm::StringRef> {
    std::optional<uint64_t> start = image.find(symbol),
                            size = image.find((symbol + "_bytes").str());
    if (!start || !size)
      return llvm::StringRef();
    auto bytes = image.read<uint64_t>(*size);
    if (!bytes)
      return bytes.takeError();
    return image.getBytes(*start, *bytes);
  };
  auto ptx = get("cleave_kernel_ptx");
  if (!ptx)
    return ptx.takeError();
  auto cubin = get("cleave_kernel_cubin");
  if (!cubin)
    return cubin.takeError();
  llvm::StringRef text = ptx->rtrim('\0');
  if (text.empty())
    return std::nullopt;
  return readModule(text, *cubin);
}

llvm::Expected<std::vector<CudaKernel>>
readKernels(const Image &image, uint64_t address, uint64_t count) {
  std::vector<CudaKernel> kernels;
  for (uint64_t i = 0; i != count; ++i, address += sizeof(CleaveCudaKernel)) {
    auto entry = image.read<CleaveCudaKernel>(address);
    if (!entry)
      return entry.takeError();
    auto symbol = image.readText(address + offsetof(CleaveCudaKernel, symbol));
    if (!symbol)
      return symbol.takeError();
    uint64_t place = address + offsetof(CleaveCudaKernel, multi_symbol);
    auto multiPointer = image.readPointer(place);
    if (!multiPointer)
      return multiPointer.takeError();
    llvm::Expected<llvm::StringRef> multiSymbol = llvm::StringRef();
    if (*multiPointer != 0)
      multiSymbol = image.readText(place);
    if (!multiSymbol)
      return multiSymbol.takeError();
    kernels.push_back({symbol->str(), multiSymbol->str(), entry->blocks,
                       entry->threads, entry->scratch_bytes});
  }
  return kernels;
}

llvm::Expected<std::optional<CudaCode>> readCudaCode(llvm::StringRef bytes) {
  // A sealed program by itself has no code at all.
  if (!bytes.starts_with(elf::ElfMagic))
    return std::nullopt;
  llvm::Expected<Image> image = Image::create(bytes);
  if (!image)
    return image.takeError();
  std::optional<uint64_t> address = image->find("cleave_cuda_code");
  if (!address)
    return std::nullopt;
  auto table = image->read<CleaveCudaCode>(*address);
  if (!table)
    return table.takeError();
  if (table->kernel_count == 0)
    return std::nullopt;
  auto entries =
      image->readPointer(*address + offsetof(CleaveCudaCode, kernels));
  if (!entries)
    return entries.takeError();
  auto kernels = readKernels(*image, *entries, table->kernel_count);
  if (!kernels)
    return kernels.takeError();
  auto ptx = image->readText(*address + offsetof(CleaveCudaCode, ptx));
  if (!ptx)
    return ptx.takeError();
  auto start = image->readPointer(*address + offsetof(CleaveCudaCode, cubin));
  if (!start)
    return start.takeError();
  llvm::Expected<llvm::StringRef> cubin = llvm::StringRef();
  if (*start != 0)
    cubin = image->getBytes(*start, table->cubin_size);
  if (!cubin)
    return cubin.takeError();

  CudaCode code;
  code.peakFlops = {table->peak_flops[0], table->peak_flops[1]};
  code.kernels = std::move(*kernels);
  auto generated = readModule(*ptx, *cubin);
  if (!generated)
    return generated.takeError();
  code.generated = std::move(*generated);
  auto own = readOwnModule(*image);
  if (!own)
    return own.takeError();
  code.own = std::move(*own);
  return code;
}

} // namespace

llvm::Expected<Executable> tool::readExecutable(const std::string &path) {
  Executable executable;
  runtime::Status status = runtime::Program::loadFile(path, executable.program);
  if (!status.ok())
    return llvm::createStringError(status.message());
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(path + ": " + buffer.getError().message());
  auto cuda = readCudaCode((*buffer)->getBuffer());
  if (!cuda)
    return llvm::createStringError(
        path + ": its code for GPUs: " + llvm::toString(cuda.takeError()));
  executable.cuda = std::move(*cuda);
  return executable;
}
