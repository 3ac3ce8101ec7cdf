//===- MoveForward.cpp ----------------------------------------------------===//
//
// A pipeline's stage runs the forward and the backward pass of a micro-batch in
// segments of their own, and keeps what both use. What the forward pass
// computes last, the backward pass can compute first instead, and keeps nothing
// of it:
//
//   forward   rms_norm, gemm, loss            rms_norm
//   backward  loss_grad, gemm, gemm           gemm, loss, loss_grad, gemm, gemm
//
// It can where it finds all that this reads, nobody asks for the results
// before, and no other stage waits for it.
//
//===----------------------------------------------------------------------===//
#include "passes/Overlap/MoveForward.h"
#include "dialects/dist/Placements.h"
#include "passes/Overlap/Parts.h"

using namespace mlir;
using namespace cleave;

/// The instructions that use a buffer or views of it.
static SmallVector<exec::InstructionOpInterface>
getUsers(exec::BufferOp buffer) {
  SmallVector<exec::InstructionOpInterface> users;
  auto add = [&](Operation *user) {
    if (auto op = dyn_cast<exec::InstructionOpInterface>(user))
      users.push_back(op);
  };
  for (Operation *user : buffer->getUsers()) {
    add(user);
    if (isa<exec::ViewOp>(user))
      llvm::for_each(user->getUsers(), add);
  }
  return users;
}

static bool writes(exec::InstructionOpInterface op, exec::BufferOp buffer) {
  return llvm::any_of(
      op->getOperands().drop_front(op.getInputs().size()),
      [&](Value value) { return exec::getBuffer(value) == buffer; });
}

namespace {
/// Where the runs of a segment are in the table, from the first to the last.
struct Runs {
  SmallVector<int64_t> places, microBatches;
};

class Mover {
public:
  Mover(exec::SegmentOp forward, exec::SegmentOp backward)
      : forward(forward), backward(backward), window(getInstructions(forward)),
        moves(window.list.size()) {}

  std::optional<Instructions> find(Value value);

private:
  const Runs &getRuns(exec::SegmentOp segment) const;
  bool isThere(Value input) const;
  bool canWait(exec::InstructionOpInterface op) const;
  bool isMoved(exec::InstructionOpInterface op) const {
    auto it = llvm::find(window.list, op);
    return it != window.list.end() && moves[size_t(it - window.list.begin())];
  }
  bool addDependent();
  bool addNeeded();

  exec::SegmentOp forward, backward;
  InstructionWindow window;                  ///< the forward segment
  SmallVector<bool> moves;                   ///< which of its instructions do
  mutable std::map<Operation *, Runs> known; ///< by segment
};
} // namespace

const Runs &Mover::getRuns(exec::SegmentOp segment) const {
  auto [it, isNew] = known.try_emplace(segment);
  Runs &runs = it->second;
  if (!isNew)
    return runs;
  int64_t place = 0;
  for (auto run : segment->getBlock()->getOps<exec::RunOp>()) {
    if (run.getSegment() == segment.getSymName()) {
      runs.places.push_back(place);
      runs.microBatches.push_back(int64_t(run.getMicroBatch()));
    }
    ++place;
  }
  return runs;
}

/// Whether both run for the same micro-batches in one order, and the first for
/// each of them no later than the second.
static bool arePaired(const Runs &first, const Runs &second) {
  return first.microBatches == second.microBatches &&
         llvm::all_of(llvm::zip(first.places, second.places), [](auto places) {
           auto [a, b] = places;
           return a <= b;
         });
}

/// Whether the backward segment finds what the forward one reads: it is kept
/// for the micro-batch until then or longer, or nobody writes it meanwhile.
bool Mover::isThere(Value input) const {
  auto view = input.getDefiningOp<exec::ViewOp>();
  if (view && view.getPlaces() > 0 &&
      llvm::any_of(input.getUsers(), [&](Operation *user) {
        return arePaired(getRuns(backward),
                         getRuns(cast<exec::SegmentOp>(user->getParentOp())));
      }))
    return true;
  exec::BufferOp buffer = exec::getBuffer(input);
  int64_t first = getRuns(forward).places.front();
  return llvm::all_of(getUsers(buffer), [&](exec::InstructionOpInterface op) {
    auto segment = cast<exec::SegmentOp>(op->getParentOp());
    return !writes(op, buffer) || segment.getUpdates() ||
           getRuns(segment).places.back() < first;
  });
}

/// Whether other stages take part in an instruction.
static bool tiesStages(exec::InstructionOpInterface op) {
  if (isa<exec::SendOp, exec::RecvOp>(*op))
    return true;
  dist::MeshOp mesh = dist::lookupMesh(op->getParentOfType<ModuleOp>());
  ArrayAttr group = op.getGroup();
  return mesh && mesh.getStageAxis() && group &&
         llvm::is_contained(group.getAsValueRange<StringAttr>(),
                            *mesh.getStageAxis());
}

/// Whether nobody asks for what an instruction writes before the backward pass,
/// or waits for it.
bool Mover::canWait(exec::InstructionOpInterface op) const {
  if (tiesStages(op))
    return false;
  int64_t last = getRuns(backward).places.back();
  auto isLater = [&](exec::InstructionOpInterface user) {
    auto segment = cast<exec::SegmentOp>(user->getParentOp());
    return isMoved(user) || segment == backward ||
           getRuns(segment).places.front() > last;
  };
  return llvm::all_of(
      op->getOperands().drop_front(op.getInputs().size()), [&](Value output) {
        return llvm::all_of(getUsers(exec::getBuffer(output)), isLater);
      });
}

/// What depends on an instruction that moves does as well.
bool Mover::addDependent() {
  bool hasAdded = false;
  for (size_t later = 0; later < moves.size(); ++later)
    for (size_t earlier = 0; earlier < later && !moves[later]; ++earlier)
      if (moves[earlier] && window.dependsOn(later, earlier))
        hasAdded = moves[later] = true;
  return hasAdded;
}

/// And so does what writes what the backward segment would not find.
bool Mover::addNeeded() {
  bool hasAdded = false;
  for (size_t i = moves.size(); i-- > 0;) {
    if (!moves[i])
      continue;
    for (Value input : window.get(i).getInputs()) {
      if (isThere(input))
        continue;
      for (size_t other = 0; other < i; ++other)
        if (!moves[other] && writes(window.get(other), exec::getBuffer(input)))
          hasAdded = moves[other] = true;
    }
  }
  return hasAdded;
}

std::optional<Instructions> Mover::find(Value value) {
  // Sums are over the same terms in one order.
  if (!arePaired(getRuns(forward), getRuns(backward)))
    return std::nullopt;
  for (Operation *user : value.getUsers())
    if (auto it = llvm::find(window.list, user); it != window.list.end())
      moves[size_t(it - window.list.begin())] = true;
  while (addDependent() || addNeeded())
    ;
  Instructions movable;
  for (auto [op, does] : llvm::zip(window.list, moves))
    if (does)
      movable.push_back(op);
  if (!llvm::all_of(movable, [&](auto op) { return canWait(op); }))
    return std::nullopt;
  return movable;
}

std::optional<Instructions> cleave::findMovable(exec::SegmentOp forward,
                                                exec::SegmentOp backward,
                                                Value value) {
  return Mover(forward, backward).find(value);
}

void cleave::moveForward(const Instructions &movable,
                         exec::SegmentOp backward) {
  Block &body = backward.getBody().front();
  Operation *first = &body.front();
  for (exec::InstructionOpInterface op : movable) {
    for (Value value : op->getOperands())
      if (auto view = value.getDefiningOp<exec::ViewOp>();
          view && view->getParentOp() == op->getParentOp())
        view->moveBefore(view->getParentOp());
    op->moveBefore(first);
  }
}
