//===- Gemm.h - Matrix multiplication on the CPU --------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_GEMM_H
#define CLEAVE_RUNTIME_CPU_GEMM_H

#include "runtime/abi/Workspace.h"

namespace cleave::cpu {

class ThreadPool;

/// `C[m,n] (+)= op(A)[m,k] op(B)[k,n] + bias[n]`, row-major, rows contiguous.
/// A is stored `[m,k]`, or `[k,m]` with transA; B `[k,n]`, or `[n,k]` with
/// transB. A, B, C are f32 or bf16 in any combination; the sum is kept in f32.
/// The bias is rounded to C's type first, as libraries for GPUs take it.
/// C overlaps neither A nor B. Pointers need only their element's alignment.
struct GemmArgs {
  int64_t m, n, k;
  bool transA, transB;
  ElementType typeA, typeB, typeC;
  const void *a, *b;
  const float *bias; ///< f32 [n], or null
  void *c;
  bool accumulate; ///< add to C, else overwrite it
};

/// Runs a GEMM on the pool's threads. `workspace`: gemmWorkspaceBytes() of
/// these arguments and at least pool.getThreads(), aligned to 64 bytes.
/// An element of C is the same sum in the same order whatever m, n and the
/// number of threads: products in the order of k, in blocks that depend on k
/// and the types only.
void gemm(const GemmArgs &args, void *workspace, ThreadPool &pool);

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_GEMM_H
