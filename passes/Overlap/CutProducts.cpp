//===- CutProducts.cpp - Products and collectives in parts ----------------===//
//
// A collective that the rank's own stream waits for is looked at with the
// instructions around it.
//
//  1. With it go those that compute what it moves and those that use what it
//     moved, as long as all of them have rows of which each needs and makes a
//     part of the others' (exec.RowsOpInterface): up to products, which are
//     enough to run beside, and through collectives on the way. An instruction
//     that would need one of them as a whole, and be needed by another, keeps
//     that one out.
//  2. They are done part by part between one collective and the next:
//
//       gemm, reduce_scatter, norm, all_gather, gemm            in two parts:
//       gemm0, reduce_scatter0, gemm1, reduce_scatter1,
//       norm0, all_gather0, norm1, all_gather1, gemm0, gemm1
//
//     Parts are views of the buffers, so nothing is copied. What stood between
//     and is needed by them goes ahead of them, the rest behind.
//  3. Of several numbers of parts, and of leaving all whole, that one is taken
//     which takes the least time around it, by the scheduler that will order it
//     (lib/Streams) and the cluster's prices, startup of each part included.
//
//===----------------------------------------------------------------------===//
#include "cleave/Cost/ProductParts.h"
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
class Surroundings : public Window {
public:
  Surroundings(exec::InstructionOpInterface middle, OverlapModel &model);

  /// The instructions, by index, that are cut into `parts` with the one in the
  /// middle; it alone if there are no others, and none if it cannot be.
  SmallVector<size_t> findMembers(int64_t parts) const;

  std::vector<OverlapOp> ops;

private:
  /// Whether the instruction can be cut, and adds up nothing over its rows: a
  /// sum is there only once all parts are.
  bool canCut(size_t i, int64_t parts) const;
  SmallVector<size_t> findPartners(size_t i, int64_t parts) const;
  void prune(SmallVectorImpl<size_t> &members, int64_t parts) const;
  bool isProduct(size_t i) const {
    return shapes[i].kind == TaskShape::Kind::Matmul;
  }

  std::vector<TaskShape> shapes;
  size_t middle = 0;
};

/// The same instructions with some of them in parts, not in their places yet.
struct Cut {
  int64_t parts = 1;
  size_t members = 0;
  Instructions list;
  SmallVector<Operation *> made; ///< parts, and then views
  SmallVector<Operation *> replaced;
  double seconds = 0, compute = 0;
  /// Of the members alone, and of these seconds what is waited for.
  double communication = 0, waited = 0;
};

class CutProducts : public cleave::impl::CutProductsPassBase<CutProducts> {
public:
  using CutProductsPassBase::CutProductsPassBase;

private:
  void runOnOperation() override;
  void cutSegment(exec::SegmentOp segment);
  SmallVector<Operation *> cutAround(exec::InstructionOpInterface op);
  std::optional<Cut> build(const Surroundings &window, int64_t parts);
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
  for (int64_t i = 0; i < partsReach; ++i) {
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

Surroundings::Surroundings(exec::InstructionOpInterface op, OverlapModel &model)
    : Window(listAround(op, model)), ops(model.getOps(list)),
      middle(size_t(llvm::find(list, op) - list.begin())) {
  for (exec::InstructionOpInterface each : list)
    shapes.push_back(model.getShape(each));
}

bool Surroundings::canCut(size_t i, int64_t parts) const {
  const std::optional<Shares> &shares = getShares(i, parts);
  return shares && !llvm::is_contained(*shares, exec::Share::Sum);
}

/// Those that wrote what the instruction reads in parts, or read what it writes
/// so, before something else is there.
SmallVector<size_t> Surroundings::findPartners(size_t i, int64_t parts) const {
  SmallVector<size_t> found;
  auto isCutIn = [&](size_t other, Value value, bool asOutput) {
    bool isUsed = false;
    for (auto [k, operand] : llvm::enumerate(list[other]->getOperands()))
      if (operand == value && isOutput(other, unsigned(k)) == asOutput) {
        isUsed = true;
        if (!canCut(other, parts) ||
            (*getShares(other, parts))[k] != exec::Share::Part)
          return false;
      }
    return isUsed;
  };
  auto writes = [&](size_t other, Value value) {
    return llvm::any_of(
        list[other]->getOperands().drop_front(get(other).getInputs().size()),
        [&](Value each) {
          return exec::getBuffer(each) == exec::getBuffer(value);
        });
  };
  for (auto [k, value] : llvm::enumerate(list[i]->getOperands())) {
    if ((*getShares(i, parts))[k] != exec::Share::Part)
      continue;
    if (!isOutput(i, unsigned(k))) {
      for (size_t other = i; other-- > 0;)
        if (writes(other, value)) {
          if (isCutIn(other, value, /*asOutput=*/true))
            found.push_back(other);
          break;
        }
      continue;
    }
    for (size_t other = i + 1; other < list.size(); ++other) {
      if (isCutIn(other, value, /*asOutput=*/false))
        found.push_back(other);
      if (writes(other, value))
        break;
    }
  }
  return found;
}

/// What streams through memory and has no member on one of its sides takes no
/// part.
void Surroundings::prune(SmallVectorImpl<size_t> &members,
                         int64_t parts) const {
  auto isLoose = [&](size_t i) {
    if (shapes[i].kind != TaskShape::Kind::Memory)
      return false;
    SmallVector<size_t> partners = findPartners(i, parts);
    auto isMember = [&](size_t other, bool before) {
      return (other < i) == before && llvm::is_contained(members, other);
    };
    return !llvm::any_of(partners,
                         [&](size_t each) { return isMember(each, true); }) ||
           !llvm::any_of(partners,
                         [&](size_t each) { return isMember(each, false); });
  };
  for (size_t before = 0; before != members.size();) {
    before = members.size();
    llvm::erase_if(members, isLoose);
  }
}

SmallVector<size_t> Surroundings::findMembers(int64_t parts) const {
  SmallVector<size_t> members;
  if (!canCut(middle, parts))
    return members;
  members.push_back(middle);
  auto tryAdd = [&](size_t other) {
    if (llvm::is_contained(members, other))
      return false;
    SmallVector<size_t> all = members;
    all.insert(llvm::lower_bound(all, other), other);
    if (!areApart(all, parts) || !findBefore(all))
      return false;
    members = std::move(all);
    return true;
  };
  // What comes too early for one that is still missing is tried again.
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i : SmallVector<size_t>(members))
      // There is enough to run beside what communicates up to a product.
      if (!isProduct(i))
        for (size_t other : findPartners(i, parts))
          grows |= tryAdd(other);
  }
  prune(members, parts);
  return members;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Instructions of a window with its members in parts; nothing where that
/// cannot be, or would cut but one instruction.
std::optional<Cut> CutProducts::build(const Surroundings &window,
                                      int64_t parts) {
  SmallVector<size_t> members = window.findMembers(parts);
  if (members.size() < 2)
    return std::nullopt;
  std::optional<SmallVector<bool>> isBefore = window.findBefore(members);
  if (!isBefore)
    return std::nullopt;

  Cut cut;
  cut.parts = parts;
  cut.members = members.size();
  auto getOthers = [&](bool before) {
    for (size_t i = members.front(); i < members.back(); ++i)
      if (!llvm::is_contained(members, i) && (*isBefore)[i] == before)
        cut.list.push_back(window.list[i]);
  };
  auto append = [&](size_t begin, size_t end) {
    cut.list.append(window.list.begin() + begin, window.list.begin() + end);
  };
  append(0, members.front());
  getOthers(/*before=*/true);

  PartBuilder builder(parts, first);
  // From one collective to the next.
  for (auto begin = members.begin(), end = begin; begin != members.end();
       begin = end) {
    end = std::find_if(begin, members.end(),
                       [&](size_t i) { return window.ops[i].stream > 0; });
    if (end != members.end())
      ++end;
    for (int64_t number = 0; number < parts; ++number)
      for (size_t i : llvm::make_range(begin, end))
        cut.list.push_back(builder.makePart(window.list[i], number));
  }
  cut.made = builder.getMade();
  for (size_t i : members)
    cut.replaced.push_back(window.list[i]);
  getOthers(/*before=*/false);
  append(members.back() + 1, window.list.size());
  return cut;
}

/// What the list takes, and what is waited for of its members' communication.
void CutProducts::price(Cut &cut,
                        llvm::function_ref<bool(Operation *)> isMember) {
  std::vector<OverlapOp> ops = model->getOps(cut.list);
  OverlapResult result = overlap(ops);
  cut.seconds = result.seconds;
  cut.compute = result.compute;
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].stream > 0 && isMember(cut.list[i])) {
      cut.communication += ops[i].seconds;
      cut.waited += result.waited[i];
    }
}

static void discard(const Cut &cut) {
  for (Operation *op : cut.made)
    op->erase();
}

/// Returns the instructions that are in parts now, and gone.
SmallVector<Operation *>
CutProducts::cutAround(exec::InstructionOpInterface op) {
  Surroundings window(op, *model);
  std::optional<Cut> best;
  for (int64_t parts : partCounts) {
    std::optional<Cut> cut = build(window, parts);
    if (!cut)
      continue;
    price(*cut,
          [&](Operation *each) { return llvm::is_contained(cut->made, each); });
    if (best && best->seconds <= cut->seconds)
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
  whole.list = window.list;
  price(whole, [&](Operation *each) {
    return llvm::is_contained(best->replaced, each);
  });
  auto describe = [](const Cut &cut) {
    return llvm::formatv("{0:F3} ms of {1:F3} ms of communication waited for",
                         cut.waited * 1e3, cut.communication * 1e3)
        .str();
  };
  double saved = whole.seconds - best->seconds;
  if (saved < leastSavedByParts * whole.communication) {
    emitRemark(op.getLoc(), "stays whole: ")
        << describe(whole) << "; in " << best->parts << " parts "
        << describe(*best)
        << llvm::formatv(", and {0:F3} ms more of compute",
                         (best->compute - whole.compute) * 1e3)
               .str();
    discard(*best);
    return {};
  }
  emitRemark(op.getLoc())
      << best->members << " instructions in " << best->parts
      << " parts: " << describe(*best) << "; whole " << describe(whole)
      << llvm::formatv("; saves {0:F3} ms", saved * 1e3).str();
  // The window's last instruction may be one that is replaced.
  Operation *next = window.list.back()->getNextNode();
  Block *block = op->getBlock();
  for (exec::InstructionOpInterface each : best->list)
    each->moveBefore(block, next ? next->getIterator() : block->end());
  if (first == window.list.front())
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

void CutProducts::cutSegment(exec::SegmentOp segment) {
  Instructions list = getInstructions(segment);
  std::vector<OverlapOp> ops = model->getOps(list);
  if (llvm::none_of(ops, [](const OverlapOp &op) { return op.stream > 0; }))
    return;
  OverlapResult result = overlap(ops);
  first = list.front();
  llvm::SetVector<Operation *> waited;
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].stream > 0 &&
        result.waited[i] > leastSavedByParts * ops[i].seconds &&
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
