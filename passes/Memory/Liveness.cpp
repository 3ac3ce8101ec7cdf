//===- Liveness.cpp - When each buffer of a program is in use -------------===//
#include "passes/Memory/Liveness.h"

using namespace mlir;
using namespace cleave;

namespace {
struct Span {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;

  void include(int64_t number) {
    first = std::min(first, number);
    last = std::max(last, number);
  }
  bool isEmpty() const { return last < first; }
  bool contains(const Span &other) const {
    return first <= other.first && other.last <= last;
  }
  bool overlaps(const Span &other) const {
    return first <= other.last && other.first <= last;
  }
};
} // namespace

/// The buffer that a value is, or is a view of.
static exec::BufferOp getBase(Value value) {
  if (auto view = value.getDefiningOp<exec::ViewOp>())
    return getBase(view.getBuffer());
  return value.getDefiningOp<exec::BufferOp>();
}

SmallVector<LiveBuffer> cleave::computeLiveness(exec::ProgramOp program) {
  llvm::DenseMap<Operation *, Span> spans;
  SmallVector<Span> loops;
  int64_t number = 0;
  auto visit = [&](auto &&self, Block &block) -> void {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<exec::LoopOp>(op)) {
        int64_t begin = number++;
        self(self, loop.getBody().front());
        loops.push_back({begin, number++});
      } else if (isa<exec::InstructionOpInterface>(op)) {
        for (Value operand : op.getOperands())
          spans[getBase(operand)].include(number);
        ++number;
      }
    }
  };
  visit(visit, program.getBody().front());

  SmallVector<LiveBuffer> live;
  program.walk([&](exec::BufferOp op) {
    Span span = spans.lookup(op);
    if (op.getPinned())
      span = {0, std::max<int64_t>(number - 1, 0)};
    else if (span.isEmpty())
      span = {0, 0};
    // What the loop shares with the rest is in use in each iteration.
    for (const Span &loop : loops)
      if (span.overlaps(loop) && !loop.contains(span)) {
        span.include(loop.first);
        span.include(loop.last);
      }
    live.push_back({op, span.first, span.last});
  });
  return live;
}
