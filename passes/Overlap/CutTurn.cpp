//===- CutTurn.cpp - From the forward to the backward pass in parts -------===//
//
// The largest value that the forward pass of a segment leaves to the backward
// pass, and that both use row by row, is where a program turns. Of a model with
// a head that is its logits:
//
//   gemm, loss, loss_grad, gemm (of the hidden state), gemm (of the weight)
//
//  1. Members of the turn are those that use the value, and those between them
//     which need one and are needed by one; then those that use what members
//     leave, if it is about as large.
//  2. They are done part by part, all of them for a part before the next one,
//     so that the value, and whatever else only members use, is never there as
//     a whole: all parts have one buffer, of a part's size. What others use has
//     parts that are views of the buffer that there was, and sums over the rows
//     are added up part by part.
//  3. Where the passes are in segments of their own, as in a pipeline, the
//     backward one does what belongs to the turn (MoveForward).
//  4. Nobody has said how many parts: as few as with which what is in use at
//     any moment fits into the device's memory, or, where it cannot be made to
//     fit, as few as with which that is least.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Provenance.h"
#include "passes/Overlap/Liveness.h"
#include "passes/Overlap/MoveForward.h"
#include "passes/Overlap/Parts.h"
#include "passes/Overlap/Passes.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace cleave {
#define GEN_PASS_DEF_CUTTURNPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// Most parts that are looked for.
static constexpr int64_t mostParts = 1024;

namespace {
/// Where a program turns: a value, and the segments that first write and last
/// read it.
struct Turn {
  Value value;
  exec::SegmentOp forward, backward;
};

/// The instructions of a turn, and what can be done with them.
class TurnWindow : public InstructionWindow {
public:
  TurnWindow(Instructions list, Value value)
      : InstructionWindow(std::move(list)), value(value) {}

  /// None where the turn cannot be done in so many parts.
  SmallVector<size_t> findMembers(int64_t parts) const;
  /// What only members use, each its own part.
  SmallVector<Value> findInner(ArrayRef<size_t> members, int64_t parts) const;
  /// In ascending order.
  SmallVector<int64_t> listParts() const;
  bool canBeCut() const;
  /// Of what computes the value.
  Location getLoc() const;

private:
  std::optional<SmallVector<size_t>> addUsers(SmallVector<size_t> members,
                                              Value used, int64_t parts) const;
  bool addBetween(SmallVectorImpl<size_t> &members, int64_t parts) const;
  bool usesParts(size_t i, Value used, int64_t parts) const;

  Value value;
};

class CutTurn : public cleave::impl::CutTurnPassBase<CutTurn> {
public:
  using CutTurnPassBase::CutTurnPassBase;

private:
  void runOnOperation() override;
  FailureOr<bool> cutProgram(exec::ProgramOp program, double room);
  int64_t chooseParts(exec::ProgramOp program, const TurnWindow &window,
                      double room);
  void cut(const TurnWindow &window, int64_t count);
};
} // namespace

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

/// Whether an instruction that uses a value has parts of it only.
bool TurnWindow::usesParts(size_t i, Value used, int64_t parts) const {
  const std::optional<Shares> &shares = getShares(i, parts);
  return shares && llvm::all_of(llvm::zip(list[i]->getOperands(), *shares),
                                [&](auto operand) {
                                  auto [each, share] = operand;
                                  return each != used || share == Share::Part;
                                });
}

/// Adds those that need a member and are needed by one, until there are none;
/// false if one of them cannot be cut.
bool TurnWindow::addBetween(SmallVectorImpl<size_t> &members,
                            int64_t parts) const {
  for (size_t before = 0; before != members.size();) {
    before = members.size();
    size_t first = members.front(), count = members.back() - first + 1;
    // By index from the first member on.
    SmallVector<bool> needs(count), isNeeded(count);
    for (size_t i : members)
      needs[i - first] = isNeeded[i - first] = true;
    for (size_t i = 0; i < count; ++i)
      for (size_t k = 0; k < i && !needs[i]; ++k)
        needs[i] = needs[k] && dependsOn(first + i, first + k);
    for (size_t i = count; i-- > 0;)
      for (size_t k = i + 1; k < count && !isNeeded[i]; ++k)
        isNeeded[i] = isNeeded[k] && dependsOn(first + k, first + i);
    members.clear();
    for (size_t i = 0; i < count; ++i)
      if (needs[i] && isNeeded[i])
        members.push_back(first + i);
  }
  return llvm::all_of(
      members, [&](size_t i) { return getShares(i, parts).has_value(); });
}

/// Members, and all that use a value and what is between them then; nothing if
/// they cannot be members together.
std::optional<SmallVector<size_t>>
TurnWindow::addUsers(SmallVector<size_t> members, Value used,
                     int64_t parts) const {
  for (Operation *user : used.getUsers()) {
    if (!isa<exec::InstructionOpInterface>(user))
      continue;
    size_t i = size_t(llvm::find(list, user) - list.begin());
    if (i == list.size() || !usesParts(i, used, parts))
      return std::nullopt;
    if (!llvm::is_contained(members, i))
      members.insert(llvm::lower_bound(members, i), i);
  }
  if (!addBetween(members, parts) || !areApart(members, parts))
    return std::nullopt;
  return members;
}

SmallVector<size_t> TurnWindow::findMembers(int64_t parts) const {
  std::optional<SmallVector<size_t>> members = addUsers({}, value, parts);
  if (!members)
    return {};
  llvm::SetVector<Value> large; // those that come in bring their own
  auto collect = [&] {
    for (size_t i : *members)
      for (Value output : get(i).getOutputs())
        if (2 * exec::getBytes(output) >= exec::getBytes(value))
          large.insert(output);
  };
  collect();
  for (size_t i = 0; i < large.size(); ++i)
    if (auto more = addUsers(*members, large[i], parts)) {
      members = std::move(more);
      collect();
    }
  return *members;
}

SmallVector<Value> TurnWindow::findInner(ArrayRef<size_t> members,
                                         int64_t parts) const {
  auto isPartOnly = [&](Value used, Operation *user) {
    size_t i = size_t(llvm::find(list, user) - list.begin());
    return llvm::is_contained(members, i) && usesParts(i, used, parts);
  };
  llvm::SetVector<Value> used;
  for (size_t i : members)
    used.insert_range(get(i)->getOperands());
  SmallVector<Value> inner;
  for (Value each : used) {
    exec::BufferOp buffer = exec::getBuffer(each);
    bool isAlone = each == buffer || buffer->hasOneUse();
    if (!buffer.getPinned() && isAlone &&
        llvm::all_of(each.getUsers(),
                     [&](Operation *user) { return isPartOnly(each, user); }))
      inner.push_back(each);
  }
  return inner;
}

SmallVector<int64_t> TurnWindow::listParts() const {
  SmallVector<int64_t> legal;
  for (int64_t parts = 2; parts <= mostParts; ++parts)
    if (!findMembers(parts).empty())
      legal.push_back(parts);
  return legal;
}

/// What can be cut into some number of parts can be cut into any that divides
/// it, so that a few primes tell.
bool TurnWindow::canBeCut() const {
  return llvm::any_of(ArrayRef<int64_t>{2, 3, 5, 7}, [&](int64_t parts) {
    return !findMembers(parts).empty();
  });
}

Location TurnWindow::getLoc() const {
  auto op = llvm::find_if(list, [&](exec::InstructionOpInterface op) {
    return llvm::is_contained(op.getOutputs(), value);
  });
  return (*op)->getLoc();
}

//===----------------------------------------------------------------------===//
// Where a program turns
//===----------------------------------------------------------------------===//

/// Values that the forward pass of a program leaves to the backward pass, by
/// their bytes.
using Turns = std::multimap<int64_t, Turn, std::greater<int64_t>>;

static Turns listTurns(exec::ProgramOp program) {
  Turns turns;
  auto consider = [&](Value value) {
    Turn turn{value, {}, {}};
    for (Operation *user : value.getUsers()) {
      auto op = dyn_cast<exec::InstructionOpInterface>(user);
      if (!op)
        continue;
      auto segment = cast<exec::SegmentOp>(user->getParentOp());
      std::optional<xf::Phase> phase = xf::getPhase(user);
      if (phase == xf::Phase::Forward &&
          llvm::is_contained(op.getOutputs(), value))
        turn.forward = segment;
      if (phase == xf::Phase::Backward &&
          llvm::is_contained(op.getInputs(), value))
        turn.backward = segment;
    }
    if (turn.forward && turn.backward)
      turns.emplace(exec::getBytes(value), turn);
  };
  program.walk([&](Operation *op) {
    if (isa<exec::BufferOp, exec::ViewOp>(op))
      consider(op->getResult(0));
  });
  return turns;
}

/// The instructions with the largest of them that can be cut, all in one
/// segment.
static std::optional<TurnWindow> findTurn(exec::ProgramOp program) {
  for (auto [bytes, turn] : listTurns(program)) {
    Instructions list = getInstructions(turn.backward), moved;
    if (turn.forward != turn.backward) {
      auto movable = findMovable(turn.forward, turn.backward, turn.value);
      if (!movable)
        continue;
      moved = std::move(*movable);
      list.insert(list.begin(), moved.begin(), moved.end());
    }
    TurnWindow window(std::move(list), turn.value);
    if (!window.canBeCut())
      continue;
    moveForward(moved, turn.backward);
    return window;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Lets members have one scratch buffer, the largest of theirs: all parts keep
/// it, and one of them runs at a time.
static void shareScratch(const TurnWindow &window, ArrayRef<size_t> members) {
  SmallVector<OpOperand *> scratch;
  for (size_t i : members) {
    exec::InstructionOpInterface op = window.get(i);
    if (!op.getWorkspace().empty())
      scratch.push_back(
          &op->getOpOperand(op.getInputs().size() + op.getOutputs().size()));
  }
  auto largest = llvm::max_element(scratch, [](OpOperand *a, OpOperand *b) {
    return exec::getBytes(a->get()) < exec::getBytes(b->get());
  });
  for (OpOperand *each : scratch) {
    exec::BufferOp old = exec::getBuffer(each->get());
    each->set((*largest)->get());
    if (old->use_empty())
      old->erase();
  }
}

/// Does a turn in parts, where it stands.
void CutTurn::cut(const TurnWindow &window, int64_t count) {
  SmallVector<size_t> members = window.findMembers(count);
  SmallVector<bool> isBefore = *window.findBefore(members);
  Operation *first = window.get(members.front());
  for (size_t i = members.front(); i < members.back(); ++i)
    if (isBefore[i])
      window.get(i)->moveBefore(first);

  SmallVector<Value> inner = window.findInner(members, count);
  shareScratch(window, members);
  PartBuilder builder(count, window.list.front());
  int64_t whole = 0, shared = 0;
  for (Value each : inner) {
    builder.share(each);
    whole += int64_t(exec::getBuffer(each).getBytes());
    shared += exec::getBytes(each) / count;
  }
  Instructions made;
  for (int64_t number = 0; number < count; ++number)
    for (size_t i : members)
      made.push_back(builder.makePart(window.get(i), number));
  // Behind all views.
  for (exec::InstructionOpInterface part : made)
    part->moveBefore(first);
  emitRemark(window.getLoc())
      << members.size() << " instructions in " << count << " parts: " << shared
      << " bytes in place of " << whole;
  numCut += int64_t(members.size());
  numParts += int64_t(members.size()) * count;
  for (size_t i : members)
    window.get(i)->erase();
  for (Value each : inner) {
    exec::BufferOp buffer = exec::getBuffer(each);
    if (each != buffer)
      each.getDefiningOp()->erase();
    buffer->erase();
  }
}

/// Most bytes that are in use at once; with the turn in parts, if there are
/// more than one.
static double getPeak(exec::ProgramOp program,
                      const TurnWindow *window = nullptr, int64_t parts = 1) {
  std::map<int64_t, int64_t> changes;
  auto use = [&](int64_t bytes, int64_t first, int64_t last) {
    changes[first] += bytes;
    changes[last + 1] -= bytes;
  };
  llvm::DenseSet<Operation *> whole;
  if (window) {
    llvm::DenseMap<Operation *, int64_t> numbers;
    program.walk([&](exec::InstructionOpInterface op) {
      numbers.try_emplace(op, int64_t(numbers.size()));
    });
    SmallVector<size_t> members = window->findMembers(parts);
    for (Value each : window->findInner(members, parts)) {
      whole.insert(exec::getBuffer(each));
      use(exec::getBytes(each) / parts,
          numbers.at(window->get(members.front())),
          numbers.at(window->get(members.back())));
    }
  }
  for (LiveBuffer each : computeLiveness(program))
    if (!whole.contains(each.op))
      use(int64_t(each.op.getBytes()), each.first, each.last);
  int64_t bytes = 0, most = 0;
  for (auto [number, change] : changes)
    most = std::max(most, bytes += change);
  return double(most);
}

/// As few as with which the program fits, or else needs least.
int64_t CutTurn::chooseParts(exec::ProgramOp program, const TurnWindow &window,
                             double room) {
  int64_t best = 1;
  double least = getPeak(program);
  for (int64_t count : window.listParts()) {
    if (least <= room)
      break;
    double bytes = getPeak(program, &window, count);
    if (bytes < least) {
      best = count;
      least = bytes;
    }
  }
  return best;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Whether it is cut. Fails where the program turns, but not in as many parts
/// as are asked for.
FailureOr<bool> CutTurn::cutProgram(exec::ProgramOp program, double room) {
  if (parts == 0 && getPeak(program) <= room)
    return false;
  std::optional<TurnWindow> window = findTurn(program);
  if (!window)
    return false;
  int64_t count = parts > 0 ? parts : chooseParts(program, *window, room);
  if (count == 1)
    return false;
  if (window->findMembers(count).empty()) {
    InFlightDiagnostic error = emitError(window->getLoc());
    error << "cannot be done in " << count << " parts of its rows; legal are 1";
    for (int64_t legal : window->listParts())
      error << ", " << legal;
    return error;
  }
  cut(*window, count);
  return true;
}

void CutTurn::runOnOperation() {
  ModuleOp module = getOperation();
  if (parts == 1)
    return;
  llvm::Expected<double> room = getRoom(cluster);
  if (!room) {
    module.emitError(llvm::toString(room.takeError()));
    return signalPassFailure();
  }
  bool hasCut = false;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    FailureOr<bool> isCut = cutProgram(program, *room);
    if (failed(isCut))
      return signalPassFailure();
    hasCut |= *isCut;
  }
  if (parts > 0 && !hasCut) {
    module.emitError("has nothing between its forward and its backward pass "
                     "that can be done in parts of its rows");
    return signalPassFailure();
  }
  eraseUnusedKernels(module);
}
