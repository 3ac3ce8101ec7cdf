//===- Rows.cpp - Instructions as several, each of some rows --------------===//
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace cleave::exec;

using CutOperands = std::optional<SmallVector<bool>>;

/// The first input and the first output.
static SmallVector<bool> cutFirst(InstructionOpInterface op) {
  SmallVector<bool> cut(op->getNumOperands());
  cut[0] = cut[op.getInputs().size()] = true;
  return cut;
}

/// Of `rows`.
static CutOperands cutFirst(InstructionOpInterface op, int64_t rows,
                            int64_t parts) {
  if (rows % parts != 0)
    return std::nullopt;
  return cutFirst(op);
}

/// Those of C, each a product of one of A.
CutOperands GemmOp::getCutOperands(int64_t parts) {
  if (getTransA())
    return std::nullopt;
  return cutFirst(*this, getM(), parts);
}
void GemmOp::keepOnePart(int64_t parts) { setM(int64_t(getM()) / parts); }

CutOperands AllReduceOp::getCutOperands(int64_t parts) {
  return cutFirst(*this, getElements(), parts);
}
void AllReduceOp::keepOnePart(int64_t parts) {
  setElements(int64_t(getElements()) / parts);
}

CutOperands AllGatherOp::getCutOperands(int64_t parts) {
  return cutFirst(*this, getOuter(), parts);
}
void AllGatherOp::keepOnePart(int64_t parts) {
  setOuter(int64_t(getOuter()) / parts);
}

CutOperands ReduceScatterOp::getCutOperands(int64_t parts) {
  return cutFirst(*this, getOuter(), parts);
}
void ReduceScatterOp::keepOnePart(int64_t parts) {
  setOuter(int64_t(getOuter()) / parts);
}

/// Null where the module has none of its name.
static KernelOp findKernel(LaunchOp op) {
  return SymbolTable::lookupNearestSymbolFrom<KernelOp>(op, op.getKernelAttr());
}

/// Whether an operand is cut where a kernel's rows are; nothing where `part`
/// rows find their elements neither in a part of it nor where the others do.
static std::optional<bool> isCut(AccessAttr access, int64_t part,
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
  return !repeats;
}

CutOperands LaunchOp::getCutOperands(int64_t parts) {
  KernelOp kernel = findKernel(*this);
  if (!kernel || kernel.getMode() == KernelMode::Column ||
      int64_t(kernel.getRows()) % parts != 0)
    return std::nullopt;
  int64_t part = int64_t(kernel.getRows()) / parts;
  SmallVector<bool> cut;
  for (auto [accesses, isOutput] :
       {std::pair(kernel.getInputs(), false), {kernel.getOutputs(), true}})
    for (auto access : accesses.getAsRange<AccessAttr>()) {
      std::optional<bool> each = isCut(access, part, isOutput);
      if (!each)
        return std::nullopt;
      cut.push_back(*each);
    }
  return cut;
}

/// A kernel's rows are its own: one of fewer is another kernel, which launches
/// of as many share.
void LaunchOp::keepOnePart(int64_t parts) {
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
