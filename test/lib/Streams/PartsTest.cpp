//===- PartsTest.cpp - Which ops are cut together, and how they stand -----===//
#include "cleave/Streams/Parts.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>

using namespace cleave;

namespace {

/// Ops by names, of which each has rows unless it is said otherwise; buffers of
/// eight bytes.
class NamedOps : public Window {
public:
  struct Named {
    std::string name;
    RowsKind kind = RowsKind::Product;
    std::vector<int64_t> reads, writes;
    /// Of what it reads, in its order; what it writes has parts. None: it
    /// cannot be cut.
    std::optional<Shares> shares = Shares{Share::Part};
    int64_t stream = 0;
  };

  explicit NamedOps(std::vector<Named> ops)
      : Window(listOperands(ops)), ops(std::move(ops)) {}

  Surroundings around(size_t middle) const {
    std::vector<RowsKind> kinds;
    std::vector<int64_t> streams;
    for (const Named &each : ops) {
      kinds.push_back(each.kind);
      streams.push_back(each.stream);
    }
    return Surroundings(*this, middle, kinds, streams);
  }
  /// "gemm0 reduce0 norm", or nothing.
  std::string cut(size_t middle, int64_t parts) const {
    Surroundings surroundings = around(middle);
    llvm::SmallVector<size_t> members = surroundings.findMembers(parts);
    if (members.empty())
      return "";
    std::string text;
    std::vector<PartOf> list = *surroundings.cut(members, parts);
    for (PartOf each : list) {
      text += (text.empty() ? "" : " ") + ops[each.op].name;
      if (each.number >= 0)
        text += std::to_string(each.number);
    }
    return text;
  }

  std::vector<Named> ops;

private:
  static std::vector<RowsOperands> listOperands(const std::vector<Named> &ops) {
    std::vector<RowsOperands> all;
    for (const Named &each : ops) {
      RowsOperands &operands = all.emplace_back();
      for (int64_t buffer : each.reads)
        operands.push_back({buffer, buffer, 0, 8, false});
      for (int64_t buffer : each.writes)
        operands.push_back({buffer, buffer, 0, 8, true});
    }
    return all;
  }
  std::optional<Shares> computeShares(size_t i, int64_t) const override {
    std::optional<Shares> shares = ops[i].shares;
    if (shares) {
      shares->resize(ops[i].reads.size(), Share::Whole);
      shares->resize(getOperands(i).size(), Share::Part);
    }
    return shares;
  }
};

NamedOps::Named collective(std::string name, int64_t from, int64_t to) {
  return {
      std::move(name), RowsKind::Other, {from}, {to}, Shares{Share::Part}, 1};
}
NamedOps::Named memory(std::string name, int64_t from, int64_t to) {
  return {std::move(name), RowsKind::Memory, {from}, {to}};
}
NamedOps::Named product(std::string name, int64_t from, int64_t to) {
  return {std::move(name), RowsKind::Product, {from}, {to}};
}

TEST(Parts, GoFromOneCollectiveToTheNextUpToProducts) {
  NamedOps ops({product("before", 0, 1), product("gemm", 1, 2),
                collective("scatter", 2, 3), memory("norm", 3, 4),
                collective("gather", 4, 5), product("up", 5, 6),
                product("behind", 6, 7)});
  std::string all = "before gemm0 scatter0 gemm1 scatter1 "
                    "norm0 gather0 norm1 gather1 up0 up1 behind";
  EXPECT_EQ(ops.cut(2, 2), all);
  EXPECT_EQ(ops.cut(4, 2), all);
}

TEST(Parts, WhatNeedsAllRowsStaysWhole) {
  NamedOps ops({product("gemm", 0, 1), collective("reduce", 1, 2),
                memory("sum", 2, 3), product("up", 3, 4)});
  ops.ops[2].shares = Shares{Share::Whole};
  EXPECT_EQ(ops.cut(1, 2), "gemm0 reduce0 gemm1 reduce1 sum up");
  ops.ops[2].shares = Shares{Share::Sum};
  EXPECT_EQ(NamedOps(ops.ops).cut(1, 2), "gemm0 reduce0 gemm1 reduce1 sum up");
  ops.ops[0].shares = ops.ops[2].shares = std::nullopt;
  EXPECT_EQ(NamedOps(ops.ops).cut(1, 2), "gemm reduce0 reduce1 sum up");
  ops.ops[1].shares = std::nullopt;
  EXPECT_EQ(NamedOps(ops.ops).cut(1, 2), "");
}

TEST(Parts, WhatStandsBetweenGoesAheadIfItIsNeeded) {
  NamedOps ops({product("gemm", 0, 1),
                product("needed", 8, 9),
                product("other", 8, 10),
                collective("reduce", 1, 2),
                {"up", RowsKind::Product, {2, 9}, {3}}});
  EXPECT_EQ(ops.cut(3, 2), "needed gemm0 reduce0 gemm1 reduce1 up0 up1 other");
}

TEST(Parts, WhatWouldStandBetweenTwoForGoodKeepsOneOut) {
  // `up` needs all of what `whole` makes of the first product.
  NamedOps ops({product("gemm", 0, 1),
                collective("reduce", 1, 2),
                product("whole", 1, 9),
                {"up", RowsKind::Product, {2, 9}, {3}}});
  ops.ops[2].shares = std::nullopt;
  EXPECT_EQ(ops.cut(1, 2), "gemm0 reduce0 gemm1 reduce1 whole up");
}

TEST(Parts, MemoryAtTheEndTakesNoPart) {
  NamedOps ops(
      {memory("norm", 0, 1), collective("gather", 1, 2), product("up", 2, 3)});
  EXPECT_EQ(ops.cut(1, 2), "norm gather0 gather1 up0 up1");
}

TEST(Parts, StretchesAreSharedByWhatSharesBytes) {
  // All pairs of random operands of three buffers.
  std::mt19937_64 random(3);
  int meetings = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<RowsOperands> operands(6);
    for (RowsOperands &each : operands)
      for (int k = 0; k < 2; ++k) {
        int64_t begin = int64_t(random() % 8);
        each.push_back({0, int64_t(random() % 3), begin,
                        begin + 1 + int64_t(random() % 4), k == 1});
      }
    std::vector<OverlapOp> ops(operands.size());
    setAccesses(ops, std::vector<llvm::ArrayRef<RowsOperand>>(operands.begin(),
                                                              operands.end()));
    for (size_t a = 0; a < ops.size(); ++a)
      for (size_t b = 0; b < ops.size(); ++b) {
        const RowsOperand &x = operands[a][0], &y = operands[b][1];
        bool meet = x.buffer == y.buffer && x.begin < y.end && y.begin < x.end;
        EXPECT_EQ(llvm::any_of(ops[a].reads,
                               [&](int64_t each) {
                                 return llvm::is_contained(ops[b].writes, each);
                               }),
                  meet);
        meetings += meet;
      }
  }
  EXPECT_GT(meetings, 100);
}

TEST(Parts, AreWorthATenthOfTheirCollectives) {
  WindowTime whole{.seconds = 30, .communication = 10}, parts{.seconds = 29};
  EXPECT_TRUE(whole.isWorth(parts));
  parts.seconds = 29.1;
  EXPECT_FALSE(whole.isWorth(parts));
}

TEST(Parts, AreMeasuredByWhatIsWaitedForOfMembers) {
  std::vector<OverlapOp> ops(4);
  ops[0].seconds = ops[3].seconds = 5;
  ops[1].seconds = ops[2].seconds = 2;
  ops[1].stream = ops[2].stream = 1;
  ops[0].writes = ops[1].reads = ops[2].reads = {0};
  ops[1].writes = {1};
  ops[2].writes = {2};
  ops[3].reads = {1, 2};
  WindowTime time = WindowTime::measure(ops, [](size_t i) { return i == 2; });
  EXPECT_EQ(time.seconds, 14);
  EXPECT_EQ(time.compute, 10);
  EXPECT_EQ(time.communication, 2);
  EXPECT_EQ(time.waited, 2);
}

TEST(Parts, AreMeasuredByWhenMessagesAreThereAsWell) {
  std::vector<OverlapOp> ops(4);
  ops[0].seconds = 5;
  ops[1].seconds = 2;
  ops[2].seconds = 1;
  ops[3].seconds = 20;
  ops[1].stream = 1;
  ops[2].stream = 2;
  ops[0].writes = ops[1].reads = {0};
  ops[1].writes = ops[2].reads = {1};
  WindowTime time = WindowTime::measure(ops, [](size_t i) { return i == 1; });
  EXPECT_EQ(time.sent, 5 + 2 + 1);
  EXPECT_EQ(time.seconds, 25 + time.sent);
  EXPECT_EQ(time.waited, 0);
}

TEST(Blocks, AsManyAsAreMissingToTheLargestNumberOfParts) {
  // Samples, tokens of a shard, channels.
  EXPECT_EQ(countBlocks({1, 1024, 4096}, 1), 8);
  EXPECT_EQ(countBlocks({2, 1024, 4096}, 1), 4);
  EXPECT_EQ(countBlocks({3, 1024, 4096}, 1), 8);
  EXPECT_EQ(countBlocks({8, 1024, 4096}, 1), 1);
  EXPECT_EQ(countBlocks({1, 6, 4096}, 1), 2) << "they divide a shard";
}

TEST(Blocks, ADimThatIsFirstOrLastIsWholePieces) {
  EXPECT_EQ(countBlocks({1024, 4096}, 0), 1);
  EXPECT_EQ(countBlocks({2, 1024, 4096}, 2), 1);
}

} // namespace
