// GEMM of bf16 by bf16 with AVX512_BF16's multiply-add of pairs, which rounds
// once per pair and takes denormal inputs as zero.
#include "runtime/cpu/variants/GemmRect.h"

namespace {

template <class Fn>
void withPairs(const void *data, bool stepsContiguous, int64_t ld, int64_t k,
               Fn fn) {
  auto *bf16 = static_cast<const uint16_t *>(data);
  return stepsContiguous ? fn(PairSource<true>{bf16, ld, k})
                         : fn(PairSource<false>{bf16, ld, k});
}

void gemmRectPairs(const GemmArgs &args, GemmRect rect, char *workspace) {
  int64_t lda = args.transA ? args.m : args.k;
  int64_t ldb = args.transB ? args.k : args.n;
  withPairs(args.a, !args.transA, lda, args.k, [&](auto a) {
    withPairs(args.b, args.transB, ldb, args.k, [&](auto b) {
      computeRect<MultiplyBf16Pairs>(args, rect, workspace, a, b);
    });
  });
}

} // namespace

const cleave::cpu::GemmKernel cleave::cpu::avx512Bf16Gemm = gemmRectPairs;
