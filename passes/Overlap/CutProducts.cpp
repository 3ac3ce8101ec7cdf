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
#include "passes/Overlap/OverlapModel.h"
#include "passes/Overlap/Passes.h"
#include "passes/Overlap/StreamModel.h"
#include "runtime/program/Limits.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

namespace cleave {
#define GEN_PASS_DEF_CUTPRODUCTSPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// Instructions that stand one behind the other.
class Window {
public:
  Window(exec::InstructionOpInterface middle, OverlapModel &model);

  /// The instructions, by index, that are cut into `parts` with the one in the
  /// middle; it alone if there are no others, and none if it cannot be.
  SmallVector<size_t> findMembers(int64_t parts) const;
  /// Those that stand between members: which of them must go ahead of all
  /// members; nothing if some stands between two for good.
  std::optional<SmallVector<bool>> findBefore(ArrayRef<size_t> members) const;

  Instructions list;
  std::vector<OverlapOp> ops;

private:
  const std::optional<SmallVector<bool>> &getCut(size_t i, int64_t parts) const;
  std::optional<SmallVector<bool>> computeCut(size_t i, int64_t parts) const;
  SmallVector<size_t> findPartners(size_t i, ArrayRef<bool> cut,
                                   int64_t parts) const;
  void prune(SmallVectorImpl<size_t> &members, int64_t parts) const;
  bool areApart(ArrayRef<size_t> members, int64_t parts) const;
  bool isProduct(size_t i) const {
    return shapes[i].kind == TaskShape::Kind::Matmul;
  }
  bool isOutput(size_t i, unsigned operand) const {
    return operand >= get(i).getInputs().size();
  }
  exec::InstructionOpInterface get(size_t i) const { return list[i]; }
  bool dependsOn(size_t later, size_t earlier) const {
    return dependences[later][unsigned(earlier)];
  }

  std::vector<TaskShape> shapes;
  std::vector<llvm::BitVector> dependences; ///< on earlier ones, by later one
  mutable std::map<std::pair<size_t, int64_t>, std::optional<SmallVector<bool>>>
      cuts; ///< that were asked for
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
  std::optional<Cut> build(const Window &window, int64_t parts);
  void price(Cut &cut, llvm::function_ref<bool(Operation *)> isMember);
  void eraseUnusedKernels();

  std::shared_ptr<OverlapModel> model;
  exec::InstructionOpInterface first; ///< of the segment at hand
};
} // namespace

//===----------------------------------------------------------------------===//
// Which instructions are cut together
//===----------------------------------------------------------------------===//

static bool haveCommon(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return llvm::any_of(a, [&](int64_t x) { return llvm::is_contained(b, x); });
}

static bool dependsOn(const OverlapOp &later, const OverlapOp &earlier) {
  return haveCommon(earlier.writes, later.reads) ||
         haveCommon(earlier.writes, later.writes) ||
         haveCommon(earlier.reads, later.writes);
}

Window::Window(exec::InstructionOpInterface op, OverlapModel &model) {
  // What stages meet in keeps its place among all others.
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
  for (Operation *each = first; each != last->getNextNode();
       each = each->getNextNode()) {
    if (each == op)
      middle = list.size();
    list.push_back(cast<exec::InstructionOpInterface>(each));
    shapes.push_back(model.getShape(list.back()));
  }
  ops = model.getOps(list);
  for (const OverlapOp &later : ops) {
    llvm::BitVector &each = dependences.emplace_back(ops.size());
    for (size_t i = 0; &ops[i] != &later; ++i)
      each[unsigned(i)] = ::dependsOn(later, ops[i]);
  }
}

const std::optional<SmallVector<bool>> &Window::getCut(size_t i,
                                                       int64_t parts) const {
  auto [cut, isNew] = cuts.try_emplace({i, parts});
  if (isNew)
    cut->second = computeCut(i, parts);
  return cut->second;
}

/// Which operands are cut, each into as many parts that begin where operands
/// may.
std::optional<SmallVector<bool>> Window::computeCut(size_t i,
                                                    int64_t parts) const {
  auto op = dyn_cast<exec::RowsOpInterface>(*list[i]);
  std::optional<SmallVector<bool>> cut;
  if (op)
    cut = op.getCutOperands(parts);
  if (!cut)
    return std::nullopt;
  for (auto [value, isCut] : llvm::zip(op->getOperands(), *cut)) {
    if (isCut &&
        exec::getBytes(value) % (parts * int64_t(runtime::limits::alignment)) !=
            0)
      return std::nullopt;
  }
  return cut;
}

/// Those that wrote what the instruction reads in parts, or read what it writes
/// so, before something else is there.
SmallVector<size_t> Window::findPartners(size_t i, ArrayRef<bool> cut,
                                         int64_t parts) const {
  SmallVector<size_t> found;
  auto isCutIn = [&](size_t other, Value value, bool asOutput) {
    const std::optional<SmallVector<bool>> &cutOther = getCut(other, parts);
    bool isUsed = false;
    for (auto [k, operand] : llvm::enumerate(list[other]->getOperands()))
      if (operand == value && isOutput(other, unsigned(k)) == asOutput) {
        isUsed = true;
        if (!cutOther || !(*cutOther)[k])
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
    if (!cut[k])
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
void Window::prune(SmallVectorImpl<size_t> &members, int64_t parts) const {
  auto isLoose = [&](size_t i) {
    if (shapes[i].kind != TaskShape::Kind::Memory)
      return false;
    SmallVector<size_t> partners = findPartners(i, *getCut(i, parts), parts);
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

/// Whether parts of members get in each other's way by nothing but the same
/// part of the same bytes.
bool Window::areApart(ArrayRef<size_t> members, int64_t parts) const {
  for (size_t a : members)
    for (size_t b : members) {
      ArrayRef<bool> cutA = *getCut(a, parts), cutB = *getCut(b, parts);
      for (auto [i, x] : llvm::enumerate(list[a]->getOperands()))
        for (auto [k, y] : llvm::enumerate(list[b]->getOperands())) {
          bool isWritten = isOutput(a, unsigned(i)) || isOutput(b, unsigned(k));
          bool isAlike = x == y && cutA[i] == cutB[k] && (a == b || cutA[i]);
          if (isWritten && exec::getBuffer(x) == exec::getBuffer(y) && !isAlike)
            return false;
        }
    }
  return true;
}

SmallVector<size_t> Window::findMembers(int64_t parts) const {
  SmallVector<size_t> members;
  if (!getCut(middle, parts))
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
        for (size_t other : findPartners(i, *getCut(i, parts), parts))
          grows |= tryAdd(other);
  }
  prune(members, parts);
  return members;
}

std::optional<SmallVector<bool>>
Window::findBefore(ArrayRef<size_t> members) const {
  SmallVector<bool> isMember(list.size()), isBefore(list.size());
  for (size_t i : members)
    isMember[i] = true;
  for (size_t i = members.back(); i-- > members.front();) {
    if (isMember[i])
      continue;
    for (size_t later = i + 1; later <= members.back(); ++later)
      isBefore[i] |=
          (isMember[later] || isBefore[later]) && dependsOn(later, i);
    if (isBefore[i] && llvm::any_of(members, [&](size_t earlier) {
          return earlier < i && dependsOn(i, earlier);
        }))
      return std::nullopt;
  }
  return isBefore;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Part `number` of an instruction, before it, on views of its operands.
static exec::InstructionOpInterface
makePart(exec::InstructionOpInterface op, int64_t parts, int64_t number,
         llvm::function_ref<Value(Value)> getPart) {
  OpBuilder b(op);
  auto part = cast<exec::InstructionOpInterface>(b.clone(*op));
  auto rows = cast<exec::RowsOpInterface>(*part);
  SmallVector<bool> cut = *rows.getCutOperands(parts);
  rows.keepOnePart(parts);
  for (auto [operand, isCut] : llvm::zip(part->getOpOperands(), cut))
    if (isCut)
      operand.set(getPart(operand.get()));
  if (auto flops = part->getAttrOfType<FloatAttr>("flops"))
    part->setAttr("flops",
                  b.getF64FloatAttr(flops.getValueAsDouble() / double(parts)));
  return part;
}

/// Instructions of a window with its members in parts; nothing where that
/// cannot be, or would cut but one instruction.
std::optional<Cut> CutProducts::build(const Window &window, int64_t parts) {
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

  llvm::MapVector<std::pair<Value, int64_t>, Value> views;
  auto getPart = [&](Value value, int64_t number) {
    Value &part = views[{value, number}];
    if (part)
      return part;
    auto view = value.getDefiningOp<exec::ViewOp>();
    int64_t bytes = exec::getBytes(value) / parts;
    OpBuilder b(first);
    part = exec::ViewOp::create(b, value.getLoc(), exec::getBuffer(value),
                                bytes, view ? view.getPlaces() : 0,
                                (view ? int64_t(view.getFrom()) : 0) +
                                    number * bytes,
                                view ? view.getDistance() : 0);
    return part;
  };
  // From one collective to the next.
  for (auto begin = members.begin(), end = begin; begin != members.end();
       begin = end) {
    end = std::find_if(begin, members.end(),
                       [&](size_t i) { return window.ops[i].stream > 0; });
    if (end != members.end())
      ++end;
    for (int64_t number = 0; number < parts; ++number)
      for (size_t i : llvm::make_range(begin, end)) {
        cut.list.push_back(
            makePart(window.list[i], parts, number,
                     [&](Value value) { return getPart(value, number); }));
        cut.made.push_back(cut.list.back());
      }
  }
  for (auto &[key, view] : views)
    cut.made.push_back(view.getDefiningOp());
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
  Window window(op, *model);
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

/// Those of parts that were not worth it, and of what is now in parts.
void CutProducts::eraseUnusedKernels() {
  llvm::DenseSet<StringAttr> used;
  getOperation().walk(
      [&](exec::LaunchOp op) { used.insert(op.getKernelAttr().getAttr()); });
  for (auto kernel :
       llvm::make_early_inc_range(getOperation().getOps<exec::KernelOp>()))
    if (!used.contains(kernel.getSymNameAttr()))
      kernel.erase();
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
  eraseUnusedKernels();
}
