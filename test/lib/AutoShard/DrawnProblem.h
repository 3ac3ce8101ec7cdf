//===- DrawnProblem.h - Random problems of placements for tests -----------===//
#ifndef CLEAVE_TEST_LIB_AUTOSHARD_DRAWNPROBLEM_H
#define CLEAVE_TEST_LIB_AUTOSHARD_DRAWNPROBLEM_H

#include "cleave/AutoShard/Choose.h"
#include <random>

namespace cleave {

using Random = std::mt19937;

inline int64_t pick(Random &random, llvm::ArrayRef<int64_t> from) {
  return from[random() % from.size()];
}

/// Seconds of collectives: so many of each, and for each byte.
struct Prices {
  double latency[5], perByte[5];

  static Prices draw(Random &random) {
    Prices prices;
    for (int kind = 0; kind != 5; ++kind) {
      prices.latency[kind] = double(random() % 8);
      prices.perByte[kind] = double(random() % 8) / 4;
    }
    return prices;
  }
  double operator()(Step::Kind kind, llvm::ArrayRef<Axis> axes,
                    double bytes) const {
    return latency[int(kind)] +
           perByte[int(kind)] * bytes * double(axes.size());
  }
};

/// Adds an op in all its strategies; a rank takes longer the more it has.
inline void addOp(ShardingProblem &problem, const ShardingRule &rule,
                  llvm::ArrayRef<size_t> operands,
                  llvm::ArrayRef<size_t> results, double seconds) {
  PlacedOp op;
  op.operands.assign(operands.begin(), operands.end());
  op.results.assign(results.begin(), results.end());
  op.strategies = getStrategies(problem.mesh, rule);
  for (const Strategy &strategy : op.strategies) {
    int64_t ways = 1;
    for (const AxisList &axes : strategy.axes)
      ways *= problem.mesh.getSize(axes);
    op.seconds.push_back(seconds / double(ways));
  }
  op.name = "op " + std::to_string(problem.ops.size());
  problem.ops.push_back(std::move(op));
}

/// Letters of a rule's factors, with their sizes.
struct Letters {
  std::vector<int64_t> sizes;
  static std::string getName(size_t letter) {
    return std::string(1, char('a' + letter));
  }
};

/// A graph of a few ops: products that sum, elementwise ops that let partial
/// values pass, broadcasts, and factors that must be whole. Tensors are of
/// letters, so that any two of an op agree in their sizes. If `fans`, the first
/// op's result is what all others read.
inline ShardingProblem draw(Random &random, size_t mostOps = 3,
                            bool fans = false) {
  ShardingProblem problem;
  std::vector<MeshAxis> axes;
  static const char *const names[] = {"x", "y", "z"};
  size_t numAxes = 1 + random() % 3;
  for (size_t i = 0; i != numAxes; ++i)
    axes.push_back({names[i], pick(random, {2, 2, 3})});
  problem.mesh = Mesh(axes);
  Letters letters;
  for (int i = 0; i != 4; ++i)
    letters.sizes.push_back(pick(random, {1, 2, 4, 6, 12}));
  std::vector<std::vector<size_t>> dims; // letters of each tensor
  auto addTensor = [&](std::vector<size_t> of, bool isInput) {
    PlacedTensor tensor;
    for (size_t letter : of)
      tensor.shape.push_back(letters.sizes[letter]);
    tensor.elementBytes = pick(random, {2, 4});
    tensor.moves = double(pick(random, {1, 1, 3}));
    tensor.copies = double(pick(random, {0, 1, 2}));
    tensor.movedTo = double(pick(random, {0, 0, 1}));
    if (isInput) {
      tensor.allowed = getWholePlacements(problem.mesh, tensor.shape);
      if (random() % 2)
        tensor.allowed = {tensor.allowed[random() % tensor.allowed.size()]};
    }
    problem.tensors.push_back(std::move(tensor));
    dims.push_back(std::move(of));
    return dims.size() - 1;
  };
  auto drawLetters = [&](size_t most) {
    std::vector<size_t> of;
    for (size_t letter = 0; letter != letters.sizes.size(); ++letter)
      if (random() % 2 && of.size() < most)
        of.push_back(letter);
    return of;
  };
  auto spell = [](const std::vector<size_t> &of) {
    std::string text;
    for (size_t letter : of)
      text += (text.empty() ? "" : " ") + Letters::getName(letter);
    return text.empty() ? "." : text;
  };
  addTensor(drawLetters(3), true);
  size_t ops = 1 + random() % mostOps;
  for (size_t i = 0; i != ops; ++i) {
    std::vector<size_t> operands;
    size_t count = 1 + random() % 2;
    if (fans && i > 0)
      operands.push_back(problem.ops[0].results[0]);
    for (size_t k = operands.size(); k < count; ++k)
      operands.push_back(random() % 4 ? random() % dims.size()
                                      : addTensor(drawLetters(2), true));
    std::vector<size_t> all;
    for (size_t operand : operands)
      for (size_t letter : dims[operand])
        if (!llvm::is_contained(all, letter))
          all.push_back(letter);
    std::vector<size_t> kept;
    for (size_t letter : all)
      if (random() % 4)
        kept.push_back(letter);
    std::string text;
    for (size_t operand : operands)
      text += (text.empty() ? "" : ", ") + spell(dims[operand]);
    text += " -> " + spell(kept);
    std::string reduced;
    for (size_t letter : all)
      if (!llvm::is_contained(kept, letter))
        reduced += " " + Letters::getName(letter);
    bool isMax = random() % 5 == 0;
    if (!reduced.empty())
      text += (isMax ? " | max" : " | reduce") + reduced;
    std::string pass = isMax ? " | passmax" : " | pass";
    if (random() % 2)
      text += operands.size() == 2 && random() % 2 ? pass + " 0 1"
              : operands.size() == 2               ? pass + " 0" + pass + " 1"
                                                   : pass + " 0";
    if (!kept.empty() && random() % 4 == 0)
      text += " | block " + Letters::getName(kept[random() % kept.size()]) +
              " : it is whole";
    std::vector<std::pair<std::string, int64_t>> sizes;
    for (size_t letter : all)
      sizes.push_back({Letters::getName(letter), letters.sizes[letter]});
    std::vector<std::pair<llvm::StringRef, int64_t>> views(sizes.begin(),
                                                           sizes.end());
    size_t result = addTensor(kept, false);
    addOp(problem, llvm::cantFail(ShardingRule::parse(text, views)), operands,
          {result}, double(random() % 64));
  }
  return problem;
}

} // namespace cleave

#endif // CLEAVE_TEST_LIB_AUTOSHARD_DRAWNPROBLEM_H
