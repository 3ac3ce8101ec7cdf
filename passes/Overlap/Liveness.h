//===- Liveness.h - When each buffer of a program is in use ---------------===//
#ifndef CLEAVE_PASSES_OVERLAP_LIVENESS_H
#define CLEAVE_PASSES_OVERLAP_LIVENESS_H

#include "cleave/Streams/Overlap.h"
#include "dialects/exec/Exec.h"

namespace cleave {

/// A buffer and the instructions, by number in program order, between which its
/// bytes are its own.
struct LiveBuffer {
  exec::BufferOp op;
  int64_t first, last;
};

/// Every buffer of the program, in order; each segment counts once, however
/// often it runs. Buffers that nothing uses live at one instruction.
llvm::SmallVector<LiveBuffer> computeLiveness(exec::ProgramOp program);

/// By segment, bytes in use and buffers of its own; no limit. The program has
/// no streams yet.
std::vector<OverlapMemory> getMemory(exec::ProgramOp program);

/// By segment, most bytes in use once instructions wait for each other where
/// they must, as `cleave-add-waits` lets them.
std::vector<double> getMostInUse(exec::ProgramOp program);

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_LIVENESS_H
