//===- InstructionTest.cpp - Instructions that compute lane by lane -------===//
//
// Each on many operands, of which some are at the edges, against what C++ says
// of the same operands; and all of every instruction set's code against the
// portable one's.
//
//===----------------------------------------------------------------------===//
#include "Lanes.h"
#include "Testing.h"
#include <bit>
#include <cmath>
#include <functional>
#include <random>

using namespace cleave;
using namespace cleave::ptx;

namespace {

using Bits = uint64_t;
using Reference = std::function<Bits(const Bits *)>;

float f32(Bits bits) { return std::bit_cast<float>(uint32_t(bits)); }
double f64(Bits bits) { return std::bit_cast<double>(bits); }
Bits bits(float value) { return std::bit_cast<uint32_t>(value); }
Bits bits(double value) { return std::bit_cast<uint64_t>(value); }
int32_t s32(Bits bits) { return int32_t(uint32_t(bits)); }
int64_t s64(Bits bits) { return int64_t(bits); }
uint32_t u32(Bits bits) { return uint32_t(bits); }
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

/// Operands by their letters, as in a Computation's signature; f and d are i
/// and l of floats.
class Operands {
public:
  Bits draw(char letter) {
    auto pick = [&](std::initializer_list<Bits> special, Bits other) {
      size_t n = random() % (2 * special.size());
      return n < special.size() ? special.begin()[n] : other;
    };
    switch (letter) {
    case 'h':
      return pick({0, 1, 2, 0x7fff, 0x8000, 0xffff, 0x3c00, 0x7c00, 0x3f80},
                  random() & 0xffff);
    case 'i':
      return pick({0, 1, 2, 5, 31, 32, 33, 0x7fffffff, 0x80000000, 0xffffffff,
                   0x8000, 0xffff},
                  random() & 0xffffffff);
    case 'l':
      return pick({0, 1, 63, 64, 0x7fffffffffffffff, Bits(1) << 63, ~Bits(0),
                   0xffffffff, Bits(1) << 32},
                  random());
    case 'd':
      return pick(
          {bits(0.0), bits(-0.0), bits(1.0), bits(HUGE_VAL), 1, bits(-1.5)},
          bits(std::ldexp(double(int32_t(random())), int(random() % 80) - 70)));
    default: {
      float number =
          std::ldexp(float(int32_t(random())), int(random() % 60) - 60);
      return pick({bits(0.0f), bits(-0.0f), bits(1.0f), bits(INFINITY),
                   bits(-INFINITY), 1, 0x80000001, bits(0.5f), bits(-2.5f),
                   bits(1e30f), bits(NAN)},
                  bits(number));
    }
    }
  }

private:
  std::mt19937_64 random{1};
};

char getRegister(char letter) {
  switch (letter) {
  case 'd':
    return 'l';
  case 'f':
    return 'r';
  case 'i':
    return 'r';
  default:
    return letter;
  }
}

std::string describe(const std::vector<Bits> &values) {
  char text[40];
  std::string result;
  for (Bits value : values) {
    snprintf(text, sizeof text, " 0x%llx",
             static_cast<unsigned long long>(value));
    result += text;
  }
  return result;
}

bool isNear(Bits got, Bits want, char letter, double relative) {
  if (got == want)
    return true;
  if (letter != 'f' && letter != 'd')
    return false;
  double x = letter == 'f' ? double(f32(got)) : f64(got);
  double y = letter == 'f' ? double(f32(want)) : f64(want);
  return (std::isnan(x) && std::isnan(y)) ||
         std::fabs(x - y) <= relative * std::fabs(y);
}

/// `signature` is as "i=ii": result and operands, with p for a predicate.
void check(const std::string &mnemonic, const std::string &signature,
           const Reference &reference, double relative = 0) {
  constexpr uint32_t blocks = 64, lanes = blocks * warpSize;
  SCOPED_TRACE(mnemonic);
  std::string letters = signature.substr(2);
  size_t count = letters.size();
  Operands operands;
  std::vector<std::vector<Bits>> in(count, std::vector<Bits>(lanes));
  for (size_t l = 0; l < lanes; ++l)
    for (size_t n = 0; n < count; ++n)
      in[n][l] = operands.draw(letters[n]);
  std::vector<Bits> out(lanes, ~Bits(0));
  std::string body = "mov.u32 %r50, %ctaid.x;\n"
                     "mad.lo.s32 %r51, %r50, 32, %thread;\n"
                     "mul.wide.u32 %l30, %r51, 8;\n";
  Device device;
  std::vector<uint64_t> addresses;
  std::string list;
  for (size_t n = 0; n < count; ++n) {
    std::string number = std::to_string(n);
    std::string name =
        std::string("%") + getRegister(letters[n]) + std::to_string(n + 1);
    const char *width = getRegister(letters[n]) == 'l'   ? "u64"
                        : getRegister(letters[n]) == 'r' ? "u32"
                                                         : "u16";
    body += "add.s64 %p" + number + ", %p" + number + ", %l30;\n";
    body += std::string("ld.global.") + width + " " + name + ", [%p" + number +
            "];\n";
    list += ", " + name;
    addresses.push_back(device.add(in[n]));
  }
  char result = signature[0];
  std::string to =
      result == 'p' ? "%q1" : std::string("%") + getRegister(result) + "0";
  body += mnemonic + " " + to + list + ";\n";
  if (result == 'p')
    body += "selp.u32 %r0, 1, 0, %q1;\n";
  if (result == 'h')
    body += "cvt.u64.u16 %l0, %h0;\n";
  else if (getRegister(result) != 'l')
    body += "cvt.u64.u32 %l0, %r0;\n";
  std::string last = "%p" + std::to_string(count);
  body += "add.s64 " + last + ", " + last + ", %l30;\nst.global.u64 [" + last +
          "], %l0;";
  addresses.push_back(device.add(out));
  expectOk(runText(makeKernel(unsigned(count + 1), body), device, addresses,
                   {32, 1, 1}, {blocks, 1, 1}));
  for (size_t l = 0; l < lanes; ++l) {
    std::vector<Bits> values;
    for (size_t n = 0; n < count; ++n)
      values.push_back(in[n][l]);
    Bits want = reference(values.data());
    ASSERT_TRUE(isNear(out[l], want, result, relative))
        << "of" << describe(values) << ": got" << describe({out[l]})
        << ", expects" << describe({want});
  }
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

TEST(PtxInstructionTest, AddsAndMultiplies) {
  check("add.s16", "h=hh",
        [](const Bits *x) { return (x[0] + x[1]) & 0xffff; });
  check("add.s32", "i=ii", [](const Bits *x) { return u32(x[0] + x[1]); });
  check("add.s64", "l=ll", [](const Bits *x) { return x[0] + x[1]; });
  check("sub.s16", "h=hh",
        [](const Bits *x) { return (x[0] - x[1]) & 0xffff; });
  check("sub.u32", "i=ii", [](const Bits *x) { return u32(x[0] - x[1]); });
  check("sub.s64", "l=ll", [](const Bits *x) { return x[0] - x[1]; });
  check("add.sat.s32", "i=ii", [](const Bits *x) {
    int64_t sum = int64_t(s32(x[0])) + s32(x[1]);
    return u32(Bits(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)));
  });
  check("mul.lo.s32", "i=ii", [](const Bits *x) { return u32(x[0] * x[1]); });
  check("mul.lo.s16", "h=hh",
        [](const Bits *x) { return (x[0] * x[1]) & 0xffff; });
  check("mul.lo.u64", "l=ll", [](const Bits *x) { return x[0] * x[1]; });
  check("mul.hi.s32", "i=ii", [](const Bits *x) {
    return u32(Bits((int64_t(s32(x[0])) * s32(x[1])) >> 32));
  });
  check("mul.hi.u32", "i=ii",
        [](const Bits *x) { return (x[0] * x[1]) >> 32; });
  check("mul.hi.s64", "l=ll", [](const Bits *x) {
    return Bits((Wide(s64(x[0])) * s64(x[1])) >> 64);
  });
  check("mul.hi.u64", "l=ll",
        [](const Bits *x) { return Bits((UnsignedWide(x[0]) * x[1]) >> 64); });
  check("mul.wide.s16", "i=hh", [](const Bits *x) {
    return u32(Bits(int32_t(int16_t(x[0])) * int16_t(x[1])));
  });
  check("mul.wide.s32", "l=ii",
        [](const Bits *x) { return Bits(int64_t(s32(x[0])) * s32(x[1])); });
  check("mul.wide.u32", "l=ii", [](const Bits *x) { return x[0] * x[1]; });
  check("mad.lo.s32", "i=iii",
        [](const Bits *x) { return u32(x[0] * x[1] + x[2]); });
  check("mad.lo.s64", "l=lll",
        [](const Bits *x) { return x[0] * x[1] + x[2]; });
  check("mad.hi.u32", "i=iii",
        [](const Bits *x) { return u32(((x[0] * x[1]) >> 32) + x[2]); });
  check("mad.wide.s32", "l=iil", [](const Bits *x) {
    return Bits(int64_t(s32(x[0])) * s32(x[1])) + x[2];
  });
  check("mad.wide.u16", "i=hhi",
        [](const Bits *x) { return u32(x[0] * x[1] + x[2]); });
  check("neg.s32", "i=i", [](const Bits *x) { return u32(0 - x[0]); });
  check("abs.s64", "l=l",
        [](const Bits *x) { return s64(x[0]) < 0 ? 0 - x[0] : x[0]; });
  check("min.s32", "i=ii", [](const Bits *x) {
    return u32(Bits(std::min(s32(x[0]), s32(x[1]))));
  });
  check("max.u32", "i=ii", [](const Bits *x) { return std::max(x[0], x[1]); });
  check("min.s64", "l=ll",
        [](const Bits *x) { return Bits(std::min(s64(x[0]), s64(x[1]))); });
  check("max.s16", "h=hh", [](const Bits *x) {
    return Bits(uint16_t(std::max(int16_t(x[0]), int16_t(x[1]))));
  });
  check("sad.s32", "i=iii", [](const Bits *x) {
    int64_t difference = int64_t(s32(x[0])) - s32(x[1]);
    return u32(Bits(std::abs(difference)) + x[2]);
  });
}

TEST(PtxInstructionTest, Divides) {
  // By zero nothing is promised.
  check("div.s32", "i=ii", [](const Bits *x) {
    return x[1] == 0 ? 0xffffffff : u32(Bits(int64_t(s32(x[0])) / s32(x[1])));
  });
  check("div.u32", "i=ii",
        [](const Bits *x) { return x[1] == 0 ? 0xffffffff : x[0] / x[1]; });
  check("div.s64", "l=ll", [](const Bits *x) {
    return x[1] == 0 ? ~Bits(0) : Bits(Wide(s64(x[0])) / s64(x[1]));
  });
  check("rem.s32", "i=ii", [](const Bits *x) {
    return x[1] == 0 ? x[0] : u32(Bits(int64_t(s32(x[0])) % s32(x[1])));
  });
  check("rem.u64", "l=ll",
        [](const Bits *x) { return x[1] == 0 ? x[0] : x[0] % x[1]; });
}

TEST(PtxInstructionTest, ShiftsAndBits) {
  check("and.b32", "i=ii", [](const Bits *x) { return x[0] & x[1]; });
  check("or.b16", "h=hh", [](const Bits *x) { return x[0] | x[1]; });
  check("xor.b64", "l=ll", [](const Bits *x) { return x[0] ^ x[1]; });
  check("not.b32", "i=i", [](const Bits *x) { return u32(~x[0]); });
  check("cnot.b32", "i=i", [](const Bits *x) { return Bits(x[0] == 0); });
  check("shl.b32", "i=ii",
        [](const Bits *x) { return x[1] > 31 ? 0 : u32(x[0] << x[1]); });
  check("shl.b64", "l=li",
        [](const Bits *x) { return x[1] > 63 ? 0 : x[0] << x[1]; });
  check("shr.u32", "i=ii",
        [](const Bits *x) { return x[1] > 31 ? 0 : x[0] >> x[1]; });
  check("shr.s32", "i=ii", [](const Bits *x) {
    return u32(Bits(int64_t(s32(x[0])) >> std::min<Bits>(x[1], 40)));
  });
  check("shr.s16", "h=hi", [](const Bits *x) {
    return Bits(uint16_t(int16_t(x[0]) >> std::min<Bits>(x[1], 20)));
  });
  check("shr.s64", "l=li", [](const Bits *x) {
    return Bits(s64(x[0]) >> std::min<Bits>(x[1], 63));
  });
  check("shf.l.wrap.b32", "i=iii", [](const Bits *x) {
    return u32(((x[1] << 32 | x[0]) << (x[2] & 31)) >> 32);
  });
  check("shf.r.clamp.b32", "i=iii", [](const Bits *x) {
    return u32((x[1] << 32 | x[0]) >> std::min<Bits>(x[2], 32));
  });
  check("popc.b32", "i=i",
        [](const Bits *x) { return Bits(__builtin_popcountll(x[0])); });
  check("clz.b32", "i=i", [](const Bits *x) {
    return x[0] ? Bits(__builtin_clz(u32(x[0]))) : 32;
  });
  check("clz.b64", "i=l",
        [](const Bits *x) { return x[0] ? Bits(__builtin_clzll(x[0])) : 64; });
  check("brev.b32", "i=i", [](const Bits *x) {
    Bits result = 0;
    for (int i = 0; i < 32; ++i)
      if (x[0] & (Bits(1) << i))
        result |= Bits(1) << (31 - i);
    return result;
  });
  // Bit by bit, as the manual has it.
  check("bfe.u32", "i=iii", [](const Bits *x) {
    Bits from = x[1] & 255, length = x[2] & 255, result = 0;
    for (Bits i = 0; i < std::min<Bits>(length, 32); ++i)
      if (from + i < 32 && (x[0] >> (from + i)) & 1)
        result |= Bits(1) << i;
    return result;
  });
  check("bfe.s64", "l=lii", [](const Bits *x) {
    Bits from = x[1] & 255, length = x[2] & 255, result = 0;
    Bits last = std::min<Bits>(from + length - 1, 63);
    bool sign = length != 0 && ((x[0] >> last) & 1);
    for (Bits i = 0; i < 64; ++i) {
      bool bit = i < length && from + i <= 63 ? (x[0] >> (from + i)) & 1 : sign;
      result |= Bits(bit) << i;
    }
    return result;
  });
  check("bfi.b32", "i=iiii", [](const Bits *x) {
    Bits from = x[2] & 255, length = x[3] & 255, result = x[1];
    for (Bits i = 0; i < length && from + i < 32; ++i) {
      result &= ~(Bits(1) << (from + i));
      result |= ((x[0] >> i) & 1) << (from + i);
    }
    return result;
  });
  check("bfind.s32", "i=i", [](const Bits *x) {
    Bits value = s32(x[0]) < 0 ? u32(~x[0]) : x[0];
    for (int i = 31; i >= 0; --i)
      if ((value >> i) & 1)
        return Bits(unsigned(i));
    return Bits(0xffffffff);
  });
  check("prmt.b32", "i=iii", [](const Bits *x) {
    Bits bytes[8], result = 0;
    for (int i = 0; i < 4; ++i) {
      bytes[i] = (x[0] >> (8 * i)) & 255;
      bytes[i + 4] = (x[1] >> (8 * i)) & 255;
    }
    for (int i = 0; i < 4; ++i) {
      Bits choice = (x[2] >> (4 * i)) & 15, byte = bytes[choice & 7];
      if (choice & 8)
        byte = byte & 128 ? 255 : 0;
      result |= byte << (8 * i);
    }
    return result;
  });
  check("lop3.b32", "i=iiii", [](const Bits *x) {
    Bits result = 0;
    for (int i = 0; i < 32; ++i) {
      Bits a = (x[0] >> i) & 1, b = (x[1] >> i) & 1, c = (x[2] >> i) & 1;
      result |= ((x[3] >> (4 * a + 2 * b + c)) & 1) << i;
    }
    return result;
  });
  check("dp4a.s32.u32", "i=iii", [](const Bits *x) {
    Bits sum = x[2];
    for (int i = 0; i < 32; i += 8)
      sum += Bits(int64_t(int8_t(x[0] >> i)) * int64_t(uint8_t(x[1] >> i)));
    return u32(sum);
  });
}

TEST(PtxInstructionTest, Compares) {
  check("setp.lt.s32", "p=ii",
        [](const Bits *x) { return Bits(s32(x[0]) < s32(x[1])); });
  check("setp.lo.u32", "p=ii", [](const Bits *x) { return Bits(x[0] < x[1]); });
  check("setp.ge.s64", "p=ll",
        [](const Bits *x) { return Bits(s64(x[0]) >= s64(x[1])); });
  check("setp.eq.b16", "p=hh",
        [](const Bits *x) { return Bits(x[0] == x[1]); });
  check("setp.le.f32", "p=ff",
        [](const Bits *x) { return Bits(f32(x[0]) <= f32(x[1])); });
  check("setp.gtu.f32", "p=ff",
        [](const Bits *x) { return Bits(!(f32(x[0]) <= f32(x[1]))); });
  check("setp.nan.f32", "p=ff", [](const Bits *x) {
    return Bits(std::isnan(f32(x[0])) || std::isnan(f32(x[1])));
  });
  check("setp.neu.f64", "p=dd",
        [](const Bits *x) { return Bits(!(f64(x[0]) == f64(x[1]))); });
  check("set.lt.u32.f32", "i=ff",
        [](const Bits *x) { return f32(x[0]) < f32(x[1]) ? 0xffffffff : 0; });
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

TEST(PtxInstructionTest, ComputesInF32) {
  // One rounding from f64 to f32 is as if there were none before it.
  check("add.rn.f32", "f=ff", [](const Bits *x) {
    return bits(float(double(f32(x[0])) + double(f32(x[1]))));
  });
  check("sub.f32", "f=ff", [](const Bits *x) {
    return bits(float(double(f32(x[0])) - double(f32(x[1]))));
  });
  check("mul.rn.f32", "f=ff", [](const Bits *x) {
    return bits(float(double(f32(x[0])) * double(f32(x[1]))));
  });
  check("div.rn.f32", "f=ff", [](const Bits *x) {
    return bits(float(double(f32(x[0])) / double(f32(x[1]))));
  });
  check("fma.rn.f32", "f=fff", [](const Bits *x) {
    return bits(std::fma(f32(x[0]), f32(x[1]), f32(x[2])));
  });
  check("mul.ftz.f32", "f=ff", [](const Bits *x) {
    double product = double(flushed(f32(x[0]))) * double(flushed(f32(x[1])));
    return bits(flushed(float(product)));
  });
  check("add.sat.f32", "f=ff", [](const Bits *x) {
    float sum = f32(x[0]) + f32(x[1]);
    return bits(std::isnan(sum) ? 0 : std::min(1.0f, std::max(0.0f, sum)));
  });
  check("sqrt.rn.f32", "f=f", [](const Bits *x) {
    return bits(float(std::sqrt(double(f32(x[0])))));
  });
  check("abs.f32", "f=f", [](const Bits *x) { return x[0] & 0x7fffffff; });
  check("neg.f32", "f=f", [](const Bits *x) { return x[0] ^ 0x80000000; });
  check("min.f32", "f=ff", [](const Bits *x) {
    if (f32(x[0]) == f32(x[1]))
      return std::max(x[0], x[1]); // of zeros the negative one
    return bits(std::fmin(f32(x[0]), f32(x[1])));
  });
  check("max.NaN.f32", "f=ff", [](const Bits *x) {
    float a = f32(x[0]), b = f32(x[1]);
    if (std::isnan(a) || std::isnan(b))
      return bits(float(NAN));
    return a == b ? std::min(x[0], x[1]) : bits(std::max(a, b));
  });
  check("copysign.f32", "f=ff", [](const Bits *x) {
    return bits(std::copysign(f32(x[1]), f32(x[0])));
  });
}

TEST(PtxInstructionTest, Approximates) {
  auto by = [](double (*function)(double)) {
    return [function](const Bits *x) {
      return bits(float(function(double(f32(x[0])))));
    };
  };
  constexpr double unit = 0x1p-23;
  check("rcp.approx.f32", "f=f", by([](double x) { return 1 / x; }), unit);
  check("sqrt.approx.f32", "f=f", by([](double x) { return std::sqrt(x); }),
        unit);
  check("rsqrt.approx.f32", "f=f",
        by([](double x) { return 1 / std::sqrt(x); }), unit);
  check("ex2.approx.f32", "f=f", by([](double x) { return std::exp2(x); }),
        unit);
  check("lg2.approx.f32", "f=f", by([](double x) { return std::log2(x); }),
        4 * unit);
  check("sin.approx.f32", "f=f", by([](double x) { return std::sin(x); }),
        unit);
  check("cos.approx.f32", "f=f", by([](double x) { return std::cos(x); }),
        unit);
  check("tanh.approx.f32", "f=f", by([](double x) { return std::tanh(x); }),
        unit);
  check(
      "div.full.f32", "f=ff",
      [](const Bits *x) {
        return bits(float(double(f32(x[0])) / double(f32(x[1]))));
      },
      unit);
}

TEST(PtxInstructionTest, ComputesInF64) {
  check("add.f64", "d=dd",
        [](const Bits *x) { return bits(f64(x[0]) + f64(x[1])); });
  check("mul.f64", "d=dd",
        [](const Bits *x) { return bits(f64(x[0]) * f64(x[1])); });
  check("div.rn.f64", "d=dd",
        [](const Bits *x) { return bits(f64(x[0]) / f64(x[1])); });
  check("fma.rn.f64", "d=ddd", [](const Bits *x) {
    return bits(std::fma(f64(x[0]), f64(x[1]), f64(x[2])));
  });
  check("max.f64", "d=dd", [](const Bits *x) {
    return f64(x[0]) == f64(x[1]) ? std::min(x[0], x[1])
                                  : bits(std::fmax(f64(x[0]), f64(x[1])));
  });
}

TEST(PtxInstructionTest, RoundsAsItIsTold) {
  // The nearest, and then the neighbour on the right side of the exact value.
  auto toward = [](double exact, int direction) {
    auto near = float(exact);
    bool isOver = double(near) > exact, isUnder = double(near) < exact;
    if (direction < 0 && isOver)
      return bits(std::nextafter(near, -INFINITY));
    if (direction > 0 && isUnder)
      return bits(std::nextafter(near, INFINITY));
    return bits(near);
  };
  check("mul.rm.f32", "f=ff", [&](const Bits *x) {
    return toward(double(f32(x[0])) * double(f32(x[1])), -1);
  });
  check("mul.rp.f32", "f=ff", [&](const Bits *x) {
    return toward(double(f32(x[0])) * double(f32(x[1])), 1);
  });
  check("mul.rz.f32", "f=ff", [&](const Bits *x) {
    double exact = double(f32(x[0])) * double(f32(x[1]));
    return toward(exact, exact > 0 ? -1 : 1);
  });
}

//===----------------------------------------------------------------------===//
// Narrow floats, by search
//===----------------------------------------------------------------------===//

double fromNarrow(Bits bits, bool isBf16) {
  if (isBf16)
    return double(f32(bits << 16));
  int exponent = int((bits >> 10) & 31);
  auto significand = double(bits & 1023);
  double magnitude = exponent == 31 ? (significand != 0 ? NAN : HUGE_VAL)
                     : exponent == 0
                         ? std::ldexp(significand, -24)
                         : std::ldexp(1024 + significand, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// The nearest, of two the even one: between neighbours of all that there are.
Bits toNarrow(double value, bool isBf16) {
  if (std::isnan(value))
    return 0x7fff;
  Bits sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::fabs(value);
  Bits low = 0, high = isBf16 ? 0x7f80 : 0x7c00; // low <= size
  if (size >= fromNarrow(high, isBf16))
    return sign | high;
  while (high - low > 1) {
    Bits middle = (low + high) / 2;
    (fromNarrow(middle, isBf16) <= size ? low : high) = middle;
  }
  double under = fromNarrow(low, isBf16);
  // Infinity counts as the next power of two here.
  double over = high == (isBf16 ? 0x7f80U : 0x7c00U)
                    ? std::ldexp(1, isBf16 ? 128 : 16)
                    : fromNarrow(high, isBf16);
  double left = size - under, right = over - size;
  bool isLow = left < right || (left == right && low % 2 == 0);
  return sign | (isLow ? low : high);
}

void checkNarrow(bool isBf16) {
  std::string type = isBf16 ? "bf16" : "f16";
  auto from = [isBf16](Bits x) { return fromNarrow(x & 0xffff, isBf16); };
  auto to = [isBf16](double x) { return toNarrow(x, isBf16); };
  check("cvt.rn." + type + ".f32", "h=f",
        [&](const Bits *x) { return to(double(f32(x[0]))); });
  check("cvt.f32." + type, "f=h",
        [&](const Bits *x) { return bits(float(from(x[0]))); });
  check("cvt.rn." + type + "x2.f32", "i=ff", [&](const Bits *x) {
    return to(double(f32(x[0]))) << 16 | to(double(f32(x[1])));
  });
  check("add." + type, "h=hh",
        [&](const Bits *x) { return to(from(x[0]) + from(x[1])); });
  check("mul." + type, "h=hh",
        [&](const Bits *x) { return to(from(x[0]) * from(x[1])); });
  check("sub." + type + "x2", "i=ii", [&](const Bits *x) {
    return to(from(x[0] >> 16) - from(x[1] >> 16)) << 16 |
           to(from(x[0]) - from(x[1]));
  });
  check("fma.rn." + type, "h=hhh", [&](const Bits *x) {
    // What a sum of so many bits leaves out is no more than which side of a
    // tie it lies on.
    auto product = static_cast<long double>(from(x[0])) *
                   static_cast<long double>(from(x[1]));
    auto other = static_cast<long double>(from(x[2]));
    if (std::fabs(product) < std::fabs(other))
      std::swap(product, other);
    long double sum = product + other, rest = product - sum + other;
    if (rest != 0 && std::isfinite(sum))
      sum = std::nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
    auto near = double(sum);
    if (static_cast<long double>(near) != sum && std::isfinite(near))
      near = std::nextafter(
          near, sum > static_cast<long double>(near) ? HUGE_VAL : -HUGE_VAL);
    return to(near);
  });
  check("setp.lt." + type, "p=hh",
        [&](const Bits *x) { return Bits(from(x[0]) < from(x[1])); });
}

TEST(PtxInstructionTest, ComputesInF16) { checkNarrow(false); }
TEST(PtxInstructionTest, ComputesInBf16) { checkNarrow(true); }

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

TEST(PtxInstructionTest, Converts) {
  check("cvt.u64.u32", "l=i", [](const Bits *x) { return x[0]; });
  check("cvt.s64.s32", "l=i",
        [](const Bits *x) { return Bits(int64_t(s32(x[0]))); });
  check("cvt.u32.u64", "i=l", [](const Bits *x) { return u32(x[0]); });
  check("cvt.s32.s8", "i=i",
        [](const Bits *x) { return u32(Bits(int32_t(int8_t(x[0])))); });
  check("cvt.u16.u32", "h=i", [](const Bits *x) { return x[0] & 0xffff; });
  check("cvt.sat.u8.s32", "i=i",
        [](const Bits *x) { return Bits(std::clamp(s32(x[0]), 0, 255)); });
  check("cvt.rn.f32.s32", "f=i",
        [](const Bits *x) { return bits(float(s32(x[0]))); });
  check("cvt.rn.f32.u64", "f=l",
        [](const Bits *x) { return bits(float(x[0])); });
  check("cvt.rn.f64.s64", "d=l",
        [](const Bits *x) { return bits(double(s64(x[0]))); });
  check("cvt.f64.f32", "d=f",
        [](const Bits *x) { return bits(double(f32(x[0]))); });
  check("cvt.rn.f32.f64", "f=d",
        [](const Bits *x) { return bits(float(f64(x[0]))); });
  auto toInt = [](float value, double least, double most) -> Bits {
    if (std::isnan(value))
      return Bits(0);
    double limited = std::min(std::max(double(value), least), most);
    return u32(Bits(int64_t(limited)));
  };
  check("cvt.rzi.s32.f32", "i=f", [&](const Bits *x) {
    return toInt(std::trunc(f32(x[0])), INT32_MIN, INT32_MAX);
  });
  check("cvt.rni.s32.f32", "i=f", [&](const Bits *x) {
    return toInt(std::nearbyint(f32(x[0])), INT32_MIN, INT32_MAX);
  });
  check("cvt.rmi.u32.f32", "i=f", [&](const Bits *x) {
    return toInt(std::floor(f32(x[0])), 0, UINT32_MAX);
  });
  check("cvt.rpi.f32.f32", "f=f",
        [](const Bits *x) { return bits(std::ceil(f32(x[0]))); });
  check("cvt.rz.bf16.f32", "h=f", [](const Bits *x) {
    return std::isnan(f32(x[0])) ? 0x7fff : x[0] >> 16;
  });
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

/// Whether the bits are the same, or no numbers of the type that the
/// mnemonic ends with.
bool isSame(Bits a, Bits b, char letter, const std::string &mnemonic) {
  if (a == b)
    return true;
  auto ends = [&](const char *type) { return mnemonic.ends_with(type); };
  if (letter == 'i' && (ends("f32") || ends(".f16") || ends(".bf16")))
    return std::isnan(f32(a)) && std::isnan(f32(b));
  if (letter == 'l' && (ends("f64") || ends("f32")))
    return std::isnan(f64(a)) && std::isnan(f64(b));
  return false;
}

void compareVariant(const LaneTable &table) {
  LaneTable portable;
  portable::addLanes(portable);
  constexpr size_t stride = 256;
  std::mt19937_64 random(3);
  Operands operands;
  for (const auto &[mnemonic, entry] : portable.getAll()) {
    const Computation *other = table.find(mnemonic);
    ASSERT_TRUE(other) << mnemonic;
    Instruction i;
    std::string letters;
    for (const char *letter = entry.signature; *letter; ++letter)
      if (*letter == '=')
        i.written = i.count;
      else if (*letter != '?') {
        letters += *letter;
        i.operands[i.count] = uint32_t(stride * i.count);
        ++i.count;
      }
    i.mode = mnemonic.find(".and") != std::string::npos ? 1 : 0;
    i.flush = mnemonic.find(".ftz") != std::string::npos;
    i.saturate = mnemonic.find(".sat") != std::string::npos;
    i.relu = mnemonic.find(".relu") != std::string::npos;
    bool isFloat = mnemonic.find('f') != std::string::npos;
    for (uint32_t mask : {allLanes, 0x5a5a1234U}) {
      alignas(64) std::byte a[stride * 8], b[stride * 8];
      for (unsigned n = 0; n < i.count; ++n)
        for (unsigned l = 0; l < warpSize; ++l) {
          char letter = letters[n];
          unsigned width = letter == 'h' ? 2 : letter == 'l' ? 8 : 4;
          if (isFloat && random() % 2)
            letter = letter == 'i' ? 'f' : letter == 'l' ? 'd' : letter;
          Bits value = operands.draw(letter);
          std::memcpy(a + stride * n + l * width, &value, width);
        }
      std::memcpy(b, a, sizeof a);
      entry.compute(a, i, mask);
      other->compute(b, i, mask);
      for (unsigned n = 0; n < i.written; ++n)
        for (unsigned l = 0; l < warpSize; ++l) {
          unsigned width = letters[n] == 'h' ? 2 : letters[n] == 'l' ? 8 : 4;
          Bits x = 0, y = 0;
          std::memcpy(&x, a + stride * n + l * width, width);
          std::memcpy(&y, b + stride * n + l * width, width);
          ASSERT_TRUE(isSame(x, y, letters[n], mnemonic))
              << mnemonic << ", lane " << l << ":" << describe({x, y});
          if (letters[n] == 'p')
            break;
        }
    }
  }
}

TEST(PtxVariantTest, AreAlike) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    LaneTable table;
    avx2::addLanes(table);
    compareVariant(table);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    LaneTable table;
    avx512::addLanes(table);
    compareVariant(table);
  }
#endif
}

TEST(PtxVariantTest, OneIsChosen) {
  EXPECT_TRUE(LaneTable::get().find("fma.rn.f32"));
}

} // namespace
