//===- InputFile.h - A regular file that is read piece by piece -----------===//
#ifndef CLEAVE_RUNTIME_IO_INPUTFILE_H
#define CLEAVE_RUNTIME_IO_INPUTFILE_H

#include "runtime/base/Status.h"
#include <cstdint>
#include <memory>
#include <string>

namespace cleave::runtime {

/// What tells one file of a run from another, for ranks to compare.
struct DataIdentity {
  std::string path;
  uint64_t bytes = 0;
  uint64_t tokens = 0;         ///< of training data, else 0
  uint32_t indexChecksum = 0;  ///< of an .idx, else 0
  uint32_t sampleChecksum = 0; ///< InputFile::computeSampleChecksum

  bool operator==(const DataIdentity &) const = default;
};

/// Read by system calls and never mapped, so that a file which is cut short
/// while a run reads it is an error with a name, not a signal. Any number of
/// threads may read at once.
class InputFile {
public:
  /// Opens `path`, which must be a regular file: opening a pipe would wait for
  /// a writer. Errors name it and the system's reason.
  static Status open(const std::string &path, InputFile &file);

  const std::string &getPath() const { return path; }
  /// Bytes that it had when it was opened.
  uint64_t getSize() const { return size; }
  /// When it was last written to, as of opening; nanoseconds since 1970.
  int64_t getModifiedNs() const { return modifiedNs; }
  int getDescriptor() const;

  /// Reads bytes [offset, offset + bytes), which it had when it was opened. An
  /// error says where they should be and where the file ends now.
  Status read(uint64_t offset, uint64_t bytes, void *out) const;
  /// Reads all of it.
  Status readAll(std::string &bytes) const;
  /// Fails where the file is shorter than when it was opened.
  Status checkSize() const;
  /// CRC-32C of at most 18 blocks of 64 KiB: the first, the last, and 16 evenly
  /// between. Tells most files apart in a time that does not depend on their
  /// size.
  Status computeSampleChecksum(uint32_t &checksum) const;
  /// Its path, bytes and sample.
  Status describe(DataIdentity &identity) const;

private:
  struct Descriptor;

  std::string path;
  uint64_t size = 0;
  int64_t modifiedNs = 0;
  std::shared_ptr<const Descriptor> descriptor;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_INPUTFILE_H
