//===- MutationTest.cpp - Damaged programs that are sealed again ----------===//
#include "runtime/program/Print.h"
#include "test/runtime/program/SamplePrograms.h"
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace cleave::test;
using namespace cleave::runtime;

namespace {

/// Changes bytes of a good program, seals it again, and loads it: whatever the
/// checksum would catch, the verifier must withstand by itself, and the printer
/// what the verifier accepts.
TEST(Mutation, NoProgramCrashesTheVerifier) {
  std::mt19937 random(20240501);
  const std::vector<uint8_t> good = makeSample().pack();
  const uint64_t values[] = {
      0,          1,          2,        0x7f,         0xff,
      0x7fffffff, 0xffffffff, 1u << 31, ~uint64_t(0), uint64_t(1) << 63};
  int refused = 0, accepted = 0;
  for (int round = 0; round < 30000; ++round) {
    std::vector<uint8_t> bytes = good;
    int changes = 1 + int(random() % 4);
    for (int change = 0; change < changes; ++change) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
      case 0:
        bytes[at] = uint8_t(random());
        break;
      case 1:
        bytes[at] ^= uint8_t(1 << random() % 8);
        break;
      case 2: { // an interesting number where one may be
        uint64_t value = values[random() % std::size(values)];
        size_t width = size_t(1) << random() % 4;
        at = at / width * width;
        std::memcpy(&bytes[at], &value, std::min(width, bytes.size() - at));
        break;
      }
      case 3: { // a number from elsewhere
        size_t from = random() % (bytes.size() - 8);
        std::memmove(&bytes[at % (bytes.size() - 8)], &bytes[from], 8);
        break;
      }
      }
    }
    if (random() % 16 == 0)
      bytes.resize(random() % bytes.size());
    std::vector<uint8_t> sealed = sealProgram(bytes.data(), bytes.size());
    Program program;
    Status status =
        Program::load(sealed.data(), sealed.size(), "mutant", program);
    ++(status.ok() ? accepted : refused);
    if (status.ok()) {
      EXPECT_FALSE(printProgram(program).empty());
    }
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
  std::printf("%d mutated programs: %d refused, %d still legal\n",
              refused + accepted, refused, accepted);
  EXPECT_GT(refused, 10000);
  EXPECT_GT(accepted, 100);
}

} // namespace
