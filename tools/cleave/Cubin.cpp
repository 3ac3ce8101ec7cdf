//===- Cubin.cpp ----------------------------------------------------------===//
//
// A cubin is an ELF file. NVIDIA documents neither its sections nor the
// attributes in them; what is read here is what ptxas of CUDA 12 and 13 write,
// and a test holds it to what `ptxas -v` says:
//
//   .text.K       code of the kernel K
//   .nv.shared.K  no contents; as large as a block's shared memory, whose first
//                 KiB is the system's
//   .nv.info      attributes of all kernels, each with the index of a symbol
//
//===----------------------------------------------------------------------===//
#include "Cubin.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/Endian.h"

using namespace cleave;
using namespace cleave::tool;
using llvm::object::ELF64LE;
using llvm::object::ELF64LEFile;
namespace elf = llvm::ELF;

namespace {

/// How an attribute's value is stored. `Sized`: behind its number of bytes.
enum Form : uint8_t { Sized = 4 };

/// Those of .nv.info that are read. Their value is the index of a symbol, and a
/// number of 32 bits.
enum Attribute : uint8_t { StackBytes = 0x12, RegisterCount = 0x2f };

/// Of a block's shared memory, from sm_90 on.
constexpr uint64_t systemSharedBytes = 1024;

class Reader {
public:
  explicit Reader(const ELF64LEFile &file) : file(file) {}

  llvm::Error read(Cubin &cubin) {
    auto found = file.sections();
    if (!found)
      return found.takeError();
    sections = *found;
    const ELF64LE::Ehdr &header = file.getHeader();
    uint32_t flags = header.e_flags;
    cubin.chip = "sm_" + std::to_string(header.e_ident[elf::EI_ABIVERSION] >=
                                                elf::ELFABIVERSION_CUDA_V2
                                            ? (flags & elf::EF_CUDA_SM_MASK) >>
                                                  elf::EF_CUDA_SM_OFFSET
                                            : flags & elf::EF_CUDA_SM);
    for (const ELF64LE::Shdr &section : sections) {
      auto name = file.getSectionName(section);
      if (!name)
        return name.takeError();
      llvm::StringRef kernel = *name;
      if (kernel == ".nv.info") {
        if (llvm::Error error = readAttributes(section, cubin))
          return error;
      } else if (kernel.consume_front(".nv.shared.") &&
                 section.sh_size >= systemSharedBytes) {
        cubin.kernels[kernel].sharedBytes = section.sh_size - systemSharedBytes;
      }
    }
    return llvm::Error::success();
  }

private:
  static llvm::Error refuse(const llvm::Twine &what) {
    return llvm::createStringError("the cubin is damaged: " + what);
  }

  llvm::Expected<llvm::StringRef> getSymbolName(const ELF64LE::Shdr &info,
                                                uint32_t index) const {
    auto table = file.getSection(info.sh_link);
    if (!table)
      return table.takeError();
    auto symbol = file.getSymbol(*table, index);
    if (!symbol)
      return symbol.takeError();
    auto names = file.getStringTableForSymtab(**table);
    if (!names)
      return names.takeError();
    return (*symbol)->getName(*names);
  }

  llvm::Error readAttributes(const ELF64LE::Shdr &section, Cubin &cubin) const {
    auto contents = file.getSectionContents(section);
    if (!contents)
      return contents.takeError();
    using llvm::support::endian::read16le;
    using llvm::support::endian::read32le;
    for (llvm::ArrayRef<uint8_t> rest = *contents; !rest.empty();) {
      if (rest.size() < 4)
        return refuse("an attribute of .nv.info ends early");
      uint8_t form = rest[0], attribute = rest[1];
      uint16_t size = form == Sized ? read16le(rest.data() + 2) : 0;
      rest = rest.drop_front(4);
      if (size > rest.size())
        return refuse("an attribute of .nv.info ends early");
      llvm::ArrayRef<uint8_t> value = rest.take_front(size);
      rest = rest.drop_front(size);
      if (attribute != StackBytes && attribute != RegisterCount)
        continue;
      if (value.size() != 8)
        return refuse("an attribute of .nv.info has " +
                      llvm::Twine(value.size()) + " bytes, expects 8");
      auto name = getSymbolName(section, read32le(value.data()));
      if (!name)
        return name.takeError();
      uint32_t number = read32le(value.data() + 4);
      KernelResources &kernel = cubin.kernels[*name];
      if (attribute == StackBytes)
        kernel.localBytes = number;
      else
        kernel.registers = number;
    }
    return llvm::Error::success();
  }

  const ELF64LEFile &file;
  llvm::ArrayRef<ELF64LE::Shdr> sections;
};

} // namespace

llvm::Expected<Cubin> tool::readCubin(llvm::StringRef bytes) {
  auto file = ELF64LEFile::create(bytes);
  if (!file)
    return file.takeError();
  if (!file->getHeader().checkMagic() ||
      file->getHeader().e_machine != elf::EM_CUDA)
    return llvm::createStringError("the cubin is no ELF file of a GPU");
  Cubin cubin;
  if (llvm::Error error = Reader(*file).read(cubin))
    return error;
  return cubin;
}
