//===- IndexedDataset.h - Megatron's .bin/.idx token files ----------------===//
//
// As megatron-core's indexed_dataset.py writes them. The .idx, little-endian
// and unaligned: magic "MMIDIDX\0\0", u64 version 1, u8 dtype code, u64
// sequence count S, u64 document count D (documents + 1), i32 lengths[S], i64
// byte offsets[S] into the .bin, i64 documents[D]: document d is the sequences
// [documents[d], documents[d+1]); i8 modes[S] in multimodal sets. The .bin: the
// tokens.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_IO_INDEXEDDATASET_H
#define CLEAVE_RUNTIME_IO_INDEXEDDATASET_H

#include "runtime/io/InputFile.h"
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// What an .idx says, checked.
struct DatasetIndex {
  /// Width of a token in the .bin, bytes.
  unsigned tokenBytes = 0;
  bool isSigned = false;
  uint64_t sequences = 0, documents = 0;
  /// Tokens before each sequence, and the total: [sequences + 1].
  std::vector<uint64_t> starts;
  /// Byte offset of each sequence in the .bin.
  std::vector<uint64_t> offsets;
  /// First sequence of each document, and the total: [documents + 1].
  std::vector<uint64_t> documentStarts;
};

/// Reads an .idx whose .bin has `binBytes` bytes. Errors name `file`, the
/// field, its value and what is legal.
Status parseDatasetIndex(std::string_view bytes, uint64_t binBytes,
                         const std::string &file, DatasetIndex &index);

/// An open dataset, read as one stream: its documents one after the other.
class IndexedDataset {
public:
  /// Opens `prefix`.idx and `prefix`.bin.
  static Status open(const std::string &prefix, IndexedDataset &dataset);

  const DatasetIndex &getIndex() const { return index; }
  /// CRC-32C of the whole .idx.
  uint32_t getIndexChecksum() const { return indexChecksum; }
  /// The .bin.
  const InputFile &getFile() const { return bin; }
  const std::string &getPath() const { return bin.getPath(); }
  uint64_t getTokenCount() const { return index.starts.back(); }
  /// Reads tokens [first, first + count) of the stream; they must exist.
  Status read(uint64_t first, uint64_t count, int64_t *out) const;
  /// Likewise as they are in the .bin: tokenBytes each.
  Status readRaw(uint64_t first, uint64_t count, void *out) const;

private:
  InputFile bin;
  DatasetIndex index;
  uint32_t indexChecksum = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_INDEXEDDATASET_H
