//===- Text.h - Plain text as byte-level tokens ---------------------------===//
#ifndef CLEAVE_RUNTIME_IO_TEXT_H
#define CLEAVE_RUNTIME_IO_TEXT_H

#include "runtime/io/InputFile.h"
#include <string_view>

namespace cleave::runtime {

/// Offset of the first byte that is not part of well-formed UTF-8 (Unicode 15,
/// table 3-7), or the size.
size_t findInvalidUtf8(std::string_view bytes);

/// A UTF-8 file: token = byte value, 0 to 255.
class Text {
public:
  static Status open(const std::string &path, Text &text);

  const InputFile &getFile() const { return file; }
  const std::string &getPath() const { return file.getPath(); }
  uint64_t getTokenCount() const { return file.getSize(); }
  /// Reads tokens [first, first + count); they must exist.
  Status read(uint64_t first, uint64_t count, int64_t *out) const;

private:
  /// Reads all of the file once, piece by piece.
  Status checkUtf8() const;

  InputFile file;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TEXT_H
