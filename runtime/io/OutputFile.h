//===- OutputFile.h - A file that appears whole or not at all -------------===//
#ifndef CLEAVE_RUNTIME_IO_OUTPUTFILE_H
#define CLEAVE_RUNTIME_IO_OUTPUTFILE_H

#include "runtime/base/Status.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cleave::runtime {

/// Written under a temporary name in the same folder; commit() gives it its
/// name. Without commit the destructor removes it. Several processes or
/// threads may write disjoint regions: one create()s, the others join() by
/// getTemporaryPath(); only the creator commits or removes.
///
/// The temporary name is NAME.tmp-HOST-PID-COUNT, and its creator holds a lock
/// (flock) on it while it lives. So what a killed process left is told from
/// what another one is writing, and the next create() of that NAME removes it.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) noexcept { swap(other); }
  OutputFile &operator=(OutputFile &&other) noexcept {
    swap(other);
    return *this;
  }
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();

  /// Creates the temporary file with `size` bytes, allocated on disk, so that
  /// a full disk is found here. Removes what killed processes left of it.
  static Status create(const std::string &path, uint64_t size,
                       OutputFile &file);
  /// Opens a temporary file that another made.
  static Status join(const std::string &temporaryPath, OutputFile &file);

  const std::string &getTemporaryPath() const { return temporaryPath; }
  Status write(uint64_t offset, const void *data, size_t bytes);
  /// Has the system begin to put written bytes on disk, so that sync() has less
  /// to wait for. A hint: where it cannot be taken, nothing is lost.
  void startSync(uint64_t offset, uint64_t bytes);
  /// Waits until what this object wrote is on disk.
  Status sync();
  /// Syncs, then renames to the final name and syncs the folder.
  Status commit();

private:
  Status openTemporary();

  void swap(OutputFile &other) noexcept {
    std::swap(path, other.path);
    std::swap(temporaryPath, other.temporaryPath);
    std::swap(fd, other.fd);
  }

  std::string path; ///< final name; empty for one that joined
  std::string temporaryPath;
  int fd = -1;
};

/// Writes `text` as a whole file.
Status writeWholeFile(const std::string &path, std::string_view text);

/// Waits until the names in a folder are on disk.
Status syncFolder(const std::string &folder);

/// Fails where the disk of `folder`, or of the nearest parent that is there,
/// has less than `bytes` free for this user; says both. A quota is not seen.
Status checkFreeSpace(const std::string &folder, uint64_t bytes);

/// Makes the folder and its parents, as needed.
Status createFolder(const std::string &path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_OUTPUTFILE_H
