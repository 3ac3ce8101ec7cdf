//===- MutationTest.cpp - Damaged files are refused, not believed ---------===//
//
// Meant to run under ASan and UBSan as well: whatever a damaged file is taken
// for, reading all of it must stay inside it.
//
//===----------------------------------------------------------------------===//
#include "TestFiles.h"
#include "runtime/io/HuggingFaceWeights.h"
#include "runtime/io/IndexedDataset.h"
#include <random>

using namespace cleave::runtime;

namespace {

constexpr int mutations = 20'000;

/// Up to four changes: a bit, a byte, a 64-bit number, a cut, an insertion, a
/// piece copied over another.
std::string mutate(std::string bytes, std::mt19937_64 &random) {
  auto below = [&](size_t n) { return n ? random() % n : 0; };
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    size_t at = below(bytes.size());
    if (bytes.empty())
      return bytes;
    switch (below(6)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      bytes[at] = "0129[]{}\",:-e.\0\xff"[below(16)];
      break;
    case 2: {
      constexpr uint64_t edges[] = {0,
                                    1,
                                    7,
                                    255,
                                    1u << 31,
                                    UINT32_MAX,
                                    uint64_t(1) << 62,
                                    uint64_t(1) << 63,
                                    UINT64_MAX};
      std::string value = toBytes(edges[below(9)]).substr(0, 1 + below(8));
      bytes.replace(at, std::min(value.size(), bytes.size() - at), value);
      break;
    }
    case 3:
      bytes.resize(at);
      break;
    case 4:
      bytes.insert(at, bytes.substr(below(bytes.size()), below(32)));
      break;
    default:
      bytes.replace(at, below(16),
                    bytes.substr(below(bytes.size()), below(16)));
    }
  }
  return bytes;
}

/// One line, naming the file.
void checkMessage(const Status &status) {
  ASSERT_EQ(status.message().rfind("f: ", 0), 0u) << status.message();
  ASSERT_EQ(status.message().find('\n'), std::string::npos);
  ASSERT_LT(status.message().size(), 2000u);
}

TEST(Mutation, Safetensors) {
  std::string data;
  for (int i = 0; i < 12; ++i)
    data += toBytes(float(i));
  std::string good = makeSafetensors(
      R"({"__metadata__":{"format":"pt"},)"
      R"("wte.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("h.0.bias":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
      R"("n":{"dtype":"I64","shape":[],"data_offsets":[32,40]},)"
      R"("h":{"dtype":"F16","shape":[4,1],"data_offsets":[40,48]}})",
      data);
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int i = 0; i < mutations; ++i) {
    std::string bytes = mutate(good, random);
    std::vector<TensorInfo> tensors;
    Status status = parseSafetensors(bytes, "f", tensors);
    if (!status.ok()) {
      checkMessage(status);
      continue;
    }
    ++accepted;
    for (const TensorInfo &tensor : tensors) {
      ASSERT_LE(tensor.end, bytes.size());
      if (!isReadableAsFloat(tensor.dtype))
        continue;
      std::vector<float> values(tensor.elements);
      readAsFloat(bytes.data() + tensor.begin, tensor.dtype, 0, 1,
                  tensor.elements, values.data());
    }
  }
  // Some changes hit only values or names.
  EXPECT_GT(accepted, mutations / 100);
  EXPECT_LT(accepted, mutations / 2);
}

TEST(Mutation, DatasetIndex) {
  std::string good = readAll(CLEAVE_TEST_DATA "/megatron/sentences-u16.idx");
  uint64_t binBytes = 12156;
  std::mt19937_64 random(2);
  int accepted = 0;
  for (int i = 0; i < mutations; ++i) {
    std::string bytes = mutate(good, random);
    DatasetIndex index;
    Status status = parseDatasetIndex(bytes, binBytes, "f", index);
    if (!status.ok()) {
      checkMessage(status);
      continue;
    }
    ++accepted;
    ASSERT_EQ(index.starts.size(), index.sequences + 1);
    for (uint64_t s = 0; s < index.sequences; ++s)
      ASSERT_LE(index.offsets[s] +
                    (index.starts[s + 1] - index.starts[s]) * index.tokenBytes,
                binBytes);
    ASSERT_EQ(index.documentStarts.back(), index.sequences);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, mutations / 2);
}

TEST(Mutation, CheckpointIndex) {
  std::string good = R"({"metadata":{"total_size":8,"x":[1]},)"
                     R"("weight_map":{"a":"1.safetensors","b":"2"}})";
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int i = 0; i < mutations; ++i) {
    std::map<std::string, std::string> map;
    Status status = parseIndex(mutate(good, random), "f", map);
    if (!status.ok()) {
      checkMessage(status);
      continue;
    }
    ++accepted;
    for (const auto &[tensor, file] : map)
      ASSERT_EQ(file.find('/'), std::string::npos);
  }
  EXPECT_GT(accepted, mutations / 100);
  EXPECT_LT(accepted, mutations / 2);
}

} // namespace
