//===- EnvelopeTest.cpp - Damaged programs --------------------------------===//
#include "test/runtime/program/SamplePrograms.h"
#include <gtest/gtest.h>

using namespace cleave::test;
using namespace cleave::runtime;

namespace {

Status load(const std::vector<uint8_t> &bytes) {
  Program program;
  return Program::load(bytes.data(), bytes.size(), "file", program);
}

TEST(Crc32c, HasTheStandardsValues) {
  // RFC 3720, appendix B.4, and the usual check value.
  std::vector<uint8_t> zeros(32, 0), ones(32, 0xff), counting(32);
  for (int i = 0; i < 32; ++i)
    counting[i] = uint8_t(i);
  EXPECT_EQ(computeCrc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(computeCrc32c(ones.data(), 32), 0x62a8ab43u);
  EXPECT_EQ(computeCrc32c(counting.data(), 32), 0x46dd794eu);
  EXPECT_EQ(computeCrc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(computeCrc32c("6789", 4, computeCrc32c("12345", 5)), 0xe3069283u);
}

TEST(Envelope, NamesWhatIsWrong) {
  std::vector<uint8_t> good = makeSample().seal();
  ASSERT_TRUE(load(good).ok());
  auto expect = [](std::vector<uint8_t> bytes, const char *words) {
    Status status = load(bytes);
    EXPECT_NE(status.message().find(words), std::string::npos)
        << status.message();
    EXPECT_EQ(status.message().find("file: "), 0u) << status.message();
  };
  expect({}, "it has 0 bytes, expects at least 24");
  std::vector<uint8_t> bytes = good;
  bytes[0] = 'X';
  expect(bytes, "does not start with \"CLEAVEPG\"");
  bytes = good;
  bytes[8] = 10;
  expect(bytes, "format version 10, this runtime reads 9");
  bytes = good;
  bytes.pop_back();
  expect(bytes, "bytes after the header, which says");
  bytes = good;
  bytes.push_back(0);
  expect(bytes, "bytes after the header, which says");
  bytes = good;
  bytes.back() ^= 1;
  expect(bytes, "checksum does not match");
  // Whole by its checksum, but not one of our FlatBuffers.
  std::vector<uint8_t> other = ProgramBuilder({}).pack();
  other[4] = 'X';
  expect(sealProgram(other.data(), other.size()), "identifier");
  expect(sealProgram("", 0), "size");
  expect(sealProgram("1234567", 7), "size");
}

TEST(Envelope, EveryFlippedByteIsFound) {
  std::vector<uint8_t> bytes = makeSample().seal();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (uint8_t mask : {0x01, 0x80, 0xff}) {
      bytes[i] ^= mask;
      EXPECT_FALSE(load(bytes).ok()) << "byte " << i;
      bytes[i] ^= mask;
    }
  EXPECT_TRUE(load(bytes).ok());
}

TEST(Envelope, EveryTruncationIsFound) {
  std::vector<uint8_t> bytes = makeSample().seal();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(
        load(std::vector<uint8_t>(bytes.begin(), bytes.begin() + size)).ok());
}

} // namespace
