//===- Text.cpp -----------------------------------------------------------===//
#include "runtime/io/Text.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

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
  CLEAVE_RETURN_IF_ERROR(InputFile::open(path, result.file));
  CLEAVE_RETURN_IF_ERROR(result.checkUtf8());
  text = std::move(result);
  return {};
}

Status Text::checkUtf8() const {
  constexpr uint64_t pieceBytes = 1 << 20;
  constexpr size_t longestCharacter = 4;
  std::vector<char> buffer(pieceBytes + longestCharacter);
  // buffer[0, kept) is the start of a character that the last piece cut.
  size_t kept = 0;
  for (uint64_t at = 0; at < file.getSize();) {
    uint64_t bytes = std::min(pieceBytes, file.getSize() - at);
    CLEAVE_RETURN_IF_ERROR(file.read(at, bytes, buffer.data() + kept));
    at += bytes;
    std::string_view piece(buffer.data(), kept + bytes);
    size_t bad = findInvalidUtf8(piece);
    kept = piece.size() - bad;
    if (kept >= longestCharacter || (kept > 0 && at == file.getSize()))
      return Status::error(getPath() + ": byte " + std::to_string(at - kept) +
                           " is not UTF-8; --data takes UTF-8 text or a "
                           "Megatron .idx/.bin pair");
    std::memmove(buffer.data(), buffer.data() + bad, kept);
  }
  return {};
}

Status Text::read(uint64_t first, uint64_t count, int64_t *out) const {
  std::array<unsigned char, 1 << 14> buffer;
  while (count > 0) {
    uint64_t here = std::min<uint64_t>(count, buffer.size());
    CLEAVE_RETURN_IF_ERROR(file.read(first, here, buffer.data()));
    out = std::copy_n(buffer.begin(), here, out);
    first += here;
    count -= here;
  }
  return {};
}
