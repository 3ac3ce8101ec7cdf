//===- FuseKernels.cpp - Which ops become one kernel ----------------------===//
//
// State: the group that the last op joined, still open. An op joins it if
//  1. it is plain (no start values, no second pass over rows), and over the
//     group's rows and columns in the group's mode, rows or sums over rows;
//     or each of its tensors has one element for each row of a group of rows;
//  2. it reads the group's values only at the element that computes them; a
//     sum over rows is there only at the end, so nothing in the group reads it;
//  3. it tells its shard by the same axes as the group, and its results meet
//     what their buffers hold as the group's do.
// Any other op closes the group. Members are neighbours, so no op between them
// can depend on the order.
//
// Example: add, rms_norm over [16, 64] -> one group; row_max, sum_exp, pick
// over [16, 512] and token_loss over [4, 4] -> one group, the loss once a row;
// the gradients of a layer norm's weight and bias -> one group.
//
//===----------------------------------------------------------------------===//
#include "passes/Kernels/FuseKernels.h"
#include "dialects/xf/Provenance.h"
#include "passes/Kernels/Passes.h"
#include "passes/Log.h"

#define DEBUG_TYPE "cleave-lower-to-exec"

using namespace mlir;
using namespace cleave;

/// Sums over rows of one kernel: threads have all of them in registers, and a
/// block's warps join them in shared memory.
constexpr size_t mostSums = 8;

static int64_t getSize(const KernelSpace &space) {
  return space.rows * space.columns;
}

static bool isPlain(const KernelSpace &space) {
  return space.copyFrom < 0 && !space.zeroResults && !space.foldRows;
}

static bool isPlainRow(const KernelSpace &space) {
  return space.mode == exec::KernelMode::Row && isPlain(space);
}

/// Every access is to the element of the space: nothing is repeated or moved.
static bool isPointwise(const KernelSpace &space) {
  auto plain = [&](const KernelAccess &each) {
    exec::AccessAttr access = each.access;
    return access.getOffset() == 0 && access.getRowDiv() == 1 &&
           access.getRowMod() == 0 && access.getRowStride() == space.columns &&
           access.getColStride() == 1;
  };
  return llvm::all_of(space.inputs, plain) &&
         llvm::all_of(space.outputs, plain);
}

/// A pointwise space over `rows` elements as one element a row of `target`.
static void spreadOverRows(KernelSpace &space, const KernelSpace &target) {
  auto spread = [&](KernelAccess &each) {
    each.access = exec::AccessAttr::get(each.access.getContext(),
                                        each.access.getType(), 0, 1, 0, 1, 0);
  };
  llvm::for_each(space.inputs, spread);
  llvm::for_each(space.outputs, spread);
  space.rows = target.rows;
  space.columns = target.columns;
}

static Value getTensor(Operation *op, unsigned tensor) {
  return tensor < op->getNumOperands()
             ? op->getOperand(tensor)
             : op->getResult(tensor - op->getNumOperands());
}

/// Where a member of the group writes `value`; null if none does.
static exec::AccessAttr findOutput(const KernelGroup &group, Value value) {
  for (const KernelGroup::Member &member : group.members)
    for (const KernelAccess &each : member.space.outputs)
      if (getTensor(member.op, each.tensor) == value)
        return each.access;
  return {};
}

/// Fits `space` to the group's; or says why `op` cannot join.
static llvm::StringRef tryFit(const KernelGroup &group, Operation *op,
                              KernelSpace &space) {
  const KernelSpace &target = group.getSpace();
  if (!isPlain(space) || !isPlain(target) || space.mode != target.mode)
    return "one has start values or a second pass, or their modes differ";
  if (space.rows != target.rows || space.columns != target.columns) {
    if (!isPlainRow(space) || !isPointwise(space) ||
        getSize(space) != target.rows)
      return "they walk other rows and columns";
    spreadOverRows(space, target);
  }
  size_t tensors = space.inputs.size() + space.outputs.size();
  size_t outputs = space.outputs.size();
  for (const KernelGroup::Member &member : group.members) {
    tensors += member.space.inputs.size() + member.space.outputs.size();
    outputs += member.space.outputs.size();
  }
  if (tensors > mostKernelTensors)
    return "a kernel has no room for so many tensors";
  if (!isPlainRow(space) && outputs > mostSums)
    return "a kernel has no room for so many sums over rows";
  for (const KernelAccess &each : space.inputs) {
    exec::AccessAttr written = findOutput(group, getTensor(op, each.tensor));
    if (written && (!isPlainRow(space) || written != each.access))
      return "it reads elsewhere what the group computes";
  }
  Attribute axes = op->getAttr("shard_axes");
  for (const KernelGroup::Member &member : group.members)
    if (Attribute other = member.op->getAttr("shard_axes"))
      if (axes && axes != other)
        return "they tell their shards by other axes";
  if (xf::getPhase(op) != xf::getPhase(group.getLast()))
    return "they are of other phases";
  return "";
}

/// The op of the block that computes the last of an op's operands; null if none
/// is computed there.
static Operation *findLastSource(Operation &op) {
  Operation *last = nullptr;
  for (Value operand : op.getOperands()) {
    Operation *source = operand.getDefiningOp();
    if (source && source->getBlock() == op.getBlock() &&
        (!last || last->isBeforeInBlock(source)))
      last = source;
  }
  return last;
}

/// Whether a result is a new value of state, which may take the old one's place
/// as soon as it is computed: what reads the old one comes before it.
static bool isOfState(Operation &op) {
  return llvm::any_of(op.getUsers(),
                      [](Operation *user) { return isa<xf::SetOp>(user); });
}

void cleave::moveTogether(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    Operation *last = kernel ? findLastSource(op) : nullptr;
    auto source = dyn_cast_or_null<KernelOpInterface>(last);
    if (!source || last->getNextNode() == &op || isOfState(op) ||
        xf::getPhase(last) != xf::getPhase(&op) ||
        xf::AccumulateOp::getSegment(last) != xf::AccumulateOp::getSegment(&op))
      continue;
    KernelSpace space = kernel.getKernelSpace(),
                target = source.getKernelSpace();
    if (isPlainRow(space) && isPlainRow(target) && space.rows == target.rows &&
        space.columns == target.columns)
      op.moveAfter(last);
  }
}

SmallVector<KernelGroup> cleave::groupKernels(
    Block &block, bool fuse, llvm::function_ref<bool(Operation *)> isKernel,
    llvm::function_ref<exec::Accumulate(Value)> getAccumulate) {
  SmallVector<KernelGroup> groups;
  bool open = false;
  for (Operation &op : block) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    if (!kernel || !isKernel(&op)) {
      open = false;
      continue;
    }
    KernelSpace space = kernel.getKernelSpace();
    auto meetsAlike = [&] {
      return getAccumulate(groups.back().getLast()->getResult(0)) ==
             getAccumulate(op.getResult(0));
    };
    llvm::StringRef reason =
        !fuse           ? "fusing is off"
        : !open         ? "no kernel is before it"
        : !meetsAlike() ? "they meet what their buffers hold in other ways"
                        : tryFit(groups.back(), &op, space);
    LDBG() << op.getName()
           << (reason.empty() ? " joins the kernel before it"
                              : " begins a kernel: ")
           << reason;
    if (!reason.empty())
      groups.emplace_back();
    groups.back().members.push_back({&op, space});
    open = true;
  }
  return groups;
}
