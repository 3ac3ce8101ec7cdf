//===- Kernel.h - What a generated kernel and the runtime agree on --------===//
//
// The only runtime header, beside the program format, that the compiler reads.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_ABI_KERNEL_H
#define CLEAVE_RUNTIME_ABI_KERNEL_H

#include <cstdint>

extern "C" {

/// A generated CPU kernel over the rows [begin, end) of its parallel loop.
/// `buffers`: the launch's operands in order, inputs then outputs, each a
/// pointer into the arena (64-byte aligned at the operand's start).
/// `params[0]`: this rank's shard index along the launch's group axes;
/// `params[1]`: 0 in a run that is the first of those that add to the same
/// sums, 1 in the others: whether outputs that accumulate after the first are
/// added to. Kernels keep no state and never touch memory outside their
/// operands, so disjoint row ranges may run on different threads.
typedef void (*CleaveKernelFn)(void *const *buffers, const int64_t *params,
                               int64_t begin, int64_t end);

struct CleaveKernelEntry {
  const char *symbol;
  CleaveKernelFn fn;
};

/// What the compiler's object file defines and the runtime's main reads.
/// `cleave_program` lies in the ELF section ".cleave.program".
extern const CleaveKernelEntry cleave_kernels[];
extern const uint64_t cleave_kernel_count;
extern const unsigned char cleave_program[];
extern const uint64_t cleave_program_size;
}

#endif // CLEAVE_RUNTIME_ABI_KERNEL_H
