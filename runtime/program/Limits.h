//===- Limits.h - How large what a program says may be --------------------===//
//
// The loader refuses more, and the compiler before it.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_LIMITS_H
#define CLEAVE_RUNTIME_PROGRAM_LIMITS_H

#include <cstdint>

namespace cleave::runtime {

/// Limits that keep every product of sizes below 2^63.
namespace limits {
inline constexpr uint64_t programBytes = uint64_t(1) << 30;
inline constexpr uint64_t arenaBytes = uint64_t(1) << 46;
/// Buffers and operands begin at multiples of so many bytes of the arena: at
/// cache lines, and wherever vectors and tensor cores may begin.
inline constexpr uint64_t alignment = 64;
inline constexpr uint64_t worldSize = uint64_t(1) << 20;
inline constexpr uint64_t axes = 16;
inline constexpr uint64_t streams = 8; ///< a thread each, of a rank
inline constexpr uint64_t threads = 1024;
inline constexpr uint64_t bucket = 64; ///< collectives that begin together
inline constexpr uint64_t count = uint64_t(1) << 40; ///< samples, rows
inline constexpr uint64_t headDim = uint64_t(1) << 16;
inline constexpr uint64_t runs = 0xffffff; ///< as the watchdog counts them
inline constexpr uint64_t tokenIds = uint64_t(1) << 31;
inline constexpr uint64_t channels = 32768; ///< the least MPI_TAG_UB, and 0
/// Messages and meetings of all stages in a step: the loader goes through them.
inline constexpr uint64_t meetings = uint64_t(1) << 28;
} // namespace limits

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_LIMITS_H
