//===- WeightsTest.cpp ----------------------------------------------------===//
#include "runtime/train/Weights.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/executor/Gather.h"
#include "test/runtime/executor/RunProgram.h"
#include "test/runtime/io/TestFiles.h"
#include "test/runtime/train/ToyProgram.h"
#include <mutex>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// A file of F32 tensors; element i of each has the value first + i.
struct TensorSpec {
  std::string name;
  std::vector<uint64_t> shape;
  float first = 0;
};
std::string makeWeights(const std::vector<TensorSpec> &tensors) {
  SafetensorsLayout layout;
  std::string data;
  for (const TensorSpec &tensor : tensors) {
    layout.add(tensor.name, "F32", tensor.shape);
    for (uint64_t i = 0; i < layout.getTensors().back().elements; ++i)
      data += toBytes(tensor.first + float(i));
  }
  return layout.getHeader() + data;
}

/// The states of `builder` after initialization, gathered, by name.
std::map<std::string, std::vector<float>>
getStates(const ProgramBuilder &builder, const HuggingFaceWeights *weights,
          uint64_t seed) {
  std::map<std::string, std::vector<float>> values;
  EXPECT_OK(runProgram(
      builder,
      [&](Executor &executor) -> Status {
        std::vector<std::string> notes;
        CLEAVE_RETURN_IF_ERROR(
            initializeStates(executor, weights, seed, notes));
        for (const fb::State *state : executor.getProgram().getStates()) {
          GlobalTensor tensor;
          CLEAVE_RETURN_IF_ERROR(gatherState(executor, *state, tensor));
          // The other constants are sizes of a rank's work.
          if (executor.getCommunicator().getRank() == 0 &&
              (state->role()->str() == "parameter" ||
               state->init() != fb::InitKind::RopeCos ||
               state->logical()->Get(1) > 1))
            values[state->name()->str()] = toFloats(tensor);
        }
        return {};
      },
      toy::kernelTable, makeOptions(0)));
  return values;
}

const std::pair<uint64_t, uint64_t> layouts[] = {{1, 1}, {2, 1}, {1, 2},
                                                 {2, 2}, {4, 2}, {1, 8}};

TEST(Weights, LoadsTheBoxOfTheSource) {
  TestFolder folder;
  folder.write("model.safetensors",
               makeWeights({{"transformer.toy.weight", {13, 12}}}));
  HuggingFaceWeights weights;
  ASSERT_OK(HuggingFaceWeights::open(folder.path, weights));
  for (auto [dp, tp] : layouts) {
    auto states = getStates(makeToyProgram(dp, tp), &weights, 0);
    const char *names[] = {"first", "table", "last"};
    for (uint64_t third = 0; third < 3; ++third) {
      const std::vector<float> &values = states[names[third]];
      ASSERT_EQ(values.size(), 13u * 4);
      for (uint64_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], float(i / 4 * 12 + third * 4 + i % 4));
    }
  }
}

TEST(Weights, PadsWithZeros) {
  ProgramBuilder builder = makeToyProgram(1, 2);
  ASSERT_OK(runProgram(
      builder,
      [&](Executor &executor) -> Status {
        std::vector<std::string> notes;
        CLEAVE_RETURN_IF_ERROR(initializeStates(executor, nullptr, 1, notes));
        const auto *table = executor.getProgram().findState("table");
        std::span<float> shard = toFloatSpan(getBytes(executor, *table));
        // Rows 8 to 15 on rank 1, of which 13 and on are padding.
        bool isLast = executor.getCommunicator().getRank() == 1;
        for (size_t i = 0; i < shard.size(); ++i)
          EXPECT_EQ(shard[i] == 0, isLast && i >= 5 * 4);
        return {};
      },
      toy::kernelTable, makeOptions(0)));
}

TEST(Weights, InitializationDoesNotDependOnTheLayout) {
  auto expected = getStates(makeToyProgram(1, 1), nullptr, 7);
  EXPECT_NE(expected["first"], expected["table"]);
  for (auto [dp, tp] : layouts)
    EXPECT_EQ(getStates(makeToyProgram(dp, tp), nullptr, 7), expected);
  EXPECT_NE(getStates(makeToyProgram(1, 1), nullptr, 8), expected);
}

TEST(Weights, FillsEveryKind) {
  ProgramBuilder b({{"a", 2}});
  auto add = [&](const char *name, fb::InitKind kind, double scale) -> auto & {
    fb::StateT &state = b.state(name, {4, 4}, {{0}, {}}, b.allocate(32));
    state.init = kind;
    state.init_scale = scale;
    return state;
  };
  add("zeros", fb::InitKind::Zeros, 0);
  add("ones", fb::InitKind::Ones, 0);
  add("normal", fb::InitKind::Normal, 0.25);
  std::vector<float> frequencies = {1, 0.1f, 0.01f, 1e-4f};
  add("cos", fb::InitKind::RopeCos, 1.5).init_table = frequencies;
  add("sin", fb::InitKind::RopeSin, 1.5).init_table = frequencies;
  fb::StateT &half = b.state("bf16", {4, 4}, {{0}, {}}, b.allocate(16));
  half.dtype = fb::DType::BF16;
  half.init = fb::InitKind::RopeCos;
  half.init_scale = 1.5;
  half.init_table = frequencies;
  fb::StateT &ids = b.state("ids", {4}, {{0}}, b.allocate(8));
  ids.dtype = fb::DType::I32;
  auto states = getStates(b, nullptr, 0);
  EXPECT_EQ(states["zeros"], std::vector<float>(16, 0.0f));
  EXPECT_EQ(states["ids"], std::vector<float>(4, 0.0f));
  EXPECT_EQ(states["ones"], std::vector<float>(16, 1.0f));
  for (float value : states["normal"])
    EXPECT_TRUE(value != 0 && std::abs(value) < 0.25 * 7);
  for (int s = 0; s < 4; ++s)
    for (int i = 0; i < 4; ++i) {
      float angle = float(s) * frequencies[i];
      float cosine = float(std::cos(double(angle))) * 1.5f;
      EXPECT_EQ(states["cos"][s * 4 + i], cosine);
      EXPECT_EQ(states["sin"][s * 4 + i],
                float(std::sin(double(angle))) * 1.5f);
      EXPECT_EQ(states["bf16"][s * 4 + i],
                cleave::cpu::fromBf16(cleave::cpu::toBf16(cosine)));
    }
}

/// With the weights that the entries point into.
struct Matched : WeightMatch {
  HuggingFaceWeights weights;
};

/// What matchWeights says of weights of these tensors.
Status match(const std::vector<TensorSpec> &tensors, Matched &result,
             const std::string &dtype = "F32") {
  TestFolder folder;
  std::string bytes = makeWeights(tensors);
  if (size_t at = bytes.find("\"F32\""); dtype != "F32")
    bytes.replace(at, 5, "\"" + dtype + "\"");
  folder.write("model.safetensors", bytes);
  CLEAVE_RETURN_IF_ERROR(HuggingFaceWeights::open(folder.path, result.weights));
  Program program;
  CLEAVE_RETURN_IF_ERROR(makeToyProgram(1, 1).load(program));
  return matchWeights(program, result.weights, true, result);
}

TEST(Weights, AcceptsWhatIsHarmless) {
  Matched result;
  ASSERT_OK(match({{"transformer.toy.weight", {13, 12}}}, result));
  EXPECT_TRUE(result.notes.empty());
  // The bare model's names.
  ASSERT_OK(match({{"toy.weight", {13, 12}}}, result));
  EXPECT_EQ(result.sources.begin()->first, "transformer.toy.weight");
  EXPECT_EQ(result.sources.begin()->second.tensor->name, "toy.weight");
  // Buffers.
  ASSERT_OK(match({{"toy.weight", {13, 12}},
                   {"h.0.attn.bias", {1, 1, 2, 2}},
                   {"h.0.attn.masked_bias", {}},
                   {"model.layers.0.self_attn.rotary_emb.inv_freq", {8}}},
                  result));
  EXPECT_EQ(result.notes.size(), 3u);
  EXPECT_NE(result.notes[0].find("\"h.0.attn.bias\" holds no weights"),
            std::string::npos);
  // Tied tensors: both and equal, or only the other.
  ASSERT_OK(match(
      {{"transformer.toy.weight", {13, 12}}, {"toy_head.weight", {13, 12}}},
      result));
  EXPECT_EQ(result.notes.size(), 1u);
  ASSERT_OK(match({{"toy_head.weight", {13, 12}}}, result));
  EXPECT_EQ(result.sources.begin()->second.tensor->name, "toy_head.weight");
  EXPECT_EQ(result.notes.size(), 1u);
}

TEST(Weights, NamesWhatDoesNotMatch) {
  Matched result;
  EXPECT_ERROR(match({{"other", {13, 12}}}, result),
               "tensor \"transformer.toy.weight\" is missing");
  EXPECT_ERROR(match({{"toy.weight", {12, 13}}}, result),
               "tensor \"toy.weight\": has shape [12, 13]; the model expects "
               "[13, 12]");
  EXPECT_ERROR(match({{"toy.weight", {156}}}, result), "has shape [156]");
  EXPECT_ERROR(
      match({{"toy.weight", {13, 12}}, {"a", {1}}, {"b", {1}}}, result),
      "tensor \"a\": is not one of the model's, and 1 more");
  EXPECT_ERROR(
      match({{"toy.weight", {13, 12}}, {"toy_head.weight", {13, 12}, 1}},
            result),
      "tensor \"toy_head.weight\": differs from \"toy.weight\"");
  EXPECT_ERROR(match({{"toy.weight", {13, 12}}}, result, "U32"),
               "has dtype U32, which is not one of F32");
}

} // namespace
