//===- VerifyMemory.cpp - The contract of the arena -----------------------===//
#include "passes/Memory/Passes.h"
#include "passes/Overlap/Liveness.h"
#include <map>

namespace cleave {
#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "passes/Memory/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class VerifyMemory : public cleave::impl::VerifyMemoryPassBase<VerifyMemory> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([&](exec::ProgramOp program) {
      return succeeded(check(program)) ? WalkResult::advance()
                                       : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  /// Sweeps the instructions; the live buffers are kept by offset, so a new one
  /// has only its neighbours to look at.
  LogicalResult check(exec::ProgramOp program) {
    if (!program.getArenaBytes())
      return program.emitOpError("expects the arena's size");
    SmallVector<LiveBuffer> live = computeLiveness(program);
    std::map<int64_t, SmallVector<LiveBuffer *>> starts, ends;
    for (LiveBuffer &buffer : live) {
      if (!buffer.op.getOffset())
        return buffer.op.emitOpError("expects an offset");
      if (*buffer.op.getOffset() + buffer.op.getBytes() >
          *program.getArenaBytes())
        return buffer.op.emitOpError("expects to lie in the arena of ")
               << *program.getArenaBytes() << " bytes";
      starts[buffer.first].push_back(&buffer);
      ends[buffer.last + 1].push_back(&buffer);
    }
    std::map<int64_t, LiveBuffer *> byOffset;
    for (auto &[number, buffers] : starts) {
      for (auto it = ends.begin(); it != ends.end() && it->first <= number;
           it = ends.erase(it))
        for (LiveBuffer *buffer : it->second)
          byOffset.erase(*buffer->op.getOffset());
      for (LiveBuffer *buffer : buffers)
        if (failed(insert(byOffset, buffer)))
          return failure();
    }
    return success();
  }

  static LogicalResult insert(std::map<int64_t, LiveBuffer *> &byOffset,
                              LiveBuffer *buffer) {
    auto end = [](LiveBuffer *each) {
      return int64_t(*each->op.getOffset() + each->op.getBytes());
    };
    int64_t offset = *buffer->op.getOffset();
    auto next = byOffset.lower_bound(offset);
    LiveBuffer *other = nullptr;
    if (next != byOffset.end() && next->first < end(buffer))
      other = next->second;
    else if (next != byOffset.begin() && end(std::prev(next)->second) > offset)
      other = std::prev(next)->second;
    if (other) {
      InFlightDiagnostic error = buffer->op.emitOpError(
          "shares bytes with a buffer that is live at the same time");
      error.attachNote(other->op.getLoc()) << "the other buffer";
      return error;
    }
    byOffset[offset] = buffer;
    return success();
  }
};
} // namespace
