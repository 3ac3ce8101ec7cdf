//===- Overlap.cpp - What runs beside compute, and in which order ---------===//
#include "passes/Log.h"
#include "passes/Overlap/JoinRuns.h"
#include "passes/Overlap/Liveness.h"
#include "passes/Overlap/OverlapModel.h"
#include "passes/Overlap/Passes.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>

#define DEBUG_TYPE "cleave-overlap"

namespace cleave {
#define GEN_PASS_DEF_OVERLAPPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// How often it is tried to need less memory before all of overlap is given up.
constexpr int triesToFit = 4;

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
      numJoined += joinRuns(program, *model);
      std::vector<Part> parts;
      for (auto [segment, memory] :
           llvm::zip(program.getBody().front().getOps<exec::SegmentOp>(),
                     getMemory(program))) {
        Part &part = parts.emplace_back();
        part.segment = segment;
        part.instructions = getInstructions(segment);
        part.ops = model->getOps(part.instructions);
        part.memory = std::move(memory);
      }
      order(program, parts);
      for (Part &part : parts)
        report(part);
    }
  }

  static bool isAside(int64_t stream) { return stream > 0; }

  /// A segment, as it is listed, and how it is to be ordered.
  struct Part {
    exec::SegmentOp segment;
    Instructions instructions;
    std::vector<OverlapOp> ops;
    OverlapMemory memory;
    OverlapResult result;

    bool hasAside() const { return llvm::any_of(result.streams, isAside); }
    /// One instruction after the other, in one stream.
    void leaveAsListed() {
      size_t count = instructions.size();
      result.order.resize(count);
      std::iota(result.order.begin(), result.order.end(), 0);
      result.streams.assign(count, 0);
      result.withNext.assign(count, false);
      result.joins.assign(count, {});
    }
  };

  /// Orders the program's segments so that what streams have in flight fits
  /// into what the device has; where that is too little anyhow, into what the
  /// program needs without them. What a segment needs is known once all have an
  /// order, since what is in flight at its end is so in the runs behind it.
  /// Where it is too much, nothing may be in flight behind the segment; then
  /// the next try has as much less to use; in the end nothing is in flight.
  void order(exec::ProgramOp program, std::vector<Part> &parts) {
    double allowed = model->getRoom();
    for (const Part &part : parts)
      for (double bytes : part.memory.live)
        allowed = std::max(allowed, bytes);
    for (Part &part : parts)
      part.memory.limit = allowed;
    for (int i = 0; i != triesToFit; ++i) {
      schedule(parts);
      apply(program, parts);
      if (fits(program, parts, allowed))
        return;
    }
    for (Part &part : parts) {
      part.result = {};
      part.leaveAsListed();
    }
    apply(program, parts);
    emitRemark(program.getLoc(), "no memory for anything in other streams");
  }

  void schedule(std::vector<Part> &parts) {
    for (Part &part : parts) {
      if (llvm::any_of(part.ops,
                       [](const OverlapOp &op) { return isAside(op.stream); }))
        part.result = model->schedule(part.instructions, part.ops, part.memory);
      // With nothing beside it, every order takes as long.
      if (!part.hasAside())
        part.leaveAsListed();
    }
  }

  /// Whether no segment has more in use. If one does, the next try needs less.
  bool fits(exec::ProgramOp program, std::vector<Part> &parts, double allowed) {
    if (!std::isfinite(allowed))
      return true;
    bool doesFit = true;
    for (auto [part, bytes] : llvm::zip(parts, getMostInUse(program))) {
      LDBG() << part.segment.getSymName() << " needs " << bytes << " bytes of "
             << allowed;
      if (bytes <= allowed)
        continue;
      doesFit = false;
      if (part.memory.closes)
        part.memory.limit -= bytes - allowed;
    }
    if (!doesFit)
      for (Part &part : parts)
        part.memory.closes = true;
    return doesFit;
  }

  /// Puts instructions into their order and streams.
  void apply(exec::ProgramOp program, MutableArrayRef<Part> parts) {
    numEvents = 0;
    for (Part &part : parts) {
      Block &block = part.segment.getBody().front();
      const OverlapResult &result = part.result;
      for (int64_t i : result.order) {
        exec::InstructionOpInterface op = part.instructions[size_t(i)];
        op->moveBefore(&block, block.end());
        SmallVector<int64_t> waits;
        for (int64_t other : result.joins[size_t(i)])
          waits.push_back(record(part.instructions[size_t(other)]));
        exec::setOrder(
            op, exec::OrderAttr::get(&getContext(), result.streams[size_t(i)],
                                     0, waits, result.withNext[size_t(i)]));
      }
    }
    alignChannels(program);
  }

  void report(Part &part) {
    const OverlapResult &result = part.result;
    int64_t aside = llvm::count_if(result.streams, isAside);
    int64_t together = llvm::count(result.withNext, true);
    numAside += aside;
    numTogether += together;
    for (auto [place, i] : llvm::enumerate(result.order))
      if (isAside(result.streams[size_t(i)]))
        LDBG() << part.segment.getSymName() << ": "
               << part.instructions[size_t(i)]->getName() << " from place " << i
               << " to " << place << ", in stream "
               << result.streams[size_t(i)];
    if (result.communication > 0)
      emitRemark(
          part.segment.getLoc(),
          llvm::formatv("{0:F3} ms of communication beside {1:F3} ms of "
                        "compute, {2:F3} ms of it waited for; {3} of {4} "
                        "instructions in other streams, {5} of them begin "
                        "together with the next",
                        result.communication * 1e3, result.compute * 1e3,
                        result.exposed * 1e3, aside, part.instructions.size(),
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
