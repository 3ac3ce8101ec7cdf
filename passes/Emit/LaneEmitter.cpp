//===- LaneEmitter.cpp - Scalar bodies into lanes -------------------------===//
#include "passes/Emit/LaneEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

static Type withLanes(Type element, int64_t lanes) {
  return lanes ? Type(VectorType::get({lanes}, element)) : element;
}

/// `element` in the shape of `like`.
static Type withShapeOf(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? Type(vector.clone(element)) : element;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value LaneEmitter::constant(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}
Value LaneEmitter::constantInt(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
}
Value LaneEmitter::constantFloat(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(value)));
}
Value LaneEmitter::addIndex(Value x, Value y) {
  return arith::AddIOp::create(b, loc, x, y);
}
Value LaneEmitter::addIndex(Value x, int64_t y) {
  return y == 0 ? x : addIndex(x, constant(y));
}
Value LaneEmitter::mulIndex(Value x, int64_t y) {
  return y == 1 ? x : Value(arith::MulIOp::create(b, loc, x, constant(y)));
}
Value LaneEmitter::isBelow(Value x, Value y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
}
Value LaneEmitter::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}
Value LaneEmitter::addFloat(Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}

Value LaneEmitter::combine(exec::Reduction kind, Value x, Value y) {
  if (kind == exec::Reduction::Sum)
    return addFloat(x, y);
  // A NaN stays; of zeros either.
  return arith::MaximumFOp::create(b, loc, x, y, arith::FastMathFlags::nsz);
}

Value LaneEmitter::fold(exec::RowReduceOp reduce, Value sum, IRMapping &map,
                        int64_t lanes) {
  bool isSum = reduce.getKind() == exec::Reduction::Sum;
  auto product = reduce.getValue().getDefiningOp<arith::MulFOp>();
  if (isSum && product && product->hasOneUse())
    return math::FmaOp::create(b, loc,
                               splat(map.lookup(product.getLhs()), lanes),
                               splat(map.lookup(product.getRhs()), lanes), sum);
  Value value = map.lookup(reduce.getValue());
  if (isSum && matchPattern(value, m_AnyZeroFloat()))
    return sum;
  return combine(reduce.getKind(), sum, splat(value, lanes));
}

Value LaneEmitter::combineLanes(exec::Reduction kind, Value x) {
  Type f32 = b.getF32Type();
  if (kind == exec::Reduction::Sum)
    return LLVM::vector_reduce_fadd::create(
        b, loc, f32, constantFloat(-0.0), x,
        LLVM::FastmathFlagsAttr::get(b.getContext(),
                                     LLVM::FastmathFlags::reassoc));
  return LLVM::vector_reduce_fmaximum::create(
      b, loc, f32, x,
      LLVM::FastmathFlagsAttr::get(b.getContext(), LLVM::FastmathFlags::nsz));
}

double LaneEmitter::getNeutral(exec::Reduction kind) {
  return kind == exec::Reduction::Sum
             ? 0.0
             : -std::numeric_limits<double>::infinity();
}

Value LaneEmitter::splat(Value value, int64_t lanes) {
  if (!lanes || isa<VectorType>(value.getType()))
    return value;
  auto type = VectorType::get({lanes}, value.getType());
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, constant.getValue()));
  Value empty = LLVM::UndefOp::create(b, loc, type);
  Value first =
      LLVM::InsertElementOp::create(b, loc, empty, value, constantInt(0));
  return LLVM::ShuffleVectorOp::create(b, loc, first, empty,
                                       SmallVector<int32_t>(size_t(lanes), 0));
}

Value LaneEmitter::iota(Value start, int64_t lanes) {
  if (!lanes)
    return start;
  auto element = cast<IntegerType>(start.getType());
  SmallVector<APInt> steps;
  for (int64_t i = 0; i < lanes; ++i)
    steps.emplace_back(element.getWidth(), i);
  Value sequence = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(VectorType::get({lanes}, element), steps));
  return arith::AddIOp::create(b, loc, splat(start, lanes), sequence);
}

Value LaneEmitter::maskBelow(Value count, int64_t lanes) {
  Value narrow = arith::TruncIOp::create(b, loc, b.getI32Type(), count);
  return isBelow(iota(constantInt(0), lanes), splat(narrow, lanes));
}

Value LaneEmitter::constantMask(int64_t count, int64_t lanes) {
  SmallVector<bool> bits;
  for (int64_t i = 0; i < lanes; ++i)
    bits.push_back(i < count);
  return arith::ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(VectorType::get({lanes}, b.getI1Type()), bits));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Type LaneEmitter::getMemoryType(Type stored) {
  return stored.isBF16() ? Type(b.getI16Type()) : stored;
}

Value LaneEmitter::address(Value base, Value index, Type stored) {
  return LLVM::GEPOp::create(b, loc, base.getType(), getMemoryType(stored),
                             base, ArrayRef<LLVM::GEPArg>{index});
}

Value LaneEmitter::rowOffset(const Access &access, Value row) {
  if (access.rowStride == 0)
    return constant(access.offset);
  if (access.rowDiv > 1)
    row = arith::DivUIOp::create(b, loc, row, constant(access.rowDiv));
  if (access.rowMod > 0)
    row = arith::RemUIOp::create(b, loc, row, constant(access.rowMod));
  return addIndex(mulIndex(row, access.rowStride), access.offset);
}

/// An integer constant of `bits` bits in the shape of `like`.
Value LaneEmitter::integers(Value like, unsigned bits, int64_t value) {
  auto element = b.getIntegerType(bits);
  Type type = withShapeOf(like.getType(), element);
  TypedAttr attr =
      IntegerAttr::get(element, APInt(bits, uint64_t(value), /*isSigned=*/true,
                                      /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, loc, attr);
}

/// bf16 lanes in pairs, as registers of 32 bits have them: the first of a pair
/// is shifted up, of the second the lower half is cleared.
Value LaneEmitter::widenPairs(Value value, int64_t lanes) {
  Value pairs = LLVM::BitcastOp::create(
      b, loc, VectorType::get({lanes / 2}, b.getI32Type()), value);
  auto halves = VectorType::get({lanes / 2}, b.getF32Type());
  Value first = arith::ShLIOp::create(b, loc, pairs, integers(pairs, 32, 16));
  Value second =
      arith::AndIOp::create(b, loc, pairs, integers(pairs, 32, 0xffff0000));
  SmallVector<int32_t> order;
  for (int32_t i = 0; i < lanes / 2; ++i)
    order.append({i, i + int32_t(lanes / 2)});
  return LLVM::ShuffleVectorOp::create(
      b, loc, arith::BitcastOp::create(b, loc, halves, first),
      arith::BitcastOp::create(b, loc, halves, second), order);
}

Value LaneEmitter::widen(Value value, Type stored) {
  if (!stored.isBF16())
    return value;
  if (auto type = dyn_cast<VectorType>(value.getType()); type && hasBf16)
    return widenPairs(value, type.getNumElements());
  Type wide = withShapeOf(value.getType(), b.getI32Type());
  Value raw = arith::ExtUIOp::create(b, loc, wide, value);
  raw = arith::ShLIOp::create(b, loc, raw, integers(raw, 32, 16));
  return arith::BitcastOp::create(
      b, loc, withShapeOf(value.getType(), b.getF32Type()), raw);
}

/// Rounds to nearest even; a NaN stays one.
Value LaneEmitter::narrow(Value value, Type stored) {
  if (!stored.isBF16())
    return value;
  Type moved = withShapeOf(value.getType(), b.getI16Type());
  if (hasBf16) {
    Type narrow = withShapeOf(value.getType(), b.getBF16Type());
    return arith::BitcastOp::create(
        b, loc, moved, arith::TruncFOp::create(b, loc, narrow, value));
  }
  Type wide = withShapeOf(value.getType(), b.getI32Type());
  Value raw = arith::BitcastOp::create(b, loc, wide, value);
  auto constantBits = [&](int64_t bits) { return integers(raw, 32, bits); };
  Value odd = arith::ShRUIOp::create(b, loc, raw, constantBits(16));
  odd = arith::AndIOp::create(b, loc, odd, constantBits(1));
  Value rounded = arith::AddIOp::create(
      b, loc, arith::AddIOp::create(b, loc, raw, constantBits(0x7fff)), odd);
  Value quiet = arith::OrIOp::create(b, loc, raw, constantBits(0x00400000));
  Value isNan =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  Value kept = select(isNan, quiet, rounded);
  kept = arith::ShRUIOp::create(b, loc, kept, constantBits(16));
  return arith::TruncIOp::create(b, loc, moved, kept);
}

static int64_t getElementBytes(Type stored) {
  return stored.getIntOrFloatBitWidth() / 8;
}

Value LaneEmitter::load(Value pointer, Type stored, int64_t lanes, Value mask,
                        int64_t alignment) {
  Type type = withLanes(getMemoryType(stored), lanes);
  if (!alignment)
    alignment = getElementBytes(stored);
  Value raw;
  if (mask) {
    Value zero = arith::ConstantOp::create(b, loc, type, b.getZeroAttr(type));
    raw = LLVM::MaskedLoadOp::create(b, loc, type, pointer, mask, zero,
                                     unsigned(alignment));
  } else {
    raw = LLVM::LoadOp::create(b, loc, type, pointer, unsigned(alignment));
  }
  return widen(raw, stored);
}

/// Whether `mask` is the constant that picks lane 0.
static bool isFirstLaneOnly(Value mask) {
  auto constant =
      mask ? mask.getDefiningOp<arith::ConstantOp>() : arith::ConstantOp();
  if (!constant)
    return false;
  auto bits = cast<DenseElementsAttr>(constant.getValue()).getValues<bool>();
  return bits[0] && llvm::count(bits, true) == 1;
}

void LaneEmitter::store(Value value, Value pointer, Type stored, int64_t lanes,
                        Value mask, int64_t alignment) {
  Value raw = narrow(splat(value, lanes), stored);
  if (!alignment)
    alignment = getElementBytes(stored);
  // LLVM 22 stores a whole i32 where a constant mask picks one lane of a vector
  // that was truncated from i32 to i16.
  if (isFirstLaneOnly(mask)) {
    raw = LLVM::ExtractElementOp::create(b, loc, raw, constantInt(0));
    mask = Value();
  }
  if (mask)
    LLVM::MaskedStoreOp::create(b, loc, raw, pointer, mask,
                                unsigned(alignment));
  else
    LLVM::StoreOp::create(b, loc, raw, pointer, unsigned(alignment));
}

Value LaneEmitter::gather(Value pointers, Type stored, int64_t lanes,
                          Value mask) {
  if (!lanes)
    return load(pointers, stored, 0, mask);
  Type type = withLanes(getMemoryType(stored), lanes);
  if (!mask)
    mask = constantMask(lanes, lanes);
  Value zero = arith::ConstantOp::create(b, loc, type, b.getZeroAttr(type));
  Value raw = LLVM::masked_gather::create(
      b, loc, type, pointers, mask, ValueRange{zero},
      b.getI32IntegerAttr(int32_t(getElementBytes(stored))));
  return widen(raw, stored);
}

void LaneEmitter::scatter(Value value, Value pointers, Type stored,
                          Value mask) {
  auto type = dyn_cast<VectorType>(pointers.getType());
  if (!type)
    return store(value, pointers, stored, 0, mask);
  int64_t lanes = type.getNumElements();
  if (!mask)
    mask = constantMask(lanes, lanes);
  LLVM::masked_scatter::create(
      b, loc, narrow(splat(value, lanes), stored), pointers, mask,
      b.getI32IntegerAttr(int32_t(getElementBytes(stored))));
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

void LaneEmitter::evaluate(Operation *op, IRMapping &map, int64_t lanes) {
  if (lanes && isa<LLVM::CallIntrinsicOp>(op))
    return evaluatePerLane(op, map, lanes);
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Value condition = map.lookup(select.getCondition());
    bool isTrue = matchPattern(condition, m_One());
    if (isTrue || matchPattern(condition, m_Zero()))
      return map.map(
          select.getResult(),
          map.lookup(isTrue ? select.getTrueValue() : select.getFalseValue()));
  }
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, splat(map.lookup(operand), lanes));
  Operation *copy = b.clone(*op, operands);
  if (!lanes) {
    map.map(op->getResults(), copy->getResults());
    return;
  }
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults())) {
    to.setType(withLanes(from.getType(), lanes));
    map.map(from, to);
  }
}

/// Evaluates an op that knows no vectors.
void LaneEmitter::evaluatePerLane(Operation *op, IRMapping &map,
                                  int64_t lanes) {
  Value result = LLVM::UndefOp::create(
      b, loc, withLanes(op->getResult(0).getType(), lanes));
  for (int64_t i = 0; i < lanes; ++i) {
    IRMapping operands;
    for (Value operand : op->getOperands()) {
      Value value = map.lookup(operand);
      if (isa<VectorType>(value.getType()))
        value = LLVM::ExtractElementOp::create(b, loc, value, constantInt(i));
      operands.map(operand, value);
    }
    result = LLVM::InsertElementOp::create(
        b, loc, result, b.clone(*op, operands)->getResult(0), constantInt(i));
  }
  map.map(op->getResult(0), result);
}
