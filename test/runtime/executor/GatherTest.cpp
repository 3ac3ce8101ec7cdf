//===- GatherTest.cpp - Whole tensors out of shards -----------------------===//
#include "runtime/executor/Gather.h"
#include "runtime/cpu/Bf16.h"
#include "test/runtime/executor/RunProgram.h"
#include <gtest/gtest.h>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

struct Case {
  std::vector<uint64_t> shape, logical;
  std::vector<std::vector<uint8_t>> dims;
};

float valueAt(const std::vector<uint64_t> &i) {
  float value = 1;
  for (uint64_t index : i)
    value = value * 10 + float(index);
  return value;
}

std::vector<float> getExpected(const std::vector<uint64_t> &logical) {
  uint64_t size = 1;
  for (uint64_t dim : logical)
    size *= dim;
  std::vector<float> values;
  for (uint64_t i = 0; i < size; ++i) {
    std::vector<uint64_t> indices(logical.size());
    uint64_t rest = i;
    for (size_t d = logical.size(); d-- > 0; rest /= logical[d])
      indices[d] = rest % logical[d];
    values.push_back(valueAt(indices));
  }
  return values;
}

TEST(Gather, StatesOfEveryPlacement) {
  // On x=2, y=2, z=2: split by no axis, by one, by two in both orders, with
  // padding that leaves shards partly or wholly empty, and a scalar.
  const Case cases[] = {
      {{}, {}, {}},
      {{8}, {8}, {{}}},
      {{8}, {8}, {{0, 1, 2}}},
      {{8}, {5}, {{2, 0, 1}}},
      {{8}, {1}, {{1}}},
      {{4, 6}, {4, 6}, {{0}, {2}}},
      {{4, 6}, {3, 6}, {{1, 2}, {}}},
      {{4, 6}, {4, 5}, {{2, 1}, {0}}},
      {{4, 8}, {4, 2}, {{}, {0, 1}}},
      {{2, 4, 6}, {2, 3, 5}, {{2}, {1}, {0}}},
      {{2, 4, 6}, {1, 4, 6}, {{1}, {}, {0}}},
  };
  for (const Case &test : cases) {
    ProgramBuilder b({{"x", 2}, {"y", 2}, {"z", 2}});
    uint64_t bytes = 4;
    for (size_t d = 0; d < test.shape.size(); ++d)
      bytes *= test.shape[d] >> test.dims[d].size();
    b.state("value", test.shape, test.dims, b.allocate(bytes)).logical =
        test.logical;
    b.add(fb::FillT(), {b.allocate(64)});
    Status status = runProgram(b, [&](Executor &executor) -> Status {
      const fb::State &state =
          *executor.getProgram().findState("value", "constant");
      fillShard(executor, state, valueAt);
      GlobalTensor tensor;
      CLEAVE_RETURN_IF_ERROR(gatherState(executor, state, tensor));
      EXPECT_EQ(tensor.shape, test.logical);
      EXPECT_EQ(toFloats(tensor), getExpected(test.logical));
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

TEST(Gather, PartialSumsAreAdded) {
  ProgramBuilder b({{"x", 2}, {"y", 3}});
  fb::Operand operand = b.allocate(2 * 2);
  b.output("out", {4}, {{0}}, operand, {1}).dtype = fb::DType::BF16;
  b.add(fb::FillT(), {operand});
  Status status = runProgram(b, [&](Executor &executor) -> Status {
    const fb::Output &output = *executor.getProgram().findOutput("out");
    int rank = executor.getCommunicator().getRank(), x = rank / 3, y = rank % 3;
    auto *shard =
        reinterpret_cast<uint16_t *>(getBytes(executor, output).data());
    for (int i = 0; i < 2; ++i)
      shard[i] = cleave::cpu::toBf16(float((x * 2 + i) * (y + 1)));
    GlobalTensor tensor;
    CLEAVE_RETURN_IF_ERROR(gatherOutput(executor, output, tensor));
    EXPECT_EQ(toFloats(tensor), (std::vector<float>{0, 6, 12, 18}));
    // The shard itself stays as it was.
    EXPECT_EQ(cleave::cpu::fromBf16(shard[1]), float((x * 2 + 1) * (y + 1)));
    return {};
  });
  ASSERT_TRUE(status.ok()) << status.message();
}

} // namespace
