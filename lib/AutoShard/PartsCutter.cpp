//===- PartsCutter.cpp - Products and collectives in parts ----------------===//
//
// As passes/Overlap does with a program's instructions: a collective that
// compute waits for is looked at with the ops around it, and of several numbers
// of parts that one is taken which takes the least time there.
//
//===----------------------------------------------------------------------===//
#include "StepLists.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>
#include <deque>

using namespace cleave;
using namespace cleave::autoshard;
using llvm::ArrayRef;

namespace {
/// Ops of a list, and which of them have rows.
class ListWindow : public Window {
public:
  ListWindow(const ShardingProblem &problem, const ShardingChoice &choice,
             ArrayRef<Move> moves, ArrayRef<ListOp> list)
      : Window(getOperands(list)), problem(problem), choice(choice),
        moves(moves), list(list) {}

private:
  static std::vector<RowsOperands> getOperands(ArrayRef<ListOp> list) {
    std::vector<RowsOperands> all;
    for (const ListOp &each : list)
      all.push_back(each.operands);
    return all;
  }
  std::optional<Shares> computeShares(size_t i, int64_t parts) const override;

  const ShardingProblem &problem;
  const ShardingChoice &choice;
  ArrayRef<Move> moves;
  ArrayRef<ListOp> list;
};
} // namespace

/// Parts that can be had one by one of a tensor of this shape: rows of all dims
/// but the last.
static int64_t countParts(ArrayRef<int64_t> shape) {
  return countRows(shape, std::max<size_t>(shape.size(), 1) - 1);
}

static int64_t countParts(const ShardingProblem &problem, const Move &move,
                          const Step &step) {
  llvm::SmallVector<int64_t, 4> shape = step.after.getLocalShape(
      problem.mesh, problem.tensors[move.tensor].shape);
  switch (step.kind) {
  case Step::Kind::AllReduce:
    return countParts(shape);
  case Step::Kind::AllGather:
  case Step::Kind::ReduceScatter: {
    size_t dim(step.dim);
    bool gathers = step.kind == Step::Kind::AllGather;
    if (gathers)
      shape[dim] /= problem.mesh.getSize(step.axes);
    int64_t rows = countRows(shape, dim);
    // What other axes split as well has no blocks.
    bool isWhole =
        step.after.dims[dim].size() == (gathers ? 0 : step.axes.size());
    return isWhole ? rows * countBlocks(shape, dim) : rows;
  }
  default:
    return 1;
  }
}

static int64_t countParts(const ShardingProblem &problem,
                          const ShardingChoice &choice, size_t number) {
  const PlacedOp &op = problem.ops[number];
  if (op.rowsOf == 0)
    return 1;
  const Placement &made =
      op.strategies[choice.strategies[number]].placements.results[0];
  return countParts(
      made.getLocalShape(problem.mesh, problem.tensors[op.results[0]].shape));
}

/// Whether a part of the op has its own part of operand `k`.
static bool hasPart(const ShardingProblem &problem, const ListOp &op,
                    size_t k) {
  return op.source.move != Source::none || op.operands[k].isWritten ||
         (k < 32 && (problem.ops[op.source.op].rowsOf >> k & 1));
}

std::optional<Shares> ListWindow::computeShares(size_t i, int64_t parts) const {
  const ListOp &each = list[i];
  const Source &source = each.source;
  bool isMove = source.move != Source::none;
  int64_t rows = isMove ? countParts(problem, moves[source.move],
                                     moves[source.move].steps[source.step].step)
                        : countParts(problem, choice, source.op);
  // A part is not cut again.
  if (source.parts > 1 || rows == 1 || rows % parts != 0)
    return std::nullopt;
  Shares shares;
  for (size_t k = 0; k != each.operands.size(); ++k)
    shares.push_back(hasPart(problem, each, k) ? Share::Part : Share::Whole);
  return shares;
}

/// All that the choice of a window depends on, but for the numbers of its
/// buffers.
PartsCutter::Key PartsCutter::getKey(ArrayRef<ListOp> window,
                                     size_t middle) const {
  Key key = {middle};
  auto addReal = [&](double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    key.push_back(bits);
  };
  std::map<int64_t, uint64_t> buffers;
  for (const ListOp &each : window) {
    const Source &source = each.source;
    addReal(each.op.seconds);
    addReal(each.op.skew);
    key.push_back(uint64_t(each.op.stream));
    key.push_back(uint64_t(source.parts) << 1 | uint64_t(each.op.grows));
    if (source.move != Source::none) {
      const MoveStep &step = moves[source.move].steps[source.step];
      key.push_back(uint64_t(step.step.kind));
      key.push_back(
          uint64_t(countParts(problem, moves[source.move], step.step)));
      addReal(step.input);
    } else {
      const PlacedOp &op = problem.ops[source.op];
      // Equal ops share their strategies.
      key.push_back(reinterpret_cast<uintptr_t>(
          &op.strategies[choice.strategies[source.op]]));
      key.push_back(uint64_t(countParts(problem, choice, source.op)));
      key.push_back(op.rowsOf);
    }
    for (const RowsOperand &operand : each.operands) {
      uint64_t number =
          buffers.insert({operand.buffer, buffers.size()}).first->second;
      key.push_back(number << 9 | uint64_t(operand.begin) << 5 |
                    uint64_t(operand.end) << 1 | uint64_t(operand.isWritten));
    }
  }
  return key;
}

ListOp PartsCutter::makePart(const ListOp &whole, int64_t parts,
                             int64_t number) const {
  ListOp part = whole;
  Source &source = part.source;
  source.parts = parts;
  if (source.move != Source::none) {
    const MoveStep &step = moves[source.move].steps[source.step];
    part.op.seconds =
        price(step.step.kind, step.step.axes, step.input / double(parts));
  } else {
    const PlacedOp &op = problem.ops[source.op];
    double longer =
        op.isProduct && op.getLonger
            ? op.getLonger(op.strategies[choice.strategies[source.op]], parts)
            : 0;
    part.op.seconds = (whole.op.seconds + longer) / double(parts);
  }
  int64_t size = wholeBuffer / parts;
  for (auto [k, operand] : llvm::enumerate(part.operands))
    if (hasPart(problem, whole, k)) {
      operand.begin = number * size;
      operand.end = operand.begin + size;
    }
  return part;
}

List PartsCutter::build(ArrayRef<ListOp> window, const Cut &cut) const {
  List list;
  double longer = 0;
  llvm::SmallVector<size_t> moved;
  for (PartOf each : cut.order) {
    const ListOp &op = window[each.op];
    if (each.number < 0) {
      list.push_back(op);
      continue;
    }
    list.push_back(makePart(op, cut.parts, each.number));
    if (op.source.move != Source::none)
      moved.push_back(list.size() - 1);
    else
      longer += list.back().op.seconds - op.op.seconds / double(cut.parts);
  }
  for (size_t i : moved)
    list[i].source.longer = longer / double(moved.size());
  return list;
}

PartsCutter::Cut PartsCutter::choose(ArrayRef<ListOp> window,
                                     size_t middle) const {
  std::vector<RowsKind> kinds;
  std::vector<int64_t> streams;
  for (const ListOp &each : window) {
    bool isOp = each.source.op != Source::none;
    kinds.push_back(!isOp                                   ? RowsKind::Other
                    : problem.ops[each.source.op].isProduct ? RowsKind::Product
                                                            : RowsKind::Memory);
    streams.push_back(each.op.stream);
  }
  ListWindow rows(problem, choice, moves, window);
  Surroundings around(rows, middle, std::move(kinds), std::move(streams));
  Cut best;
  WindowTime least;
  llvm::SmallVector<size_t> replaced;
  for (int64_t parts : partCounts) {
    llvm::SmallVector<size_t> members = around.findMembers(parts);
    if (members.size() < 2)
      continue;
    std::optional<std::vector<PartOf>> order = around.cut(members, parts);
    if (!order)
      continue;
    Cut cut{parts, std::move(*order)};
    WindowTime time =
        WindowTime::measure(getOverlapOps(build(window, cut)),
                            [&](size_t i) { return cut.order[i].number >= 0; });
    if (best.parts > 1 && least.seconds <= time.seconds)
      continue;
    best = std::move(cut);
    least = time;
    replaced = std::move(members);
  }
  if (best.parts == 1)
    return best;
  WindowTime whole = WindowTime::measure(getOverlapOps(window), [&](size_t i) {
    return llvm::is_contained(replaced, i);
  });
  return whole.isWorth(least) ? best : Cut();
}

List PartsCutter::cut(List list) {
  std::vector<OverlapOp> ops = getOverlapOps(list);
  OverlapResult result = overlap(ops);
  // Ops keep their numbers; those of parts come behind all.
  std::vector<size_t> order(list.size()), waited;
  for (size_t i = 0; i != list.size(); ++i) {
    order[i] = i;
    if (ops[i].stream > 0 &&
        result.waited[i] > leastSavedByParts * ops[i].seconds)
      waited.push_back(i);
  }
  std::deque<ListOp> all(std::make_move_iterator(list.begin()),
                         std::make_move_iterator(list.end()));
  for (size_t number : waited) {
    // One that is cut takes others with it.
    auto at = llvm::find(order, number);
    if (at == order.end())
      continue;
    size_t place = size_t(at - order.begin());
    size_t first = place - std::min(place, partsReach);
    size_t last = std::min(order.size(), place + partsReach + 1);
    List window;
    for (size_t i = first; i != last; ++i)
      window.push_back(all[order[i]]);
    auto [found, isNew] = known.try_emplace(getKey(window, place - first));
    if (isNew)
      found->second = choose(window, place - first);
    const Cut &cut = found->second;
    if (cut.parts == 1)
      continue;
    std::vector<size_t> replacing;
    for (auto [i, each] : llvm::enumerate(build(window, cut))) {
      if (cut.order[i].number < 0) {
        replacing.push_back(order[first + cut.order[i].op]);
        continue;
      }
      replacing.push_back(all.size());
      all.push_back(std::move(each));
    }
    order.erase(order.begin() + ptrdiff_t(first),
                order.begin() + ptrdiff_t(last));
    order.insert(order.begin() + ptrdiff_t(first), replacing.begin(),
                 replacing.end());
  }
  List cut;
  for (size_t i : order)
    cut.push_back(std::move(all[i]));
  return cut;
}
