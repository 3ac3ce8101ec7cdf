//===- CheckRuleExhaustiveTest.cpp - Is the type checker right? -----------===//
//
// Ops on integer arrays, on a mesh of 2 x 2 ranks, under every combination of
// placements of their operands and results: each rank runs the op on its shards
// alone. The checker must accept exactly those combinations in which that gives
// every rank its part of what the op gives on the whole arrays. One exception:
// a whole value is also an addend of its own maximum, but the types keep these
// apart.
//
//===----------------------------------------------------------------------===//
#include "Arrays.h"
#include "Enumerate.h"
#include "cleave/Placement/ShardingRule.h"
#include "gtest/gtest.h"
#include <functional>
#include <iostream>

using namespace cleave;
using simulate::Array;
using Arrays = std::vector<Array>;

namespace {

const Mesh mesh({{"x", 2}, {"y", 2}});

Array makeArray(llvm::ArrayRef<int64_t> shape) {
  Array array;
  array.shape.assign(shape.begin(), shape.end());
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  array.data.resize(elements);
  return array;
}

/// Runs an op on operands of any consistent shape; nothing where the shapes
/// contradict each other.
using Op = std::function<std::optional<Arrays>(const Arrays &)>;

/// Checks every combination; returns how many are right.
int64_t checkAll(llvm::StringRef text,
                 llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizes,
                 const Op &op, Reduction reduction = Reduction::Sum) {
  ShardingRule rule = llvm::cantFail(ShardingRule::parse(text, sizes));
  size_t numOperands = rule.operands.size();
  std::vector<std::vector<Placement>> placements;
  // For each operand and placement: what each rank holds.
  std::vector<std::vector<Arrays>> shards(numOperands);
  Arrays wholes;
  for (auto [index, tensor] : llvm::enumerate(
           llvm::concat<const TensorFactors>(rule.operands, rule.results))) {
    simulate::Shape shape = rule.getShape(tensor);
    placements.push_back(getPlacements(mesh, shape, reduction));
    if (index >= numOperands)
      continue;
    // One value, however many addends it is made of.
    auto addends = simulate::makeAddends(shape, 4, index + 1);
    for (Array &addend : addends)
      for (int64_t &element : addend.data)
        element %= 100;
    wholes.push_back(simulate::reduce(addends, reduction));
    for (const Placement &placement : placements.back()) {
      std::vector<Array> parts;
      int64_t count = mesh.getSize(placement.partial);
      for (int64_t part = 0; part < count; ++part)
        parts.push_back(
            simulate::reduce({addends.begin() + part * 4 / count,
                              addends.begin() + (part + 1) * 4 / count},
                             reduction));
      shards[index].push_back(simulate::distribute(mesh, parts, placement));
    }
  }
  Arrays want = *op(wholes);

  int64_t combinations = 0, right = 0;
  std::vector<size_t> choice(placements.size());
  auto next = [&] {
    for (size_t i = choice.size(); i-- > 0;) {
      if (++choice[i] < placements[i].size())
        return true;
      choice[i] = 0;
    }
    return false;
  };
  do {
    ++combinations;
    llvm::SmallVector<Placement> operands, results;
    for (size_t i = 0; i < choice.size(); ++i)
      (i < numOperands ? operands : results)
          .push_back(placements[i][choice[i]]);

    bool works = true;
    std::vector<Arrays> got(results.size());
    for (int64_t rank = 0; works && rank < mesh.getNumRanks(); ++rank) {
      Arrays locals;
      for (size_t i = 0; i < numOperands; ++i)
        locals.push_back(shards[i][choice[i]][rank]);
      std::optional<Arrays> out = op(locals);
      works = out.has_value();
      for (size_t i = 0; works && i < results.size(); ++i)
        got[i].push_back((*out)[i]);
    }
    for (size_t i = 0; works && i < results.size(); ++i)
      works = simulate::holds(mesh, got[i], want[i], results[i]);
    std::string message =
        llvm::toString(checkRule(mesh, rule, operands, results));
    right += works && message.empty();
    bool isMaximum = llvm::any_of(results, [](const Placement &result) {
      return result.isPartial() && result.reduction == Reduction::Max;
    });
    if (works != message.empty() && !(works && isMaximum)) {
      std::string what;
      for (const Placement &operand : operands)
        what += operand.toString(mesh) + " ";
      what += "->";
      for (const Placement &result : results)
        what += " " + result.toString(mesh);
      ADD_FAILURE() << text.str() << "\n"
                    << what << (works ? "\nworks, but: " : "\nis accepted")
                    << message;
      return -1;
    }
  } while (next());
  std::cout << text.str() << ": " << right << " of " << combinations
            << " combinations are right\n";
  return right;
}

std::optional<Array> multiply(const Array &x, const Array &w) {
  if (x.shape[1] != w.shape[1])
    return std::nullopt;
  int64_t b = x.shape[0], f = w.shape[0], h = x.shape[1];
  Array y = makeArray({b, f});
  for (int64_t i = 0; i < b; ++i)
    for (int64_t j = 0; j < f; ++j)
      for (int64_t k = 0; k < h; ++k)
        y.data[i * f + j] += x.data[i * h + k] * w.data[j * h + k];
  return y;
}

TEST(CheckRuleExhaustive, Linear) {
  EXPECT_GT(checkAll("b h, f h -> b f | reduce h | pass 0 | pass 1",
                     {{"b", 4}, {"h", 4}, {"f", 4}},
                     [](const Arrays &in) -> std::optional<Arrays> {
                       auto y = multiply(in[0], in[1]);
                       if (!y)
                         return std::nullopt;
                       return Arrays{*y};
                     }),
            0);
}

TEST(CheckRuleExhaustive, LinearWithBias) {
  EXPECT_GT(
      checkAll("b h, f h, f -> b f | reduce h | pass 0 2 | pass 1 2 | add 2",
               {{"b", 4}, {"h", 4}, {"f", 4}},
               [](const Arrays &in) -> std::optional<Arrays> {
                 auto y = multiply(in[0], in[1]);
                 int64_t f = in[1].shape[0];
                 if (!y || in[2].shape[0] != f)
                   return std::nullopt;
                 for (size_t i = 0; i < y->data.size(); ++i)
                   y->data[i] += in[2].data[i % f];
                 return Arrays{*y};
               }),
      0);
}

TEST(CheckRuleExhaustive, Add) {
  EXPECT_GT(checkAll("b h, b h -> b h | pass 0 1", {{"b", 4}, {"h", 4}},
                     [](const Arrays &in) -> std::optional<Arrays> {
                       if (in[0].shape != in[1].shape)
                         return std::nullopt;
                       return Arrays{
                           simulate::reduce({in[0], in[1]}, Reduction::Sum)};
                     }),
            0);
}

TEST(CheckRuleExhaustive, GroupedHeads) {
  // Query head h of each row times key head h / (heads / key heads).
  EXPECT_GT(checkAll("b (m g), b m -> b (m g) | pass 0 | pass 1",
                     {{"b", 4}, {"m", 2}, {"g", 2}},
                     [](const Arrays &in) -> std::optional<Arrays> {
                       int64_t b = in[0].shape[0], heads = in[0].shape[1];
                       int64_t keys = in[1].shape[1];
                       if (in[1].shape[0] != b || heads % keys)
                         return std::nullopt;
                       Array y = in[0];
                       for (int64_t i = 0; i < b; ++i)
                         for (int64_t h = 0; h < heads; ++h)
                           y.data[i * heads + h] *=
                               in[1].data[i * keys + h / (heads / keys)];
                       return Arrays{y};
                     }),
            0);
}

TEST(CheckRuleExhaustive, MaximumOfRows) {
  EXPECT_GT(checkAll(
                "b h -> b | max h | passmax 0", {{"b", 4}, {"h", 4}},
                [](const Arrays &in) -> std::optional<Arrays> {
                  Array y = makeArray({in[0].shape[0]});
                  int64_t h = in[0].shape[1];
                  for (int64_t i = 0; i < in[0].shape[0]; ++i)
                    y.data[i] =
                        *std::max_element(in[0].data.begin() + i * h,
                                          in[0].data.begin() + (i + 1) * h);
                  return Arrays{y};
                },
                Reduction::Max),
            0);
}

TEST(CheckRuleExhaustive, TwoResultsOfANonlinearOp) {
  // x^2 w^2, and the sum over b of x^2 for each h.
  EXPECT_GT(checkAll("b h, h -> b h, h | reduce b", {{"b", 4}, {"h", 4}},
                     [](const Arrays &in) -> std::optional<Arrays> {
                       int64_t h = in[0].shape[1];
                       if (in[1].shape[0] != h)
                         return std::nullopt;
                       Array y = in[0], sum = makeArray({h});
                       for (size_t i = 0; i < y.data.size(); ++i) {
                         int64_t square = y.data[i] * y.data[i];
                         sum.data[i % h] += square;
                         y.data[i] =
                             square * in[1].data[i % h] * in[1].data[i % h];
                       }
                       return Arrays{y, sum};
                     }),
            0);
}

TEST(CheckRuleExhaustive, MergeDims) {
  EXPECT_GT(checkAll("m g -> (m g) | pass 0", {{"m", 2}, {"g", 4}},
                     [](const Arrays &in) -> std::optional<Arrays> {
                       Array y = in[0];
                       y.shape = {in[0].shape[0] * in[0].shape[1]};
                       return Arrays{y};
                     }),
            0);
}

} // namespace
