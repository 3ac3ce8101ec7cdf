//===- OverlapModel.cpp ---------------------------------------------------===//
#include "passes/Overlap/OverlapModel.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Streams/Order.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Work.h"
#include "passes/Overlap/StreamModel.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;

Instructions cleave::getInstructions(exec::SegmentOp segment) {
  return Instructions(
      segment.getBody().front().getOps<exec::InstructionOpInterface>());
}

/// Of the memory that there is, what an arena's buffers may have in use at
/// once: packed, they need a little more.
static constexpr double packedShare = 0.95;

/// What a rank computes on, where the cluster says so.
static llvm::Expected<std::optional<Device>> findDevice(StringRef cluster) {
  if (cluster.empty())
    return std::nullopt;
  llvm::Expected<Cluster> parsed = parseCluster(cluster);
  if (!parsed)
    return parsed.takeError();
  if (!parsed->groups.front().device)
    return std::nullopt;
  // The share of a rank.
  std::string note;
  llvm::Expected<Machine> machine = getMachine(*parsed, note);
  if (!machine)
    return machine.takeError();
  return machine->device;
}

static double getRoom(const std::optional<Device> &device) {
  return device ? packedShare * (device->memory - device->reserve)
                : std::numeric_limits<double>::infinity();
}

llvm::Expected<double> cleave::getRoom(StringRef cluster) {
  llvm::Expected<std::optional<Device>> device = findDevice(cluster);
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
  llvm::Expected<std::optional<Device>> device = findDevice(cluster);
  if (!device)
    return module.emitError(llvm::toString(device.takeError()));
  // Inside a node of CPUs it is their cores that move data.
  bool isCpu = !*device || (*device)->cores > 0;
  Mesh mesh = meshOp.getMesh();
  llvm::Expected<Network> network = getNetwork(cluster, mesh.getNumRanks());
  if (!network)
    return meshOp.emitError(llvm::toString(network.takeError()));
  double room = ::getRoom(*device);
  std::optional<Axis> stages;
  if (meshOp.getStageAxis())
    stages = mesh.getAxisIndex(*meshOp.getStageAxis());
  TaskPricer pricer(mesh, stages, std::move(*network), std::move(*device));
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

namespace {
/// Cuts buffers where operands begin and end, and numbers the stretches
/// between. Views of a buffer that have places have the same distances, so what
/// meets in one micro-batch's places does in the first.
class Stretches {
public:
  explicit Stretches(ArrayRef<exec::InstructionOpInterface> instructions) {
    for (exec::InstructionOpInterface op : instructions)
      for (Value value : op->getOperands()) {
        auto [begin, end] = getRange(value);
        llvm::append_values(cuts[exec::getBuffer(value)].at, begin, end);
      }
    int64_t next = 0;
    for (auto &[buffer, each] : cuts) {
      llvm::sort(each.at);
      each.at.erase(llvm::unique(each.at), each.at.end());
      each.first = next;
      next += int64_t(each.at.size()) - 1;
    }
  }

  void append(Value value, SmallVectorImpl<int64_t> &numbers) const {
    const Cuts &each = cuts.find(exec::getBuffer(value))->second;
    auto [begin, end] = getRange(value);
    for (auto at = llvm::lower_bound(each.at, begin); *at != end; ++at)
      numbers.push_back(each.first + (at - each.at.begin()));
  }

private:
  struct Cuts {
    SmallVector<int64_t, 2> at;
    int64_t first = 0;
  };

  static std::pair<int64_t, int64_t> getRange(Value value) {
    auto view = value.getDefiningOp<exec::ViewOp>();
    if (!view)
      return {0, exec::getBytes(value)};
    int64_t begin = int64_t(view.getFrom());
    return {begin, begin + int64_t(view.getBytes())};
  }

  llvm::MapVector<Operation *, Cuts> cuts;
};
} // namespace

std::vector<OverlapOp>
OverlapModel::getOps(ArrayRef<exec::InstructionOpInterface> instructions) {
  Stretches stretches(instructions);
  std::vector<OverlapOp> ops;
  for (exec::InstructionOpInterface op : instructions) {
    OverlapOp &each = ops.emplace_back();
    TaskShape shape = getShape(op);
    each.seconds = pricer.getSeconds(shape);
    each.isFence = pricer.tiesStages(shape);
    if (mayRunAside(shape)) {
      each.stream = getStream(op);
      each.kind = getKind(op);
    }
    double in = 0, out = 0;
    for (Value value : op.getInputs()) {
      stretches.append(value, each.reads);
      in += double(exec::getBytes(value));
    }
    for (OperandRange written : {op.getOutputs(), op.getWorkspace()})
      for (Value value : written) {
        stretches.append(value, each.writes);
        // What is kept takes no memory that others could have.
        if (!exec::getBuffer(value).getPinned())
          out += double(exec::getBytes(value));
      }
    each.grows = out > in;
    each.mayFollow = shape.kind == TaskShape::Kind::Memory && !each.isFence &&
                     each.stream == 0 && !each.grows;
  }
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
