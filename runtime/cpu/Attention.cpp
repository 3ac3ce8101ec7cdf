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

/// Time of `units` equal units of work on `threads`, as a part of the time of
/// one thread.
static double getShare(int64_t units, int64_t threads) {
  return double(ceilDiv(units, threads)) / double(units);
}

void cleave::cpu::attentionGrad(const AttentionGradArgs &args, void *workspace,
                                ThreadPool &pool) {
  const AttentionShape &s = args.shape;
  AttentionGradKernel kernel = getActiveVariant().attentionGrad;
  size_t own = attentionGradWorkspaceBytes(s.batch, s.seq, s.heads, s.kvHeads,
                                           s.headDim, int64_t(s.type), 1);
  auto run = [&](GradPass pass, int64_t units) {
    pool.parallelFor(0, units, 1, [&](int64_t begin, int64_t end, int thread) {
      kernel(args, pass, begin, end,
             static_cast<char *>(workspace) + thread * own);
    });
  };
  int64_t all = s.batch * s.kvHeads, threads = pool.getThreads();
  if (all <= 0 || s.seq <= 0)
    return;
  int64_t keys = all * ceilDiv(s.seq, attention_block::keys);
  int64_t queries =
      s.batch * s.heads * ceilDiv(s.seq, attention_block::queries);
  // Five products in one pass; in two, the first two of them twice.
  if (5 * getShare(all, threads) <=
      4 * getShare(keys, threads) + 3 * getShare(queries, threads)) {
    run(GradPass::All, all);
    return;
  }
  run(GradPass::Keys, keys);
  run(GradPass::Queries, queries);
}
