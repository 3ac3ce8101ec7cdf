//===- Rows.cpp - Instructions as several, each of some rows --------------===//
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

/// Nothing where the rows cannot be cut.
using MaybeShares = std::optional<Shares>;

/// Parts of the first input and of the first output, where `rows` can be cut.
static MaybeShares cutFirst(InstructionOpInterface op, int64_t rows,
                            int64_t parts) {
  if (rows % parts != 0)
    return std::nullopt;
  SmallVector<Share> shares(op->getNumOperands(), Share::Whole);
  shares[0] = shares[op.getInputs().size()] = Share::Part;
  return shares;
}

/// Whether C is a sum over the rows of A and B, as they lie in memory: not one
/// that each part would round, or add a bias to.
static bool sumsOverRows(GemmOp op) {
  return op.getTransA() && !op.getTransB() && !op.getHasBias() &&
         op.getTypeC().isF32();
}

/// The rows are those of C, each a product of one of A, or those that C is a
/// sum over.
MaybeShares GemmOp::getShares(int64_t parts) {
  if (!getTransA())
    return cutFirst(*this, getM(), parts);
  if (!sumsOverRows(*this) || int64_t(getK()) % parts != 0)
    return std::nullopt;
  SmallVector<Share> shares(getNumOperands(), Share::Whole);
  shares[0] = shares[1] = Share::Part;
  shares[2] = Share::Sum;
  return shares;
}
void GemmOp::keepOnePart(int64_t parts, int64_t number) {
  if (!getTransA())
    return setM(int64_t(getM()) / parts);
  setK(int64_t(getK()) / parts);
  if (number > 0)
    setAccumulate(Accumulate::Always);
}

MaybeShares AllReduceOp::getShares(int64_t parts) {
  return cutFirst(*this, getElements(), parts);
}
void AllReduceOp::keepOnePart(int64_t parts, int64_t) {
  setElements(int64_t(getElements()) / parts);
}

MaybeShares AllGatherOp::getShares(int64_t parts) {
  return cutFirst(*this, getOuter(), parts);
}
void AllGatherOp::keepOnePart(int64_t parts, int64_t) {
  setOuter(int64_t(getOuter()) / parts);
}

MaybeShares ReduceScatterOp::getShares(int64_t parts) {
  return cutFirst(*this, getOuter(), parts);
}
void ReduceScatterOp::keepOnePart(int64_t parts, int64_t) {
  setOuter(int64_t(getOuter()) / parts);
}

/// Null where the module has none of its name.
static KernelOp findKernel(LaunchOp op) {
  return SymbolTable::lookupNearestSymbolFrom<KernelOp>(op, op.getKernelAttr());
}

/// What `part` rows of a kernel have of an operand; nothing where they find
/// their elements neither in a part of it nor where the others do.
static std::optional<Share> getShare(AccessAttr access, int64_t part,
                                     bool isOutput) {
  int64_t group = access.getRowDiv() * std::max<int64_t>(access.getRowMod(), 1);
  bool repeats = access.getRowStride() == 0 || access.getRowMod() > 0;
  // Only some of its rows write a place that several have.
  if (isOutput && (repeats || access.getRowDiv() > 1))
    return std::nullopt;
  if (access.getRowStride() > 0 && part % group != 0)
    return std::nullopt;
  if (!repeats && access.getOffset() >= access.getRowStride())
    return std::nullopt;
  return repeats ? Share::Whole : Share::Part;
}

MaybeShares LaunchOp::getShares(int64_t parts) {
  KernelOp kernel = findKernel(*this);
  if (!kernel || kernel.getMode() == KernelMode::Column ||
      int64_t(kernel.getRows()) % parts != 0)
    return std::nullopt;
  int64_t part = int64_t(kernel.getRows()) / parts;
  SmallVector<Share> shares;
  for (auto [accesses, isOutput] :
       {std::pair(kernel.getInputs(), false), {kernel.getOutputs(), true}})
    for (auto access : accesses.getAsRange<AccessAttr>()) {
      std::optional<Share> each = getShare(access, part, isOutput);
      if (!each)
        return std::nullopt;
      shares.push_back(*each);
    }
  return shares;
}

/// A kernel's rows are its own: one of fewer is another kernel, which launches
/// of as many share.
void LaunchOp::keepOnePart(int64_t parts, int64_t) {
  KernelOp kernel = findKernel(*this);
  std::string name = (kernel.getSymName() + "_part_of_" + Twine(parts)).str();
  if (!SymbolTable::lookupNearestSymbolFrom(
          *this, StringAttr::get(getContext(), name))) {
    OpBuilder b(kernel);
    b.setInsertionPointAfter(kernel);
    auto part = cast<KernelOp>(b.clone(*kernel));
    part.setSymName(name);
    part.setRows(int64_t(kernel.getRows()) / parts);
  }
  setKernel(name);
}
