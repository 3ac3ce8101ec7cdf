//===- Attention.h - Causal attention on the CPU, both directions ---------===//
//
// Blocked, with the online softmax of Dao et al., "FlashAttention" (2022), so
// that no [seq, seq] matrix exists; the gradient recomputes the probabilities
// from the log-sum-exp of each row.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CPU_ATTENTION_H
#define CLEAVE_RUNTIME_CPU_ATTENTION_H

#include "runtime/abi/Workspace.h"

namespace cleave::cpu {

class ThreadPool;

/// Query i sees keys j with j <= i and, where window > 0, i - window < j.
/// Score: `scale * q.k`, then `softcap * tanh(score / softcap)` where softcap
/// is positive. Query head h reads key head h / (heads / kvHeads).
struct AttentionShape {
  int64_t batch, seq, heads, kvHeads, headDim;
  int64_t window;   ///< 0: all earlier keys
  ElementType type; ///< of q, k, v, out and their gradients
  float scale, softcap;
};

struct AttentionArgs {
  AttentionShape shape;
  const void *q;     ///< [batch, seq, heads, headDim]
  const void *k, *v; ///< [batch, seq, kvHeads, headDim]
  void *out;         ///< as q
  float *lse;        ///< f32 [batch, heads, seq]
};

struct AttentionGradArgs {
  AttentionShape shape;
  const void *q, *k, *v, *out;
  const float *lse;
  const void *dout;
  void *dq, *dk, *dv; ///< overwritten
};

/// `workspace`: attentionWorkspaceBytes() for at least pool.getThreads(),
/// aligned to 64 bytes. Results do not depend on the number of threads.
void attention(const AttentionArgs &args, void *workspace, ThreadPool &pool);

/// `workspace`: attentionGradWorkspaceBytes(), likewise. A key head's dk and
/// dv sum over its query heads in order, so they do not depend on the threads.
void attentionGrad(const AttentionGradArgs &args, void *workspace,
                   ThreadPool &pool);

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_ATTENTION_H
