//===- Beside.cpp - What a choice takes where collectives run aside -------===//
//
// A step of the problem's ops becomes lists of ops for lib/Streams: what is
// done once before the micro-batches, a micro-batch, what is moved of its sums,
// and the update, for which all streams are waited for. A move stands before
// the first op that needs it, but behind the op that makes its tensor where it
// is kept or summed from there on.
//
//===----------------------------------------------------------------------===//
#include "cleave/AutoShard/Beside.h"
#include "cleave/Cost/ProductParts.h"
#include "cleave/Reshard/Price.h"
#include "cleave/Streams/Order.h"
#include "cleave/Streams/Overlap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace cleave;

namespace {

constexpr size_t none = ~size_t(0);

/// Whether the op stands for a tensor that is somewhere for long, as soon as it
/// is made.
bool isBehindItsMaker(const PlacedOp &op) {
  return op.keeps == Keeps::Activations || op.keeps == Keeps::Gradients;
}

bool isOnce(const PlacedOp &op) { return op.phase == "step"; }

/// What an op of a list stands for.
struct Source {
  size_t op = none;   ///< of the problem, or
  size_t move = none; ///< one of the moves,
  size_t step = 0;    ///< and of which step
  /// Of a move: what it takes longer in the rank's own stream.
  double skew = 0;
};

struct List {
  std::vector<OverlapOp> ops;
  std::vector<Source> sources; ///< by op

  void append(const List &other) {
    llvm::append_range(ops, other.ops);
    llvm::append_range(sources, other.sources);
  }
};

class Lister {
public:
  Lister(const ShardingProblem &problem, const ShardingChoice &choice,
         llvm::ArrayRef<Move> moves, const BesideCompute &beside);

  List before, inside, sums, update;
  double microBatches = 1;

private:
  using Places = llvm::SmallVector<std::pair<Placement, int64_t>, 2>;

  void add(size_t number, List &list);
  /// The buffer of a tensor in a placement, which it is moved to if it is not
  /// there yet.
  int64_t find(size_t tensor, const Placement &need, List &list);
  int64_t addStep(Source source, int64_t from, List &list);
  void setPlace(size_t tensor, const Placement &placement, int64_t buffer);
  int64_t getStream(llvm::ArrayRef<Axis> axes);
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
  std::vector<bool> isSum; ///< by tensor: it is of all micro-batches
  std::vector<Places> at;  ///< by tensor: where it is, and in which buffer
  std::map<std::pair<Step::Kind, AxisList>, int64_t> kinds;
  int64_t numBuffers = 0;
};

/// What is waited for between products of a list, if these are in parts.
class Parts {
public:
  Parts(const ShardingProblem &problem, const ShardingChoice &choice,
        llvm::ArrayRef<Move> moves, CollectivePricer price, const List &list)
      : problem(problem), choice(choice), moves(moves), price(price),
        list(list) {}

  /// What comes of a collective in parts.
  struct Cut {
    double waited = 0; ///< seconds, and those that parts take longer
    double hidden = 0; ///< seconds of communication beside compute
  };
  /// Of a list's op, if `waited` is waited for where it is whole.
  Cut cut(size_t number, double waited) const;

private:
  using Buffers = llvm::SmallDenseSet<int64_t, 16>;
  static constexpr size_t reach = partsReach;

  /// Whether the op's rows are of those of that buffer.
  bool isRowsOf(size_t number, int64_t buffer) const;
  /// What is in parts: its seconds, and which products there are.
  struct Side {
    double seconds = 0;
    llvm::SmallVector<size_t, 4> products; ///< ops of the problem
  };
  double getLonger(const Side &side, int64_t count) const;
  void add(size_t number, Side &side) const;
  Side getBefore(size_t number) const;
  Side getBehind(size_t number) const;
  int64_t countRows(const Source &source) const;

  const ShardingProblem &problem;
  const ShardingChoice &choice;
  llvm::ArrayRef<Move> moves;
  CollectivePricer price;
  const List &list;
};

} // namespace

//===----------------------------------------------------------------------===//
// Ops of streams
//===----------------------------------------------------------------------===//

Lister::Lister(const ShardingProblem &problem, const ShardingChoice &choice,
               llvm::ArrayRef<Move> moves, const BesideCompute &beside)
    : problem(problem), choice(choice), moves(moves), beside(beside),
      movesOf(problem.tensors.size()), keptBehind(problem.tensors.size()),
      isSum(problem.tensors.size()), at(problem.tensors.size()) {
  for (auto [number, move] : llvm::enumerate(moves))
    movesOf[move.tensor].push_back(number);
  for (const PlacedTensor &tensor : problem.tensors)
    microBatches = std::max(microBatches, tensor.moves);
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
    isBehind[number] = isBehindItsMaker(op) && isMade[op.operands[0]];
    if (isBehind[number])
      keptBehind[op.operands[0]].push_back(number);
  }
  for (auto [number, op] : llvm::enumerate(problem.ops))
    if (!isBehind[number])
      add(number, !isOnce(op) ? inside : number < lastInside ? before : update);
}

/// What shares a level of the network does one after the other, which takes as
/// long, whatever the streams are.
int64_t Lister::getStream(llvm::ArrayRef<Axis> axes) {
  std::optional<int64_t> level =
      beside.getLevel ? beside.getLevel(axes) : std::nullopt;
  return level ? std::min(*level + 1, maxStreams - 1) : 0;
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

int64_t Lister::addStep(Source source, int64_t from, List &list) {
  const MoveStep &step = moves[source.move].steps[source.step];
  OverlapOp op;
  op.seconds = step.seconds;
  if (step.step.kind != Step::Kind::Slice)
    op.stream = getStream(step.step.axes);
  if (op.stream > 0) {
    op.kind = getKind(step.step.kind, step.step.axes);
    // In a stream of its own nothing waits for the last of the ranks.
    const PlacedTensor &tensor = problem.tensors[moves[source.move].tensor];
    source.skew = problem.getMoveSeconds(tensor).ofSkew;
    op.seconds -= source.skew;
  }
  op.grows = step.step.kind == Step::Kind::AllGather;
  op.reads = {from};
  op.writes = {numBuffers};
  list.ops.push_back(std::move(op));
  list.sources.push_back(source);
  return numBuffers++;
}

int64_t Lister::find(size_t tensor, const Placement &need, List &list) {
  for (auto &[placement, buffer] : at[tensor])
    if (placement == need)
      return buffer;
  // Of an earlier step, or an input.
  if (at[tensor].empty())
    at[tensor].push_back({choice.placements[tensor], numBuffers++});
  int64_t buffer = at[tensor].front().second;
  List &where = isSum[tensor] ? sums : list;
  for (size_t move : movesOf[tensor])
    if (moves[move].to == need) {
      for (size_t step = 0; step != moves[move].steps.size(); ++step)
        buffer = addStep({none, move, step}, buffer, where);
      at[tensor].push_back({need, buffer});
      break;
    }
  return buffer;
}

void Lister::add(size_t number, List &list) {
  const PlacedOp &placed = problem.ops[number];
  size_t strategy = choice.strategies[number];
  const RulePlacements &placements = placed.strategies[strategy].placements;
  OverlapOp op;
  op.seconds = placed.seconds[strategy] / (isOnce(placed) ? 1 : microBatches);
  for (auto [tensor, need] :
       llvm::zip_equal(placed.operands, placements.operands))
    op.reads.push_back(find(tensor, need, list));
  // What says where a tensor is does nothing itself.
  bool isAlias = op.seconds == 0 && op.reads.size() == 1;
  // A sum over what others have is there once all of that is.
  if (placed.operands.empty())
    for (const OverlapOp &other : list.ops)
      llvm::append_range(op.reads, other.writes);
  for (auto [tensor, made] :
       llvm::zip_equal(placed.results, placements.results)) {
    int64_t buffer = isAlias ? op.reads[0] : numBuffers++;
    setPlace(tensor, made, buffer);
    if (!isAlias)
      op.writes.push_back(buffer);
  }
  if (!isAlias) {
    list.ops.push_back(std::move(op));
    list.sources.push_back({number});
  }
  for (size_t tensor : placed.results)
    for (size_t kept : keptBehind[tensor])
      add(kept, list);
}

//===----------------------------------------------------------------------===//
// Products in parts
//===----------------------------------------------------------------------===//

bool Parts::isRowsOf(size_t number, int64_t buffer) const {
  size_t op = list.sources[number].op;
  if (op == none)
    return false;
  for (auto [i, read] : llvm::enumerate(list.ops[number].reads))
    if (read == buffer && i < 32 && (problem.ops[op].rowsOf >> i & 1))
      return true;
  return false;
}

void Parts::add(size_t number, Side &side) const {
  side.seconds += list.ops[number].seconds;
  if (size_t op = list.sources[number].op; problem.ops[op].isProduct)
    side.products.push_back(op);
}

/// Seconds that products take longer in so many parts.
double Parts::getLonger(const Side &side, int64_t count) const {
  double longer = 0;
  for (size_t number : side.products)
    if (const PlacedOp &op = problem.ops[number]; op.getLonger)
      longer += op.getLonger(op.strategies[choice.strategies[number]], count);
  return longer;
}

/// What makes the rows that are moved, up to products; but for what
/// these products need.
Parts::Side Parts::getBefore(size_t number) const {
  Buffers rows, blocked;
  rows.insert_range(list.ops[number].reads);
  Side side;
  for (size_t i = number; i-- > number - std::min(number, reach);) {
    const OverlapOp &op = list.ops[i];
    auto writes = [&](const Buffers &buffers) {
      return llvm::any_of(op.writes,
                          [&](int64_t each) { return buffers.contains(each); });
    };
    size_t placed = list.sources[i].op;
    bool isNeeded = writes(blocked) || writes(rows);
    bool isPart = isNeeded && !writes(blocked) && placed != none &&
                  problem.ops[placed].rowsOf != 0;
    if (isPart)
      add(i, side);
    if (isNeeded && (!isPart || problem.ops[placed].isProduct))
      blocked.insert_range(op.reads);
    else if (isPart)
      for (int64_t read : op.reads)
        if (isRowsOf(i, read))
          rows.insert(read);
  }
  return side;
}

/// What uses them, likewise.
Parts::Side Parts::getBehind(size_t number) const {
  Buffers rows, blocked;
  rows.insert_range(list.ops[number].writes);
  Side side;
  for (size_t i = number + 1; i < std::min(list.ops.size(), number + 1 + reach);
       ++i) {
    const OverlapOp &op = list.ops[i];
    auto reads = [&](const Buffers &buffers) {
      return llvm::any_of(op.reads,
                          [&](int64_t each) { return buffers.contains(each); });
    };
    bool isUser = reads(blocked) || reads(rows);
    size_t placed = list.sources[i].op;
    // What reads a row elsewhere than in its own waits for all of them.
    bool isPart =
        isUser && !reads(blocked) && llvm::all_of(op.reads, [&](int64_t each) {
          return !rows.contains(each) || isRowsOf(i, each);
        });
    if (isPart)
      add(i, side);
    if (isUser && (!isPart || problem.ops[placed].isProduct))
      blocked.insert_range(op.writes);
    else if (isPart)
      rows.insert_range(op.writes);
  }
  return side;
}

/// Parts of as many rows can be moved one by one.
int64_t Parts::countRows(const Source &source) const {
  const Move &move = moves[source.move];
  const MoveStep &step = move.steps[source.step];
  unsigned dims = 0;
  switch (step.step.kind) {
  case Step::Kind::AllReduce:
    dims = std::max<unsigned>(step.step.after.dims.size(), 1) - 1;
    break;
  case Step::Kind::AllGather:
  case Step::Kind::ReduceScatter:
    dims = step.step.dim;
    break;
  default:
    return 1;
  }
  llvm::SmallVector<int64_t, 4> local = step.step.after.getLocalShape(
      problem.mesh, problem.tensors[move.tensor].shape);
  int64_t rows = 1;
  for (unsigned dim = 0; dim < dims; ++dim)
    rows *= local[dim];
  return rows;
}

Parts::Cut Parts::cut(size_t number, double waited) const {
  const Source &source = list.sources[number];
  const MoveStep &step = moves[source.move].steps[source.step];
  Cut best{waited, 0};
  int64_t rows = countRows(source);
  if (rows == 1)
    return best;
  Side before = getBefore(number), behind = getBehind(number);
  ProductParts parts;
  parts.beside = list.ops[number].seconds - waited;
  for (int64_t count : partCounts) {
    if (rows % count != 0)
      break;
    parts.count = count;
    double longerBefore = getLonger(before, count),
           longerBehind = getLonger(behind, count);
    parts.before = before.seconds + longerBefore;
    parts.after = behind.seconds + longerBehind;
    parts.communication = double(count) * price(step.step.kind, step.step.axes,
                                                step.input / double(count));
    double exposed = parts.getExposed();
    double all = exposed + longerBefore + longerBehind;
    if (all < best.waited)
      best = {all, parts.communication - exposed};
  }
  bool isWorth =
      waited - best.waited >= leastSavedByParts * list.ops[number].seconds;
  return isWorth ? best : Cut{waited, 0};
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

BesideCompute cleave::getBesideCompute(const Mesh &mesh, const Machine &machine,
                                       const Profile &profile,
                                       llvm::StringRef mode) {
  BesideCompute beside;
  beside.slowdown =
      getCommunicationShare(&machine.device, profile.overlapSlowdown);
  bool onlyBetweenNodes = mode == "auto" && machine.device.cores > 0;
  if (mode != "never")
    beside.getLevel = [&mesh, &machine, onlyBetweenNodes](
                          llvm::ArrayRef<Axis> axes) -> std::optional<int64_t> {
      if (onlyBetweenNodes && !leavesNode(mesh, machine, axes))
        return std::nullopt;
      return getLevel(mesh, machine, axes);
    };
  return beside;
}

namespace {
/// Adds up the lists of a step.
class Timer {
public:
  Timer(const ShardingProblem &problem, const ShardingChoice &choice,
        llvm::MutableArrayRef<Move> moves, CollectivePricer price,
        const BesideCompute &beside)
      : problem(problem), choice(choice), moves(moves), price(price),
        beside(beside) {
    for (Move &move : moves)
      for (MoveStep &step : move.steps)
        step.exposed = 0;
  }

  void add(List list, double times);

  double seconds = 0;

private:
  MoveStep &getStep(const Source &source) const {
    return moves[source.move].steps[source.step];
  }
  double getLost(const OverlapResult &result) const;
  double slowDown(List &list) const;
  double priceBucket(const List &list, llvm::ArrayRef<int64_t> bucket) const;

  const ShardingProblem &problem;
  const ShardingChoice &choice;
  llvm::MutableArrayRef<Move> moves;
  CollectivePricer price;
  const BesideCompute &beside;
};
} // namespace

double Timer::priceBucket(const List &list,
                          llvm::ArrayRef<int64_t> bucket) const {
  double input = 0;
  for (int64_t op : bucket)
    input += getStep(list.sources[size_t(op)]).input;
  const Step &first = getStep(list.sources[size_t(bucket.front())]).step;
  return price(first.kind, first.axes, input);
}

/// What compute loses to what is beside it.
double Timer::getLost(const OverlapResult &result) const {
  double waited = result.seconds - result.compute;
  return beside.slowdown * std::max(0., result.communication - waited);
}

/// Compute takes longer by what it loses to what is beside it, if that is about
/// as much as where it did not. Returns how much.
double Timer::slowDown(List &list) const {
  OverlapResult result = overlap(list.ops);
  double lost = getLost(result);
  if (lost == 0)
    return 0;
  for (auto [op, source] : llvm::zip_equal(list.ops, list.sources))
    if (source.op != none)
      op.seconds *= 1 + lost / result.compute;
  return lost;
}

void Timer::add(List list, double times) {
  if (times <= 0 || list.ops.empty())
    return;
  double lost = slowDown(list), aside = 0;
  for (const OverlapOp &op : list.ops)
    aside += op.stream > 0 ? op.seconds : 0;
  OverlapResult result =
      overlapInBuckets(list.ops, [&](llvm::ArrayRef<int64_t> bucket) {
        return priceBucket(list, bucket);
      });
  Parts parts(problem, choice, moves, price, list);
  double sum = result.seconds - lost;
  // What begins together takes less, and so compute loses less to it.
  lost = getLost(result);
  sum += lost;
  for (auto [number, op] : llvm::enumerate(list.ops)) {
    const Source &source = list.sources[number];
    if (source.move == none)
      continue;
    double exposed = op.seconds;
    if (op.stream > 0) {
      double waited = std::min(result.waited[number], op.seconds);
      Parts::Cut cut = waited > 0 ? parts.cut(number, waited) : Parts::Cut();
      exposed = cut.waited + beside.slowdown * cut.hidden;
      if (result.streams[number] == 0 && cut.hidden == 0)
        exposed += source.skew;
      sum += exposed - waited;
      exposed += lost * op.seconds / aside;
    }
    getStep(source).exposed += times * exposed;
  }
  seconds += times * sum;
  // What goes on when compute is done is waited for, too: the last of it.
  double behind = result.seconds - result.compute - result.exposed;
  for (int64_t number : llvm::reverse(result.order)) {
    const OverlapOp &op = list.ops[size_t(number)];
    if (behind <= 0)
      break;
    if (op.stream == 0)
      continue;
    double share = std::min(behind, op.seconds);
    getStep(list.sources[size_t(number)]).exposed += times * share;
    behind -= share;
  }
}

double cleave::timeBeside(const ShardingProblem &problem,
                          const ShardingChoice &choice,
                          llvm::MutableArrayRef<Move> moves,
                          CollectivePricer price, const BesideCompute &beside) {
  Lister lister(problem, choice, moves, beside);
  Timer timer(problem, choice, moves, price, beside);
  List first = lister.before, last;
  first.append(lister.inside);
  if (lister.microBatches > 1) {
    timer.add(std::move(first), 1);
    timer.add(lister.inside, lister.microBatches - 2);
    last = lister.inside;
  } else {
    last = std::move(first);
  }
  last.append(lister.sums);
  timer.add(std::move(last), 1);
  timer.add(lister.update, 1);
  return timer.seconds;
}

std::vector<Reason> cleave::findReasons(const ShardingProblem &problem) {
  std::vector<Reason> reasons(problem.tensors.size(),
                              Reason::ForwardActivations);
  for (const PlacedOp &op : problem.ops)
    for (size_t tensor : op.results)
      reasons[tensor] =
          isOnce(op) ? Reason::Sums
          : op.phase == "backward" || op.keeps == Keeps::Activations
              ? Reason::BackwardActivations
              : Reason::ForwardActivations;
  for (const PlacedOp &op : problem.ops) {
    if (op.keeps == Keeps::Gradients) {
      reasons[op.operands[0]] = Reason::Gradients;
      reasons[op.results[0]] = Reason::Sums;
    }
    if (op.keeps != Keeps::Parameters)
      continue;
    reasons[op.operands[0]] = Reason::States;
    for (size_t tensor : op.results)
      reasons[tensor] = Reason::ForwardParameters;
  }
  for (const PlacedOp &op : problem.ops)
    if (op.phase == "backward")
      for (size_t tensor : op.operands)
        if (reasons[tensor] == Reason::ForwardParameters)
          reasons[tensor] = Reason::BackwardParameters;
  return reasons;
}
