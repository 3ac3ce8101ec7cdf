//===- RunsTest.cpp - The cost model on the published runs we have --------===//
//
// What the model reaches on test/data/runs, rounded up a little: a change of
// its physics that makes a source worse shows here. docs/accuracy.md says what
// is missing where an error is large.
//
//===----------------------------------------------------------------------===//
#include "cleave/Ledger/Ledger.h"
#include "gtest/gtest.h"

using namespace cleave;

namespace {

struct Bound {
  const char *source;
  int64_t rows;
  double mean;
};

const Bound bounds[] = {
    {"Megatron-LM README (2020) model-parallel scaling", 12, 0.11},
    {"Korthikanti 2022 Table 5", 8, 0.04},
    {"Megatron-Bridge skills A/B", 10, 0.19},
    {"dgxc-benchmarking v24.11.1", 58, 0.06},
    {"dgxc-benchmarking v25.02.02", 48, 0.05},
    {"dgxc-benchmarking v25.04.02", 38, 0.05},
    {"torchtitan benchmarks 2024-12", 6, 0.05},
    {"torchtitan async-TP 2025-06", 12, 0.15},
    {"torchtitan docs/performance.md (2024)", 8, 0.03},
    {"torchao training benchmarks", 7, 0.30},
    {"MosaicML llm-foundry benchmarks", 149, 0.06},
    {"InternEvo train_performance", 24, 0.06},
    {"IBM fms-fsdp README", 8, 0.09},
    {"vTrain ground truth (multi-node)", 55, 0.08},
    {"Zero Bubble Table 4", 48, 0.08},
    {"Zero Bubble Table 12", 18, 0.06},
    {"NVIDIA JAX-Toolbox (PaxML GPT)", 4, 0.09},
    {"NVIDIA JAX-Toolbox (MaxText Llama2-7B)", 1, 0.14},
    {"Megatron-Bridge perf summary 26.08", 2, 0.09},
    {"Megatron-Bridge perf summary 26.06.01", 2, 0.08},
    {"Megatron-Bridge perf summary 26.06", 11, 0.12},
    {"Megatron-Bridge perf summary 26.04.01", 13, 0.12},
    {"Megatron-Bridge perf summary 26.04", 12, 0.10},
    {"Megatron-Bridge perf summary 26.02.01", 12, 0.10},
    {"Megatron-Bridge perf summary 26.02", 12, 0.12},
    {"Megatron-Bridge perf summary 25.11", 7, 0.14},
    {"Megatron-Bridge perf summary 25.09", 7, 0.22},
    {"NeMo Automodel perf summary", 2, 0.08},
    {"dgxc-benchmarking v25.05.05", 14, 0.17},
    {"Megatron-Core MoE report", 2, 0.06},
};

Ledger load(const char *name) {
  Ledger ledger;
  llvm::cantFail(ledger.load(std::string(CLEAVE_RUNS "/") + name));
  return ledger;
}

TEST(RunsTest, ErrorsOfEverySource) {
  Ledger ledger = load("training_runs.json");
  for (const Bound &bound : bounds) {
    LedgerErrors errors = ledger.getErrors(bound.source);
    EXPECT_GE(errors.rows, bound.rows) << bound.source;
    EXPECT_LE(errors.mean, bound.mean) << bound.source;
  }
  LedgerErrors all = ledger.getErrors("");
  EXPECT_LE(all.median, 0.05);
  EXPECT_LE(all.mean, 0.07);
  EXPECT_GE(all.spearman, 0.99);
  EXPECT_LE(all.memoryMedian, 0.03);
  EXPECT_EQ(all.fitRows, 7);
  EXPECT_EQ(all.fitRight, all.fitRows);
}

/// 750 layouts of one node: the order of layouts matters most.
TEST(RunsTest, LayoutsOfOneNode) {
  LedgerErrors errors =
      load("training_runs_a100_single_node.json").getErrors("");
  EXPECT_EQ(errors.rows, 750);
  EXPECT_LE(errors.mean, 0.08);
  EXPECT_GE(errors.spearman, 0.98);
  EXPECT_LE(errors.gap, 0.035);
}

} // namespace
