//===- MatrixTest.cpp - Matrices in registers and shared memory -----------===//
//
// Where elements lie is written here once more, after the tables of the PTX
// manual: an element's lane and register from its row and column.
//
//===----------------------------------------------------------------------===//
#include "Testing.h"
#include <bit>
#include <cmath>
#include <random>

using namespace cleave;
using namespace cleave::ptx;

namespace {

/// A value of a type, as its bits and as a number.
struct Number {
  uint32_t bits;
  double value;
};

/// Small numbers of few digits, so that only the sum is rounded.
Number drawNumber(Type type, std::mt19937 &random) {
  float value = float(int(random() % 255) - 127) / 64;
  auto bits = std::bit_cast<uint32_t>(value);
  if (type == Type::BF16)
    return {bits >> 16, double(std::bit_cast<float>(bits & 0xffff0000))};
  if (type == Type::TF32)
    // What is beyond the type's 10 bits does not count.
    return {bits | (uint32_t(random()) & 0x1fff), double(value)};
  if (value == 0)
    return {0, 0};
  uint32_t exponent = (bits >> 23 & 255) - 127 + 15;
  return {(bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 1023),
          double(value)};
}

struct Multiplication {
  const char *mnemonic;
  Type type;
  unsigned depth;
};

class PtxMultiplyTest : public testing::TestWithParam<Multiplication> {};

TEST_P(PtxMultiplyTest, IsThatOfMatrices) {
  auto [mnemonic, type, depth] = GetParam();
  bool isNarrow = type != Type::TF32;
  unsigned fragments = depth / (isNarrow ? 8 : 4);
  std::mt19937 random(depth);
  double a[16][16], b[16][8], want[16][8], sizes[16][8];
  // Registers of each lane: those of a, of b, and of c.
  std::vector<uint32_t> in(32 * 16, 0);
  std::vector<float> out(32 * 4);
  auto put = [&](unsigned lane, unsigned n, unsigned half, Number number) {
    in[lane * 16 + n] |= number.bits << (16 * half);
  };
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned k = 0; k < depth; ++k) {
      Number number = drawNumber(type, random);
      a[row][k] = number.value;
      if (isNarrow)
        put(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2, number);
      else
        put(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2, 0, number);
    }
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned column = 0; column < 8; ++column) {
      Number number = drawNumber(type, random);
      b[k][column] = number.value;
      if (isNarrow)
        put(column * 4 + k % 8 / 2, 8 + k / 8, k % 2, number);
      else
        put(column * 4 + k % 4, 8 + k / 4, 0, number);
    }
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      auto value = float(int(random() % 1000)) / 7;
      put(row % 8 * 4 + column / 2, 12 + column % 2 + row / 8 * 2, 0,
          {std::bit_cast<uint32_t>(value), 0});
      double sum = double(value), size = std::fabs(sum);
      for (unsigned k = 0; k < depth; ++k) {
        sum += a[row][k] * b[k][column];
        size += std::fabs(a[row][k] * b[k][column]);
      }
      want[row][column] = sum;
      sizes[row][column] = size;
    }
  std::string body = "mul.wide.u32 %l1, %thread, 64;\n"
                     "add.s64 %p0, %p0, %l1;\n"
                     "mul.wide.u32 %l2, %thread, 16;\n"
                     "add.s64 %p1, %p1, %l2;\n";
  for (unsigned n = 0; n < 16; ++n)
    body += "ld.global.u32 %r" + std::to_string(n) + ", [%p0+" +
            std::to_string(4 * n) + "];\n";
  auto list = [](unsigned first, unsigned count) {
    std::string text = "{";
    for (unsigned n = first; n < first + count; ++n)
      text += (n == first ? "%r" : ", %r") + std::to_string(n);
    return text + "}";
  };
  body += std::string(mnemonic) + " " + list(20, 4) + ", " +
          list(0, 2 * fragments) + ", " + list(8, fragments) + ", " +
          list(12, 4) + ";\nst.global.v4.u32 [%p1], " + list(20, 4) + ";";
  Device device;
  expectOk(
      runText(makeKernel(2, body), device, {device.add(in), device.add(out)}));
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned column = 0; column < 8; ++column)
      EXPECT_NEAR(
          double(
              out[(row % 8 * 4 + column / 2) * 4 + column % 2 + row / 8 * 2]),
          want[row][column], 0x1p-21 * sizes[row][column])
          << "row " << row << " column " << column;
}

INSTANTIATE_TEST_SUITE_P(
    All, PtxMultiplyTest,
    testing::Values(
        Multiplication{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                       Type::BF16, 16},
        Multiplication{"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
                       Type::BF16, 8},
        Multiplication{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                       Type::F16, 16},
        Multiplication{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
                       Type::F16, 8},
        Multiplication{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
                       Type::TF32, 8},
        Multiplication{"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
                       Type::TF32, 4}),
    [](const auto &info) {
      std::string name = info.param.type == Type::BF16  ? "bf16"
                         : info.param.type == Type::F16 ? "f16"
                                                        : "tf32";
      return name + "k" + std::to_string(info.param.depth);
    });

/// `count` matrices of 8 rows, whose rows lie 48 bytes apart.
void checkLoadMatrix(unsigned count, bool isTransposed) {
  SCOPED_TRACE(count);
  std::vector<uint16_t> in(32 * 24);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = uint16_t(i * 11);
  std::vector<uint32_t> out(32 * count);
  std::string list;
  for (unsigned n = 0; n < count; ++n)
    list += (n ? ", %r" : "%r") + std::to_string(n);
  std::string body = R"(
    mov.u32 %r10, words;
    mad.lo.s32 %r11, %thread, 48, %r10;
    mul.wide.u32 %l1, %thread, 48;
    add.s64 %l1, %p0, %l1;
    cp.async.cg.shared.global [%r11], [%l1], 16;
    cp.async.cg.shared.global [%r11+16], [%l1+16], 16;
    cp.async.cg.shared.global [%r11+32], [%l1+32], 16;
    cp.async.wait_all;
    bar.warp.sync -1;
)";
  std::string number = std::to_string(count);
  body += "ldmatrix.sync.aligned.m8n8.x" + number +
          (isTransposed ? ".trans" : "") + ".shared.b16 {" + list +
          "}, [%r11];\n";
  body += "mul.wide.u32 %l2, %thread, " + std::to_string(4 * count) +
          ";\nadd.s64 %p1, %p1, %l2;\n";
  for (unsigned n = 0; n < count; ++n)
    body += "st.global.u32 [%p1+" + std::to_string(4 * n) + "], %r" +
            std::to_string(n) + ";\n";
  Device device;
  expectOk(runText(makeKernel(2, body, ".shared .align 16 .b8 words[1536];"),
                   device, {device.add(in), device.add(out)}));
  for (unsigned matrix = 0; matrix < count; ++matrix)
    for (unsigned row = 0; row < 8; ++row)
      for (unsigned column = 0; column < 8; ++column) {
        unsigned x = isTransposed ? column : row;
        unsigned y = isTransposed ? row : column;
        uint32_t got = out[(x * 4 + y / 2) * count + matrix];
        EXPECT_EQ(uint16_t(got >> (16 * (y % 2))),
                  in[(matrix * 8 + row) * 24 + column]);
      }
}

TEST(PtxMatrixTest, Loads) {
  for (unsigned count : {1, 2, 4})
    for (bool isTransposed : {false, true})
      checkLoadMatrix(count, isTransposed);
}

TEST(PtxMatrixTest, LoadsWhatItStored) {
  for (const char *trans : {"", ".trans"}) {
    std::vector<uint32_t> out(32 * 2);
    Device device;
    expectOk(
        runText(makeKernel(1,
                           std::string("mov.u32 %r10, words;\n"
                                       "mad.lo.s32 %r10, %thread, 16, %r10;\n"
                                       "mul.lo.s32 %r1, %thread, 70001;\n"
                                       "mul.lo.s32 %r2, %thread, 90001;\n"
                                       "stmatrix.sync.aligned.m8n8.x2") +
                               trans +
                               ".shared.b16 [%r10], {%r1, %r2};\n"
                               "ldmatrix.sync.aligned.m8n8.x2" +
                               trans +
                               ".shared.b16 {%r3, %r4}, [%r10];\n"
                               "mul.wide.u32 %l1, %thread, 8;\n"
                               "add.s64 %p0, %p0, %l1;\n"
                               "st.global.v2.u32 [%p0], {%r3, %r4};",
                           ".shared .align 16 .b8 words[512];"),
                device, {device.add(out)}));
    for (uint32_t t = 0; t < 32; ++t) {
      EXPECT_EQ(out[2 * t], t * 70001);
      EXPECT_EQ(out[2 * t + 1], t * 90001);
    }
  }
}

TEST(PtxMatrixTest, RowsAreAligned) {
  Device device;
  expectError(
      runText(makeKernel(0,
                         "mov.u32 %r10, words;\n"
                         "mad.lo.s32 %r10, %thread, 24, %r10;\n"
                         "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, "
                         "[%r10];",
                         ".shared .align 16 .b8 words[1024];"),
              device, {}),
      {"thread (1, 0, 0)", "no multiple of 16"});
}

} // namespace
