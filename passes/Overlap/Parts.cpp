//===- Parts.cpp ----------------------------------------------------------===//
#include "passes/Overlap/Parts.h"
#include "runtime/program/Limits.h"

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

InstructionWindow::InstructionWindow(Instructions list)
    : Window(listOperands(list)), list(std::move(list)) {}

std::optional<Shares> InstructionWindow::computeShares(size_t i,
                                                       int64_t parts) const {
  auto op = dyn_cast<exec::RowsOpInterface>(*list[i]);
  std::optional<Shares> found;
  if (op)
    found = op.getShares(parts);
  if (!found)
    return std::nullopt;
  for (auto [value, share] : llvm::zip(op->getOperands(), *found))
    if (share == Share::Part &&
        exec::getBytes(value) % (parts * int64_t(runtime::limits::alignment)) !=
            0)
      return std::nullopt;
  return found;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void PartBuilder::share(Value value) {
  exec::BufferOp whole = exec::getBuffer(value);
  OpBuilder b(whole);
  shared[value] = exec::BufferOp::create(b, whole.getLoc(), whole.getCategory(),
                                         exec::getBytes(value) / parts);
}

Value PartBuilder::getPart(Value value, int64_t number) {
  if (auto buffer = shared.find(value); buffer != shared.end())
    return buffer->second;
  Value &part = views[{value, number}];
  if (part)
    return part;
  auto view = value.getDefiningOp<exec::ViewOp>();
  int64_t bytes = exec::getBytes(value) / parts;
  OpBuilder b(before);
  part = exec::ViewOp::create(b, value.getLoc(), exec::getBuffer(value), bytes,
                              view ? view.getPlaces() : 0,
                              (view ? int64_t(view.getFrom()) : 0) +
                                  number * bytes,
                              view ? view.getDistance() : 0);
  return part;
}

exec::InstructionOpInterface
PartBuilder::makePart(exec::InstructionOpInterface op, int64_t number) {
  OpBuilder b(op);
  auto part = cast<exec::InstructionOpInterface>(b.clone(*op));
  auto rows = cast<exec::RowsOpInterface>(*part);
  Shares shares = *rows.getShares(parts);
  rows.keepOnePart(parts, number);
  for (auto [operand, share] : llvm::zip(part->getOpOperands(), shares))
    if (share == Share::Part)
      operand.set(getPart(operand.get(), number));
  if (auto flops = part->getAttrOfType<FloatAttr>("flops"))
    part->setAttr("flops",
                  b.getF64FloatAttr(flops.getValueAsDouble() / double(parts)));
  made.push_back(part);
  return part;
}

SmallVector<Operation *> PartBuilder::getMade() const {
  SmallVector<Operation *> all = made;
  for (auto &[key, view] : views)
    all.push_back(view.getDefiningOp());
  for (auto &[value, buffer] : shared)
    all.push_back(buffer.getDefiningOp());
  return all;
}

void cleave::eraseUnusedKernels(ModuleOp module) {
  llvm::DenseSet<StringAttr> used;
  module.walk(
      [&](exec::LaunchOp op) { used.insert(op.getKernelAttr().getAttr()); });
  for (auto kernel :
       llvm::make_early_inc_range(module.getOps<exec::KernelOp>()))
    if (!used.contains(kernel.getSymNameAttr()))
      kernel.erase();
}
