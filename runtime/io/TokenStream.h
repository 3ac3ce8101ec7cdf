//===- TokenStream.h - All data files as one run of tokens ----------------===//
#ifndef CLEAVE_RUNTIME_IO_TOKENSTREAM_H
#define CLEAVE_RUNTIME_IO_TOKENSTREAM_H

#include "runtime/io/IndexedDataset.h"
#include "runtime/io/Text.h"
#include <variant>

namespace cleave::runtime {

/// The files given with --data, one after the other.
class TokenStream {
public:
  /// Opens each path: X.idx, X.bin or X beside an X.idx is a Megatron dataset,
  /// any other file is UTF-8 text.
  static Status open(const std::vector<std::string> &paths,
                     TokenStream &stream);

  uint64_t getTokenCount() const { return starts.back(); }

  /// Reads tokens [first, first + count), which must exist. A token outside
  /// [0, vocab) is an error that names the file, the position in it, and both
  /// numbers.
  Status read(uint64_t first, uint64_t count, uint64_t vocab,
              int32_t *out) const;

private:
  using File = std::variant<IndexedDataset, Text>;
  std::vector<File> files;
  std::vector<uint64_t> starts = {
      0}; ///< tokens before each file, and the total
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TOKENSTREAM_H
