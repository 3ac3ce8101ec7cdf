//===- PlanMemory.cpp - Offsets in one static arena -----------------------===//
#include "cleave/Memory/Pack.h"
#include "passes/Log.h"
#include "passes/Memory/Passes.h"
#include "passes/Overlap/Liveness.h"
#include "runtime/program/Limits.h"
#include <map>

#define DEBUG_TYPE "cleave-plan-memory"

namespace cleave {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "passes/Memory/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// Bytes of each category at the instruction at which most are live.
static std::map<std::string, int64_t>
getPeakByCategory(ArrayRef<LiveBuffer> live) {
  std::map<int64_t, int64_t> changes;
  for (LiveBuffer buffer : live) {
    changes[buffer.first] += buffer.op.getBytes();
    changes[buffer.last + 1] -= buffer.op.getBytes();
  }
  int64_t bytes = 0, most = -1, peak = 0;
  for (auto [number, change] : changes) {
    bytes += change;
    if (bytes > most) {
      most = bytes;
      peak = number;
    }
  }
  std::map<std::string, int64_t> categories;
  for (LiveBuffer buffer : live)
    if (buffer.first <= peak && peak <= buffer.last)
      categories[buffer.op.getCategory().str()] += buffer.op.getBytes();
  return categories;
}

namespace {
class PlanMemory : public cleave::impl::PlanMemoryPassBase<PlanMemory> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([&](exec::ProgramOp program) {
      return succeeded(plan(program)) ? WalkResult::advance()
                                      : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult plan(exec::ProgramOp program) {
    SmallVector<LiveBuffer> live = computeLiveness(program);
    std::vector<BufferLifetime> buffers;
    for (LiveBuffer &buffer : live)
      buffers.push_back({int64_t(buffer.op.getBytes()), buffer.first,
                         buffer.last, int64_t(runtime::limits::alignment)});
    llvm::Expected<Packing> packing = packArena(buffers);
    if (!packing)
      return program.emitOpError(llvm::toString(packing.takeError()));

    for (auto [buffer, offset] : llvm::zip(live, packing->offsets)) {
      LDBG() << buffer.op.getBytes() << " bytes of " << buffer.op.getCategory()
             << " at " << offset << ", live from instruction " << buffer.first
             << " to " << buffer.last;
      buffer.op.setOffset(offset);
    }
    program.setArenaBytes(packing->peak);
    program.setLowerBound(packing->lowerBound);

    Builder b(&getContext());
    SmallVector<NamedAttribute> categories;
    int64_t sum = 0;
    for (auto &[name, bytes] : getPeakByCategory(live)) {
      categories.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(bytes)));
      sum += bytes;
    }
    if (packing->peak > sum)
      categories.push_back(
          b.getNamedAttr("padding", b.getI64IntegerAttr(packing->peak - sum)));
    program->setAttr("peak", b.getDictionaryAttr(categories));
    emitRemark(program.getLoc())
        << "arena of " << packing->peak << " bytes, at least "
        << packing->lowerBound << ", packed by " << packing->order;
    return success();
  }
};
} // namespace
