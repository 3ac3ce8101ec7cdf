//===- VerifyOrder.cpp - The contract of streams --------------------------===//
#include "passes/Overlap/Passes.h"
#include "passes/Overlap/StreamModel.h"

namespace cleave {
#define GEN_PASS_DEF_VERIFYORDERPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class VerifyOrder : public cleave::impl::VerifyOrderPassBase<VerifyOrder> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      if (!hasStreams(program))
        continue;
      StreamModel model = getStreamModel(program);
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
