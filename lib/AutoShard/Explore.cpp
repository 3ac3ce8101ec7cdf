//===- Explore.cpp - A choice of placements as a person reads it ----------===//
#include "cleave/AutoShard/Explore.h"
#include "cleave/AutoShard/Beside.h"
#include "cleave/AutoShard/BytesInUse.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

llvm::StringRef cleave::getName(Keeps keeps) {
  switch (keeps) {
  case Keeps::None:
    return "";
  case Keeps::Parameters:
    return "parameters";
  case Keeps::Gradients:
    return "gradients";
  case Keeps::Optimizer:
    return "optimizer";
  case Keeps::Activations:
    return "activations";
  }
  llvm_unreachable("unknown kind");
}

std::string cleave::describeSplits(const ShardingProblem &problem,
                                   const PlacedOp &op,
                                   const Strategy &strategy) {
  std::string text;
  for (auto [factor, axes] : llvm::enumerate(strategy.axes)) {
    if (axes.empty())
      continue;
    std::string name =
        factor < op.factors.size() ? op.factors[factor] : std::string("dim");
    for (size_t dim = 0; dim != problem.dims.size(); ++dim)
      if (op.dims[factor] >> dim & 1) {
        name = problem.dims[dim];
        break;
      }
    text +=
        (text.empty() ? "" : ", ") + name + " " + problem.mesh.toString(axes);
  }
  return text.empty() ? "nothing" : text;
}

std::string cleave::describeSteps(const Mesh &mesh, const Move &move) {
  std::string text;
  for (const MoveStep &each : move.steps)
    text += (text.empty() ? "" : " + ") + each.step.toString(mesh);
  return text;
}

std::string cleave::getShortName(const PlacedOp &op) {
  std::string name;
  llvm::StringRef rest = op.label.empty() ? op.name : op.label;
  // Without each `layers.N.`, and what stands before the last of them.
  while (true) {
    size_t at = rest.find("layers.");
    llvm::StringRef digits = rest.drop_front(std::min(at, rest.size()));
    if (!digits.consume_front("layers."))
      break;
    llvm::StringRef behind = digits.drop_while(llvm::isDigit);
    if (behind.size() == digits.size() || !behind.consume_front("."))
      break;
    // An update names what it updates.
    llvm::StringRef before = rest.take_front(at);
    name += before.take_front(before.rfind(' ') + 1);
    rest = behind;
  }
  return name + rest.str();
}

/// Bytes of a tensor that is moved there, for as long as it is held so.
static double getHeldBytes(const ShardingProblem &problem, const Move &move) {
  const PlacedTensor &own = problem.tensors[move.tensor];
  return own.movedTo > 0 ? own.movedTo * own.getBytes(problem.mesh, move.to)
                         : 0;
}

/// What a rank keeps, by the ops that say where.
static std::map<Keeps, double> countBytes(const ShardingProblem &problem,
                                          const Exploration &explored) {
  std::map<Keeps, double> bytes;
  std::vector<bool> isCounted(problem.tensors.size());
  auto add = [&](Keeps keeps, size_t tensor) {
    if (isCounted[tensor])
      return;
    isCounted[tensor] = true;
    const PlacedTensor &own = problem.tensors[tensor];
    if (own.copies > 0)
      bytes[keeps] +=
          own.copies *
          own.getBytes(problem.mesh, explored.choice.placements[tensor]);
  };
  for (const PlacedOp &op : problem.ops)
    if (op.keeps != Keeps::None)
      for (size_t tensor : op.results)
        add(op.keeps, tensor);
  for (size_t tensor = 0; tensor != problem.tensors.size(); ++tensor)
    add(Keeps::None, tensor);
  for (const Move &move : explored.moves)
    if (double held = getHeldBytes(problem, move); held > 0)
      bytes[Keeps::Parameters] += held;
  return bytes;
}

/// Of what an op says how long it is kept.
static double getKeptBytes(const ShardingProblem &problem,
                           const Exploration &explored, size_t op) {
  double bytes = 0;
  for (size_t tensor : problem.ops[op].results)
    bytes += problem.tensors[tensor].copies *
             problem.tensors[tensor].getBytes(
                 problem.mesh, explored.choice.placements[tensor]);
  if (problem.ops[op].keeps == Keeps::Parameters)
    for (size_t move : explored.ops[op].moves)
      bytes += getHeldBytes(problem, explored.moves[move]);
  return bytes;
}

/// Of an op, and of the moves that it is the first to need.
static double getOpSeconds(const Exploration &explored, size_t op) {
  double seconds = explored.ops[op].seconds;
  for (size_t move : explored.ops[op].moves)
    seconds += explored.moves[move].getSeconds();
  return seconds;
}

/// Everything that a layer's op says, but for which layer it is of.
static std::string getSignature(const ShardingProblem &problem,
                                const Exploration &explored, size_t op) {
  const ExploredOp &own = explored.ops[op];
  std::string text = llvm::formatv(
      "{0}|{1}|{2}|{3}|{4:e9}|{5:e9}", getShortName(problem.ops[op]),
      problem.ops[op].phase, own.splits, own.placement,
      getOpSeconds(explored, op), getKeptBytes(problem, explored, op));
  for (size_t move : own.moves)
    text += "|" + describeSteps(problem.mesh, explored.moves[move]);
  return text;
}

static std::vector<LayerKind> findKinds(const ShardingProblem &problem,
                                        const Exploration &explored) {
  std::map<int64_t, std::vector<size_t>> layers;
  for (auto [number, op] : llvm::enumerate(problem.ops))
    layers[op.layer].push_back(number);
  std::vector<LayerKind> kinds;
  std::vector<std::string> last;
  for (auto &[layer, ops] : layers) {
    std::vector<std::string> own;
    for (size_t op : ops)
      own.push_back(getSignature(problem, explored, op));
    if (layer > 0 && own == last && kinds.back().last == layer - 1) {
      kinds.back().last = layer;
      continue;
    }
    kinds.push_back({layer, layer, std::move(ops)});
    last = std::move(own);
  }
  return kinds;
}

Exploration cleave::explore(const ShardingProblem &problem,
                            ShardingChoice choice, CollectivePricer price,
                            const BesideCompute &beside) {
  Exploration explored;
  explored.choice = std::move(choice);
  explored.moves = getMoves(problem, explored.choice, price);
  explored.choice.besideSeconds = explored.choice.seconds;
  for (Move &move : explored.moves)
    for (MoveStep &step : move.steps)
      step.exposed = move.times * step.seconds;
  if (beside.mayHide())
    explored.choice.besideSeconds =
        timeBeside(problem, explored.choice, explored.moves, price, beside);
  explored.totals = getTotals(explored.moves);
  for (auto [op, number] :
       llvm::zip_equal(problem.ops, explored.choice.strategies)) {
    const Strategy &strategy = op.strategies[number];
    const RulePlacements &placements = strategy.placements;
    ExploredOp own;
    own.splits = describeSplits(problem, op, strategy);
    own.placement =
        (placements.results.empty() ? placements.operands : placements.results)
            .front()
            .toString(problem.mesh);
    own.seconds = op.seconds[number];
    explored.compute += own.seconds;
    explored.ops.push_back(std::move(own));
  }
  for (auto [number, move] : llvm::enumerate(explored.moves))
    explored.ops[move.ops.front()].moves.push_back(number);
  explored.kinds = findKinds(problem, explored);
  explored.bytes = countBytes(problem, explored);
  explored.bytesInUse = getBytesInUse(problem, explored.choice, explored.moves);
  return explored;
}

double NamedStrategy::getKeptBytes(size_t op) const {
  return ::getKeptBytes(problem, explored, op);
}

double NamedStrategy::getSeconds(size_t op) const {
  return getOpSeconds(explored, op);
}

std::string NamedStrategy::describeMoves(size_t op) const {
  std::string text;
  for (size_t number : explored.ops[op].moves) {
    const Move &move = explored.moves[number];
    double bytes = 0;
    for (const MoveStep &each : move.steps)
      bytes = std::max(bytes, each.bytes);
    text += (text.empty() ? "" : "; ") + describeSteps(problem.mesh, move);
    // A cut takes no time.
    if (double seconds = move.getSeconds(); seconds > 0)
      text +=
          llvm::formatv(": {0:F2} MB, {1:F1} us", bytes * 1e-6, seconds * 1e6)
              .str();
  }
  return text;
}

std::string cleave::describeLayers(const LayerKind &kind) {
  if (kind.first < 0)
    return "outside of the layers";
  return kind.first == kind.last
             ? llvm::formatv("layer {0}", kind.first).str()
             : llvm::formatv("layers {0}-{1}, each", kind.first, kind.last)
                   .str();
}
