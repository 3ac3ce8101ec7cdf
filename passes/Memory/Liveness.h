//===- Liveness.h - When each buffer of a program is in use ---------------===//
#ifndef CLEAVE_PASSES_MEMORY_LIVENESS_H
#define CLEAVE_PASSES_MEMORY_LIVENESS_H

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

} // namespace cleave

#endif // CLEAVE_PASSES_MEMORY_LIVENESS_H
