//===- JoinRuns.h - Two successive runs as one ----------------------------===//
#ifndef CLEAVE_PASSES_OVERLAP_JOINRUNS_H
#define CLEAVE_PASSES_OVERLAP_JOINRUNS_H

#include "passes/Overlap/OverlapModel.h"

namespace cleave {

/// Lets what is done once a step run in one segment with the micro-batch next
/// to it, where communication of one can hide behind compute of the other:
/// gathers before the first micro-batch, reductions after the last. Such a
/// micro-batch then has a segment of its own, so the list grows by one
/// micro-batch's instructions; what only these use of the arena is doubled, and
/// shares bytes as the two never run at once.
///
///   runs   before, m 0, m 1, m 2, after
///   become before_m 0, m 1, m_after 2
///
/// Where a stage of a pipeline has several parts, each of them is done with its
/// micro-batches at another time: the reductions of its gradients begin behind
/// the last of those, if that saves time.
///
///   runs   b1 0, b0 0, b1 1, b0 1, after
///   become b1 0, b0 0, b1_after 1, b0_after 1
///
/// Returns how many runs were joined with another, or with a part of one.
int64_t joinRuns(exec::ProgramOp program, OverlapModel &model);

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_JOINRUNS_H
