//===- KernelsTest.cpp - Kernels and collectives against measurements -----===//
#include "cleave/Cost/Kernels.h"
#include "cleave/Cost/Architecture.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

using namespace cleave;

namespace {

/// Rows of a comma-separated file without its head.
std::vector<std::vector<std::string>> readRows(const std::string &name) {
  std::ifstream file(CLEAVE_MEASURED "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::StringRef(line).split(parts, ',');
    rows.emplace_back();
    for (llvm::StringRef part : parts)
      rows.back().push_back(part.str());
  }
  return rows;
}

struct Errors {
  std::vector<double> values;
  void add(double predicted, double measured) {
    values.push_back(std::abs(predicted / measured - 1));
  }
  double getQuantile(double q) {
    std::sort(values.begin(), values.end());
    return values[size_t(q * double(values.size() - 1))];
  }
};

TEST(KernelsTest, MatmulsNearMeasured) {
  std::map<std::string, Errors> errors;
  std::map<std::string, Device> devices;
  for (const auto &row : readRows("gemm.csv")) {
    auto [at, isNew] = devices.try_emplace(row[0]);
    if (isNew)
      at->second = llvm::cantFail(getDevice(row[0]));
    double time = getMatmulTime(at->second, DType::BF16, std::stod(row[2]),
                                std::stod(row[3]), std::stod(row[4]));
    errors[row[0]].add(time, std::stod(row[5]) * 1e-3);
  }
  ASSERT_EQ(errors.size(), 3u);
  for (auto &[name, each] : errors) {
    EXPECT_LE(each.getQuantile(0.5), 0.06) << name;
    EXPECT_LE(each.getQuantile(0.9), 0.25) << name;
  }
}

TEST(KernelsTest, MatmulIsMonotonous) {
  Device device = llvm::cantFail(getDevice("h100-sxm"));
  double last = 0;
  for (int64_t m = 128; m <= 65536; m *= 2) {
    double time = getMatmulTime(device, DType::BF16, double(m), 4096, 4096);
    EXPECT_GE(time, last);
    // Never above the data sheet's peak.
    EXPECT_GE(time, 2. * double(m) * 4096 * 4096 / 989e12);
    last = time;
  }
  EXPECT_EQ(getMatmulTime(device, DType::BF16, 0, 4096, 4096), 0);
}

TEST(KernelsTest, CollectivesNearMeasured) {
  std::map<std::string, Errors> errors;
  std::map<std::string, Machine> machines;
  for (const auto &row : readRows("collectives.csv")) {
    auto [at, isNew] = machines.try_emplace(row[0]);
    if (isNew)
      at->second = llvm::cantFail(getMachine(row[0] + ":8"));
    auto kind = llvm::StringSwitch<CollectiveKind>(row[1])
                    .Case("all_gather", CollectiveKind::AllGather)
                    .Case("reduce_scatter", CollectiveKind::ReduceScatter)
                    .Case("all_reduce", CollectiveKind::AllReduce)
                    .Default(CollectiveKind::AllToAll);
    double time = getCollectiveTime(at->second, kind, {std::stoll(row[2]), 1},
                                    std::stod(row[3]));
    errors[row[0]].add(time, std::stod(row[4]) * 1e-3);
  }
  ASSERT_EQ(errors.size(), 3u);
  for (auto &[name, each] : errors) {
    EXPECT_LE(each.getQuantile(0.5), 0.10) << name;
    EXPECT_LE(each.getQuantile(0.9), 0.35) << name;
  }
}

/// A link without latency moves exactly the bytes of the ring algorithm:
/// 2 (K - 1) / K of the buffer for an all-reduce, half of it for each half.
TEST(KernelsTest, RingsMoveWhatTheyMust) {
  Machine machine = llvm::cantFail(getMachine("h100-sxm:8"));
  for (CollectiveCurve &curve : machine.levels[0].link.collectives) {
    curve = CollectiveCurve();
    curve.bandwidth = {{2, 100e9}};
  }
  for (int64_t ranks : {2, 4, 8}) {
    double share = double(ranks - 1) / double(ranks);
    auto get = [&](CollectiveKind kind) {
      return getCollectiveTime(machine, kind, {ranks, 1}, 1e9);
    };
    EXPECT_NEAR(get(CollectiveKind::AllReduce), 2 * share * 1e-2, 1e-9);
    EXPECT_NEAR(get(CollectiveKind::AllGather), share * 1e-2, 1e-9);
    EXPECT_NEAR(get(CollectiveKind::ReduceScatter), share * 1e-2, 1e-9);
  }
  EXPECT_EQ(getCollectiveTime(machine, CollectiveKind::AllReduce, {1, 1}, 1e9),
            0);
}

/// 1,024 ranks: 1,023 steps of a ring against 10 doublings of a tree, whose
/// bandwidth is half of the ring's.
TEST(KernelsTest, TheFasterOfRingAndTreeRuns) {
  Machine machine = llvm::cantFail(getMachine("h100-sxm:1024"));
  machine.levels = {{1024, machine.levels.front().link}};
  CollectiveCurve &curve =
      machine.levels[0].link.collectives[size_t(CollectiveKind::AllReduce)];
  curve = CollectiveCurve();
  curve.bandwidth = {{2, 100e9}};
  curve.startupPerRank = 8e-6;
  auto get = [&](double bytes) {
    return getCollectiveTime(machine, CollectiveKind::AllReduce, {1024, 1},
                             bytes);
  };
  double share = 2 * 1023. / 1024;
  EXPECT_NEAR(get(1e3), 1023 * 8e-6 + share * 1e-8, 1e-12);
  curve.treeStartup = 17e-6;
  curve.treeShare = 0.5;
  EXPECT_NEAR(get(1e3), 10 * 17e-6 + share * 2e-8, 1e-12);
  EXPECT_NEAR(get(1e11), 1023 * 8e-6 + share, 1e-9);
}

TEST(KernelsTest, NodesAreSlowerThanTheirInside) {
  Machine machine = llvm::cantFail(getMachine("h100-sxm:64"));
  for (size_t kind = 0; kind != numCollectiveKinds; ++kind) {
    auto get = [&](Group group) {
      return getCollectiveTime(machine, CollectiveKind(kind), group, 256e6);
    };
    EXPECT_LT(get({8, 1}), get({16, 1}));
    // Ranks that own a whole node each bring only their own card.
    EXPECT_LT(get({8, 1}), get({8, 8}));
  }
}

/// Rates of the kernels' own publications, forward and backward, causal,
/// head_dim 128, 16k tokens in a batch.
TEST(KernelsTest, AttentionNearPublished) {
  struct Case {
    const char *device, *kernel;
    double seqLen, teraflops;
  };
  const Case cases[] = {
      // flash-attention README figures, fwd + bwd.
      {"a100-80", "flash2", 512, 99},    {"a100-80", "flash2", 2048, 155},
      {"a100-80", "flash2", 16384, 189}, {"h100-sxm", "flash2", 512, 163},
      {"h100-sxm", "flash2", 2048, 265}, {"h100-sxm", "flash2", 16384, 328},
  };
  for (const Case &each : cases) {
    Device device = llvm::cantFail(getDevice(each.device));
    double heads = 16 * 16384 / each.seqLen;
    double pairs = getCausalPairs(each.seqLen, 0), time = 0;
    for (Direction direction : {Direction::Forward, Direction::Backward})
      time += getAttentionTime(device, each.kernel, DType::BF16, direction,
                               heads, each.seqLen, pairs, 128, 128);
    double flops = heads * pairs * 128 * (4 + 10);
    EXPECT_NEAR(flops / time / 1e12, each.teraflops, 0.15 * each.teraflops)
        << each.device << " " << each.seqLen;
  }
  // cudnn-frontend's H200 table, forward and backward apart.
  Device device = llvm::cantFail(getDevice("h200"));
  const double table[][3] = {
      {2048, 484, 370}, {4096, 591, 474}, {8192, 644, 541}, {16384, 673, 579}};
  for (auto [seqLen, forward, backward] : table) {
    double pairs = getCausalPairs(seqLen, 0);
    double heads = 64 * 16384 / seqLen;
    double f =
        getAttentionTime(device, "cudnn", DType::BF16, Direction::Forward,
                         heads, seqLen, pairs, 128, 128);
    double b =
        getAttentionTime(device, "cudnn", DType::BF16, Direction::Backward,
                         heads, seqLen, pairs, 128, 128);
    EXPECT_NEAR(heads * pairs * 512 / f / 1e12, forward, 0.1 * forward);
    EXPECT_NEAR(heads * pairs * 1280 / b / 1e12, backward, 0.1 * backward);
  }
  // In f32 no kernel is faster than the unit of that type.
  double pairs = getCausalPairs(16384, 0);
  double seconds =
      getAttentionTime(device, "cudnn", DType::F32, Direction::Forward, 64,
                       16384, pairs, 128, 128);
  double flops = 64 * pairs * 512, peak = device.getMatrix(DType::F32).peak;
  EXPECT_NEAR(flops / seconds, peak, 0.01 * peak);
}

TEST(KernelsTest, RowsThatAreNoVectorsAreSlow) {
  // GPT-2's vocabulary on 1, 2, 4 and 8 ranks; 25,128 is a multiple of 8.
  EXPECT_NEAR(getMisalignment(50257), 2.9, 0.2);
  EXPECT_EQ(getMisalignment(25128), 1);
  EXPECT_NEAR(getMisalignment(12564), 1.6, 0.1);
  EXPECT_NEAR(getMisalignment(6282), 2.3, 0.2);
  EXPECT_EQ(getMisalignment(50304), 1);
}

} // namespace
