//===- OverlapModel.cpp ---------------------------------------------------===//
#include "passes/Overlap/OverlapModel.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Streams/Order.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Work.h"
#include "dialects/xf/Provenance.h"
#include "passes/Overlap/StreamModel.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;

Instructions cleave::getInstructions(exec::SegmentOp segment) {
  return Instructions(
      segment.getBody().front().getOps<exec::InstructionOpInterface>());
}

/// What a rank computes on, where the cluster says so.
static llvm::Expected<std::optional<Device>> getDeviceOf(StringRef cluster) {
  if (cluster.empty())
    return std::nullopt;
  llvm::Expected<Cluster> parsed = parseCluster(cluster);
  if (!parsed)
    return parsed.takeError();
  return findDevice(*parsed);
}

static double getRoom(const std::optional<Device> &device) {
  return device ? device->getRoom() : std::numeric_limits<double>::infinity();
}

llvm::Expected<double> cleave::getRoom(StringRef cluster) {
  llvm::Expected<std::optional<Device>> device = getDeviceOf(cluster);
  if (!device)
    return device.takeError();
  return ::getRoom(*device);
}

FailureOr<std::shared_ptr<OverlapModel>>
OverlapModel::create(ModuleOp module, StringRef mode, StringRef cluster) {
  if (mode != "auto" && mode != "always" && mode != "never")
    return module.emitError("expects mode to be auto, always or never, got ")
           << mode;
  dist::MeshOp meshOp = dist::lookupMesh(module);
  if (mode == "never" || !meshOp)
    return std::shared_ptr<OverlapModel>();
  llvm::Expected<std::optional<Device>> device = getDeviceOf(cluster);
  if (!device)
    return module.emitError(llvm::toString(device.takeError()));
  // Inside a node of CPUs it is their cores that move data.
  bool isCpu = !*device || (*device)->cores > 0;
  Mesh mesh = meshOp.getMesh();
  llvm::Expected<Network> network = getNetwork(cluster, mesh.getNumRanks());
  if (!network)
    return meshOp.emitError(llvm::toString(network.takeError()));
  double room = ::getRoom(*device);
  TaskRates rates;
  if (*device) {
    llvm::Expected<Profile> profile = loadOwnProfile(**device);
    if (!profile)
      return module.emitError(llvm::toString(profile.takeError()));
    rates = TaskRates(*profile);
  }
  std::optional<Axis> stages;
  if (meshOp.getStageAxis())
    stages = mesh.getAxisIndex(*meshOp.getStageAxis());
  TaskPricer pricer(mesh, stages, std::move(*network), std::move(*device),
                    std::move(rates));
  return std::shared_ptr<OverlapModel>(new OverlapModel(
      std::move(mesh), std::move(pricer), mode == "auto" && isCpu, room));
}

TaskShape OverlapModel::getShape(exec::InstructionOpInterface op) const {
  return getTaskShape(op, mesh);
}

/// Whether the task moves data to other ranks by itself, and need not be
/// waited for where it stands: collectives inside a stage, and messages that
/// are sent.
bool OverlapModel::mayRunAside(const TaskShape &shape) const {
  if (pricer.getCrossedAxes(shape).empty() || pricer.tiesStages(shape))
    return false;
  return !onlyBetweenNodes || pricer.leavesNode(shape);
}

/// Of a group of axes, or of messages; the last is for all that are left.
int64_t OverlapModel::getStream(exec::InstructionOpInterface op) {
  auto [it, isNew] =
      streams.insert({op.getGroup(), int64_t(streams.size()) + 1});
  return std::min(it->second, maxStreams - 1);
}

/// Of an instruction that may begin together with others; -1 of others.
int64_t OverlapModel::getKind(exec::InstructionOpInterface op) {
  if (!runtime::isBucketed(exec::getOpcode(op).value_or(program::Opcode::NONE)))
    return -1;
  return kinds.insert({{op->getName(), op.getGroup()}, int64_t(kinds.size())})
      .first->second;
}

/// From where to where a value lies in its buffer. Views of a buffer that has
/// places have the same distances, so what meets in one micro-batch's places
/// does in the first.
static std::pair<int64_t, int64_t> getRange(Value value) {
  auto view = value.getDefiningOp<exec::ViewOp>();
  int64_t begin = view ? int64_t(view.getFrom()) : 0;
  return {begin, begin + exec::getBytes(value)};
}

std::vector<RowsOperands>
cleave::listOperands(ArrayRef<exec::InstructionOpInterface> instructions) {
  llvm::DenseMap<Value, int64_t> values;
  llvm::DenseMap<Operation *, int64_t> buffers;
  std::vector<RowsOperands> all;
  for (exec::InstructionOpInterface op : instructions) {
    RowsOperands &operands = all.emplace_back();
    for (auto [i, value] : llvm::enumerate(op->getOperands())) {
      RowsOperand &operand = operands.emplace_back();
      operand.value =
          values.insert({value, int64_t(values.size())}).first->second;
      operand.buffer =
          buffers.insert({exec::getBuffer(value), int64_t(buffers.size())})
              .first->second;
      std::tie(operand.begin, operand.end) = getRange(value);
      operand.isWritten = i >= op.getInputs().size();
    }
  }
  return all;
}

std::vector<OverlapOp>
OverlapModel::getOps(ArrayRef<exec::InstructionOpInterface> instructions) {
  std::vector<OverlapOp> ops;
  for (exec::InstructionOpInterface op : instructions) {
    OverlapOp &each = ops.emplace_back();
    TaskShape shape = getShape(op);
    each.seconds = pricer.getSeconds(shape);
    each.isFence = pricer.tiesStages(shape);
    if (mayRunAside(shape)) {
      each.stream = getStream(op);
      each.kind = getKind(op);
      Task task;
      task.shape = shape;
      if (std::optional<xf::Phase> phase = xf::getPhase(op))
        task.phase = xf::stringifyPhase(*phase);
      each.skew = pricer.getSkew(task);
    }
    double in = 0, out = 0;
    for (Value value : op.getInputs())
      in += double(exec::getBytes(value));
    for (OperandRange written : {op.getOutputs(), op.getWorkspace()})
      for (Value value : written)
        // What is kept takes no memory that others could have.
        if (!exec::getBuffer(value).getPinned())
          out += double(exec::getBytes(value));
    each.grows = out > in;
    each.mayFollow = shape.kind == TaskShape::Kind::Memory && !each.isFence &&
                     each.stream == 0 && !each.grows;
  }
  std::vector<RowsOperands> operands = listOperands(instructions);
  setAccesses(ops, std::vector<ArrayRef<RowsOperand>>(operands.begin(),
                                                      operands.end()));
  return ops;
}

OverlapResult
OverlapModel::schedule(ArrayRef<exec::InstructionOpInterface> instructions,
                       ArrayRef<OverlapOp> ops,
                       const OverlapMemory &memory) const {
  std::vector<TaskShape> shapes;
  for (exec::InstructionOpInterface op : instructions)
    shapes.push_back(getShape(op));
  auto getSeconds = [&](ArrayRef<int64_t> bucket) {
    TaskShape whole = shapes[size_t(bucket.front())];
    for (int64_t each : bucket.drop_front())
      whole.bytes += shapes[size_t(each)].bytes;
    return pricer.getSeconds(whole);
  };
  return overlapInBuckets(ops, getSeconds, memory);
}
