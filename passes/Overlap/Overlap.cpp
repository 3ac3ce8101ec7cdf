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
/// How much more bytes than the order that is listed another one may need where
/// that one does not fit either: each that has something in other streams needs
/// some more, and there is nothing to be saved.
constexpr double moreThanListed = 1.005;

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
      std::vector<OverlapMemory> needed = getMemory(program);
      double listed = getMost(needed), room = model->getRoom();
      double allowed = listed > room ? listed * moreThanListed : room;
      join(program, needed, allowed);
      std::vector<Part> parts;
      for (auto [segment, memory] : llvm::zip(
               program.getBody().front().getOps<exec::SegmentOp>(), needed)) {
        Part &part = parts.emplace_back();
        part.segment = segment;
        part.instructions = getInstructions(segment);
        part.ops = model->getOps(part.instructions);
        part.memory = std::move(memory);
        part.memory.limit = allowed;
      }
      order(program, parts, allowed);
      for (Part &part : parts)
        report(part, allowed);
    }
  }

  static double getMost(ArrayRef<OverlapMemory> parts) {
    double most = 0;
    for (const OverlapMemory &part : parts)
      for (double bytes : part.live)
        most = std::max(most, bytes);
    return most;
  }

  /// Joins runs, but where what is gathered earlier would then take more memory
  /// than there is. `needed`: what the program's segments need, before and
  /// behind this.
  void join(exec::ProgramOp program, std::vector<OverlapMemory> &needed,
            double allowed) {
    OwningOpRef<exec::ProgramOp> before = program.clone();
    int64_t joined = joinRuns(program, *model);
    if (joined == 0)
      return;
    std::vector<OverlapMemory> more = getMemory(program);
    if (getMost(more) > allowed) {
      program->getRegion(0).takeBody((*before)->getRegion(0));
      return;
    }
    needed = std::move(more);
    numJoined += joined;
  }

  static bool isAside(int64_t stream) { return stream > 0; }

  /// A segment, as it is listed, and how it is to be ordered.
  struct Part {
    exec::SegmentOp segment;
    Instructions instructions;
    std::vector<OverlapOp> ops;
    OverlapMemory memory;
    OverlapResult result;
    /// Whether the result is not of the memory and ops as they are.
    bool isStale = true;
    /// Most bytes in use, in all runs.
    double needed = 0;
    /// Whether nothing in other streams fits.
    bool isGivenUp = false;

    void giveUp() {
      isGivenUp = true;
      isStale = false;
      leaveAsListed();
    }
    /// One instruction after the other, in one stream.
    void leaveAsListed() {
      size_t count = instructions.size();
      result.exposed = result.communication;
      result.order.resize(count);
      std::iota(result.order.begin(), result.order.end(), 0);
      result.streams.assign(count, 0);
      result.withNext.assign(count, false);
      result.joins.assign(count, {});
    }
  };

  /// Orders the program's segments so that what streams have in flight fits
  /// into what there is. What a segment needs is known once all have an order,
  /// since what is in flight at its end is so in the runs behind it. Where it
  /// is too much, the next try needs less (`needLess`); after some tries what
  /// still does not fit has nothing in other streams, and then nothing does.
  void order(exec::ProgramOp program, std::vector<Part> &parts,
             double allowed) {
    for (int i = 0; i != triesToFit; ++i) {
      apply(program, parts);
      if (fits(program, parts, allowed))
        return;
      needLess(parts, allowed);
    }
    for (Part &part : parts)
      if (part.needed > allowed)
        part.giveUp();
    apply(program, parts);
    if (fits(program, parts, allowed))
      return;
    for (Part &part : parts)
      part.giveUp();
    apply(program, parts);
  }

  bool fits(exec::ProgramOp program, std::vector<Part> &parts, double allowed) {
    if (!std::isfinite(allowed))
      return true;
    for (auto [part, bytes] : llvm::zip(parts, getMostInUse(program))) {
      part.needed = bytes;
      LDBG() << part.segment.getSymName() << " needs " << bytes << " bytes of "
             << allowed;
    }
    return llvm::all_of(
        parts, [&](const Part &part) { return part.needed <= allowed; });
  }

  /// A segment that itself needs too much has as much less to use. Where it is
  /// too much only with what others have in flight, nothing may be in flight
  /// any more behind the end of any.
  static void needLess(std::vector<Part> &parts, double allowed) {
    bool closes = false;
    for (Part &part : parts) {
      double excess = part.needed - allowed;
      if (excess <= 0)
        continue;
      double own = part.result.bytes - allowed;
      if (own <= 0 && !part.memory.closes) {
        closes = true;
      } else {
        part.memory.limit -= own > 0 ? own : excess;
        part.isStale = true;
      }
    }
    for (Part &part : parts)
      if (closes && !part.memory.closes)
        part.memory.closes = part.isStale = true;
  }

  void schedule(Part &part) {
    part.isStale = false;
    if (llvm::any_of(part.ops,
                     [](const OverlapOp &op) { return isAside(op.stream); }))
      part.result = model->schedule(part.instructions, part.ops, part.memory);
    // With nothing beside it, every order takes as long.
    if (!llvm::any_of(part.result.streams, isAside))
      part.leaveAsListed();
  }

  /// Finds an order for each segment, and puts instructions into it.
  void apply(exec::ProgramOp program, std::vector<Part> &parts) {
    numEvents = 0;
    for (Part &part : parts) {
      if (part.isStale)
        schedule(part);
      Block &block = part.segment.getBody().front();
      const OverlapResult &result = part.result;
      Instructions ordered;
      for (int64_t i : result.order)
        ordered.push_back(part.instructions[size_t(i)]);
      if (ordered != getInstructions(part.segment))
        for (exec::InstructionOpInterface op : ordered)
          op->moveBefore(&block, block.end());
      for (auto [op, i] : llvm::zip(ordered, result.order)) {
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

  void report(Part &part, double allowed) {
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
    if (result.communication == 0)
      return;
    std::string memory;
    if (part.isGivenUp)
      memory = "; with more it needs too much memory";
    else if (part.memory.closes || part.memory.limit < allowed)
      memory = "; more would need too much memory";
    emitRemark(part.segment.getLoc(),
               llvm::formatv("{0:F3} ms of communication beside {1:F3} ms of "
                             "compute, {2:F3} ms of it waited for; {3} of {4} "
                             "instructions in other streams, {5} of them begin "
                             "together with the next{6}",
                             result.communication * 1e3, result.compute * 1e3,
                             result.exposed * 1e3, aside,
                             part.instructions.size(), together, memory)
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
