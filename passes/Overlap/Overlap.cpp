//===- Overlap.cpp - What runs beside compute, and in which order ---------===//
#include "passes/Log.h"
#include "passes/Overlap/JoinRuns.h"
#include "passes/Overlap/OverlapModel.h"
#include "passes/Overlap/Passes.h"
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
    FailureOr<std::shared_ptr<OverlapModel>> created =
        OverlapModel::create(getOperation(), mode, cluster);
    if (failed(created))
      return signalPassFailure();
    model = std::move(*created);
    if (!model)
      return;
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      numEvents = 0;
      numJoined += joinRuns(program, *model);
      for (auto segment : program.getBody().front().getOps<exec::SegmentOp>())
        order(segment);
      alignChannels(program);
    }
  }

  void order(exec::SegmentOp segment) {
    Block &block = segment.getBody().front();
    Instructions instructions = getInstructions(segment);
    std::vector<OverlapOp> ops = model->getOps(instructions);
    if (llvm::none_of(ops, [](const OverlapOp &op) { return op.stream > 0; }))
      return;
    OverlapResult result = model->schedule(instructions, ops);
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
      SmallVector<int64_t> waits;
      for (int64_t other : result.joins[size_t(i)])
        waits.push_back(record(instructions[size_t(other)]));
      exec::setOrder(
          op, exec::OrderAttr::get(&getContext(), result.streams[size_t(i)], 0,
                                   waits, result.withNext[size_t(i)]));
    }
    int64_t together =
        result.order.empty() ? 0 : llvm::count(result.withNext, true);
    numTogether += together;
    emitRemark(segment.getLoc(),
               llvm::formatv("{0:F3} ms of communication beside {1:F3} ms of "
                             "compute, {2:F3} ms of it waited for; {3} of {4} "
                             "instructions in other streams, {5} of them begin "
                             "together with the next",
                             result.communication * 1e3, result.compute * 1e3,
                             result.exposed * 1e3, aside, instructions.size(),
                             together)
                   .str());
  }

  /// The event of an instruction that is in its place.
  int64_t record(exec::InstructionOpInterface op) {
    exec::OrderAttr order = exec::getOrder(op);
    if (order.getEvent() == 0) {
      order =
          exec::OrderAttr::get(&getContext(), order.getStream(), ++numEvents,
                               order.getWaits(), order.getWithNext());
      exec::setOrder(op, order);
    }
    return order.getEvent();
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
      for (exec::SendOp send : sends) {
        exec::OrderAttr order = exec::getOrder(send);
        exec::setOrder(send,
                       exec::OrderAttr::get(&getContext(), 0, order.getEvent(),
                                            order.getWaits()));
      }
    }
  }

  std::shared_ptr<OverlapModel> model;
  int64_t numEvents = 0; ///< of the program at hand
};
} // namespace
