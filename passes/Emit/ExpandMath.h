//===- ExpandMath.h - Math functions as arithmetic ------------------------===//
#ifndef CLEAVE_PASSES_EMIT_EXPANDMATH_H
#define CLEAVE_PASSES_EMIT_EXPANDMATH_H

#include "dialects/exec/Exec.h"

namespace cleave::emit {

/// 2^x on CUDA, of one f32.
constexpr llvm::StringLiteral powerOfTwoIntrinsic =
    "llvm.nvvm.ex2.approx.ftz.f32";

/// Rewrites exp, log, tanh, erf, rsqrt and the rounding to bf16 in the body of
/// `kernel` into additions, multiplications, multiply-adds, divisions and bit
/// operations on f32 and i32. The scalar program stays scalar, so vectors and
/// scalars of every target compute the same. Errors in units in the last place,
/// over all inputs: exp, log and erf 1, rsqrt 1.5, tanh 2.4.
/// With `forCuda` the power of two of exp and the rounding to bf16 are the
/// hardware's, and where exp is of a value less the row's maximum of such, its
/// error is as small beside 1 instead of beside the result.
/// Emits an error and fails on a function it does not know.
mlir::LogicalResult expandMath(exec::KernelOp kernel, bool forCuda);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EXPANDMATH_H
