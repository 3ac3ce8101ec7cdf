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

/// How a kernel of the same name is launched on a GPU: one-dimensional, over
/// its whole space at once. Its parameters are one 64-bit address per operand,
/// which is a multiple of 16, or of 4 where it has integers (inputs then
/// outputs), then `params[0]` and `params[1]`, then the address of
/// `scratch_bytes` bytes, which is a multiple of 16 too: where its blocks meet.
/// Their first CLEAVE_CUDA_COUNTER_BYTES are zero before a launch, and again
/// after it.
///
/// `multi_symbol` is a kernel that does several such launches at once, with as
/// many blocks in x and threads as one of them has, and a row of blocks in y
/// for each; null where there is none, as there is of kernels whose blocks
/// meet. Its parameters are the address, in device memory, of a table with a
/// row for each launch, then `params[1]`. A row of the table is the addresses
/// of the operands, then `params[0]`, each of 64 bits.
struct CleaveCudaKernel {
  const char *symbol, *multi_symbol;
  uint32_t blocks, threads;
  uint64_t scratch_bytes;
};

#define CLEAVE_CUDA_COUNTER_BYTES 16384

/// The kernels' code for GPUs. Without any, all is zero.
struct CleaveCudaCode {
  const CleaveCudaKernel *kernels;
  uint64_t kernel_count;
  /// What the code is for, such as "sm_90".
  const char *chip;
  /// Ends in a zero; for this chip and newer ones.
  const char *ptx;
  /// For this chip alone; null where there was no assembler.
  const unsigned char *cubin;
  uint64_t cubin_size;
  /// FLOP/s of one of the cluster's GPUs in products of f32 and of bf16, by its
  /// device file: what MFU is told by. 0: not known.
  double peak_flops[2];
};

/// What the compiler's object file defines and the runtime's main reads.
/// `cleave_program` lies in the ELF section ".cleave.program".
extern const CleaveKernelEntry cleave_kernels[];
extern const uint64_t cleave_kernel_count;
extern const CleaveCudaCode cleave_cuda_code;
extern const unsigned char cleave_program[];
extern const uint64_t cleave_program_size;
}

#endif // CLEAVE_RUNTIME_ABI_KERNEL_H
