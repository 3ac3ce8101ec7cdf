//===- EmitCpuTest.cpp - Kernels on this CPU against an interpreter -------===//
#include "Harness.h"
#include "gtest/gtest.h"
#include <array>
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

namespace {

/// What a run leaves in the outputs, as bytes.
using Bytes = std::vector<std::vector<char>>;

struct Run {
  std::vector<Operand> operands;
  Bytes bytes;
};

int64_t getRange(exec::KernelOp kernel) {
  return kernel.getMode() == exec::KernelMode::Column
             ? int64_t(kernel.getColumns())
             : int64_t(kernel.getRows());
}

/// Runs `kernel` over [0, range) in pieces of `piece`.
Run runPieces(exec::KernelOp kernel, CleaveKernelFn function,
              const std::vector<Operand> &operands,
              const std::array<int64_t, 2> &params, int64_t piece) {
  std::vector<GuardedBuffer> buffers;
  std::vector<void *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    buffers.push_back(toBytes(operands[i], getAccess(kernel, i).getType()));
    pointers.push_back(buffers.back().data());
  }
  int64_t range = getRange(kernel);
  for (int64_t begin = 0; begin < range; begin += piece)
    function(pointers.data(), params.data(), begin,
             std::min(begin + piece, range));
  Run run;
  for (size_t i = 0; i < operands.size(); ++i) {
    EXPECT_TRUE(buffers[i].isIntact()) << "wrote around operand " << i;
    run.operands.push_back(
        fromBytes(buffers[i], getAccess(kernel, i).getType()));
    run.bytes.emplace_back(buffers[i].data(),
                           buffers[i].data() + buffers[i].size());
  }
  return run;
}

/// f32: a few roundings per element, more in long sums. bf16: half a unit.
double getBound(Type type) { return type.isBF16() ? 4.5e-3 : 4e-6; }

/// One sample against the interpreter, in whole and in pieces.
void check(CompiledSamples &compiled, const Sample &sample,
           int64_t microBatch) {
  std::array<int64_t, 2> params{1, microBatch};
  exec::KernelOp kernel = compiled.getKernel(sample.name);
  CleaveKernelFn function = compiled.getFunction(sample.name);
  std::vector<Operand> operands = makeOperands(kernel, sample, 7);
  std::vector<Operand> want = operands;
  ASSERT_TRUE(succeeded(
      interpretKernel(kernel, want, {params[0], /*isFirst=*/params[1] == 0})));

  bool isSum = kernel.getMode() == exec::KernelMode::Column;
  int64_t range = getRange(kernel);
  Run whole = runPieces(kernel, function, operands, params, range);
  for (size_t i = 0; i < operands.size(); ++i)
    EXPECT_LE(getDeviation(whole.operands[i], want[i], isSum ? 1 : 0),
              getBound(getAccess(kernel, i).getType()))
        << "operand " << i;
  for (int64_t piece : {int64_t(1), int64_t(5), range / 2 + 1}) {
    Run pieces = runPieces(kernel, function, operands, params, piece);
    EXPECT_EQ(pieces.bytes, whole.bytes) << "pieces of " << piece;
  }
}

void checkAll(std::vector<Sample> samples, const std::string &cpu) {
  CompiledSamples compiled(std::move(samples), cpu);
  for (const Sample &sample : compiled.samples)
    for (int64_t microBatch : {0, 2}) {
      SCOPED_TRACE(sample.name + ", micro-batch " + std::to_string(microBatch));
      check(compiled, sample, microBatch);
      if (compiled.getKernel(sample.name).getAccumulate() !=
          exec::Accumulate::AfterFirst)
        break;
    }
}

class EmitCpu : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(EmitCpu, Rows) {
  std::vector<Sample> samples;
  for (int64_t columns : {1, 2, 3, 8, 17, 24, 64, 100, 331})
    for (const char *storage : {"f32", "bf16"})
      llvm::append_range(samples, makeRowSamples(7, columns, storage));
  checkAll(std::move(samples), GetParam());
}

TEST_P(EmitCpu, LongRows) {
  std::vector<Sample> samples = makeRowSamples(3, 50257, "f32");
  llvm::append_range(samples, makeRowSamples(2, 100003, "bf16"));
  checkAll(std::move(samples), GetParam());
}

TEST_P(EmitCpu, Elements) {
  std::vector<Sample> samples;
  for (int64_t elements : {1, 3, 17, 331, 4099})
    for (const char *storage : {"f32", "bf16"})
      for (const char *accumulate : {"never", "always", "after_first"})
        llvm::append_range(samples,
                           makeFlatSamples(elements, storage, accumulate));
  checkAll(std::move(samples), GetParam());
}

TEST_P(EmitCpu, Columns) {
  std::vector<Sample> samples;
  for (int64_t columns : {1, 17, 331, 2500})
    for (const char *storage : {"f32", "bf16"})
      for (const char *accumulate : {"never", "always", "after_first"})
        for (int64_t rows : {1, 67})
          llvm::append_range(
              samples, makeColumnSamples(rows, columns, storage, accumulate));
  checkAll(std::move(samples), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cpus, EmitCpu, testing::Values("native", "x86-64-v3"),
                         [](const auto &info) {
                           return info.param == "native" ? "Native" : "Avx2";
                         });

TEST(EmitObject, HoldsTheProgram) {
  CompiledSamples compiled({}, "native");
  std::span<const unsigned char> program = compiled.getProgram();
  EXPECT_EQ(std::vector<int>(program.begin(), program.end()),
            (std::vector<int>{1, 2, 3, 0, 255}));
}
