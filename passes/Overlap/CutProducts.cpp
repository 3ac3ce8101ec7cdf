//===- CutProducts.cpp - Products and collectives in parts ----------------===//
//
// A collective that the rank's own stream waits for, or a message to another
// stage, is looked at with the instructions around it.
//
//  1. With it go those that compute what it moves and those that use what it
//     moved, up to products, where rows of one are made of rows of the other
//     (exec.RowsOpInterface). Which those are, and how they stand in parts,
//     says cleave/Streams/Parts.h.
//  2. Parts are views of the buffers, so nothing is copied.
//  3. Of several numbers of parts, and of leaving all whole, that one is taken
//     which takes the least time around it, by the scheduler that will order it
//     (lib/Streams) and the cluster's prices, startup of each part included.
//
//===----------------------------------------------------------------------===//
#include "cleave/Streams/Parts.h"
#include "passes/Overlap/Parts.h"
#include "passes/Overlap/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {
#define GEN_PASS_DEF_CUTPRODUCTSPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// What stands around a collective, in the middle.
struct AroundCollective {
  AroundCollective(exec::InstructionOpInterface op, OverlapModel &model);

  Surroundings getSurroundings() const {
    return Surroundings(window, middle, kinds, streams);
  }

  InstructionWindow window;
  size_t middle;
  std::vector<RowsKind> kinds;
  std::vector<int64_t> streams;
};

/// The same instructions with some of them in parts, not in their places yet.
struct Cut {
  int64_t parts = 1;
  size_t members = 0;
  Instructions list;
  SmallVector<Operation *> made; ///< parts, and then views
  SmallVector<Operation *> replaced;
  WindowTime time;
};

class CutProducts : public cleave::impl::CutProductsPassBase<CutProducts> {
public:
  using CutProductsPassBase::CutProductsPassBase;

private:
  void runOnOperation() override;
  void cutSegment(exec::SegmentOp segment);
  BitVector findBeforeMessages(ArrayRef<OverlapOp> ops,
                               const Instructions &list);
  SmallVector<Operation *> cutAround(exec::InstructionOpInterface op);
  std::optional<Cut> build(const AroundCollective &around, int64_t parts);
  void price(Cut &cut, llvm::function_ref<bool(Operation *)> isMember);

  std::shared_ptr<OverlapModel> model;
  exec::InstructionOpInterface first; ///< of the segment at hand
};
} // namespace

//===----------------------------------------------------------------------===//
// Which instructions are cut together
//===----------------------------------------------------------------------===//

/// It, and those before and behind it up to what stages meet in, which keeps
/// its place among all others.
static Instructions listAround(exec::InstructionOpInterface op,
                               OverlapModel &model) {
  auto isFence = [&](exec::InstructionOpInterface each) {
    return model.getOps(each).front().isFence;
  };
  Operation *first = op, *last = op;
  for (size_t i = 0; i < partsReach; ++i) {
    if (auto each = dyn_cast_or_null<exec::InstructionOpInterface>(
            first->getPrevNode());
        each && !isFence(each))
      first = each;
    if (auto each =
            dyn_cast_or_null<exec::InstructionOpInterface>(last->getNextNode());
        each && !isFence(each))
      last = each;
  }
  Instructions list;
  for (Operation *each = first; each != last->getNextNode();
       each = each->getNextNode())
    list.push_back(cast<exec::InstructionOpInterface>(each));
  return list;
}

static RowsKind getRowsKind(const TaskShape &shape) {
  switch (shape.kind) {
  case TaskShape::Kind::Matmul:
    return RowsKind::Product;
  case TaskShape::Kind::Memory:
    return RowsKind::Memory;
  default:
    return RowsKind::Other;
  }
}

AroundCollective::AroundCollective(exec::InstructionOpInterface op,
                                   OverlapModel &model)
    : window(listAround(op, model)),
      middle(size_t(llvm::find(window.list, op) - window.list.begin())) {
  for (exec::InstructionOpInterface each : window.list)
    kinds.push_back(getRowsKind(model.getShape(each)));
  for (const OverlapOp &each : model.getOps(window.list))
    streams.push_back(each.stream);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Instructions of a window with its members in parts; nothing where that
/// cannot be, or would cut but one instruction.
std::optional<Cut> CutProducts::build(const AroundCollective &around,
                                      int64_t parts) {
  Surroundings surroundings = around.getSurroundings();
  SmallVector<size_t> members = surroundings.findMembers(parts);
  if (members.size() < 2)
    return std::nullopt;
  std::optional<std::vector<PartOf>> order = surroundings.cut(members, parts);
  if (!order)
    return std::nullopt;
  Cut cut;
  cut.parts = parts;
  cut.members = members.size();
  PartBuilder builder(parts, first);
  for (PartOf each : *order) {
    exec::InstructionOpInterface op = around.window.get(each.op);
    cut.list.push_back(each.number < 0 ? op
                                       : builder.makePart(op, each.number));
  }
  cut.made = builder.getMade();
  for (size_t i : members)
    cut.replaced.push_back(around.window.get(i));
  return cut;
}

void CutProducts::price(Cut &cut,
                        llvm::function_ref<bool(Operation *)> isMember) {
  cut.time = WindowTime::measure(
      model->getOps(cut.list), [&](size_t i) { return isMember(cut.list[i]); });
}

static void discard(const Cut &cut) {
  for (Operation *op : cut.made)
    op->erase();
}

/// Returns the instructions that are in parts now, and gone.
SmallVector<Operation *>
CutProducts::cutAround(exec::InstructionOpInterface op) {
  AroundCollective around(op, *model);
  std::optional<Cut> best;
  for (int64_t parts : partCounts) {
    std::optional<Cut> cut = build(around, parts);
    if (!cut)
      continue;
    price(*cut,
          [&](Operation *each) { return llvm::is_contained(cut->made, each); });
    if (best && best->time.seconds <= cut->time.seconds)
      std::swap(*best, *cut);
    if (best)
      discard(*best);
    best = std::move(cut);
  }
  if (!best) {
    emitRemark(op.getLoc(),
               "stays whole: no rows of it can be cut with those of a "
               "product");
    return {};
  }
  Cut whole;
  whole.list = around.window.list;
  price(whole, [&](Operation *each) {
    return llvm::is_contained(best->replaced, each);
  });
  auto describe = [](const Cut &cut) {
    return llvm::formatv("{0:F3} ms of {1:F3} ms of communication waited for",
                         cut.time.waited * 1e3, cut.time.communication * 1e3)
        .str();
  };
  double saved = whole.time.seconds - best->time.seconds;
  if (!whole.time.isWorth(best->time)) {
    emitRemark(op.getLoc(), "stays whole: ")
        << describe(whole) << "; in " << best->parts << " parts "
        << describe(*best)
        << llvm::formatv(", and {0:F3} ms more of compute",
                         (best->time.compute - whole.time.compute) * 1e3)
               .str();
    discard(*best);
    return {};
  }
  double sooner = whole.time.sent - best->time.sent;
  InFlightDiagnostic remark = emitRemark(op.getLoc());
  remark << best->members << " instructions in " << best->parts
         << " parts: " << describe(*best) << "; whole " << describe(whole)
         << llvm::formatv("; saves {0:F3} ms", (saved - sooner) * 1e3).str();
  if (sooner != 0)
    remark << llvm::formatv(", messages are there {0:F3} ms sooner",
                            sooner * 1e3)
                  .str();
  remark.report();
  // The window's last instruction may be one that is replaced.
  Operation *next = around.window.list.back()->getNextNode();
  Block *block = op->getBlock();
  for (exec::InstructionOpInterface each : best->list)
    each->moveBefore(block, next ? next->getIterator() : block->end());
  if (first == around.window.list.front())
    first = best->list.front();
  numCut += int64_t(best->members);
  numParts += int64_t(best->members) * best->parts;
  for (Operation *each : best->replaced)
    each->erase();
  return std::move(best->replaced);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Communication that a message waits for, with no product in between.
BitVector CutProducts::findBeforeMessages(ArrayRef<OverlapOp> ops,
                                          const Instructions &list) {
  BitVector found(unsigned(ops.size())), seen(unsigned(ops.size()));
  SmallVector<int64_t> behind;
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].isSent())
      behind.push_back(int64_t(i));
  if (behind.empty())
    return found;
  auto before = findDependences(ops);
  while (!behind.empty())
    for (int64_t op : before[size_t(behind.pop_back_val())]) {
      if (seen.test(unsigned(op)))
        continue;
      seen.set(unsigned(op));
      if (ops[size_t(op)].stream > 0)
        found.set(unsigned(op));
      else if (getRowsKind(model->getShape(list[size_t(op)])) ==
               RowsKind::Memory)
        behind.push_back(op);
    }
  return found;
}

void CutProducts::cutSegment(exec::SegmentOp segment) {
  Instructions list = getInstructions(segment);
  std::vector<OverlapOp> ops = model->getOps(list);
  if (llvm::none_of(ops, [](const OverlapOp &op) { return op.stream > 0; }))
    return;
  OverlapResult result = overlap(ops);
  BitVector isBeforeMessage = findBeforeMessages(ops, list);
  first = list.front();
  llvm::SetVector<Operation *> waited;
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].stream > 0 &&
        (isBeforeMessage[unsigned(i)] ||
         result.waited[i] > leastSavedByParts * ops[i].seconds) &&
        isa<exec::RowsOpInterface>(*list[i]))
      waited.insert(list[i]);
  // One that is cut takes others with it.
  while (!waited.empty()) {
    auto op = cast<exec::InstructionOpInterface>(waited.front());
    waited.erase(waited.begin());
    for (Operation *gone : cutAround(op))
      waited.remove(gone);
  }
}

void CutProducts::runOnOperation() {
  FailureOr<std::shared_ptr<OverlapModel>> created =
      OverlapModel::create(getOperation(), mode, cluster);
  if (failed(created))
    return signalPassFailure();
  model = std::move(*created);
  if (!model)
    return;
  for (auto program : getOperation().getOps<exec::ProgramOp>())
    for (auto segment : program.getBody().front().getOps<exec::SegmentOp>())
      cutSegment(segment);
  eraseUnusedKernels(getOperation());
}
