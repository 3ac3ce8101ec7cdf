//===- ChoiceCache.h - What was found the fastest, for later runs ---------===//
//
// Which of a library's algorithms is the fastest is found by trials on the GPU.
// What was chosen is kept in a file, so that a later run has no trials. There
// is a file for each library and GPU, in $CLEAVE_CACHE, or else in
// $XDG_CACHE_HOME/cleave or ~/.cache/cleave; where CLEAVE_CACHE is set and
// empty, or none of the three is set, nothing is kept.
//
//   cleave choices 1
//   cuBLASLt 130100, NVIDIA H200 (sm_90)
//   [64,768] x [768,768]^T, bf16 -> bf16<tab>2f00000000000000...
//   crc32c 8d8a53a2
//
// Processes may read and write it at once: it is replaced as a whole, and who
// writes adds to what is there by then.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_CHOICECACHE_H
#define CLEAVE_RUNTIME_CUDA_CHOICECACHE_H

#include "runtime/base/Status.h"
#include <map>
#include <string>

namespace cleave::runtime::cuda {

class ChoiceCache {
public:
  /// Reads what is kept for `owner`, one line: all that choices depend on and
  /// their names do not tell. A file that is not as it should be is taken for
  /// none, which a warning says.
  explicit ChoiceCache(std::string owner);

  /// Where it is kept; empty: nowhere.
  const std::string &getPath() const { return path; }

  /// What was chosen for `name`; null: nothing yet.
  const std::string *find(const std::string &name) const;
  /// Neither has a tab or the end of a line.
  void add(const std::string &name, const std::string &choice);
  /// Writes what was added, if anything. Where that fails, a warning says so.
  void save();

private:
  using Choices = std::map<std::string, std::string>; ///< by their names

  Status read(Choices &choices) const;
  Status parse(const std::string &text, Choices &choices) const;
  Status write() const;

  std::string owner, path;
  Choices kept, added;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_CHOICECACHE_H
