//===- Store.h - The folder of a run's checkpoints ------------------------===//
#ifndef CLEAVE_RUNTIME_CHECKPOINT_STORE_H
#define CLEAVE_RUNTIME_CHECKPOINT_STORE_H

#include "runtime/base/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::runtime {

/// A folder that has a checkpoint's name. Whether it is whole is in its bytes.
struct CheckpointPath {
  int64_t step = 0;
  std::string path;
};

/// The checkpoints in `folder`, newest first; none if there is no such folder.
/// A folder that is a checkpoint itself is the only one.
std::vector<CheckpointPath> listCheckpoints(const std::string &folder);

/// What to say where a whole checkpoint was looked for in `folder`: one of them
/// is damaged and passed over, there is none, none of `count` is whole.
std::string describePassedOver(const Status &damage, const std::string &path);
Status failWithoutCheckpoint(const std::string &folder);
Status failWithoutWhole(const std::string &folder, size_t count);

/// The folder that a run saves into. One process at a time, rank 0's, holds it.
class CheckpointStore {
public:
  CheckpointStore() = default;
  CheckpointStore(CheckpointStore &&other) noexcept { swap(other); }
  CheckpointStore &operator=(CheckpointStore &&other) noexcept {
    swap(other);
    return *this;
  }
  CheckpointStore(const CheckpointStore &) = delete;
  CheckpointStore &operator=(const CheckpointStore &) = delete;
  ~CheckpointStore();

  /// Makes the folder as needed, locks it, and removes what a killed save left.
  /// Fails where another process saves into it.
  static Status open(const std::string &folder, CheckpointStore &store);

  const std::string &getFolder() const { return folder; }
  /// Where the files of a checkpoint are written before it has its name.
  static std::string getTemporaryPath(const std::string &folder, int64_t step);
  std::string getPath(int64_t step) const;

  /// Gives the written checkpoint of `step` its name. What had that name is
  /// removed after the rename. On return the checkpoint survives a power loss.
  Status commit(int64_t step) const;
  /// Removes what a failed save of `step` wrote.
  void discard(int64_t step) const;
  /// Removes all but the newest `keep` checkpoints; 0: keeps all. Removes
  /// nothing unless one of those kept is whole: `isWhole` reads it.
  template <typename IsWhole>
  Status prune(int64_t keep, IsWhole &&isWhole) const {
    std::vector<CheckpointPath> all = listCheckpoints(folder);
    if (keep <= 0 || int64_t(all.size()) <= keep)
      return {};
    Status status;
    for (int64_t i = 0; i < keep; ++i) {
      status = isWhole(all[size_t(i)].path);
      if (status.ok())
        return remove({all.begin() + keep, all.end()});
    }
    return status;
  }

private:
  void swap(CheckpointStore &other) noexcept {
    std::swap(folder, other.folder);
    std::swap(lock, other.lock);
  }
  Status remove(const std::vector<CheckpointPath> &old) const;

  std::string folder;
  int lock = -1;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHECKPOINT_STORE_H
