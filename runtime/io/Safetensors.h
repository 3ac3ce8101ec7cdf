//===- Safetensors.h - Reads and writes .safetensors files ----------------===//
//
// The format: u64 N, little-endian; N bytes of JSON, padded with spaces; the
// tensors' bytes. The header maps a name to {"dtype", "shape", "data_offsets":
// [begin, end]}, relative to the first byte after the header; the tensors
// cover the rest of the file without overlap or hole.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_IO_SAFETENSORS_H
#define CLEAVE_RUNTIME_IO_SAFETENSORS_H

#include "runtime/io/MappedFile.h"
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace cleave::runtime {

/// One tensor of a file. `begin` and `end` are byte offsets into the file,
/// checked to lie in it and to agree with `dtype` and `shape`.
struct TensorInfo {
  std::string name;
  std::string dtype; ///< as in the file: "F32", "BF16", "I64", ...
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;
  uint64_t elements = 1;
};

/// Checks all of a file's bytes and lists its tensors, in file order. `file`
/// names it in errors. Every message names the tensor, the value and what is
/// legal.
Status parseSafetensors(std::string_view bytes, const std::string &file,
                        std::vector<TensorInfo> &tensors);

/// An open file.
class SafetensorsFile {
public:
  static Status open(const std::string &path, SafetensorsFile &file);

  const InputFile &getFile() const { return map.getFile(); }
  const std::string &getPath() const { return map.getPath(); }
  const std::vector<TensorInfo> &getTensors() const { return tensors; }
  /// Null if there is none of that name.
  const TensorInfo *find(const std::string &name) const;
  /// Whether what was read through getData() so far is what the file holds: it
  /// may have been cut short meanwhile.
  Status check() const { return map.check(); }
  /// First byte of a tensor; not aligned.
  const char *getData(const TensorInfo &tensor) const {
    return map.getBytes().data() + tensor.begin;
  }

private:
  MappedFile map;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, size_t> byName;
};

/// Whether readAsFloat takes this dtype: F32, BF16, F16, F64, I32, I64.
bool isReadableAsFloat(const std::string &dtype);

/// Reads `count` elements from `first`, `stride` elements apart, of a tensor
/// whose bytes start at `data`, rounded to f32. `dtype` must be readable and
/// the elements in range.
void readAsFloat(const char *data, const std::string &dtype, uint64_t first,
                 uint64_t stride, uint64_t count, float *out);

/// What a file to be written will look like: the header's bytes and where each
/// tensor's data goes, known before any value is.
class SafetensorsLayout {
public:
  /// Tensors are laid out in the order of the calls. `dtype` is one of F32,
  /// F64, I32.
  void add(std::string name, std::string dtype, std::vector<uint64_t> shape);

  /// Length field, JSON and padding; tensors start right behind.
  std::string getHeader() const;
  /// With absolute offsets.
  std::vector<TensorInfo> getTensors() const;
  uint64_t getFileSize() const { return getHeader().size() + dataBytes; }

private:
  std::vector<TensorInfo> tensors; ///< offsets relative to the data
  uint64_t dataBytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_SAFETENSORS_H
