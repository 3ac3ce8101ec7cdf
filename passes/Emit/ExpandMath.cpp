//===- ExpandMath.cpp - Math functions as arithmetic ----------------------===//
//
// Polynomials are minimax fits, coefficient by coefficient rounded to f32 and
// the rest refitted; the error given is that of the polynomial alone, relative
// to the function, in units of 2^-24.
//
//===----------------------------------------------------------------------===//
#include "passes/Emit/ExpandMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>
#include <numbers>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {
/// f32 and i32 arithmetic at one point of a body, spelled short.
struct Expander {
  OpBuilder b;
  Location loc;
  bool forCuda;

  Expander(Operation *op, bool forCuda)
      : b(op), loc(op->getLoc()), forCuda(forCuda) {}

  Value constant(double value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(value)));
  }
  Value constantInt(int64_t value) {
    return arith::ConstantOp::create(
        b, loc,
        b.getIntegerAttr(b.getI32Type(),
                         APInt(32, uint64_t(value), true, true)));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, loc, x); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value copySign(Value x, Value sign) {
    return math::CopySignOp::create(b, loc, x, sign);
  }
  Value addInt(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value subInt(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, int n) {
    return arith::ShLIOp::create(b, loc, x, constantInt(n));
  }
  Value shiftRight(Value x, int n) {
    return arith::ShRSIOp::create(b, loc, x, constantInt(n));
  }
  Value shiftRightUnsigned(Value x, int n) {
    return arith::ShRUIOp::create(b, loc, x, constantInt(n));
  }
  Value bitAnd(Value x, int64_t mask) {
    return arith::AndIOp::create(b, loc, x, constantInt(mask));
  }
  Value bits(Value x) {
    return arith::BitcastOp::create(b, loc, b.getI32Type(), x);
  }
  Value fromBits(Value x) {
    return arith::BitcastOp::create(b, loc, b.getF32Type(), x);
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// The smaller; a NaN x stays.
  Value atMost(Value x, double bound) {
    Value c = constant(bound);
    return select(compare(arith::CmpFPredicate::OGT, x, c), c, x);
  }
  Value atLeast(Value x, double bound) {
    Value c = constant(bound);
    return select(compare(arith::CmpFPredicate::OLT, x, c), c, x);
  }
  /// Horner, highest power first.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.front());
    for (double c : coefficients.drop_front())
      sum = fma(sum, x, constant(c));
    return sum;
  }

  /// 2^n for n in [-126, 127].
  Value powerOfTwo(Value n) {
    return fromBits(shiftLeft(addInt(n, constantInt(127)), 23));
  }

  std::pair<Value, Value> splitPowerOfTwo(Value x, bool down = false);
  Value powerOfTwoOnCuda(Value x);
  Value expOnCuda(Value x);
  Value exp(Value x, bool smallRange);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value roundToBf16Bits(Value x);
};
} // namespace

/// n (i32) and r with x = n ln 2 + r; |r| <= ln(2) / 2, or r in [0, ln 2] where
/// n is rounded down. ln 2 is a sum of two f32, of which n times the first is
/// exact (Cody and Waite 1980).
std::pair<Value, Value> Expander::splitPowerOfTwo(Value x, bool down) {
  constexpr double ln2High = 0.693145751953125, ln2Low = 1.42860682030941723e-6;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  constexpr double magic = 12582912.0;
  constexpr int64_t magicBits = 0x4b400000;
  Value log2e = constant(std::numbers::log2e);
  Value shifted = down ? add(fma(x, log2e, constant(-0.5)), constant(magic))
                       : fma(x, log2e, constant(magic));
  Value n = sub(shifted, constant(magic));
  Value r = fma(n, constant(-ln2High), x);
  r = fma(n, constant(-ln2Low), r);
  return {subInt(bits(shifted), constantInt(magicBits)), r};
}

/// 2^x by the hardware; a result that is not a normal number is 0.
Value Expander::powerOfTwoOnCuda(Value x) {
  return LLVM::CallIntrinsicOp::create(b, loc, b.getF32Type(),
                                       b.getStringAttr(powerOfTwoIntrinsic), x)
      .getResult(0);
}

/// Whether `x` is a value of the row minus the largest of such: where this is
/// the exponent of a softmax, what matters is how large the error of the result
/// is beside 1.
static bool isBelowRowMax(Value x) {
  auto difference = x.getDefiningOp<arith::SubFOp>();
  auto reduce = difference
                    ? difference.getRhs().getDefiningOp<exec::RowReduceOp>()
                    : exec::RowReduceOp();
  return reduce && reduce.getKind() == exec::Reduction::Max;
}

/// exp(x) = 2^(high + low) = 2^high (1 + low ln 2), of which the hardware has
/// the first factor. In bounds, so that `low` is finite; a NaN stays. Below a
/// row's maximum the first factor is enough: the result is off by at most
/// |x| exp(x) 2^-24 for `high` and 2^-22 exp(x) for the hardware.
Value Expander::expOnCuda(Value x) {
  constexpr float log2e = float(std::numbers::log2e);
  constexpr double log2eRest = std::numbers::log2e - double(log2e);
  if (isBelowRowMax(x))
    return powerOfTwoOnCuda(mul(x, constant(log2e)));
  x = arith::MaximumFOp::create(b, loc, x, constant(-104));
  x = arith::MinimumFOp::create(b, loc, x, constant(89));
  Value high = mul(x, constant(log2e));
  Value low = fma(x, constant(log2e), neg(high));
  low = fma(x, constant(log2eRest), low);
  return mul(powerOfTwoOnCuda(high),
             fma(low, constant(std::numbers::ln2), constant(1)));
}

/// exp(x) = 2^n exp(r). With `smallRange` the caller promises that the result
/// and 2^n are normal.
Value Expander::exp(Value x, bool smallRange) {
  if (forCuda)
    return expOnCuda(x);
  if (!smallRange)
    x = atLeast(atMost(x, 89.0), -104.0);
  auto [n, r] = splitPowerOfTwo(x);
  // 1 + r + r^2 q(r), error 0.06.
  Value q = polynomial(r, {0.0013819801388308406, 0.008368686772882938,
                           0.041668277233839035, 0.1666652113199234,
                           0.4999999403953552});
  Value p = add(fma(mul(r, r), q, r), constant(1));
  if (smallRange)
    return mul(p, powerOfTwo(n));
  // In two steps: 2^n itself may be out of range where the result is not.
  Value half = shiftRight(n, 1);
  Value rest = subInt(n, half);
  return mul(mul(p, powerOfTwo(half)), powerOfTwo(rest));
}

/// log(x) = k ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
Value Expander::log(Value x) {
  constexpr double ln2High = 0.693359375, ln2Low = -2.12194440054690583e-4;
  // Subnormal x is scaled into the normal range first.
  Value isTiny = compare(arith::CmpFPredicate::OLT, x,
                         constant(std::numeric_limits<float>::min()));
  Value scaled = select(isTiny, mul(x, constant(33554432.0)), x);
  // Adding 1 - sqrt(1/2) to the exponent field's fraction moves the cut of the
  // mantissa from 1 to sqrt(1/2).
  constexpr int64_t oneBits = 0x3f800000, rootHalfBits = 0x3f3504f3;
  Value shifted = addInt(bits(scaled), constantInt(oneBits - rootHalfBits));
  Value k = subInt(shiftRight(shifted, 23), constantInt(127));
  Value mantissa =
      fromBits(addInt(bitAnd(shifted, 0x007fffff), constantInt(rootHalfBits)));
  k = subInt(k, select(isTiny, constantInt(25), constantInt(0)));
  Value kf = arith::SIToFPOp::create(b, loc, b.getF32Type(), k);
  Value f = sub(mantissa, constant(1));
  // f - f^2/2 + f^3 q(f), error 0.1.
  Value q = polynomial(f, {-0.07635846734046936, 0.1276191771030426,
                           -0.13159675896167755, 0.1420162171125412,
                           -0.1662340760231018, 0.20001240074634552,
                           -0.2500081956386566, 0.3333333134651184});
  Value ff = mul(f, f);
  Value tail = mul(mul(ff, f), q);
  tail = fma(kf, constant(ln2Low), tail);
  tail = fma(ff, constant(-0.5), tail);
  Value result = fma(kf, constant(ln2High), add(f, tail));
  // log(inf) = inf, log(0) = -inf, log(negative or NaN) = NaN.
  double inf = std::numeric_limits<double>::infinity();
  result =
      select(compare(arith::CmpFPredicate::OEQ, x, constant(inf)), x, result);
  result = select(compare(arith::CmpFPredicate::OEQ, x, constant(0)),
                  constant(-inf), result);
  Value nan = constant(std::numeric_limits<double>::quiet_NaN());
  return select(compare(arith::CmpFPredicate::UGE, x, constant(0)),
                select(compare(arith::CmpFPredicate::UNO, x, x), x, result),
                nan);
}

/// tanh(|x|) = e / (e + 2), e = exp(2|x|) - 1 = 2^n (exp(r) - 1) + 2^n - 1.
/// Here r is in [0, ln 2], so that nothing cancels; the larger e, the less its
/// error matters.
Value Expander::tanh(Value x) {
  // tanh rounds to 1 from 9.02 on.
  Value z = atMost(mul(abs(x), constant(2)), 20.0);
  auto [n, r] = splitPowerOfTwo(z, /*down=*/true);
  // r + r^2 q(r), error 0.006.
  Value q = polynomial(r, {0.0002689320535864681, 0.00131911167409271,
                           0.008366353809833527, 0.04165886715054512,
                           0.16666750609874725, 0.4999999701976776});
  Value p = fma(mul(r, r), q, r);
  Value scale = powerOfTwo(n);
  Value e = fma(scale, p, sub(scale, constant(1)));
  return copySign(div(e, add(e, constant(2))), x);
}

/// An odd polynomial near 0, else 1 - exp(t q(t) - t), where the exponent is
/// log(erfc(t)), t = |x|.
Value Expander::erf(Value x) {
  Value size = abs(x), xx = mul(x, x);
  // x + x q(x^2), error 0.02.
  Value q = polynomial(xx, {7.995388295967132e-05, -0.0008049558964557946,
                            0.0051923939026892185, -0.026855729520320892,
                            0.11283625662326813, -0.3761262893676758,
                            0.12837916612625122});
  Value near = fma(q, x, x);
  // erf rounds to 1 from 3.92 on. Error of erf 0.02.
  Value t = atMost(size, 4.0);
  Value p = polynomial(t, {-1.1525032277859282e-05, 0.0003257523931097239,
                           -0.003654482075944543, 0.023787561804056168,
                           -0.1062665581703186, -0.6351333260536194,
                           -0.1286529302597046});
  Value far = sub(constant(1), exp(fma(p, t, neg(t)), /*smallRange=*/true));
  return select(compare(arith::CmpFPredicate::OLT, size, constant(0.927734375)),
                near, copySign(far, x));
}

/// The bits of x as an i32 whose upper half is x rounded to nearest even bf16;
/// the lower half is garbage.
Value Expander::roundToBf16Bits(Value x) {
  Value raw = bits(x);
  Value odd = bitAnd(shiftRightUnsigned(raw, 16), 1);
  Value rounded = addInt(addInt(raw, constantInt(0x7fff)), odd);
  Value quiet = arith::OrIOp::create(b, loc, raw, constantInt(0x00400000));
  return select(compare(arith::CmpFPredicate::UNO, x, x), quiet, rounded);
}

/// What `op` becomes, null for an op that stays, failure for one unknown.
static FailureOr<Value> expand(Operation &op, bool forCuda) {
  Expander e(&op, forCuda);
  // A lane left out by a mask would divide by zero.
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op) &&
      !op.getOperand(1).getDefiningOp<arith::ConstantOp>())
    return failure();
  if (!isa<math::MathDialect>(op.getDialect())) {
    // The only bf16 in a body is a rounding there and back.
    auto widen = dyn_cast<arith::ExtFOp>(op);
    if (!widen)
      return Value();
    auto narrow = widen.getIn().getDefiningOp<arith::TruncFOp>();
    if (!narrow || !narrow.getType().isBF16() || !widen.getType().isF32())
      return failure();
    // The hardware rounds.
    if (forCuda)
      return Value();
    Value kept = e.bitAnd(e.roundToBf16Bits(narrow.getIn()), 0xffff0000);
    return e.fromBits(kept);
  }
  Value x = op.getOperand(0);
  if (!x.getType().isF32())
    return failure();
  return TypeSwitch<Operation *, FailureOr<Value>>(&op)
      .Case([&](math::ExpOp) { return e.exp(x, /*smallRange=*/false); })
      .Case([&](math::LogOp) { return e.log(x); })
      .Case([&](math::TanhOp) { return e.tanh(x); })
      .Case([&](math::ErfOp) { return e.erf(x); })
      .Case([&](math::RsqrtOp) {
        return e.div(e.constant(1), math::SqrtOp::create(e.b, e.loc, x));
      })
      .Case<math::SqrtOp, math::FmaOp, math::AbsFOp, math::CopySignOp,
            math::FloorOp, math::CeilOp, math::RoundEvenOp, math::TruncOp>(
          [](Operation *) { return Value(); })
      .Default([](Operation *) { return failure(); });
}

LogicalResult emit::expandMath(exec::KernelOp kernel, bool forCuda) {
  for (Operation &op : llvm::make_early_inc_range(kernel.getBody().front())) {
    FailureOr<Value> expanded = expand(op, forCuda);
    if (failed(expanded))
      return op.emitOpError("has no expansion in a kernel body");
    if (!*expanded)
      continue;
    op.getResult(0).replaceAllUsesWith(*expanded);
    op.erase();
  }
  // What is narrow is widened at once, or was.
  for (auto op : llvm::make_early_inc_range(
           kernel.getBody().front().getOps<arith::TruncFOp>())) {
    if (!llvm::all_of(op->getUsers(), llvm::IsaPred<arith::ExtFOp>))
      return op.emitOpError("has a use other than arith.extf back to f32");
    if (op->use_empty())
      op.erase();
  }
  return success();
}
