//===- EmitCudaTest.cpp - CUDA kernels, simulated and assembled -----------===//
#include "CudaSimulator.h"
#include "Harness.h"
#include "passes/Emit/EmitPtx.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

namespace {

/// One sample against the interpreter, on the simulator.
void check(CudaSimulator &simulator, exec::KernelOp kernel,
           const Sample &sample, int64_t microBatch) {
  std::vector<Operand> operands = makeOperands(kernel, sample, 7);
  std::vector<Operand> want = operands;
  ASSERT_TRUE(succeeded(interpretKernel(
      kernel, want, {/*shardIndex=*/1, /*isFirst=*/microBatch == 0})));

  std::vector<GuardedBuffer> buffers;
  std::vector<void *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    buffers.push_back(toBytes(operands[i], getAccess(kernel, i).getType()));
    pointers.push_back(buffers.back().data());
  }
  simulator.launch(sample.name, pointers, 1, microBatch);
  bool isSum = kernel.getMode() == exec::KernelMode::Column;
  for (size_t i = 0; i < operands.size(); ++i) {
    Type type = getAccess(kernel, i).getType();
    EXPECT_TRUE(buffers[i].isIntact()) << "wrote around operand " << i;
    EXPECT_LE(getDeviation(fromBytes(buffers[i], type), want[i], isSum ? 1 : 0),
              type.isBF16() ? 4.5e-3 : 4e-6)
        << "operand " << i;
  }
}

void checkAll(std::vector<Sample> samples) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  auto module = parse(samples, context);
  CudaSimulator simulator(*module);
  for (const Sample &sample : samples) {
    auto kernel =
        cast<exec::KernelOp>(SymbolTable::lookupSymbolIn(*module, sample.name));
    for (int64_t microBatch : {0, 2}) {
      SCOPED_TRACE(sample.name + ", micro-batch " + std::to_string(microBatch));
      check(simulator, kernel, sample, microBatch);
      if (kernel.getAccumulate() != exec::Accumulate::AfterFirst)
        break;
    }
  }
}

} // namespace

TEST(EmitCuda, Rows) {
  std::vector<Sample> samples;
  for (int64_t columns : {1, 2, 3, 8, 24, 64, 100, 331, 768, 1032})
    for (const char *storage : {"f32", "bf16"})
      llvm::append_range(samples, makeRowSamples(7, columns, storage));
  checkAll(std::move(samples));
}

TEST(EmitCuda, LongRows) {
  std::vector<Sample> samples = makeRowSamples(2, 50257, "f32");
  llvm::append_range(samples, makeRowSamples(2, 65536, "bf16"));
  llvm::append_range(samples, makeRowSamples(2, 50304, "bf16"));
  llvm::append_range(samples, makeRowSamples(2, 8192, "f32"));
  checkAll(std::move(samples));
}

TEST(EmitCuda, Elements) {
  std::vector<Sample> samples;
  for (int64_t elements : {1, 3, 331, 4096, 4099})
    for (const char *storage : {"f32", "bf16"})
      for (const char *accumulate : {"never", "always", "after_first"})
        llvm::append_range(samples,
                           makeFlatSamples(elements, storage, accumulate));
  checkAll(std::move(samples));
}

TEST(EmitCuda, Columns) {
  std::vector<Sample> samples;
  for (int64_t columns : {1, 64, 331, 770})
    for (const char *storage : {"f32", "bf16"})
      for (const char *accumulate : {"never", "always", "after_first"})
        for (int64_t rows : {1, 67})
          llvm::append_range(
              samples, makeColumnSamples(rows, columns, storage, accumulate));
  checkAll(std::move(samples));
}

namespace {
/// The kernels of models as they come: long rows, short rows, odd ones.
std::vector<Sample> makeModelSamples() {
  std::vector<Sample> samples;
  for (const char *storage : {"f32", "bf16"}) {
    for (int64_t columns : {128, 4096, 50257, 128256})
      llvm::append_range(samples, makeRowSamples(2048, columns, storage));
    llvm::append_range(samples, makeFlatSamples(1 << 20, storage, "never"));
    llvm::append_range(samples, makeFlatSamples(4099, storage, "after_first"));
    llvm::append_range(samples,
                       makeColumnSamples(512, 4096, storage, "always"));
  }
  return samples;
}
} // namespace

TEST(EmitPtx, RefersToNothingElse) {
  std::vector<Sample> samples = makeModelSamples();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  auto ptx = emit::emitPtx(*parse(samples, context), {});
  ASSERT_TRUE(succeeded(ptx));
  EXPECT_EQ(ptx->launches.size(), samples.size());
  EXPECT_EQ(ptx->text.find(".extern"), std::string::npos);
  EXPECT_EQ(ptx->text.find(".local"), std::string::npos);
  for (const Sample &sample : samples)
    EXPECT_NE(ptx->text.find(".visible .entry " + sample.name + "("),
              std::string::npos);
}

TEST(EmitPtx, AssemblesWithoutSpills) {
  std::optional<std::string> ptxas = emit::findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  std::vector<Sample> samples = makeModelSamples();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  auto ptx = emit::emitPtx(*parse(samples, context), {});
  ASSERT_TRUE(succeeded(ptx));
  auto cubin = emit::assemblePtx(ptx->text, "sm_90", *ptxas);
  ASSERT_TRUE(bool(cubin)) << llvm::toString(cubin.takeError());
  EXPECT_GT(cubin->bytes.size(), 0u);
  // One such line per kernel.
  StringRef report = cubin->report;
  EXPECT_EQ(report.count(" spill stores"), samples.size());
  EXPECT_EQ(report.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes "
                         "spill loads"),
            samples.size())
      << cubin->report;
}
