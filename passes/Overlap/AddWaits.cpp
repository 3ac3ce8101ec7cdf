//===- AddWaits.cpp - Streams wait for each other -------------------------===//
#include "passes/Overlap/Passes.h"
#include "passes/Overlap/StreamModel.h"

namespace cleave {
#define GEN_PASS_DEF_ADDWAITSPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class AddWaits : public cleave::impl::AddWaitsPassBase<AddWaits> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      if (!hasStreams(program))
        continue;
      StreamModel model = getStreamModel(program);
      addWaits(model.program);
      for (auto [instruction, op] :
           llvm::zip(model.instructions, model.program.ops)) {
        numWaits +=
            op.waits.size() - exec::getOrder(instruction).getWaits().size();
        exec::setOrder(
            instruction,
            exec::OrderAttr::get(&getContext(), op.stream, op.event, op.waits,
                                 exec::getOrder(instruction).getWithNext()));
      }
    }
  }
};
} // namespace
