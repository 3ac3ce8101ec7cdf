//===- TokenStream.h - All data files as one run of tokens ----------------===//
#ifndef CLEAVE_RUNTIME_IO_TOKENSTREAM_H
#define CLEAVE_RUNTIME_IO_TOKENSTREAM_H

#include "runtime/io/IndexedDataset.h"
#include "runtime/io/Text.h"
#include <memory>
#include <variant>

namespace cleave::runtime {

/// The error of a token outside of the vocabulary: names the file, the token's
/// position in it, its id and what is legal.
Status makeTokenError(const std::string &path, uint64_t position, int64_t id,
                      uint64_t vocab);

/// The files given with --data, one after the other. A copy is cheap, and reads
/// the same open files.
class TokenStream {
public:
  using File = std::variant<IndexedDataset, Text>;

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

  /// In the order of --data.
  const std::vector<std::shared_ptr<const File>> &getFiles() const {
    return files;
  }
  /// One of each file, in their order. Reads a bounded part of each.
  Status describe(std::vector<DataIdentity> &identities) const;

private:
  std::vector<std::shared_ptr<const File>> files;
  std::vector<uint64_t> starts = {
      0}; ///< tokens before each file, and the total
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TOKENSTREAM_H
