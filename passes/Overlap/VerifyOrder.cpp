//===- VerifyOrder.cpp - The contract of streams --------------------------===//
#include "passes/Overlap/Passes.h"
#include "passes/Overlap/StreamModel.h"
#include "runtime/program/Limits.h"

namespace cleave {
#define GEN_PASS_DEF_VERIFYORDERPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// Whether an instruction may begin together with an earlier one of its bucket.
static LogicalResult verifyTogether(const StreamModel &model, size_t earlier,
                                    size_t later) {
  auto first = model.instructions[earlier], second = model.instructions[later];
  auto fail = [&](const Twine &how) {
    InFlightDiagnostic error = second->emitOpError("begins together with ")
                               << "another instruction, " << how;
    error.attachNote(first->getLoc()) << "the other instruction";
    return error;
  };
  if (first->getName() != second->getName() ||
      first.getGroup() != second.getGroup() ||
      exec::getOrder(first).getStream() != exec::getOrder(second).getStream())
    return fail("expects it to be of the same kind, group and stream");
  for (const ByteAccess &a : model.program.ops[earlier].accesses)
    for (const ByteAccess &b : model.program.ops[later].accesses)
      if ((a.writes || b.writes) && a.mayMeet(b))
        return fail("and one writes what the other accesses");
  return success();
}

/// Those of each bucket, pair by pair.
static LogicalResult verifyBuckets(const StreamModel &model) {
  size_t first = 0;
  for (size_t i = 0; i < model.instructions.size(); ++i) {
    exec::InstructionOpInterface op = model.instructions[i];
    for (size_t earlier = first; earlier < i; ++earlier)
      if (failed(verifyTogether(model, earlier, i)))
        return failure();
    if (!exec::getOrder(op).getWithNext()) {
      first = i + 1;
      continue;
    }
    if (!op->getNextNode())
      return op->emitOpError("begins together with the next instruction, "
                             "expects one behind it in its segment");
    if (i + 1 - first >= runtime::limits::bucket)
      return op->emitOpError("begins together with more than ")
             << runtime::limits::bucket - 1 << " others";
  }
  return success();
}

namespace {
class VerifyOrder : public cleave::impl::VerifyOrderPassBase<VerifyOrder> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      if (!hasStreams(program))
        continue;
      StreamModel model = getStreamModel(program);
      if (failed(verifyBuckets(model)))
        return signalPassFailure();
      std::optional<Race> race = findRace(model.program);
      if (!race)
        continue;
      auto later = model.instructions[size_t(race->later)],
           earlier = model.instructions[size_t(race->earlier)];
      InFlightDiagnostic error = later->emitOpError("of stream ")
                                 << exec::getOrder(later).getStream()
                                 << " does not wait for one of stream "
                                 << exec::getOrder(earlier).getStream()
                                 << " that accesses the same bytes before, for "
                                    "micro-batch "
                                 << race->microBatch;
      error.attachNote(earlier->getLoc()) << "the other instruction";
      return signalPassFailure();
    }
  }
};
} // namespace
