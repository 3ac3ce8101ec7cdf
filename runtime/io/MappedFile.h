//===- MappedFile.h - A file's bytes, read-only ---------------------------===//
#ifndef CLEAVE_RUNTIME_IO_MAPPEDFILE_H
#define CLEAVE_RUNTIME_IO_MAPPEDFILE_H

#include "runtime/io/InputFile.h"
#include <cstddef>
#include <string>
#include <string_view>

namespace cleave::runtime {

/// A whole file mapped into memory, read-only, for as long as this lives: for
/// weights, which are read in any order.
///
/// Where the file is cut short meanwhile, or the disk fails, the bytes that are
/// lost read as zeros, and check() fails from then on: whoever has read asks it
/// before believing what was read. For that the first mapping installs a
/// handler of SIGBUS, which leaves faults elsewhere to the one before it.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  /// Maps the regular file `path`; errors name it and the system's reason.
  static Status open(const std::string &path, MappedFile &file);

  const InputFile &getFile() const { return file; }
  const std::string &getPath() const { return file.getPath(); }
  std::string_view getBytes() const { return {data, file.getSize()}; }
  /// Whether all bytes that were read so far are the file's.
  Status check() const;

private:
  struct Mapping;

  void swap(MappedFile &other) noexcept {
    std::swap(file, other.file);
    std::swap(data, other.data);
    std::swap(mapping, other.mapping);
  }

  InputFile file;
  const char *data = nullptr;
  Mapping *mapping = nullptr; ///< what the handler knows of it
};

/// "[2, 3]".
template <typename Range>
std::string formatList(const Range &range) {
  std::string text = "[";
  for (const auto &value : range)
    text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  return text + "]";
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_MAPPEDFILE_H
