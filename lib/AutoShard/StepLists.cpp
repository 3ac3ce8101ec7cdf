//===- StepLists.cpp - A step's ops and moves as lists for lib/Streams ----===//
#include "StepLists.h"
#include "cleave/Streams/Order.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using namespace cleave::autoshard;

/// Whether the op stands for a tensor that is somewhere for long, as soon as it
/// is made.
static bool isBehindItsMaker(const PlacedOp &op) {
  return op.keeps == Keeps::Activations || op.keeps == Keeps::Gradients;
}

bool autoshard::isOnce(const PlacedOp &op) { return op.phase == "step"; }

namespace {
class Lister {
public:
  Lister(const ShardingProblem &problem, const ShardingChoice &choice,
         llvm::ArrayRef<Move> moves, const BesideCompute &beside);

  StepLists lists;

private:
  using Places = llvm::SmallVector<std::pair<Placement, int64_t>, 2>;

  void add(size_t number, List &list);
  /// The buffer of a tensor in a placement, which it is moved to if it is not
  /// there yet.
  int64_t find(size_t tensor, const Placement &need, List &list);
  int64_t addStep(Source source, int64_t from, List &list);
  void setPlace(size_t tensor, const Placement &placement, int64_t buffer);
  int64_t getStream(const AxisList &axes);
  int64_t addBuffer(double bytes) {
    lists.bytes.push_back(bytes);
    return int64_t(lists.bytes.size()) - 1;
  }
  /// Whether the op finds its first operand elsewhere than it is made or kept.
  bool isMoved(size_t number) const {
    const PlacedOp &op = problem.ops[number];
    const Strategy &own = op.strategies[choice.strategies[number]];
    return own.placements.operands[0] != choice.placements[op.operands[0]];
  }
  double getBytes(size_t tensor, const Placement &placement) {
    return problem.tensors[tensor].getBytes(problem.mesh, placement);
  }
  /// Whether it takes memory all the time, and not from its maker to its last
  /// reader.
  bool isAlwaysThere(size_t tensor) const {
    const PlacedTensor &placed = problem.tensors[tensor];
    return placed.copies > 0 && !(hasEnd[tensor] && placed.copies == 1);
  }
  /// Of collectives that may begin together.
  int64_t getKind(Step::Kind kind, const AxisList &axes) {
    return kinds.insert({{kind, axes}, int64_t(kinds.size())}).first->second;
  }

  const ShardingProblem &problem;
  const ShardingChoice &choice;
  llvm::ArrayRef<Move> moves;
  const BesideCompute &beside;
  std::vector<llvm::SmallVector<size_t, 2>> movesOf;    ///< by tensor
  std::vector<llvm::SmallVector<size_t, 2>> keptBehind; ///< ops, by tensor
  std::vector<bool> isSum;  ///< by tensor: it is of all micro-batches
  std::vector<bool> hasEnd; ///< by tensor: it is kept, but not all the time
  std::vector<Places> at;   ///< by tensor: where it is, and in which buffer
  std::map<std::pair<Step::Kind, AxisList>, int64_t> kinds;
  std::map<AxisList, int64_t> streams;
};
} // namespace

Lister::Lister(const ShardingProblem &problem, const ShardingChoice &choice,
               llvm::ArrayRef<Move> moves, const BesideCompute &beside)
    : problem(problem), choice(choice), moves(moves), beside(beside),
      movesOf(problem.tensors.size()), keptBehind(problem.tensors.size()),
      isSum(problem.tensors.size()), hasEnd(problem.tensors.size()),
      at(problem.tensors.size()) {
  for (auto [number, move] : llvm::enumerate(moves))
    movesOf[move.tensor].push_back(number);
  for (const PlacedTensor &tensor : problem.tensors)
    lists.microBatches = std::max(lists.microBatches, tensor.moves);
  std::vector<bool> isMade(problem.tensors.size());
  for (const PlacedOp &op : problem.ops)
    for (size_t tensor : op.results)
      isMade[tensor] = true;
  size_t lastInside = 0;
  std::vector<bool> isBehind(problem.ops.size());
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    if (!isOnce(op))
      lastInside = number;
    if (op.keeps == Keeps::Gradients)
      isSum[op.results[0]] = true;
    bool isGone = op.keeps == Keeps::Gradients ||
                  (op.keeps == Keeps::Parameters && isMoved(number));
    if (op.keeps == Keeps::Activations || (isGone && lists.microBatches == 1))
      hasEnd[op.results[0]] = true;
    isBehind[number] = isBehindItsMaker(op) && isMade[op.operands[0]];
    if (isBehind[number])
      keptBehind[op.operands[0]].push_back(number);
  }
  for (auto [number, op] : llvm::enumerate(problem.ops))
    if (!isBehind[number])
      add(number, !isOnce(op)           ? lists.inside
                  : number < lastInside ? lists.before
                                        : lists.update);
}

/// Collectives of one group have a stream, as in a program.
int64_t Lister::getStream(const AxisList &axes) {
  int64_t next = int64_t(streams.size()) + 1;
  return std::min(streams.insert({axes, next}).first->second, maxStreams - 1);
}

void Lister::setPlace(size_t tensor, const Placement &placement,
                      int64_t buffer) {
  for (auto &[known, own] : at[tensor])
    if (known == placement) {
      own = buffer;
      return;
    }
  at[tensor].push_back({placement, buffer});
}

static RowsOperand getAccess(int64_t buffer, bool isWritten) {
  return {buffer, buffer, 0, wholeBuffer, isWritten};
}

int64_t Lister::addStep(Source source, int64_t from, List &list) {
  const Move &move = moves[source.move];
  const MoveStep &step = move.steps[source.step];
  double bytes = getBytes(move.tensor, step.step.after);
  // What is kept for all micro-batches takes memory all the time; of one it is
  // gone behind its last reader.
  double kept = source.step + 1 == move.steps.size()
                    ? problem.tensors[move.tensor].movedTo
                    : 0;
  bool isGone = kept == 1 && lists.microBatches == 1;
  if (isGone)
    lists.keptBytes += bytes;
  int64_t to = addBuffer(kept > 0 && !isGone ? 0 : bytes);
  ListOp each;
  each.source = source;
  each.operands = {getAccess(from, /*isWritten=*/false),
                   getAccess(to, /*isWritten=*/true)};
  OverlapOp &op = each.op;
  op.seconds = step.seconds;
  std::optional<int64_t> level;
  if (step.step.kind != Step::Kind::Slice && beside.getLevel)
    level = beside.getLevel(step.step.axes);
  if (level) {
    each.level = *level;
    op.stream = getStream(step.step.axes);
    op.kind = getKind(step.step.kind, step.step.axes);
    op.skew = problem.getMoveSeconds(problem.tensors[move.tensor]).ofSkew;
    op.seconds -= op.skew;
  }
  op.grows = step.step.kind == Step::Kind::AllGather;
  list.push_back(std::move(each));
  return to;
}

int64_t Lister::find(size_t tensor, const Placement &need, List &list) {
  for (auto &[placement, buffer] : at[tensor])
    if (placement == need)
      return buffer;
  // Of an earlier step, or an input.
  if (at[tensor].empty()) {
    const Placement &placement = choice.placements[tensor];
    at[tensor].push_back(
        {placement,
         addBuffer(isAlwaysThere(tensor) ? 0 : getBytes(tensor, placement))});
  }
  int64_t buffer = at[tensor].front().second;
  List &where = isSum[tensor] ? lists.sums : list;
  for (size_t move : movesOf[tensor])
    if (moves[move].to == need) {
      for (size_t step = 0; step != moves[move].steps.size(); ++step)
        buffer = addStep({Source::none, move, step}, buffer, where);
      at[tensor].push_back({need, buffer});
      break;
    }
  return buffer;
}

void Lister::add(size_t number, List &list) {
  const PlacedOp &placed = problem.ops[number];
  size_t strategy = choice.strategies[number];
  const RulePlacements &placements = placed.strategies[strategy].placements;
  ListOp each;
  each.source.op = number;
  each.op.seconds =
      placed.seconds[strategy] / (isOnce(placed) ? 1 : lists.microBatches);
  for (auto [tensor, need] :
       llvm::zip_equal(placed.operands, placements.operands))
    each.operands.push_back(
        getAccess(find(tensor, need, list), /*isWritten=*/false));
  // What says where a tensor is does nothing itself.
  bool isAlias = each.op.seconds == 0 && each.operands.size() == 1;
  // A sum over what others have is there once all of that is.
  if (placed.operands.empty())
    for (const ListOp &other : list)
      for (const RowsOperand &operand : other.operands)
        if (operand.isWritten)
          each.operands.push_back(
              getAccess(operand.buffer, /*isWritten=*/false));
  for (auto [tensor, made] :
       llvm::zip_equal(placed.results, placements.results)) {
    double bytes = getBytes(tensor, made);
    bool isFused = each.op.seconds == 0 && keptBehind[tensor].empty();
    bool isAlways = isAlwaysThere(tensor);
    int64_t buffer = isAlias ? each.operands[0].buffer
                             : addBuffer(isAlways || isFused ? 0 : bytes);
    if (isAlias && isAlways)
      lists.bytes[size_t(buffer)] = 0;
    if (problem.tensors[tensor].copies > 0 && !isAlways)
      lists.keptBytes += bytes;
    setPlace(tensor, made, buffer);
    if (!isAlias)
      each.operands.push_back(getAccess(buffer, /*isWritten=*/true));
  }
  if (!isAlias)
    list.push_back(std::move(each));
  for (size_t tensor : placed.results)
    for (size_t kept : keptBehind[tensor])
      add(kept, list);
}

StepLists autoshard::listStep(const ShardingProblem &problem,
                              const ShardingChoice &choice,
                              llvm::ArrayRef<Move> moves,
                              const BesideCompute &beside) {
  return std::move(Lister(problem, choice, moves, beside).lists);
}

std::vector<OverlapOp> autoshard::getOverlapOps(llvm::ArrayRef<ListOp> list) {
  std::vector<OverlapOp> ops;
  std::vector<llvm::ArrayRef<RowsOperand>> operands;
  for (const ListOp &each : list) {
    ops.push_back(each.op);
    operands.push_back(each.operands);
  }
  setAccesses(ops, operands);
  return ops;
}
