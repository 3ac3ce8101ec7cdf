//===- BytesInUse.h - What a choice needs at a time -----------------------===//
#ifndef CLEAVE_AUTOSHARD_BYTESINUSE_H
#define CLEAVE_AUTOSHARD_BYTESINUSE_H

#include "cleave/AutoShard/Moves.h"
#include "cleave/Hardware/Hardware.h"

namespace cleave {

/// Bytes of a rank that are in use at a time, the most that a forward and a
/// backward pass have, if ops and moves run one after the other in the order of
/// the problem: about what a program needs. What is kept is there all the time,
/// as `choice.bytes` counts it; but activations and all other tensors, and each
/// step of a move, are there from where they are made to where they are last
/// read; and where a step has a single micro-batch, so are gradients, and what
/// parameters are gathered to. The update is not looked at, which finds the
/// memory of activations free. `moves`: of getMoves.
double getBytesInUse(const ShardingProblem &problem,
                     const ShardingChoice &choice, llvm::ArrayRef<Move> moves);

/// Says what memory a choice has: what a device has for a program, or so many
/// bytes for what is kept, if `kept` is not 0.
void setMemory(ShardingProblem &problem, const Device &device, double kept);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_BYTESINUSE_H
