//===- IndexedDataset.cpp -------------------------------------------------===//
#include "runtime/io/IndexedDataset.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Quote.h"
#include <algorithm>
#include <array>
#include <cstring>

using namespace cleave::runtime;

namespace {

constexpr char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr uint64_t headerBytes = 34;

struct TokenType {
  uint8_t code;
  const char *name;
  unsigned bytes; ///< 0: not a token
  bool isSigned;
};
constexpr TokenType tokenTypes[] = {
    {1, "uint8", 1, false},  {2, "int8", 1, true},    {3, "int16", 2, true},
    {4, "int32", 4, true},   {5, "int64", 8, true},   {6, "float64", 0, true},
    {7, "float32", 0, true}, {8, "uint16", 2, false},
};

template <typename T>
T load(const char *data, uint64_t index = 0) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void widen(const char *data, uint64_t count, int64_t *out) {
  for (uint64_t i = 0; i < count; ++i)
    out[i] = static_cast<int64_t>(load<T>(data, i));
}

} // namespace

Status cleave::runtime::parseDatasetIndex(std::string_view bytes,
                                          uint64_t binBytes,
                                          const std::string &file,
                                          DatasetIndex &index) {
  auto fail = [&](const std::string &message) {
    return Status::error(file + ": " + message);
  };
  auto number = [](auto value) { return std::to_string(value); };
  index = {};

  // 1. The header.
  if (bytes.size() < headerBytes)
    return fail("has " + number(bytes.size()) +
                " bytes; the header of an .idx alone has " +
                number(headerBytes));
  if (std::memcmp(bytes.data(), magic, sizeof(magic)) != 0)
    return fail("does not start with the magic " +
                quote({magic, sizeof(magic)}) + ", but with " +
                quote(bytes.substr(0, sizeof(magic))));
  if (uint64_t version = load<uint64_t>(bytes.data() + 9); version != 1)
    return fail("version " + number(version) + " is not 1");
  uint8_t code = static_cast<uint8_t>(bytes[17]);
  const TokenType *type =
      std::find_if(std::begin(tokenTypes), std::end(tokenTypes),
                   [&](const TokenType &t) { return t.code == code; });
  if (type == std::end(tokenTypes) || type->bytes == 0)
    return fail("dtype code " + number(code) +
                (type == std::end(tokenTypes)
                     ? std::string()
                     : std::string(" (") + type->name + ")") +
                " is not one of 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 "
                "(int64), 8 (uint16)");
  index.tokenBytes = type->bytes;
  index.isSigned = type->isSigned;

  // 2. The counts, against the file's size, before anything is allocated.
  index.sequences = load<uint64_t>(bytes.data() + 18);
  uint64_t entries = load<uint64_t>(bytes.data() + 26);
  uint64_t rest = bytes.size() - headerBytes;
  if (index.sequences > rest / 12)
    return fail("sequence count " + number(index.sequences) +
                " does not fit into the file's " + number(bytes.size()) +
                " bytes");
  rest -= 12 * index.sequences;
  if (entries > rest / 8)
    return fail("document count " + number(entries) +
                " does not fit into the file's " + number(bytes.size()) +
                " bytes after " + number(index.sequences) + " sequences");
  if (entries == 0)
    return fail("document count is 0; it is the number of documents + 1");
  rest -= 8 * entries;
  if (rest != 0 && rest != index.sequences)
    return fail("has " + number(rest) + " bytes too many; expects none, or " +
                number(index.sequences) + " sequence modes");

  // 3. The sequences, inside the .bin.
  const char *lengths = bytes.data() + headerBytes;
  const char *offsets = lengths + 4 * index.sequences;
  index.starts.reserve(index.sequences + 1);
  index.starts.push_back(0);
  index.offsets.reserve(index.sequences);
  for (uint64_t i = 0; i < index.sequences; ++i) {
    int32_t length = load<int32_t>(lengths, i);
    int64_t offset = load<int64_t>(offsets, i);
    if (length < 0)
      return fail("sequence " + number(i) + " has length " + number(length) +
                  "; lengths are at least 0");
    uint64_t size = uint64_t(length) * index.tokenBytes;
    if (offset < 0 || uint64_t(offset) > binBytes ||
        size > binBytes - uint64_t(offset))
      return fail("sequence " + number(i) + ": " + number(length) +
                  " tokens at byte " + number(offset) + " are not within the " +
                  number(binBytes) + " bytes of the .bin");
    index.starts.push_back(index.starts.back() + uint64_t(length));
    index.offsets.push_back(uint64_t(offset));
  }

  // 4. The documents, which cover the sequences in order.
  const char *documents = offsets + 8 * index.sequences;
  index.documents = entries - 1;
  index.documentStarts.reserve(entries);
  uint64_t previous = 0;
  for (uint64_t d = 0; d < entries; ++d) {
    int64_t first = load<int64_t>(documents, d);
    if (first < 0 || uint64_t(first) < previous ||
        uint64_t(first) > index.sequences || (d == 0 && first != 0))
      return fail(
          "document index " + number(d) + " is " + number(first) +
          "; expects " +
          (d == 0 ? "0" : number(previous) + " to " + number(index.sequences)));
    previous = uint64_t(first);
    index.documentStarts.push_back(previous);
  }
  if (previous != index.sequences)
    return fail("documents end at sequence " + number(previous) + " of " +
                number(index.sequences));
  return {};
}

Status IndexedDataset::open(const std::string &prefix,
                            IndexedDataset &dataset) {
  IndexedDataset result;
  InputFile idx;
  std::string bytes;
  CLEAVE_RETURN_IF_ERROR(InputFile::open(prefix + ".idx", idx));
  CLEAVE_RETURN_IF_ERROR(idx.readAll(bytes));
  CLEAVE_RETURN_IF_ERROR(InputFile::open(prefix + ".bin", result.bin));
  CLEAVE_RETURN_IF_ERROR(parseDatasetIndex(bytes, result.bin.getSize(),
                                           prefix + ".idx", result.index));
  result.indexChecksum = computeCrc32c(bytes.data(), bytes.size());
  dataset = std::move(result);
  return {};
}

static void widen(const DatasetIndex &index, const char *data, uint64_t count,
                  int64_t *out) {
  switch (index.tokenBytes) {
  case 1:
    index.isSigned ? widen<int8_t>(data, count, out)
                   : widen<uint8_t>(data, count, out);
    break;
  case 2:
    index.isSigned ? widen<int16_t>(data, count, out)
                   : widen<uint16_t>(data, count, out);
    break;
  case 4:
    widen<int32_t>(data, count, out);
    break;
  default:
    widen<int64_t>(data, count, out);
  }
}

Status IndexedDataset::readRaw(uint64_t first, uint64_t count,
                               void *out) const {
  char *next = static_cast<char *>(out);
  // The last sequence that starts at or before `first`.
  size_t sequence =
      std::upper_bound(index.starts.begin(), index.starts.end(), first) -
      index.starts.begin() - 1;
  auto getEnd = [&](size_t s) {
    return index.offsets[s] +
           (index.starts[s + 1] - index.starts[s]) * index.tokenBytes;
  };
  while (count > 0) {
    while (index.starts[sequence + 1] <= first)
      ++sequence;
    uint64_t offset = index.offsets[sequence] +
                      (first - index.starts[sequence]) * index.tokenBytes;
    // Sequences that follow each other in the file are read at once.
    while (index.starts[sequence + 1] - first < count &&
           index.offsets[sequence + 1] == getEnd(sequence))
      ++sequence;
    uint64_t here = std::min(count, index.starts[sequence + 1] - first);
    CLEAVE_RETURN_IF_ERROR(bin.read(offset, here * index.tokenBytes, next));
    next += here * index.tokenBytes;
    first += here;
    count -= here;
  }
  return {};
}

Status IndexedDataset::read(uint64_t first, uint64_t count,
                            int64_t *out) const {
  std::array<char, 1 << 14> buffer;
  while (count > 0) {
    uint64_t here = std::min(count, buffer.size() / index.tokenBytes);
    CLEAVE_RETURN_IF_ERROR(readRaw(first, here, buffer.data()));
    widen(index, buffer.data(), here, out);
    first += here;
    out += here;
    count -= here;
  }
  return {};
}
