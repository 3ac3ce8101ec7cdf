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

/// The mesh of one stage.
static Mesh withoutStages(const Mesh &world, Axis stageAxis) {
  SmallVector<MeshAxis> axes(world.getAxes());
  axes[stageAxis].size = 1;
  return Mesh(axes);
}

SimulatedRanks::SimulatedRanks(const Mesh &world, Axis stageAxis,
                               int64_t number, StageExchange &exchange)
    : SimulatedRanks(withoutStages(world, stageAxis)) {
  stage = Stage{world, stageAxis, number, &exchange};
}

int64_t SimulatedRanks::getWorldRank(int64_t rank) const {
  return stage ? getWorldRank(rank, stage->number) : rank;
}

int64_t SimulatedRanks::getWorldRank(int64_t rank, int64_t number) const {
  int64_t inner = 1; // ranks between neighbouring stages
  for (Axis axis = stage->axis + 1; axis < mesh.getNumAxes(); ++axis)
    inner *= mesh.getSize(axis);
  int64_t count = stage->world.getSize(stage->axis);
  return (rank / inner * count + number) * inner + rank % inner;
}

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
  int64_t place = microBatch % std::max<int64_t>(view.getPlaces(), 1);
  return {whole.offset + int64_t(view.getFrom()) + place * view.getDistance(),
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

//===----------------------------------------------------------------------===//
// Between ranks
//===----------------------------------------------------------------------===//

GroupParts Gathered::getGroup(int64_t rank) const {
  int64_t number = numbers[size_t(rank)];
  GroupParts group{{}, mesh.getShardIndex(number, axes)};
  for (int64_t other : mesh.getGroup(number, axes))
    group.parts.push_back(&inputs[size_t(other)]);
  return group;
}

LogicalResult SimulatedRanks::send(Operation *op, int64_t to, int64_t channel,
                                   Message message) {
  if (!stage)
    return op->emitOpError("expects a step of several stages");
  message.sender = op;
  message.microBatch = microBatch;
  stage->exchange->send(stage->number, to, channel, std::move(message));
  return success();
}

FailureOr<Message> SimulatedRanks::receive(Operation *op, int64_t from,
                                           int64_t channel) {
  if (!stage)
    return op->emitOpError("expects a step of several stages");
  return stage->exchange->receive(stage->number, op, from, channel, microBatch);
}

int64_t SimulatedRanks::getGroupSize(ArrayAttr names) const {
  return (stage ? stage->world : mesh).getSize(getAxes(names));
}

FailureOr<Gathered> SimulatedRanks::gather(Operation *op, ArrayAttr names,
                                           std::vector<Array> inputs) {
  AxisList axes = getAxes(names);
  bool spansStages = stage && llvm::is_contained(axes, stage->axis);
  std::vector<int64_t> numbers;
  for (int64_t rank = 0; rank < size(); ++rank)
    numbers.push_back(spansStages ? getWorldRank(rank) : rank);
  if (!spansStages)
    return Gathered(mesh, axes, std::move(inputs), std::move(numbers));
  auto parts = stage->exchange->meet(stage->number, op, std::move(inputs));
  if (failed(parts))
    return failure();
  std::vector<Array> all(size_t(stage->world.getNumRanks()));
  for (auto [number, part] : llvm::enumerate(*parts))
    for (auto [rank, input] : llvm::enumerate(part.inputs))
      all[size_t(getWorldRank(int64_t(rank), int64_t(number)))] = input;
  return Gathered(stage->world, axes, std::move(all), std::move(numbers));
}
