//===- Reference.h - Helpers of the CPU kernels' tests --------------------===//
#ifndef CLEAVE_TEST_RUNTIME_CPU_REFERENCE_H
#define CLEAVE_TEST_RUNTIME_CPU_REFERENCE_H

#include "runtime/abi/Workspace.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/cpu/Features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace cleave::cpu {

/// Numbers as a kernel reads or writes them (f32 or bf16), at the very end of
/// a heap block, so that a sanitizer sees a read or write past them.
class Buffer {
public:
  Buffer(ElementType type, size_t count)
      : type(type), count(count), bytes(count * getWidth()) {}

  /// Uniform in [-1, 1), rounded to the type.
  static Buffer random(ElementType type, size_t count, unsigned seed) {
    Buffer buffer(type, count);
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (size_t i = 0; i < count; ++i)
      buffer.set(i, uniform(generator));
    return buffer;
  }

  void *data() { return bytes.data(); }
  const void *data() const { return bytes.data(); }
  size_t size() const { return count; }
  size_t sizeBytes() const { return bytes.size(); }

  double operator[](size_t i) const {
    if (type == ElementType::F32) {
      float x;
      memcpy(&x, bytes.data() + i * 4, 4);
      return x;
    }
    uint16_t x;
    memcpy(&x, bytes.data() + i * 2, 2);
    return fromBf16(x);
  }
  void set(size_t i, float value) {
    if (type == ElementType::F32) {
      memcpy(bytes.data() + i * 4, &value, 4);
      return;
    }
    uint16_t x = toBf16(value);
    memcpy(bytes.data() + i * 2, &x, 2);
  }
  std::vector<double> decode() const {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = (*this)[i];
    return values;
  }
  bool operator==(const Buffer &other) const { return bytes == other.bytes; }

private:
  size_t getWidth() const { return type == ElementType::F32 ? 4 : 2; }

  ElementType type;
  size_t count;
  std::vector<unsigned char> bytes;
};

/// Exactly `bytes` bytes, aligned as the arena aligns; filled with NaNs, as
/// kernels may not count on what a workspace holds.
class Workspace {
public:
  explicit Workspace(size_t bytes)
      : bytes(bytes),
        start(std::aligned_alloc(64, roundUp(int64_t(bytes) + 64, 64))) {
    memset(start, 0xff, bytes);
    memset(static_cast<char *>(start) + bytes, 0x5a, 64);
  }
  ~Workspace() {
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(static_cast<unsigned char *>(start)[bytes + i], 0x5a)
          << "wrote " << i << " bytes past the workspace";
    free(start);
  }
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;
  void *data() { return start; }

private:
  size_t bytes;
  void *start;
};

/// Every variant that this CPU runs.
inline std::vector<Isa> getIsas() {
  std::vector<Isa> isas;
  for (int i = 0; i <= int(getBestIsa()); ++i)
    isas.push_back(Isa(i));
  return isas;
}

/// Makes a variant active for the life of the object.
class UseIsa {
public:
  explicit UseIsa(Isa isa) : before(getActiveIsa()) {
    EXPECT_TRUE(setActiveIsa(isa));
  }
  ~UseIsa() { setActiveIsa(before); }

private:
  Isa before;
};

} // namespace cleave::cpu

#endif // CLEAVE_TEST_RUNTIME_CPU_REFERENCE_H
