//===- Layouts.h - One set of states under many layouts -------------------===//
//
// The value of an element depends on the state and on the element's place in
// the whole tensor, so that what a rank holds can be told without running
// anything.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_CHECKPOINT_LAYOUTS_H
#define CLEAVE_TEST_RUNTIME_CHECKPOINT_LAYOUTS_H

#include "runtime/checkpoint/Format.h"
#include "runtime/checkpoint/Restore.h"
#include "runtime/checkpoint/Saver.h"
#include "runtime/checkpoint/StateBox.h"
#include "runtime/io/OutputFile.h"
#include "test/runtime/io/TestFiles.h"
#include "test/runtime/program/ProgramBuilder.h"
#include <algorithm>

namespace cleave::test {

/// Data and tensor parallel degrees, where optimizer state is kept, and
/// pipeline stages.
struct TestLayout {
  uint64_t dp, tp;
  int zero;
  uint64_t pp = 1;
};

inline constexpr TestLayout testLayouts[] = {
    {1, 1, 0},    {2, 1, 0},    {1, 2, 0},    {2, 2, 1},   {4, 1, 1}, {1, 4, 0},
    {4, 2, 3},    {2, 4, 2},    {8, 1, 3},    {1, 8, 1},   {3, 2, 3}, {2, 3, 1},
    {1, 1, 0, 2}, {2, 1, 1, 2}, {2, 2, 3, 3}, {1, 2, 0, 4}};

/// The states of all layouts.
inline const std::vector<std::string> stateNames = {
    "embedding", "embedding/m", "embedding/v", "up",    "up/m", "down",
    "heads",     "narrow",      "norm",        "scale", "table"};

/// A program with nothing but states, dealt to the stages in turns; the first
/// three and the table are on all of them. Rows of the vocabulary, 10 of them,
/// and the middle dim of "heads", 5, do not divide and are padded.
inline runtime::Program makeStates(const TestLayout &layout) {
  ProgramBuilder b({{"dp", layout.dp}, {"tp", layout.tp}, {"pp", layout.pp}});
  b.program.stage_axis = 2;
  using Dims = std::vector<std::vector<uint8_t>>;
  auto pad = [](uint64_t size, uint64_t parts) {
    return (size + parts - 1) / parts * parts;
  };
  auto shards = [&](const std::vector<uint8_t> &axes) {
    uint64_t n = 1;
    for (uint8_t axis : axes)
      n *= axis == 0 ? layout.dp : layout.tp;
    return n;
  };
  uint64_t stage = 0;
  auto add = [&](const std::string &name, const char *role, fb::DType type,
                 std::vector<uint64_t> logical, Dims dims) {
    auto number =
        uint64_t(std::ranges::find(stateNames, name) - stateNames.begin());
    bool isOnAll = number < 3 || name == "table";
    if (!isOnAll && number % layout.pp != stage)
      return;
    std::vector<uint64_t> shape;
    uint64_t local = type == fb::DType::BF16 ? 2 : 4;
    for (size_t d = 0; d < logical.size(); ++d) {
      shape.push_back(pad(logical[d], shards(dims[d])));
      local *= shape[d] / shards(dims[d]);
    }
    fb::StateT &state = b.state(name, shape, dims, b.allocate(local));
    state.role = role;
    state.dtype = type;
    state.logical = logical;
  };
  const std::vector<uint8_t> none, dp{0}, tp{1}, both{1, 0};
  std::vector<uint8_t> kept = layout.zero >= 1 ? both : tp;
  std::vector<uint8_t> whole = layout.zero >= 3 ? both : tp;
  constexpr fb::DType f32 = fb::DType::F32, bf16 = fb::DType::BF16;
  for (; stage < layout.pp; ++stage) {
    if (stage > 0)
      b.beginStage();
    add("embedding", "parameter", f32, {10, 6}, {whole, none});
    add("embedding/m", "moment1", f32, {10, 6}, {kept, none});
    add("embedding/v", "moment2", f32, {10, 6}, {none, kept});
    add("up", "parameter", f32, {24, 12}, {whole, none});
    add("up/m", "moment1", f32, {24, 12}, {kept, none});
    add("down", "parameter", f32, {12, 24}, {layout.zero >= 3 ? dp : none, tp});
    add("heads", "parameter", f32, {6, 5, 7}, {dp, tp, none});
    add("narrow", "parameter", bf16, {24}, {whole});
    add("norm", "parameter", f32, {24}, {layout.zero >= 1 ? dp : none});
    add("scale", "parameter", f32, {1}, {none});
    add("table", "constant", f32, {4, 4}, {none, none});
  }
  runtime::Program program;
  EXPECT_TRUE(b.load(program).ok());
  return program;
}

/// What element `index` of a whole state is.
inline std::string getValue(const fb::State &state, uint64_t index) {
  auto number =
      std::ranges::find(stateNames, state.name()->str()) - stateNames.begin();
  if (state.dtype() == fb::DType::BF16)
    return toBytes(uint16_t(0x3f80 + index));
  return toBytes(float(1000 * (number + 1)) + float(index));
}

/// What a rank's shard holds, padding as zeros.
inline std::string makeShard(const runtime::Program &program,
                             const fb::State &state, int rank) {
  runtime::StateBox box(state, program.getMesh(), rank);
  uint64_t element = runtime::getBytes(state.dtype());
  std::string bytes(box.getLocalSize() * element, '\0');
  // Without a source, the state is its own checkpoint tensor.
  box.forEachRun(
      0, box.getSize(),
      [&](uint64_t local, uint64_t source, uint64_t stride, uint64_t count) {
        for (uint64_t i = 0; i < count; ++i)
          bytes.replace((local + i) * element, element,
                        getValue(state, source + i * stride));
      });
  return bytes;
}

/// Writes a whole checkpoint of the layout into `folder`, as its ranks would.
inline void writeCheckpoint(const TestLayout &layout, const std::string &folder,
                            int64_t step = 7, const std::string &run = "run") {
  runtime::Program program = makeStates(layout);
  const runtime::Mesh &mesh = program.getMesh();
  ASSERT_TRUE(runtime::createFolder(folder).ok());
  runtime::Manifest manifest;
  manifest.run = run;
  manifest.progress.step = step;
  for (int rank = 0; rank < mesh.getWorldSize(); ++rank) {
    std::vector<std::string> payloads;
    std::vector<const fb::State *> states;
    for (const fb::State *state : program.getStates()) {
      runtime::StateBox box(*state, mesh, rank);
      if (!runtime::isSaved(*state) ||
          !runtime::isWriter(program, *state, rank) || box.getSize() == 0)
        continue;
      std::string shard = makeShard(program, *state, rank), payload;
      uint64_t element = runtime::getBytes(state->dtype());
      box.forEachRun(0, box.getSize(),
                     [&](uint64_t local, uint64_t, uint64_t, uint64_t count) {
                       payload +=
                           shard.substr(local * element, count * element);
                     });
      payloads.push_back(std::move(payload));
      states.push_back(state);
    }
    if (states.empty())
      continue;
    std::vector<runtime::ShardPart> parts;
    for (size_t i = 0; i < states.size(); ++i)
      parts.push_back({states[i], std::as_bytes(std::span(payloads[i]))});
    runtime::CheckpointFile file;
    runtime::Status status =
        runtime::writeShard(folder, rank, run, step, parts, file);
    ASSERT_TRUE(status.ok()) << status.message();
    manifest.shards.push_back(file);
  }
  runtime::Status status = runtime::writeManifest(folder, program, manifest);
  ASSERT_TRUE(status.ok()) << status.message();
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_CHECKPOINT_LAYOUTS_H
