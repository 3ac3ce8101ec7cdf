//===- SimulatedRanks.cpp - What ranks hold while a program is interpreted ===//
#include "passes/Interpret/SimulatedRanks.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace cleave;

#include "passes/Interpret/Interpretable.cpp.inc"

std::optional<int64_t> cleave::countElements(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0 || (size > 0 && count > maxElements / size))
      return std::nullopt;
    count *= size;
  }
  return count;
}

SimulatedRanks::SimulatedRanks(Mesh mesh)
    : mesh(std::move(mesh)), ranks(size_t(this->mesh.getNumRanks())) {}

const Array &SimulatedRanks::get(Value value, int64_t rank) const {
  return ranks[size_t(rank)].values.at(value.getAsOpaquePointer());
}

Array &SimulatedRanks::value(Value value, int64_t rank) {
  return ranks[size_t(rank)].values[value.getAsOpaquePointer()];
}

Array &SimulatedRanks::make(Value result, int64_t rank) {
  Array &array = value(result, rank);
  array = Array::zeros(cast<RankedTensorType>(result.getType()).getShape());
  return array;
}

AxisList SimulatedRanks::getAxes(ArrayAttr names) const {
  return dist::getAxes(names, mesh);
}

int64_t SimulatedRanks::getShardIndex(Operation *op, int64_t rank) const {
  auto names = op->getAttrOfType<ArrayAttr>("shard_axes");
  return names ? mesh.getShardIndex(rank, getAxes(names)) : 0;
}

SimulatedRanks::Range SimulatedRanks::getRange(Value buffer) const {
  auto view = buffer.getDefiningOp<exec::ViewOp>();
  if (!view)
    return buffers.lookup(buffer);
  Range whole = buffers.lookup(view.getBuffer());
  int64_t place = microBatch % int64_t(view.getPlaces());
  return {whole.offset + place * int64_t(view.getBytes()),
          int64_t(view.getBytes())};
}

LogicalResult SimulatedRanks::run(Block &block) {
  for (Operation &op : block)
    if (failed(run(op)))
      return failure();
  return success();
}

LogicalResult SimulatedRanks::run(Operation &op) {
  if (op.hasTrait<OpTrait::IsTerminator>())
    return success();
  auto meaning = dyn_cast<InterpretableOpInterface>(op);
  if (!meaning)
    return op.emitOpError("has no meaning in f64 (InterpretableOpInterface)");
  if (observeBefore)
    observeBefore(op);
  if (failed(meaning.interpret(*this)))
    return failure();
  if (observeAfter)
    observeAfter(op);
  return success();
}
