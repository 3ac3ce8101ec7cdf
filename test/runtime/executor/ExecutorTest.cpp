//===- ExecutorTest.cpp - Small programs on 1 to 8 ranks ------------------===//
#include "runtime/executor/Executor.h"
#include "runtime/cpu/Features.h"
#include "runtime/executor/Gather.h"
#include "test/runtime/executor/MovesProgram.h"
#include "test/runtime/executor/RunProgram.h"
#include <atomic>
#include <gtest/gtest.h>

using namespace cleave::runtime;
namespace cpu = cleave::cpu;
using namespace cleave::test;

namespace {

struct Layout {
  uint64_t dp, tp;
};
const Layout layouts[] = {{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3},
                          {2, 2}, {4, 1}, {1, 5}, {3, 2}, {7, 1},
                          {1, 8}, {8, 1}, {4, 2}, {2, 4}};

float xAt(const std::vector<uint64_t> &i) { // micro-batch, row, k
  return float(int((i[0] * 5 + i[1] * 3 + i[2] * 2) % 7) - 3);
}
float wAt(const std::vector<uint64_t> &i) { // k, n
  return float(int((i[0] + i[1] * 4) % 5) - 2);
}

/// y[r] = 2 x[r] + shard index, and 10 more after the first micro-batch, a row
/// of 4 at a time.
void twice(void *const *buffers, const int64_t *params, int64_t begin,
           int64_t end) {
  const auto *x = static_cast<const float *>(buffers[0]);
  auto *y = static_cast<float *>(buffers[1]);
  for (int64_t i = begin * 4; i < end * 4; ++i)
    y[i] = 2 * x[i] + float(params[0]) + 10 * float(params[1]);
}
const CleaveKernelEntry entries[] = {{"other", nullptr}, {"twice", twice}};
const KernelTable kernels{entries, 2};

/// sum over micro-batches of X[mb] W, with k split over tp and rows over dp:
/// the product is a partial sum until the AllReduce.
TEST(Executor, SplitProductIsTheWholeProduct) {
  const uint64_t microBatches = 3, n = 4;
  for (const Layout &layout : layouts) {
    ProgramBuilder b({{"dp", layout.dp}, {"tp", layout.tp}}, microBatches);
    const uint64_t rows = 2 * layout.dp, k = 6 * layout.tp;
    const int64_t m = 2, kLocal = 6;
    fb::Operand x = b.allocate(m * kLocal * 4, microBatches);
    fb::Operand w = b.allocate(kLocal * n * 4), sum = b.allocate(m * n * 4),
                reduced = b.allocate(m * n * 4), out = b.allocate(m * n * 4);
    b.state("x", {microBatches, rows, k}, {{}, {0}, {1}},
            {x.offset(), m * kLocal * 4 * microBatches, 0, 0, 0});
    b.state("w", {k, n}, {{1}, {}}, w);
    b.start(ProgramBuilder::MicroBatch);
    b.gemm(m, n, kLocal, x, w, sum, fb::Accumulate::AfterFirst);
    b.start(ProgramBuilder::After);
    b.add(fb::AllReduceT{{}, m * int64_t(n)}, {sum, reduced}, {1});
    b.launch("twice", m, {reduced, out}, {0});
    b.output("partial", {rows, n}, {{0}, {}}, sum, {1});
    b.output("reduced", {rows, n}, {{0}, {}}, reduced);
    b.output("twice", {rows, n}, {{0}, {}}, out);

    std::vector<float> expected(rows * n);
    for (uint64_t mb = 0; mb < microBatches; ++mb)
      for (uint64_t r = 0; r < rows; ++r)
        for (uint64_t c = 0; c < n; ++c)
          for (uint64_t i = 0; i < k; ++i)
            expected[r * n + c] += xAt({mb, r, i}) * wAt({i, c});
    std::vector<float> doubled;
    for (uint64_t i = 0; i < rows * n; ++i)
      doubled.push_back(2 * expected[i] + float(i / n / 2));

    Status status = runProgram(
        b,
        [&](Executor &executor) -> Status {
          const Program &program = executor.getProgram();
          fillShard(executor, *program.findState("x", "constant"), xAt);
          fillShard(executor, *program.findState("w", "constant"), wAt);
          for (int64_t step = 0; step < 2; ++step)
            CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
          GlobalTensor partial, reduced, out;
          CLEAVE_RETURN_IF_ERROR(
              gatherOutput(executor, *program.findOutput("partial"), partial));
          CLEAVE_RETURN_IF_ERROR(
              gatherOutput(executor, *program.findOutput("reduced"), reduced));
          CLEAVE_RETURN_IF_ERROR(
              gatherOutput(executor, *program.findOutput("twice"), out));
          EXPECT_EQ(toFloats(partial), expected);
          EXPECT_EQ(toFloats(reduced), expected);
          EXPECT_EQ(toFloats(out), doubled);
          EXPECT_EQ(executor.getHighWaterBytes(), executor.getArenaBytes());
          return {};
        },
        kernels, makeOptions(0));
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

/// A table split over tp by rows: look-up and sum; then its gradient, which
/// stays split. Ids reach every shard.
TEST(Executor, SplitEmbeddingIsTheWholeEmbedding) {
  for (uint64_t tp : {1, 2, 4, 8}) {
    ProgramBuilder b({{"tp", tp}});
    const uint64_t vocab = 16, width = 3, rows = 10;
    const int64_t tableRows = int64_t(vocab / tp);
    fb::Operand ids = b.allocate(rows * 4);
    fb::Operand table = b.allocate(vocab / tp * width * 4);
    fb::Operand out = b.allocate(rows * width * 4);
    fb::Operand grad = b.allocate(vocab / tp * width * 4);
    b.state("table", {vocab, width}, {{0}, {}}, table);
    fb::StateT &idState = b.state("ids", {rows}, {{}}, ids);
    idState.dtype = fb::DType::I32;
    idState.role = "constant";
    b.add(fb::EmbeddingT{{}, rows, width, tableRows}, {ids, table, out}, {0});
    b.add(fb::AllReduceT{{}, int64_t(rows * width)}, {out, out}, {0});
    b.add(fb::EmbeddingGradT{{}, rows, width, tableRows}, {ids, out, grad},
          {0});
    b.output("out", {rows, width}, {{}, {}}, out);
    b.output("grad", {vocab, width}, {{0}, {}}, grad);

    auto value = [](uint64_t row, uint64_t column) {
      return float(row * 10 + column);
    };
    auto idAt = [&](uint64_t row) { return int32_t(row * 7 % vocab); };
    std::vector<float> expected, gradient(vocab * width);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < width; ++c) {
        expected.push_back(value(uint64_t(idAt(r)), c));
        gradient[uint64_t(idAt(r)) * width + c] += expected.back();
      }
    Status status = runProgram(
        b,
        [&](Executor &executor) -> Status {
          const Program &program = executor.getProgram();
          fillShard(executor, *program.findState("table", "constant"),
                    [&](const auto &i) { return value(i[0], i[1]); });
          auto bytes =
              getBytes(executor, *program.findState("ids", "constant"));
          for (uint64_t r = 0; r < rows; ++r)
            reinterpret_cast<int32_t *>(bytes.data())[r] = idAt(r);
          CLEAVE_RETURN_IF_ERROR(executor.runStep(0));
          GlobalTensor out, grad;
          CLEAVE_RETURN_IF_ERROR(
              gatherOutput(executor, *program.findOutput("out"), out));
          CLEAVE_RETURN_IF_ERROR(
              gatherOutput(executor, *program.findOutput("grad"), grad));
          EXPECT_EQ(toFloats(out), expected);
          EXPECT_EQ(toFloats(grad), gradient);
          return {};
        },
        {}, makeOptions(1));
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

/// Every move of a [4, 8, 6] tensor between placements over tp ends where the
/// placement says.
TEST(Executor, MovesKeepTheTensor) {
  auto valueAt = [](const std::vector<uint64_t> &i) {
    return float(i[0] * 48 + i[1] * 6 + i[2]);
  };
  for (int64_t tp : {1, 2, 4}) {
    ProgramBuilder b = makeMoves(tp);
    Status status = runProgram(
        b,
        [&](Executor &executor) -> Status {
          const Program &program = executor.getProgram();
          fillShard(executor, *program.findState("x", "constant"), valueAt);
          CLEAVE_RETURN_IF_ERROR(executor.runStep(0));
          for (const fb::Output *output : program.getOutputs()) {
            GlobalTensor tensor;
            CLEAVE_RETURN_IF_ERROR(gatherOutput(executor, *output, tensor));
            std::string name = output->name()->str();
            float factor =
                name == "scattered" ? float(tp) : (name == "zero" ? 0 : 1);
            std::vector<float> expected(4 * 8 * 6);
            for (uint64_t i = 0; i < expected.size(); ++i)
              expected[i] = factor * float(i);
            // The last rank has the largest of each row.
            if (name == "reduced") {
              const int64_t rows = 8 / tp;
              expected.clear();
              for (int64_t i = 0; i < 4 * rows * 6; ++i)
                expected.push_back(float(i / (rows * 6) * 48 + (8 - rows) * 6 +
                                         i % (rows * 6)));
            }
            EXPECT_EQ(toFloats(tensor), expected) << name << " tp " << tp;
          }
          return {};
        },
        {}, makeOptions(2));
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

TEST(Executor, ScheduleIsWrittenEachStep) {
  ProgramBuilder b({});
  fb::Operand out = b.allocate(20);
  b.add(fb::ScheduleT{{}, fb::LRSchedule::Linear, 2, 0, 0, 1.0, 0.0, 0.5, 0.75},
        {out});
  b.output("schedule", {5}, {{}}, out);
  ExecutorOptions options;
  options.schedule.totalSteps = 6;
  Status status = runProgram(
      b,
      [&](Executor &executor) -> Status {
        // The learning rate is of the step, corrections are of updates.
        const float expected[3][5] = {{0.5f, 2, 4, FLT_MAX, FLT_MAX},
                                      {1, 4.0f / 3, 16.0f / 7, 3, 0.25f},
                                      {1, 4.0f / 3, 16.0f / 7, 4, 0.5f}};
        const StepInputs inputs[3] = {
            {0, 0}, {1, 1, {3, 0.25f}}, {2, 1, {4, 0.5f}}};
        for (int64_t step = 0; step < 3; ++step) {
          CLEAVE_RETURN_IF_ERROR(executor.runStep(inputs[step]));
          auto values = toFloatSpan(getBytes(
              executor, *executor.getProgram().findOutput("schedule")));
          for (int i = 0; i < 5; ++i)
            EXPECT_FLOAT_EQ(values[i], expected[step][i]) << step << " " << i;
        }
        EXPECT_DOUBLE_EQ(executor.getLearningRate(4), 0.5);
        return {};
      },
      {}, options);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(Executor, ObserverSeesEveryInstruction) {
  ProgramBuilder b({}, /*microBatches=*/3);
  fb::Operand x = b.allocate(64, 3), y = b.allocate(64), z = b.allocate(64, 3);
  b.add(fb::FillT(), {y});
  b.start(ProgramBuilder::MicroBatch);
  b.add(fb::CopyT(), {y, x});
  b.launch("twice", 4, {x, z});
  struct Recorder : InstructionObserver {
    void onInstruction(const InstructionTime &time) override {
      EXPECT_LE(time.beginNs, time.endNs);
      if (!seen.empty()) {
        EXPECT_LE(seen.back().endNs, time.beginNs);
      }
      seen.push_back(time);
    }
    std::vector<InstructionTime> seen;
  } recorder;
  Status status = runProgram(
      b,
      [&](Executor &executor) -> Status {
        executor.setObserver(&recorder);
        CLEAVE_RETURN_IF_ERROR(executor.runStep(0));
        executor.setObserver(nullptr);
        auto values =
            reinterpret_cast<const float *>(getBytes(executor, z).data());
        EXPECT_EQ(values[0], 0);
        return executor.runStep(1);
      },
      kernels);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::pair<size_t, uint64_t>> expected = {
      {0, 0}, {1, 0}, {2, 0}, {1, 1}, {2, 1}, {1, 2}, {2, 2}};
  ASSERT_EQ(recorder.seen.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(recorder.seen[i].index, expected[i].first);
    EXPECT_EQ(recorder.seen[i].microBatch, expected[i].second);
  }
}

TEST(Executor, RefusesWhatItCannotRun) {
  ProgramBuilder b({{"dp", 2}});
  fb::Operand x = b.allocate(64), y = b.allocate(64);
  b.state("x", {16}, {{}}, x);
  b.launch("missing", 4, {x, y});
  auto nothing = [](Executor &) { return Status(); };
  EXPECT_NE(
      runProgram(b, nothing, kernels).message().find("no kernel \"missing\""),
      std::string::npos);
  b.program.kernels[0]->symbol = "twice";
  EXPECT_NE(runProgram(b, nothing, kernels, makeOptions(3, /*poison=*/false))
                .message()
                .find("cannot have 3 threads: the program was compiled for 1 "
                      "to 2"),
            std::string::npos);
  b.program.isa = fb::Isa::Avx512Bf16;
  b.program.cpu = "znver5";
  const cpu::Isa active = cpu::getActiveIsa();
  ASSERT_TRUE(cpu::setActiveIsa(cpu::Isa::Portable));
  EXPECT_NE(runProgram(b, nothing, kernels)
                .message()
                .find("this CPU has portable, and the program was compiled for "
                      "avx512bf16 (CPU \"znver5\")"),
            std::string::npos);
  ASSERT_TRUE(cpu::setActiveIsa(active));
  b.program.isa = fb::Isa::Avx2;
  b.stage->arena_bytes = uint64_t(1) << 46;
  EXPECT_NE(runProgram(b, nothing, kernels)
                .message()
                .find("2 ranks of this process together need "
                      "140737488355328 bytes, this machine has "),
            std::string::npos);
}

/// A rank whose program has no collective must stop too.
TEST(Executor, StopsBetweenInstructions) {
  ProgramBuilder b({{"dp", 2}});
  b.add(fb::FillT(), {b.allocate(64)});
  Status status = runProgram(b, [](Executor &executor) -> Status {
    if (executor.getCommunicator().getRank() == 1)
      return Status::error("stop");
    Status result;
    for (int64_t step = 0; result.ok(); ++step)
      result = executor.runStep(step);
    EXPECT_EQ(result.getCode(), StatusCode::Aborted);
    return result;
  });
  EXPECT_EQ(status.message(), "rank 1: stop");
}

TEST(Executor, AFailingRankIsNamedOnce) {
  ProgramBuilder b({{"dp", 4}});
  fb::Operand x = b.allocate(64);
  b.state("x", {16}, {{}}, x).role = "parameter";
  b.start(ProgramBuilder::Update);
  b.add(fb::AllReduceT{{}, 16}, {x, x}, {0});
  Status status = runProgram(b, [](Executor &executor) -> Status {
    for (int64_t step = 0; step < 5; ++step) {
      if (step == 3 && executor.getCommunicator().getRank() == 2)
        return Status::error("cannot write: No space left on device");
      CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
    }
    return {};
  });
  EXPECT_EQ(status.message(), "rank 2: cannot write: No space left on device");
}

} // namespace
