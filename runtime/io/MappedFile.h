//===- MappedFile.h - A file's bytes, read-only ---------------------------===//
#ifndef CLEAVE_RUNTIME_IO_MAPPEDFILE_H
#define CLEAVE_RUNTIME_IO_MAPPEDFILE_H

#include "runtime/base/Status.h"
#include <cstddef>
#include <string>
#include <string_view>

namespace cleave::runtime {

/// A whole file mapped into memory, read-only, for as long as this lives.
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

  const std::string &getPath() const { return path; }
  std::string_view getBytes() const { return {data, size}; }

private:
  void swap(MappedFile &other) noexcept {
    std::swap(path, other.path);
    std::swap(data, other.data);
    std::swap(size, other.size);
  }

  std::string path;
  const char *data = nullptr;
  size_t size = 0;
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
