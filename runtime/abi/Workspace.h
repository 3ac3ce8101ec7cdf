//===- Workspace.h - Scratch sizes of the runtime's CPU kernels -----------===//
//
// The compiler calls these to place each instruction's workspace in the arena;
// the kernels cut it up by the same constants. They depend on shapes, element
// types and the number of threads only, never on the CPU: the program is
// compiled on one machine and runs on others.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_ABI_WORKSPACE_H
#define CLEAVE_RUNTIME_ABI_WORKSPACE_H

#include <cstddef>
#include <cstdint>

namespace cleave::cpu {

/// Element types, numbered as program.fbs's DType.
enum class ElementType : uint8_t { F32 = 0, BF16 = 1, I32 = 2 };

/// Every part of a workspace starts on a cache line.
constexpr int64_t workspaceAlign = 64;

constexpr int64_t roundUp(int64_t x, int64_t unit) {
  return (x + unit - 1) / unit * unit;
}
constexpr int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }
constexpr int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
constexpr int64_t larger(int64_t x, int64_t y) { return x < y ? y : x; }

/// How the GEMM is cut. A step is one 32-bit lane along k: an f32, or a pair
/// of bf16 where the CPU multiplies pairs.
namespace gemm_block {
constexpr int64_t maxCols = 32; ///< columns of the largest register tile
constexpr int64_t slack = 16;   ///< lanes that packing may write past a panel
constexpr int64_t steps = 384;  ///< of one packed block, along k
constexpr int64_t cols = 256;   ///< of one packed block of B
constexpr int64_t rows = 1024;  ///< of one packed block of A
constexpr int64_t wide = 4096;  ///< columns of C that are finished together
constexpr int64_t wideNarrow = 1024; ///< the same where C is narrower than f32
} // namespace gemm_block

/// One thread's parts of the GEMM workspace, in bytes from its start.
struct GemmWorkspace {
  int64_t packedA;  ///< [rows][steps] lanes in panels, each with its slack
  int64_t packedB;  ///< [cols][steps] lanes in panels
  int64_t scratchC; ///< f32 [rows][wideNarrow], where C is narrower than f32
  int64_t bytes;
};

constexpr GemmWorkspace getGemmWorkspace(int64_t m, int64_t n, int64_t k,
                                         ElementType typeC) {
  int64_t steps = smaller(k, gemm_block::steps);
  int64_t cols = roundUp(smaller(n, gemm_block::cols), gemm_block::maxCols);
  int64_t rows = smaller(m, gemm_block::rows);
  GemmWorkspace w{};
  w.packedA = 0; // a panel has at least one row
  w.packedB = roundUp(rows * (steps + gemm_block::slack) * 4, workspaceAlign);
  w.scratchC = w.packedB + roundUp(cols * steps * 4, workspaceAlign);
  w.bytes = w.scratchC;
  if (typeC != ElementType::F32)
    w.bytes += rows * smaller(n, gemm_block::wideNarrow) * 4;
  w.bytes = roundUp(w.bytes, workspaceAlign);
  return w;
}

/// Bytes of a Gemm's workspace: `C[m,n] (+)= op(A) op(B)` over `threads`.
constexpr size_t gemmWorkspaceBytes(int64_t m, int64_t n, int64_t k,
                                    bool /*transA*/, bool /*transB*/,
                                    int64_t /*typeA*/, int64_t /*typeB*/,
                                    int64_t typeC, int64_t threads) {
  return size_t(getGemmWorkspace(m, n, k, ElementType(typeC)).bytes * threads);
}

/// How attention is cut: query rows and keys of one tile of scores.
namespace attention_block {
constexpr int64_t queries = 64;
constexpr int64_t keys = 128;
constexpr int64_t lane = 16; ///< head dims are padded to this in scratch
} // namespace attention_block

/// Bytes of an Attention's workspace: per thread, one tile each of q, K^T, v,
/// out, the scores, and two numbers a row.
constexpr size_t attentionWorkspaceBytes(int64_t /*batch*/, int64_t /*seq*/,
                                         int64_t /*heads*/, int64_t /*kvHeads*/,
                                         int64_t headDim, int64_t /*type*/,
                                         int64_t threads) {
  using namespace attention_block;
  int64_t d = roundUp(headDim, lane);
  int64_t floats =
      2 * queries * d + 2 * keys * d + queries * keys + 2 * queries;
  return size_t(floats * 4 * threads);
}

/// Bytes of an AttentionGrad's workspace: per thread, tiles of q, dout, dq,
/// K^T, V^T, k, dk, dv, two of scores; a number for each query of a head group;
/// and where dq is narrower than f32, a head group's dq in f32.
constexpr size_t attentionGradWorkspaceBytes(int64_t /*batch*/, int64_t seq,
                                             int64_t heads, int64_t kvHeads,
                                             int64_t headDim, int64_t type,
                                             int64_t threads) {
  using namespace attention_block;
  int64_t d = roundUp(headDim, lane);
  int64_t floats = 3 * queries * d + 5 * keys * d + 2 * queries * keys +
                   roundUp(heads / kvHeads * seq, lane);
  if (ElementType(type) != ElementType::F32)
    floats += roundUp(heads / kvHeads * seq * headDim, lane);
  return size_t(floats * 4 * threads);
}

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_ABI_WORKSPACE_H
