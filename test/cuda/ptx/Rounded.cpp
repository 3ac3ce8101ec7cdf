//===- Rounded.cpp - Directed roundings, and conversions of every kind ----===//
//
// What is rare is done lane by lane: arithmetic in the processor's rounding
// mode, conversions by way of a type that holds every value of all others.
//
//===----------------------------------------------------------------------===//
#include "Lanes.h"
#include "Numbers.h"
#include <cfenv>
#include <cstring>
#include <limits>

using namespace cleave;
using namespace cleave::ptx;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {

/// The processor's rounding mode, for a time.
class RoundingScope {
public:
  explicit RoundingScope(Rounding rounding) {
    std::fesetround(rounding == Rounding::Zero   ? FE_TOWARDZERO
                    : rounding == Rounding::Down ? FE_DOWNWARD
                    : rounding == Rounding::Up   ? FE_UPWARD
                                                 : FE_TONEAREST);
  }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;
  ~RoundingScope() { std::fesetround(FE_TONEAREST); }
};

enum class Operation : uint8_t { Add, Sub, Mul, Div, Fma, Sqrt, Rcp };

} // namespace

/// Volatile, so that no operation leaves the scope of its rounding mode.
template <class T, Operation op>
static T computeRounded(const volatile T &a, const volatile T &b,
                        const volatile T &c, Rounding rounding) {
  RoundingScope scope(rounding);
  volatile T result = 0;
  switch (op) {
  case Operation::Add:
    result = a + b;
    break;
  case Operation::Sub:
    result = a - b;
    break;
  case Operation::Mul:
    result = a * b;
    break;
  case Operation::Div:
    result = a / b;
    break;
  case Operation::Fma:
    result = std::fma(T(a), T(b), T(c));
    break;
  case Operation::Sqrt:
    result = std::sqrt(T(a));
    break;
  case Operation::Rcp:
    result = T(1) / a;
    break;
  }
  return result;
}

template <class T>
static T finish(T value, const Instruction &i) {
  if (i.flush)
    value = T(flush(float(value)));
  if (i.saturate)
    value = !(value > 0) ? T(0) : value > 1 ? T(1) : value;
  return value;
}

template <class T, Operation op>
static void rounded(std::byte *registers, const Instruction &i, uint32_t mask) {
  unsigned sources = unsigned(i.count) - 1;
  for (unsigned l = 0; l < warpSize; ++l) {
    if (!((mask >> l) & 1))
      continue;
    T values[3] = {};
    for (unsigned n = 0; n < sources; ++n) {
      std::memcpy(&values[n], registers + i.operands[n + 1] + l * sizeof(T),
                  sizeof(T));
      if (i.flush)
        values[n] = T(flush(float(values[n])));
    }
    T result = finish(
        computeRounded<T, op>(values[0], values[1], values[2], i.rounding), i);
    std::memcpy(registers + i.operands[0] + l * sizeof(T), &result, sizeof(T));
  }
}

void ptx::addRoundedLanes(LaneTable &t) {
  t.add("add.(rz|rm|rp){.ftz}{.sat}.f32", "i=ii",
        rounded<float, Operation::Add>);
  t.add("sub.(rz|rm|rp){.ftz}{.sat}.f32", "i=ii",
        rounded<float, Operation::Sub>);
  t.add("mul.(rz|rm|rp){.ftz}{.sat}.f32", "i=ii",
        rounded<float, Operation::Mul>);
  t.add("(fma|mad).(rz|rm|rp){.ftz}{.sat}.f32", "i=iii",
        rounded<float, Operation::Fma>);
  t.add("div.(rz|rm|rp){.ftz}.f32", "i=ii", rounded<float, Operation::Div>);
  t.add("rcp.(rz|rm|rp){.ftz}.f32", "i=i", rounded<float, Operation::Rcp>);
  t.add("sqrt.(rz|rm|rp){.ftz}.f32", "i=i", rounded<float, Operation::Sqrt>);
  t.add("add.(rz|rm|rp).f64", "l=ll", rounded<double, Operation::Add>);
  t.add("sub.(rz|rm|rp).f64", "l=ll", rounded<double, Operation::Sub>);
  t.add("mul.(rz|rm|rp).f64", "l=ll", rounded<double, Operation::Mul>);
  t.add("(fma|mad).(rz|rm|rp).f64", "l=lll", rounded<double, Operation::Fma>);
  t.add("div.(rz|rm|rp).f64", "l=ll", rounded<double, Operation::Div>);
  t.add("rcp.(rz|rm|rp).f64", "l=l", rounded<double, Operation::Rcp>);
  t.add("sqrt.(rz|rm|rp).f64", "l=l", rounded<double, Operation::Sqrt>);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

static uint64_t readRegister(const std::byte *registers, uint32_t offset,
                             unsigned width, unsigned lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, registers + offset + size_t(lane) * width, width);
  return bits;
}

/// The low bits, with zeros or the sign above them.
static uint64_t extend(uint64_t bits, Type type) {
  unsigned spare = 64 - 8 * getWidth(type);
  return isSigned(type) ? uint64_t(int64_t(bits << spare) >> spare)
                        : bits << spare >> spare;
}

/// A long double holds all values of all types.
static long double readNumber(uint64_t bits, Type type, bool flushes) {
  switch (type) {
  case Type::F16:
    return static_cast<long double>(fromHalf(uint16_t(bits)));
  case Type::BF16:
    return static_cast<long double>(fromBf16(uint16_t(bits)));
  case Type::F32: {
    float value = toFloat(uint32_t(bits));
    return static_cast<long double>(flushes ? flush(value) : value);
  }
  case Type::F64:
    return static_cast<long double>(toDouble(bits));
  default:
    bits = extend(bits, type);
    return isSigned(type) ? static_cast<long double>(int64_t(bits))
                          : static_cast<long double>(bits);
  }
}

/// A number to an integer: out of range it is the nearest that is there.
static uint64_t writeInteger(long double value, Type type, Type sourceType) {
  unsigned bits = 8 * getWidth(type);
  if (std::isnan(value)) {
    bool isWide = sourceType == Type::F64 || bits == 64;
    return isFloat(sourceType) && isWide ? uint64_t(1) << (bits - 1) : 0;
  }
  long double least = isSigned(type) ? -ldexpl(1, int(bits) - 1) : 0;
  long double most = ldexpl(1, int(bits) - isSigned(type)) - 1;
  value = value < least ? least : value > most ? most : value;
  return isSigned(type) ? uint64_t(int64_t(value)) : uint64_t(value);
}

static uint64_t writeFloat(long double value, const Instruction &i, Type type) {
  const Format &format = type == Type::F16    ? f16Format
                         : type == Type::BF16 ? bf16Format
                         : type == Type::F64  ? f64Format
                         : type == Type::TF32 ? tf32Format
                                              : f32Format;
  value = roundTo(value, format, i.rounding);
  if (i.saturate)
    value = !(value > 0) ? 0 : value > 1 ? 1 : value;
  if (i.relu && value < 0)
    value = 0;
  if (i.finite && std::isinf(value))
    value = std::copysign(
        ldexpl(2 - ldexpl(1, 1 - format.precision), format.maxExponent), value);
  switch (type) {
  case Type::F16:
    return toHalf(float(value));
  case Type::BF16:
    return toBf16(float(value));
  case Type::F64:
    return toBits(double(value));
  default: {
    float result = float(value);
    if (std::isnan(result))
      return canonicalNan;
    return toBits(i.flush ? flush(result) : result);
  }
  }
}

static uint64_t convert(uint64_t bits, const Instruction &i) {
  if (!isFloat(i.type) && !isFloat(i.sourceType) && !i.saturate)
    return extend(bits, i.sourceType);
  long double value = readNumber(bits, i.sourceType, i.flush);
  if (!isFloat(i.type)) {
    value = isFloat(i.sourceType) ? roundIntegral(value, i.rounding) : value;
    return writeInteger(value, i.type, i.sourceType);
  }
  if (i.integral)
    value = roundIntegral(value, i.rounding);
  if (i.type == Type::BF16x2 || i.type == Type::F16x2)
    return writeFloat(value, i,
                      i.type == Type::BF16x2 ? Type::BF16 : Type::F16);
  return writeFloat(value, i, i.type);
}

void ptx::convertLanes(std::byte *registers, const Instruction &i,
                       uint32_t mask) {
  for (unsigned l = 0; l < warpSize; ++l) {
    if (!((mask >> l) & 1))
      continue;
    uint64_t result =
        convert(readRegister(registers, i.operands[1], i.sourceWidth, l), i);
    // Of a pair the first is the upper one.
    if (i.count == 3)
      result =
          (result << 16) |
          convert(readRegister(registers, i.operands[2], i.sourceWidth, l), i);
    else if (!isFloat(i.type))
      result = extend(result, i.type);
    std::memcpy(registers + i.operands[0] + size_t(l) * i.registerWidth,
                &result, i.registerWidth);
  }
}
