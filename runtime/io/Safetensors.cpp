//===- Safetensors.cpp ----------------------------------------------------===//
#include "runtime/io/Safetensors.h"
#include <bit>
#include <cassert>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace cleave::runtime;

Status SafetensorsFile::open(const std::string &path, SafetensorsFile &file) {
  SafetensorsFile result;
  CLEAVE_RETURN_IF_ERROR(MappedFile::open(path, result.map));
  CLEAVE_RETURN_IF_ERROR(
      parseSafetensors(result.map.getBytes(), path, result.tensors));
  CLEAVE_RETURN_IF_ERROR(result.check());
  for (size_t i = 0; i < result.tensors.size(); ++i)
    result.byName.emplace(result.tensors[i].name, i);
  file = std::move(result);
  return {};
}

const TensorInfo *SafetensorsFile::find(const std::string &name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &tensors[it->second];
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

/// IEEE binary16 to binary32, exact.
float toFloat(Half half) {
  uint32_t sign = uint32_t(half.bits & 0x8000) << 16;
  uint32_t exponent = half.bits >> 10 & 31, mantissa = half.bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}
float toFloat(BFloat value) {
  return std::bit_cast<float>(uint32_t(value.bits) << 16);
}
template <typename T>
float toFloat(T value) {
  return static_cast<float>(value);
}

template <typename T>
void readValues(const char *data, uint64_t first, uint64_t stride,
                uint64_t count, float *out) {
  for (uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + (first + i * stride) * sizeof(T), sizeof(T));
    out[i] = toFloat(value);
  }
}

} // namespace

bool cleave::runtime::isReadableAsFloat(const std::string &dtype) {
  return dtype == "F32" || dtype == "BF16" || dtype == "F16" ||
         dtype == "F64" || dtype == "I32" || dtype == "I64";
}

void cleave::runtime::readAsFloat(const char *data, const std::string &dtype,
                                  uint64_t first, uint64_t stride,
                                  uint64_t count, float *out) {
  assert(isReadableAsFloat(dtype) && "check the dtype first");
  if (count == 0)
    return;
  if (dtype == "F32") {
    if (stride == 1)
      std::memcpy(out, data + first * 4, count * 4);
    else
      readValues<float>(data, first, stride, count, out);
  } else if (dtype == "BF16") {
    readValues<BFloat>(data, first, stride, count, out);
  } else if (dtype == "F16") {
    readValues<Half>(data, first, stride, count, out);
  } else if (dtype == "F64") {
    readValues<double>(data, first, stride, count, out);
  } else if (dtype == "I32") {
    readValues<int32_t>(data, first, stride, count, out);
  } else {
    readValues<int64_t>(data, first, stride, count, out);
  }
}

//===----------------------------------------------------------------------===//
// Layout of a new file
//===----------------------------------------------------------------------===//

void SafetensorsLayout::add(std::string name, std::string dtype,
                            std::vector<uint64_t> shape) {
  TensorInfo tensor;
  for (uint64_t size : shape)
    tensor.elements *= size;
  tensor.begin = dataBytes;
  dataBytes += tensor.elements * (dtype == "F64" ? 8 : 4);
  tensor.end = dataBytes;
  tensor.name = std::move(name);
  tensor.dtype = std::move(dtype);
  tensor.shape = std::move(shape);
  tensors.push_back(std::move(tensor));
}

std::string SafetensorsLayout::getHeader() const {
  nlohmann::ordered_json header;
  // transformers refuses files that do not say so.
  header["__metadata__"] = {{"format", "pt"}};
  for (const TensorInfo &tensor : tensors)
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text;
}

std::vector<TensorInfo> SafetensorsLayout::getTensors() const {
  std::vector<TensorInfo> result = tensors;
  uint64_t start = getHeader().size();
  for (TensorInfo &tensor : result) {
    tensor.begin += start;
    tensor.end += start;
  }
  return result;
}
