//===- VerifyStages.cpp - Whether the stages of a pipeline find each other ===//
//
// State: how far each stage has come in what it does with others, and the
// messages that are on their way. Stages go on as long as one of them can.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/dist/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Pipeline/Passes.h"
#include "llvm/ADT/DenseMap.h"
#include <deque>
#include <map>

namespace cleave {
#define GEN_PASS_DEF_VERIFYSTAGESPASS
#include "passes/Pipeline/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// What a stage does with others, for a micro-batch.
struct Event {
  Operation *op;
  int64_t microBatch;
};

class StageVerifier {
public:
  StageVerifier(ModuleOp module, dist::MeshOp mesh)
      : module(module), mesh(mesh) {}

  LogicalResult verify() {
    return failure(failed(findEvents()) || failed(matchChannels()) ||
                   failed(play()));
  }

private:
  struct Stage {
    std::vector<Event> events;
    size_t next = 0;
    bool isDone() const { return next == events.size(); }
    Event getEvent() const { return events[next]; }
  };
  struct Channel {
    dist::SendOp send;
    dist::RecvOp recv;
    std::deque<int64_t> sent; ///< micro-batches on their way
  };

  LogicalResult findEvents();
  LogicalResult matchChannels();
  LogicalResult play();
  LogicalResult explain();
  bool isMeeting(Operation *op);
  void addEvents(Stage &stage, xf::AccumulateOp loop);
  FailureOr<bool> advance(Stage &stage);
  FailureOr<bool> meet();

  ModuleOp module;
  dist::MeshOp mesh;
  std::vector<Stage> stages;
  std::map<int64_t, Channel> channels;
};
} // namespace

/// A collective of ranks of all stages.
bool StageVerifier::isMeeting(Operation *op) {
  auto collective = dyn_cast<dist::CollectiveOpInterface>(op);
  return collective && llvm::any_of(collective.getAxes(), [&](Attribute axis) {
           return axis == mesh.getStageAxisAttr();
         });
}

void StageVerifier::addEvents(Stage &stage, xf::AccumulateOp loop) {
  // By segment; without segments all ops are one.
  std::map<int64_t, SmallVector<Operation *>> ops;
  for (Operation &op : loop.getBody().front())
    if (isa<dist::SendOp, dist::RecvOp>(op) || isMeeting(&op))
      ops[xf::AccumulateOp::getSegment(&op).value_or(0)].push_back(&op);
  auto run = [&](int64_t segment, int64_t microBatch) {
    for (Operation *op : ops[segment])
      stage.events.push_back({op, microBatch});
  };
  if (!loop.getOrder())
    for (int64_t i = 0; i < int64_t(loop.getCount()); ++i)
      run(0, i);
  else
    for (size_t i = 0; i < loop.getOrder()->size(); i += 2)
      run((*loop.getOrder())[i], (*loop.getOrder())[i + 1]);
}

LogicalResult StageVerifier::findEvents() {
  for (int64_t number = 0; number < mesh.getNumStages(); ++number) {
    std::string name = dist::getStageName(number);
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function)
      return mesh.emitOpError("expects a function named \"") << name << "\"";
    Stage &stage = stages.emplace_back();
    for (Operation &op : function.getBody().front())
      if (auto loop = dyn_cast<xf::AccumulateOp>(op))
        addEvents(stage, loop);
      else if (isa<dist::SendOp, dist::RecvOp>(op) || isMeeting(&op))
        stage.events.push_back({&op, 0});
  }
  return success();
}

LogicalResult StageVerifier::matchChannels() {
  llvm::DenseMap<Operation *, int64_t> stageOf;
  for (auto [number, stage] : llvm::enumerate(stages))
    for (const Event &event : stage.events) {
      if (!stageOf.try_emplace(event.op, int64_t(number)).second)
        continue; // for another micro-batch
      if (auto send = dyn_cast<dist::SendOp>(event.op)) {
        Channel &channel = channels[send.getChannel()];
        if (channel.send)
          return send.emitOpError("is a second send over channel ")
                 << send.getChannel();
        channel.send = send;
      } else if (auto recv = dyn_cast<dist::RecvOp>(event.op)) {
        Channel &channel = channels[recv.getChannel()];
        if (channel.recv)
          return recv.emitOpError("is a second receive over channel ")
                 << recv.getChannel();
        channel.recv = recv;
      }
    }
  for (auto &[number, channel] : channels) {
    if (!channel.recv)
      return channel.send.emitOpError("sends what no stage receives");
    if (!channel.send)
      return channel.recv.emitOpError("receives what no stage sends");
    if (stageOf[channel.recv] != int64_t(channel.send.getStage()) ||
        stageOf[channel.send] != int64_t(channel.recv.getStage()))
      return channel.recv.emitOpError("is on stage ")
             << stageOf[channel.recv] << " and receives from "
             << channel.recv.getStage() << " what " << stageOf[channel.send]
             << " sends to " << channel.send.getStage();
    if (channel.send.getInput().getType() != channel.recv.getType())
      return channel.recv.emitOpError("receives ")
             << channel.recv.getType() << ", where "
             << channel.send.getInput().getType() << " is sent";
  }
  return success();
}

/// Whether the stage could go on by itself.
FailureOr<bool> StageVerifier::advance(Stage &stage) {
  if (stage.isDone())
    return false;
  auto [op, microBatch] = stage.getEvent();
  if (auto send = dyn_cast<dist::SendOp>(op)) {
    channels[send.getChannel()].sent.push_back(microBatch);
  } else if (auto recv = dyn_cast<dist::RecvOp>(op)) {
    std::deque<int64_t> &sent = channels[recv.getChannel()].sent;
    if (sent.empty())
      return false;
    if (sent.front() != microBatch)
      return recv.emitOpError("takes micro-batch ")
             << microBatch << ", where " << sent.front() << " is sent";
    sent.pop_front();
  } else {
    return false;
  }
  ++stage.next;
  return true;
}

/// Whether all stages were at a collective of all.
FailureOr<bool> StageVerifier::meet() {
  Operation *first = nullptr;
  for (Stage &stage : stages) {
    if (stage.isDone() || !isMeeting(stage.getEvent().op))
      return false;
    Operation *op = stage.getEvent().op;
    if (!first)
      first = op;
    if (op->getName() != first->getName() ||
        op->getAttr("axes") != first->getAttr("axes") ||
        op->getResultTypes() != first->getResultTypes()) {
      InFlightDiagnostic error =
          op->emitOpError("meets another collective of the first stage");
      error.attachNote(first->getLoc()) << "the other collective";
      return error;
    }
  }
  for (Stage &stage : stages)
    ++stage.next;
  return true;
}

LogicalResult StageVerifier::play() {
  for (bool moves = true; moves;) {
    moves = false;
    for (Stage &stage : stages)
      while (true) {
        FailureOr<bool> moved = advance(stage);
        if (failed(moved))
          return failure();
        if (!*moved)
          break;
        moves = true;
      }
    FailureOr<bool> met = meet();
    if (failed(met))
      return failure();
    moves |= *met;
  }
  return explain();
}

/// Success if all stages came to their ends.
LogicalResult StageVerifier::explain() {
  std::optional<InFlightDiagnostic> error;
  for (auto [number, stage] : llvm::enumerate(stages)) {
    if (stage.isDone())
      continue;
    auto [op, microBatch] = stage.getEvent();
    if (!error)
      error.emplace(op->emitOpError("of stage ")
                    << number << " waits for ever, for micro-batch "
                    << microBatch);
    else
      error->attachNote(op->getLoc())
          << "so does stage " << number << " here, for micro-batch "
          << microBatch;
  }
  if (error)
    return *error;
  for (auto &[number, channel] : channels)
    if (!channel.sent.empty())
      return channel.send.emitOpError("sends micro-batch ")
             << channel.sent.front() << ", which is never received";
  return success();
}

namespace {
class VerifyStages : public cleave::impl::VerifyStagesPassBase<VerifyStages> {
  void runOnOperation() override {
    dist::MeshOp mesh = dist::lookupMesh(getOperation());
    if (mesh && mesh.getStageAxis() &&
        failed(StageVerifier(getOperation(), mesh).verify()))
      signalPassFailure();
  }
};
} // namespace
