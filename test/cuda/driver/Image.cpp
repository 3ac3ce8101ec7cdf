//===- Image.cpp ----------------------------------------------------------===//
#include "test/cuda/driver/Image.h"
#include "runtime/cuda/DriverApi.h"
#include <cstring>
#include <elf.h>
#include <string_view>

using namespace cleave::simulated;
using namespace cleave::runtime::cuda;

static constexpr uint16_t machineCuda = 190; // EM_CUDA
static constexpr std::string_view textPrefix = ".text.";

/// The end of what an ELF header says of the file: its last table or section.
static size_t getElfSize(const char *data, const Elf64_Ehdr &header) {
  size_t size = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  size = std::max(size, size_t(header.e_phoff +
                               size_t(header.e_phnum) * header.e_phentsize));
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, data + header.e_shoff + i * sizeof section,
                sizeof section);
    if (section.sh_type != SHT_NOBITS)
      size = std::max(size, size_t(section.sh_offset + section.sh_size));
  }
  return size;
}

/// Code lies in one section a function, named after it.
static int parseCubin(const char *data, Image &image, std::string &why) {
  Elf64_Ehdr header;
  std::memcpy(&header, data, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != machineCuda ||
      (header.e_shnum > 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      header.e_shstrndx >= header.e_shnum) {
    why = "the ELF file is no cubin with a table of sections";
    return errorInvalidImage;
  }
  image.bytes.assign(data, getElfSize(data, header));
  // Since version 8 of the ABI the architecture has the second byte.
  image.arch = header.e_ident[EI_ABIVERSION] >= 8
                   ? int(header.e_flags >> 8 & 0xff)
                   : int(header.e_flags & 0xff);
  auto getSection = [&](unsigned i) {
    Elf64_Shdr section;
    std::memcpy(&section, data + header.e_shoff + i * sizeof section,
                sizeof section);
    return section;
  };
  const char *names = data + getSection(header.e_shstrndx).sh_offset;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    std::string_view name = names + getSection(i).sh_name;
    if (name.starts_with(textPrefix))
      image.functions.emplace(name.substr(textPrefix.size()));
  }
  return success;
}

static bool isSpace(char c) { return std::strchr(" \t\r\n", c) && c; }

/// The text without its comments.
static std::string stripComments(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size() - 1);
      result += '\n';
    } else if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i), text.size() - 2) + 1;
      result += ' ';
    } else {
      result += text[i];
    }
  }
  return result;
}

/// The word behind each `directive`.
template <typename Visit>
static void forEachWord(std::string_view text, std::string_view directive,
                        Visit visit) {
  for (size_t at = 0; (at = text.find(directive, at)) != text.npos;) {
    at += directive.size();
    if (at >= text.size() || !isSpace(text[at]))
      continue;
    while (at < text.size() && isSpace(text[at]))
      ++at;
    size_t end = at;
    while (end < text.size() && !isSpace(text[end]) &&
           !std::strchr("(,;{", text[end]))
      ++end;
    visit(text.substr(at, end - at));
    at = end;
  }
}

static int parsePtx(const char *data, Image &image, std::string &why) {
  image.isPtx = true;
  image.bytes = data;
  std::string text = stripComments(image.bytes);
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos ||
      !std::string_view(text).substr(first).starts_with(".version")) {
    why = "the image is neither an ELF file nor PTX, which begins with "
          "\".version\"";
    return errorInvalidImage;
  }
  std::string target;
  forEachWord(text, ".target", [&](std::string_view word) { target = word; });
  if (!target.starts_with("sm_")) {
    why = "the PTX has no \".target sm_\"";
    return errorInvalidPtx;
  }
  image.arch = std::atoi(target.c_str() + 3);
  image.isExact = target.ends_with("a");
  forEachWord(text, ".entry",
              [&](std::string_view word) { image.functions.emplace(word); });
  return success;
}

int Image::parse(const void *data, Image &image, std::string &why) {
  const char *text = static_cast<const char *>(data);
  // A text ends before the magic does where they differ.
  return std::strncmp(text, ELFMAG, SELFMAG) == 0 ? parseCubin(text, image, why)
                                                  : parsePtx(text, image, why);
}

int Image::checkArch(int device, std::string &why) const {
  std::string both = "is for sm_" + std::to_string(arch) +
                     (isExact ? "a" : "") + ", and the device is of sm_" +
                     std::to_string(device);
  if (isPtx) {
    if (arch <= device && (!isExact || arch == device))
      return success;
    why = "the PTX " + both;
    return errorInvalidPtx;
  }
  if (arch / 10 == device / 10 && arch <= device)
    return success;
  why = "the cubin " + both;
  return errorNoBinaryForGpu;
}
