//===- Variant.h - The kernels that each instruction set provides ---------===//
#ifndef CLEAVE_RUNTIME_CPU_VARIANTS_VARIANT_H
#define CLEAVE_RUNTIME_CPU_VARIANTS_VARIANT_H

#include "runtime/cpu/Attention.h"
#include "runtime/cpu/Gemm.h"

namespace cleave::cpu {

/// Rows [m0, m1), columns [n0, n1) of a GEMM, by one thread with its own
/// workspace (getGemmWorkspace().bytes).
struct GemmRect {
  int64_t m0, m1, n0, n1;
};
using GemmKernel = void (*)(const GemmArgs &args, GemmRect rect,
                            char *workspace);

/// Units [begin, end) of an attention, by one thread with its own workspace.
using AttentionKernel = void (*)(const AttentionArgs &args, int64_t begin,
                                 int64_t end, char *workspace);

/// What a unit of an attention's gradient computes: all gradients of a (batch,
/// key head); dk and dv of a (batch, key head, key block); or dq of a (batch,
/// head, query block).
enum class GradPass { All, Keys, Queries };
using AttentionGradKernel = void (*)(const AttentionGradArgs &args,
                                     GradPass pass, int64_t begin, int64_t end,
                                     char *workspace);

struct Variant {
  GemmKernel gemm;
  AttentionKernel attention; ///< unit: batch, head, query block
  AttentionGradKernel attentionGrad;
};

extern const Variant portableVariant;
#if defined(__x86_64__)
extern const Variant avx2Variant;
extern const Variant avx512Variant;
/// bf16 x bf16 only; everything else is avx512Variant's.
extern const GemmKernel avx512Bf16Gemm;
#endif

/// The active variant; its gemm serves every combination of types but
/// bf16 x bf16 where getActiveIsa() is Avx512Bf16.
const Variant &getActiveVariant();

} // namespace cleave::cpu

#endif // CLEAVE_RUNTIME_CPU_VARIANTS_VARIANT_H
