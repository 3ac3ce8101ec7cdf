//===- TokenScan.h - Looks at every token ahead of the training -----------===//
//
// The run itself meets a token when its turn comes, which may be after weeks.
//
// What was found of X.bin is kept beside it in X.scan.json, and taken from
// there by later runs: {"version", "bytes", "modified_ns", "index_crc32c",
// "sample_crc32c": of the files that were read; "tokens"; "lowest", "highest":
// {"id", "at": its first position}; "crc32c": of the object without this key}.
// It does not depend on the vocabulary.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_IO_TOKENSCAN_H
#define CLEAVE_RUNTIME_IO_TOKENSCAN_H

#include "runtime/io/TokenStream.h"
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace cleave::runtime {

/// The ids of a file, and where each of the two is first.
struct TokenRange {
  uint64_t tokens = 0;
  int64_t lowest = 0, highest = 0;
  uint64_t lowestAt = 0, highestAt = 0;

  /// Takes `count` further tokens in, of any type of integer.
  template <typename T>
  void add(const T *ids, uint64_t count);
  /// Fails where a token of the file `path` is not in [0, vocab).
  Status check(const std::string &path, uint64_t vocab) const;
};

template <typename T>
void TokenRange::add(const T *ids, uint64_t count) {
  if (count == 0)
    return;
  T low = ids[0], high = ids[0];
  for (uint64_t i = 1; i < count; ++i) {
    low = std::min(low, ids[i]);
    high = std::max(high, ids[i]);
  }
  auto find = [&](T id) {
    return tokens + uint64_t(std::find(ids, ids + count, id) - ids);
  };
  if (tokens == 0 || low < lowest)
    lowest = low, lowestAt = find(low);
  if (tokens == 0 || high > highest)
    highest = high, highestAt = find(high);
  tokens += count;
}

/// Reads all files of a stream once, on a thread that runs when nothing else
/// wants its core. Files of a type that holds no id outside of the vocabulary
/// are left out.
class TokenScan {
public:
  static Status start(const TokenStream &stream, uint64_t vocab,
                      std::unique_ptr<TokenScan> &scan);
  /// Stops; does not wait for more than a moment.
  ~TokenScan();

  /// Fails once a token outside of the vocabulary was met, naming the file,
  /// its position, its id and the vocabulary, or a file could not be read.
  /// Costs nothing to speak of: to be asked at each step.
  Status poll() const;
  /// Whether all files were looked at.
  bool isDone() const { return done.load(); }
  /// What is not wrong, but worth a line: a result that could not be kept.
  /// Each is returned once.
  std::vector<std::string> takeNotes();

private:
  TokenScan(const TokenStream &stream, uint64_t vocab);

  Status run();
  /// Looks at a file; `range` is only whole where `stopping` is not set.
  Status scan(const IndexedDataset &dataset, TokenRange &range);
  Status scan(const Text &text, TokenRange &range);
  /// Looks at all tokens of a file, of type T; `read(first, count, out)`.
  template <typename T, typename File, typename Read>
  Status scanAs(const File &file, TokenRange &range, Read &&read);
  void report(const Status &status);

  TokenStream stream;
  uint64_t vocab;
  std::atomic<bool> stopping{false}, failed{false}, done{false};
  mutable std::mutex mutex;
  Status failure; ///< the first
  std::vector<std::string> notes;
  std::thread thread;
};

/// Where the result of a scan of this .bin is kept.
std::string getScanPath(const IndexedDataset &dataset);

/// Reads a kept result; false where there is none of these very files, or it is
/// damaged.
bool readScan(const IndexedDataset &dataset, TokenRange &range);
/// Keeps a result.
Status writeScan(const IndexedDataset &dataset, const TokenRange &range);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TOKENSCAN_H
