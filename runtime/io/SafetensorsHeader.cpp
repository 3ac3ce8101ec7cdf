//===- SafetensorsHeader.cpp - Checks a file before it is believed --------===//
//
// The header is read event by event, so that memory stays bounded by its
// length, depth by the format, and a key given twice is seen.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Quote.h"
#include "runtime/io/Safetensors.h"
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

using namespace cleave::runtime;

namespace {

constexpr uint64_t maxHeaderBytes = 100'000'000;

struct DTypeBits {
  const char *name;
  unsigned bits;
};
constexpr DTypeBits dtypeBits[] = {
    {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

/// 0 for a dtype that the format does not have.
unsigned getBits(const std::string &dtype) {
  for (const DTypeBits &entry : dtypeBits)
    if (dtype == entry.name)
      return entry.bits;
  return 0;
}

/// Takes the JSON's events; each returns false, with `error` set, at the first
/// thing the format does not allow.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit HeaderReader(std::vector<TensorInfo> &tensors) : tensors(tensors) {}

  std::string error;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(double, const std::string &text) override {
    return unexpected("the number " + quote(text));
  }
  bool binary(nlohmann::json::binary_t &) override {
    return unexpected("binary data");
  }
  bool number_integer(int64_t value) override {
    return unexpected("the negative number " + std::to_string(value));
  }
  bool number_unsigned(uint64_t value) override {
    if (state == State::Shape)
      tensors.back().shape.push_back(value);
    else if (state == State::Offsets && offsets.size() < 2)
      offsets.push_back(value);
    else
      return unexpected("the number " + std::to_string(value));
    return true;
  }

  bool string(std::string &value) override {
    if (state == State::MetadataValue) {
      state = State::Metadata;
      return true;
    }
    if (state != State::DType)
      return unexpected("the string " + quote(value));
    tensors.back().dtype = value;
    state = State::Tensor;
    return true;
  }

  bool start_object(size_t) override {
    if (state == State::Start)
      state = State::Names;
    else if (state == State::TensorValue)
      state = State::Tensor;
    else if (state == State::MetadataStart)
      state = State::Metadata;
    else
      return unexpected("an object");
    return true;
  }

  bool key(std::string &name) override {
    if (state == State::Metadata) {
      state = State::MetadataValue;
      return true;
    }
    if (state == State::Names) {
      if (!names.insert(name).second)
        return fail("tensor " + quote(name) + " is listed twice");
      if (name == "__metadata__") {
        state = State::MetadataStart;
        return true;
      }
      tensors.emplace_back();
      tensors.back().name = name;
      offsets.clear();
      seen = 0;
      state = State::TensorValue;
      return true;
    }
    unsigned bit;
    if (name == "dtype") {
      state = State::DType;
      bit = 1;
    } else if (name == "shape") {
      state = State::ShapeStart;
      bit = 2;
    } else if (name == "data_offsets") {
      state = State::OffsetsStart;
      bit = 4;
    } else {
      return fail("tensor " + quote(tensors.back().name) + ": key " +
                  quote(name) +
                  " is not one of \"dtype\", \"shape\", \"data_offsets\"");
    }
    if (seen & bit)
      return fail("tensor " + quote(tensors.back().name) + ": key " +
                  quote(name) + " is given twice");
    seen |= bit;
    return true;
  }

  bool end_object() override {
    if (state == State::Tensor) {
      if (seen != 7 || offsets.size() != 2)
        return fail("tensor " + quote(tensors.back().name) +
                    ": expects \"dtype\", \"shape\" and \"data_offsets\" "
                    "[begin, end]");
      tensors.back().begin = offsets[0];
      tensors.back().end = offsets[1];
    }
    state = State::Names;
    return true;
  }

  bool start_array(size_t) override {
    if (state == State::ShapeStart)
      state = State::Shape;
    else if (state == State::OffsetsStart)
      state = State::Offsets;
    else
      return unexpected("an array");
    return true;
  }
  bool end_array() override {
    state = State::Tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::json::exception &) override {
    return fail("is not JSON at byte " + std::to_string(position));
  }

private:
  enum class State {
    Start,         // before the outer object
    Names,         // in it, at a tensor's name
    TensorValue,   // after a name
    Tensor,        // in a tensor's object, at a key
    DType,         // after "dtype"
    ShapeStart,    // after "shape"
    Shape,         // in its array
    OffsetsStart,  // after "data_offsets"
    Offsets,       // in its array
    MetadataStart, // after "__metadata__"
    Metadata,      // in its object, at a key
    MetadataValue, // after that key
  };

  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  bool unexpected(const std::string &what) {
    std::string where, legal;
    switch (state) {
    case State::Start:
      return fail("expects an object of tensors, got " + what);
    case State::MetadataStart:
    case State::MetadataValue:
    case State::Metadata:
      return fail("\"__metadata__\" expects an object of strings, got " + what);
    case State::DType:
      where = "\"dtype\"", legal = "a string";
      break;
    case State::ShapeStart:
    case State::Shape:
      where = "\"shape\"", legal = "an array of sizes below 2^64";
      break;
    case State::OffsetsStart:
    case State::Offsets:
      where = "\"data_offsets\"", legal = "two byte offsets [begin, end]";
      break;
    default:
      return fail("tensor " + quote(tensors.back().name) +
                  " expects an object, got " + what);
    }
    return fail("tensor " + quote(tensors.back().name) + ": " + where +
                " expects " + legal + ", got " + what);
  }

  std::vector<TensorInfo> &tensors;
  std::unordered_set<std::string> names;
  std::vector<uint64_t> offsets;
  unsigned seen = 0;
  State state = State::Start;
};

/// Bytes of a tensor of this dtype and shape; false if over 2^64 bits or not
/// whole bytes.
bool computeBytes(TensorInfo &tensor, unsigned bits, uint64_t &bytes) {
  tensor.elements = 1;
  // A zero dim anywhere makes the product zero, however large the others.
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0u) !=
      tensor.shape.end()) {
    tensor.elements = bytes = 0;
    return true;
  }
  for (uint64_t size : tensor.shape)
    if (__builtin_mul_overflow(tensor.elements, size, &tensor.elements))
      return false;
  uint64_t total;
  if (__builtin_mul_overflow(tensor.elements, bits, &total) || total % 8)
    return false;
  bytes = total / 8;
  return true;
}

} // namespace

Status cleave::runtime::parseSafetensors(std::string_view bytes,
                                         const std::string &file,
                                         std::vector<TensorInfo> &tensors) {
  auto fail = [&](const std::string &message) {
    return Status::error(file + ": " + message);
  };
  tensors.clear();

  // 1. The header's length, within the file.
  if (bytes.size() < 8)
    return fail("has " + std::to_string(bytes.size()) +
                " bytes; a safetensors file has at least 8");
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  if (length > maxHeaderBytes)
    return fail("header length " + std::to_string(length) + " is over " +
                std::to_string(maxHeaderBytes) + " bytes");
  if (length > bytes.size() - 8)
    return fail("header length " + std::to_string(length) +
                " reaches beyond the file's " + std::to_string(bytes.size()) +
                " bytes");

  // 2. The header.
  std::string_view header = bytes.substr(8, length);
  if (header.empty() || header[0] != '{')
    return fail("header does not start with '{'");
  HeaderReader reader(tensors);
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader))
    return fail("header: " + reader.error);

  // 3. Each tensor by itself.
  const uint64_t dataBytes = bytes.size() - 8 - length;
  for (TensorInfo &tensor : tensors) {
    auto failTensor = [&](const std::string &message) {
      return fail("tensor " + quote(tensor.name) + ": " + message);
    };
    unsigned bits = getBits(tensor.dtype);
    if (bits == 0) {
      std::string legal;
      for (const DTypeBits &entry : dtypeBits)
        legal += std::string(legal.empty() ? "" : ", ") + entry.name;
      return failTensor("dtype " + quote(tensor.dtype) + " is not one of " +
                        legal);
    }
    std::string offsets = formatList(std::vector{tensor.begin, tensor.end});
    if (tensor.begin > tensor.end || tensor.end > dataBytes)
      return failTensor("data_offsets " + offsets + " are not in [0, " +
                        std::to_string(dataBytes) + "]");
    uint64_t expected;
    if (!computeBytes(tensor, bits, expected))
      return failTensor("shape has too many elements, or its " + tensor.dtype +
                        " elements do not fill whole bytes");
    if (tensor.end - tensor.begin != expected)
      return failTensor("data_offsets " + offsets + " hold " +
                        std::to_string(tensor.end - tensor.begin) +
                        " bytes; its " + tensor.dtype + " shape needs " +
                        std::to_string(expected));
  }

  // 4. Together: no overlap, no hole.
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo &a, const TensorInfo &b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  uint64_t covered = 0;
  for (TensorInfo &tensor : tensors) {
    if (tensor.begin != covered)
      return fail("tensor " + quote(tensor.name) + ": data begin at " +
                  std::to_string(tensor.begin) +
                  (tensor.begin < covered ? ", inside the tensor before"
                                          : ", leaving a hole") +
                  "; expects " + std::to_string(covered));
    covered = tensor.end;
    tensor.begin += 8 + length;
    tensor.end += 8 + length;
  }
  if (covered != dataBytes)
    return fail("tensors cover " + std::to_string(covered) + " of the " +
                std::to_string(dataBytes) + " data bytes");
  return {};
}
