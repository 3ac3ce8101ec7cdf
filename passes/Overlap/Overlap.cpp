//===- Overlap.cpp - What runs beside compute, and in which order ---------===//
#include "cleave/Streams/Overlap.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Tasks/Price.h"
#include "dialects/dist/Placements.h"
#include "passes/Log.h"
#include "passes/Overlap/JoinRuns.h"
#include "passes/Overlap/Passes.h"
#include "passes/Overlap/StreamModel.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "cleave-overlap"

namespace cleave {
#define GEN_PASS_DEF_OVERLAPPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class Overlap : public cleave::impl::OverlapPassBase<Overlap> {
public:
  using OverlapPassBase::OverlapPassBase;

private:
  void runOnOperation() override {
    if (mode != "auto" && mode != "always" && mode != "never") {
      getOperation().emitError("expects mode to be auto, always or never, got ")
          << mode;
      return signalPassFailure();
    }
    dist::MeshOp meshOp = dist::lookupMesh(getOperation());
    if (mode == "never" || !meshOp)
      return;
    llvm::Expected<std::optional<Device>> device = findDevice();
    if (!device) {
      getOperation().emitError(llvm::toString(device.takeError()));
      return signalPassFailure();
    }
    // Inside a node of CPUs it is their cores that move data.
    bool isCpu = !*device || (*device)->cores > 0;
    onlyBetweenNodes = mode == "auto" && isCpu;
    mesh = meshOp.getMesh();
    llvm::Expected<Network> network = getNetwork(cluster, mesh.getNumRanks());
    if (!network) {
      meshOp.emitError(llvm::toString(network.takeError()));
      return signalPassFailure();
    }
    std::optional<Axis> stages;
    if (meshOp.getStageAxis())
      stages = mesh.getAxisIndex(*meshOp.getStageAxis());
    pricer.emplace(mesh, stages, std::move(*network), std::move(*device));
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      numJoined += joinRuns(
          program, [&](auto instructions) { return getSeconds(instructions); });
      for (auto segment : program.getBody().front().getOps<exec::SegmentOp>())
        order(segment);
      alignChannels(program);
    }
  }

  /// What a rank computes on, where the cluster says so.
  llvm::Expected<std::optional<Device>> findDevice() {
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

  /// Whether the task moves data to other ranks by itself, and need not be
  /// waited for where it stands: collectives inside a stage, and messages that
  /// are sent.
  bool mayRunAside(const TaskShape &shape) {
    if (pricer->getCrossedAxes(shape).empty() || pricer->tiesStages(shape))
      return false;
    return !onlyBetweenNodes || pricer->leavesNode(shape);
  }

  /// Of a group of axes, or of messages; the last is for all that are left.
  int64_t getStream(exec::InstructionOpInterface op) {
    auto [it, isNew] =
        streams.insert({op.getGroup(), int64_t(streams.size()) + 1});
    return std::min(it->second, maxStreams - 1);
  }

  /// What the scheduler sees of instructions.
  SmallVector<OverlapOp>
  getOps(ArrayRef<exec::InstructionOpInterface> instructions) {
    llvm::DenseMap<Operation *, int64_t> numbers;
    auto getNumber = [&](Value value) {
      return numbers
          .try_emplace(exec::getBuffer(value), int64_t(numbers.size()))
          .first->second;
    };
    SmallVector<OverlapOp> ops;
    for (exec::InstructionOpInterface op : instructions) {
      OverlapOp &each = ops.emplace_back();
      TaskShape shape = getTaskShape(op, mesh);
      each.seconds = pricer->getSeconds(shape);
      each.isFence = pricer->tiesStages(shape);
      if (mayRunAside(shape))
        each.stream = getStream(op);
      double in = 0, out = 0;
      for (Value value : op.getInputs()) {
        each.reads.push_back(getNumber(value));
        in += double(exec::getBuffer(value).getBytes());
      }
      for (OperandRange written : {op.getOutputs(), op.getWorkspace()})
        for (Value value : written) {
          each.writes.push_back(getNumber(value));
          // What is kept takes no memory that others could have.
          if (!exec::getBuffer(value).getPinned())
            out += double(exec::getBuffer(value).getBytes());
        }
      each.grows = out > in;
    }
    return ops;
  }

  double getSeconds(ArrayRef<exec::InstructionOpInterface> instructions) {
    return overlap(getOps(instructions)).seconds;
  }

  void order(exec::SegmentOp segment) {
    Block &block = segment.getBody().front();
    Instructions instructions = getInstructions(segment);
    SmallVector<OverlapOp> ops = getOps(instructions);
    if (llvm::none_of(ops, [](const OverlapOp &op) { return op.stream > 0; }))
      return;
    OverlapResult result = overlap(ops);
    int64_t aside = llvm::count_if(result.streams,
                                   [](int64_t stream) { return stream > 0; });
    numAside += aside;
    // With nothing beside it, every order takes as long.
    if (aside == 0)
      result.order.clear();
    for (auto [place, i] : llvm::enumerate(result.order)) {
      exec::InstructionOpInterface op = instructions[size_t(i)];
      if (result.streams[size_t(i)] > 0)
        LDBG() << segment.getSymName() << ": " << op->getName()
               << " from place " << i << " to " << place << ", in stream "
               << result.streams[size_t(i)];
      op->moveBefore(&block, block.end());
      exec::setOrder(op, exec::OrderAttr::get(
                             &getContext(), result.streams[size_t(i)], 0, {}));
    }
    segment.emitRemark(
        llvm::formatv("{0:F3} ms of communication beside {1:F3} ms of "
                      "compute, {2:F3} ms of it waited for; {3} of {4} "
                      "instructions in other streams",
                      result.communication * 1e3, result.compute * 1e3,
                      result.exposed * 1e3, aside, instructions.size())
            .str());
  }

  /// Messages of a channel keep their order in one stream: if it is not the
  /// same in all segments, they stay in the rank's own.
  void alignChannels(exec::ProgramOp program) {
    llvm::DenseMap<int64_t, SmallVector<exec::SendOp>> channels;
    program.walk([&](exec::SendOp send) {
      channels[send.getChannel()].push_back(send);
    });
    for (auto &[channel, sends] : channels) {
      exec::OrderAttr first = exec::getOrder(sends.front());
      if (llvm::all_of(sends, [&](exec::SendOp send) {
            return exec::getOrder(send).getStream() == first.getStream();
          }))
        continue;
      for (exec::SendOp send : sends)
        exec::setOrder(send, exec::OrderAttr::get(&getContext(), 0, 0, {}));
    }
  }

  /// Whether what stays inside a node is moved by what computes there.
  bool onlyBetweenNodes = false;
  Mesh mesh;
  std::optional<TaskPricer> pricer;
  llvm::MapVector<ArrayAttr, int64_t> streams;
};
} // namespace
