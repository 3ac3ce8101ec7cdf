//===- Random.h - Initial weights as a pure function ----------------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_RANDOM_H
#define CLEAVE_RUNTIME_TRAIN_RANDOM_H

#include <array>
#include <cstdint>
#include <string_view>

namespace cleave::runtime {

/// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
/// 3", SC 2011): 128 bits that depend on `counter` and `key` only.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

/// The key of a tensor's random numbers.
uint64_t getRandomKey(uint64_t seed, std::string_view tensor);

/// Writes standard normal numbers times `scale` for the elements
/// first + i * stride, i < count, of the tensor that `key` stands for. The
/// same bits on every machine and for every way to cut the tensor.
void fillNormal(uint64_t key, uint64_t first, uint64_t stride, uint64_t count,
                float scale, float *out);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_RANDOM_H
