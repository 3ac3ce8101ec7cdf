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
#include "runtime/program/Limits.h"
#include "runtime/program/Program.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cleave::runtime {

/// Checks that `buffer`, aligned to 8 bytes, is a FlatBuffer of program.fbs:
/// every offset in it points into it.
Status verifyStructure(const void *buffer, size_t size);

/// Checks the meaning of a program that has the structure.
Status verifyProgram(const program::Program &program);

/// The parts of verifyProgram, in its order; each expects the earlier ones. Of
/// what all stages share:
Status verifyHeader(const program::Program &program);
/// Of each stage by itself: its arena, tokens and targets,
Status verifyMemory(const Stage &stage);
Status verifyStates(const Stage &stage);
Status verifyOutputs(const Stage &stage);
Status verifyInstructions(const Stage &stage);
/// segments, which cut the list of instructions; runs are of segments that
/// exist.
Status verifyRuns(const Stage &stage);
/// Collectives that begin together have one group and stream, and none touches
/// what another one writes.
Status verifyBuckets(const Stage &stage);
/// Every byte that an instruction reads was written before, and as the buffer
/// that the instruction reads it as; see VerifyDataflow.cpp.
Status verifyDataflow(const Stage &stage);
/// Instructions of several streams that share bytes wait for each other; see
/// VerifyOrder.cpp.
Status verifyOrder(const Stage &stage);
/// Of all stages together: they agree on what several of them have, and their
/// runs come to an end; see VerifyStages.cpp.
Status verifyShared(const program::Program &program);
Status verifyMeetings(const program::Program &program);

/// Where the last byte of an operand's places ends; nothing where that is
/// outside an arena of `arenaBytes`.
std::optional<uint64_t> getOperandEnd(const program::Operand &operand,
                                      uint64_t arenaBytes);

/// Whether the places of an operand are in its buffer, and at most as many as
/// the program's micro-batches; says what is wrong with it, after "has operand
/// 2 at offset 64".
Status verifyPlaces(const Stage &stage, const program::Operand &operand,
                    const std::string &label);

/// The bytes [begin, end) of an operand that a launch of `kernel` may touch
/// through one access; nothing where they are too many to count.
struct ByteRange {
  uint64_t begin = 0, end = 0;
};
std::optional<ByteRange> getTouchedBytes(const program::Kernel &kernel,
                                         const program::Access &access);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_VERIFY_H
