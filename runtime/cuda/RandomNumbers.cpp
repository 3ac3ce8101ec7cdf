//===- RandomNumbers.cpp --------------------------------------------------===//
#include "runtime/cuda/RandomNumbers.h"
#include "runtime/cpu/Bf16.h"
#include <algorithm>
#include <random>
#include <vector>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

/// A MiB of bf16. Of each two the second is the upper half of an f32, which has
/// nearly its value.
static std::vector<uint16_t> drawNumbers() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> numbers(size_t(1) << 19);
  for (uint16_t &number : numbers)
    number = cleave::cpu::toBf16(normal(random));
  return numbers;
}

Status cuda::fillWithRandomNumbers(const Driver &driver,
                                   const DeviceMemory &memory, void *stream) {
  std::vector<uint16_t> numbers = drawNumbers();
  uint64_t size = memory.getSize();
  uint64_t done = std::min(size, numbers.size() * sizeof(uint16_t));
  CLEAVE_CUDA(driver, copyHostToDeviceAsync(memory.getAddress(), numbers.data(),
                                            done, stream));
  CLEAVE_CUDA(driver, streamSynchronize(stream));
  while (done < size) {
    uint64_t more = std::min(done, size - done);
    CLEAVE_CUDA(driver,
                copyDeviceToDeviceAsync(memory.getAddress() + done,
                                        memory.getAddress(), more, stream));
    done += more;
  }
  return Status();
}
