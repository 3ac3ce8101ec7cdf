//===- Text.h - Plain text as byte-level tokens ---------------------------===//
#ifndef CLEAVE_RUNTIME_IO_TEXT_H
#define CLEAVE_RUNTIME_IO_TEXT_H

#include "runtime/io/MappedFile.h"
#include <cstdint>

namespace cleave::runtime {

/// Offset of the first byte that is not part of well-formed UTF-8 (Unicode 15,
/// table 3-7), or the size.
size_t findInvalidUtf8(std::string_view bytes);

/// A UTF-8 file: token = byte value, 0 to 255.
class Text {
public:
  static Status open(const std::string &path, Text &text);

  const std::string &getPath() const { return file.getPath(); }
  uint64_t getTokenCount() const { return file.getBytes().size(); }
  /// Reads tokens [first, first + count); they must exist.
  void read(uint64_t first, uint64_t count, int64_t *out) const {
    for (uint64_t i = 0; i < count; ++i)
      out[i] = static_cast<unsigned char>(file.getBytes()[first + i]);
  }

private:
  MappedFile file;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TEXT_H
