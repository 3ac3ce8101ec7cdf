#include "test/runtime/cpu/Reference.h"

using namespace cleave::cpu;

TEST(Features, RefusesWhatTheCpuLacks) {
  Isa best = getBestIsa();
  EXPECT_EQ(getActiveIsa(), best);
  for (int i = 0; i <= int(Isa::Avx512Bf16); ++i) {
    bool has = i <= int(best);
    EXPECT_EQ(setActiveIsa(Isa(i)), has) << getName(Isa(i));
    EXPECT_EQ(getActiveIsa(), has ? Isa(i) : best);
    setActiveIsa(best);
  }
}

TEST(Bf16, RoundsToNearestEven) {
  // One bf16 step at 1 is 2^-7.
  EXPECT_EQ(fromBf16(toBf16(1.0f)), 1.0f);
  EXPECT_EQ(fromBf16(toBf16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(fromBf16(toBf16(1.0f + 0x1.02p-8f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(fromBf16(toBf16(1.0f + 0x1.8p-7f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(fromBf16(toBf16(-1.0f - 0x1p-8f)), -1.0f);
  EXPECT_TRUE(std::isnan(fromBf16(toBf16(NAN))));
  EXPECT_EQ(fromBf16(toBf16(INFINITY)), INFINITY);
  EXPECT_EQ(fromBf16(toBf16(3.4e38f)), INFINITY);
}
