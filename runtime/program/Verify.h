//===- Verify.h - Whether a program may be executed -----------------------===//
//
// The program is data from a file. What this accepts, the executor runs
// without further checks: nothing it does leaves the arena, and every number
// it computes with fits.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_VERIFY_H
#define CLEAVE_RUNTIME_PROGRAM_VERIFY_H

#include "runtime/base/Status.h"
#include "runtime/program/program_generated.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cleave::runtime {

/// Limits that keep every product of sizes below 2^63.
namespace limits {
inline constexpr uint64_t programBytes = uint64_t(1) << 30;
inline constexpr uint64_t arenaBytes = uint64_t(1) << 46;
inline constexpr uint64_t worldSize = uint64_t(1) << 20;
inline constexpr uint64_t axes = 16;
inline constexpr uint64_t threads = 1024;
inline constexpr uint64_t count = uint64_t(1) << 40; ///< samples, rows
inline constexpr uint64_t headDim = uint64_t(1) << 16;
inline constexpr uint64_t tokenIds = uint64_t(1) << 31;
} // namespace limits

/// Checks that `buffer`, aligned to 8 bytes, is a FlatBuffer of program.fbs:
/// every offset in it points into it.
Status verifyStructure(const void *buffer, size_t size);

/// Checks the meaning of a program that has the structure.
Status verifyProgram(const program::Program &program);

/// The parts of verifyProgram, in its order; each expects the earlier ones.
Status verifyHeader(const program::Program &program);
Status verifyStates(const program::Program &program);
Status verifyOutputs(const program::Program &program);
Status verifyInstructions(const program::Program &program);

/// Where an operand's last byte ends when it is used in `count` micro-batches;
/// nothing where that is outside an arena of `arenaBytes`.
std::optional<uint64_t> getOperandEnd(const program::Operand &operand,
                                      uint64_t count, uint64_t arenaBytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_VERIFY_H
