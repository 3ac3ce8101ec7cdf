//===- Text.cpp -----------------------------------------------------------===//
#include "runtime/io/Text.h"
#include <cstring>

using namespace cleave::runtime;

/// Bytes of the well-formed character at the start of `bytes`, or 0.
static size_t getCharacterSize(std::string_view bytes) {
  auto at = [&](size_t i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u;
  };
  auto continues = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  unsigned lead = at(0), second = at(1);
  if (lead < 0x80)
    return 1;
  if (lead >= 0xc2 && lead <= 0xdf)
    return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    // No overlong forms, no surrogates.
    bool legal = lead == 0xe0   ? second >= 0xa0
                 : lead == 0xed ? second <= 0x9f
                                : true;
    return legal && continues(1) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    // No overlong forms, nothing beyond U+10FFFF.
    bool legal = lead == 0xf0   ? second >= 0x90
                 : lead == 0xf4 ? second <= 0x8f
                                : true;
    return legal && continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

size_t cleave::runtime::findInvalidUtf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t word;
    if (bytes.size() - i >= 8 && (std::memcpy(&word, bytes.data() + i, 8),
                                  (word & 0x8080808080808080) == 0)) {
      i += 8;
      continue;
    }
    size_t size = getCharacterSize(bytes.substr(i));
    if (size == 0)
      return i;
    i += size;
  }
  return i;
}

Status Text::open(const std::string &path, Text &text) {
  Text result;
  CLEAVE_RETURN_IF_ERROR(MappedFile::open(path, result.file));
  std::string_view bytes = result.file.getBytes();
  if (size_t bad = findInvalidUtf8(bytes); bad != bytes.size())
    return Status::error(
        path + ": byte " + std::to_string(bad) +
        " is not UTF-8; --data takes UTF-8 text or a Megatron .idx/.bin pair");
  text = std::move(result);
  return {};
}
