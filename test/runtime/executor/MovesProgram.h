//===- MovesProgram.h - Every move between placements ---------------------===//
#ifndef CLEAVE_TEST_RUNTIME_EXECUTOR_MOVESPROGRAM_H
#define CLEAVE_TEST_RUNTIME_EXECUTOR_MOVESPROGRAM_H

#include "test/runtime/program/ProgramBuilder.h"

namespace cleave::test {

/// Every move of a [4, 8, 6] tensor, the constant "x", between placements over
/// tp ranks: an output for each move. tp divides 4.
inline ProgramBuilder makeMoves(int64_t tp) {
  ProgramBuilder b({{"tp", uint64_t(tp)}});
  const uint64_t whole = 4 * 8 * 6 * 4, part = whole / uint64_t(tp);
  fb::Operand split = b.allocate(part), full = b.allocate(whole);
  fb::Operand moved = b.allocate(part), back = b.allocate(part);
  fb::Operand sliced = b.allocate(part), scattered = b.allocate(part);
  fb::Operand reduced = b.allocate(part), copied = b.allocate(whole);
  fb::Operand zero = b.allocate(whole);
  b.state("x", {4, 8, 6}, {{}, {0}, {}}, split);
  // [{}, {tp}, {}] -> [{}, {}, {}] -> [{}, {tp}, {}] by a slice.
  b.add(fb::AllGatherT{{}, 4, 8 / tp * 6}, {split, full}, {0});
  b.add(fb::SliceT{{}, 4, 8 / tp * 6}, {full, sliced}, {0});
  // [{}, {tp}, {}] -> [{tp}, {}, {}] and back. The dims are outer, a, mid, b,
  // inner: a is dim 0 or its part, b dim 1 or its part.
  b.add(fb::AllToAllT{{}, 1, 4 / tp, 1, 8 / tp, 6}, {split, moved}, {0});
  b.add(fb::AllToAllT{{}, 1, 4 / tp, 1, 8 / tp, 6, fb::DType::F32, true},
        {moved, back}, {0});
  // A sum over the ranks of what each has whole: tp times the tensor.
  b.add(fb::ReduceScatterT{{}, 4, 8 / tp * 6}, {full, scattered}, {0});
  // The largest of what the ranks have in one place.
  b.add(
      fb::AllReduceT{{}, int64_t(part / 4), fb::DType::F32, fb::Reduction::Max},
      {split, reduced}, {0});
  b.add(fb::CopyT(), {full, copied});
  b.add(fb::FillT(), {zero});
  b.output("full", {4, 8, 6}, {{}, {}, {}}, full);
  b.output("sliced", {4, 8, 6}, {{}, {0}, {}}, sliced);
  b.output("moved", {4, 8, 6}, {{0}, {}, {}}, moved);
  b.output("back", {4, 8, 6}, {{}, {0}, {}}, back);
  b.output("scattered", {4, 8, 6}, {{}, {0}, {}}, scattered);
  b.output("reduced", {4, uint64_t(8 / tp), 6}, {{}, {}, {}}, reduced);
  b.output("copied", {4, 8, 6}, {{}, {}, {}}, copied);
  b.output("zero", {4, 8, 6}, {{}, {}, {}}, zero);
  return b;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_EXECUTOR_MOVESPROGRAM_H
