#include "runtime/cpu/Attention.h"

#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/variants/Variant.h"

using namespace cleave::cpu;

void cleave::cpu::attention(const AttentionArgs &args, void *workspace,
                            ThreadPool &pool) {
  const AttentionShape &s = args.shape;
  AttentionKernel kernel = getActiveVariant().attention;
  size_t own = attentionWorkspaceBytes(s.batch, s.seq, s.heads, s.kvHeads,
                                       s.headDim, int64_t(s.type), 1);
  int64_t blocks = ceilDiv(s.seq, attention_block::queries);
  pool.parallelFor(0, s.batch * s.heads * blocks, 1,
                   [&](int64_t begin, int64_t end, int thread) {
                     kernel(args, begin, end,
                            static_cast<char *>(workspace) + thread * own);
                   });
}

void cleave::cpu::attentionGrad(const AttentionGradArgs &args, void *workspace,
                                ThreadPool &pool) {
  const AttentionShape &s = args.shape;
  AttentionGradKernel kernel = getActiveVariant().attentionGrad;
  size_t own = attentionGradWorkspaceBytes(s.batch, s.seq, s.heads, s.kvHeads,
                                           s.headDim, int64_t(s.type), 1);
  pool.parallelFor(
      0, s.batch * s.kvHeads, 1, [&](int64_t begin, int64_t end, int thread) {
        kernel(args, begin, end, static_cast<char *>(workspace) + thread * own);
      });
}
