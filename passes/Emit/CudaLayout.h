//===- CudaLayout.h - How threads are laid over a kernel's space ----------===//
//
// row:     a team of threads has a row: a part of a warp, a warp, or a block.
//          Each thread takes up to four vectors of it, one a trip, all of which
//          it reads before it uses the first and keeps to the end. Longer rows
//          are walked by a block in groups of trips.
// flat:    one vector a thread.
// column:  a warp spans 32 neighbouring vectors of columns. Blocks are columns
//          by parts of the rows; the warps of a block share its rows.
//
// A vector is what one access of 16 bytes has of the narrowest type.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_EMIT_CUDALAYOUT_H
#define CLEAVE_PASSES_EMIT_CUDALAYOUT_H

#include "passes/Emit/KernelInfo.h"

namespace cleave::emit {

struct CudaLayout {
  static constexpr int64_t warp = 32, accessBytes = 16;

  static CudaLayout get(const KernelInfo &info);

  int64_t vector = 1;  // elements that a thread takes at once
  int64_t threads = 1; // of a block
  int64_t blocks = 1;
  int64_t team = 1;         // row: threads of one row
  int64_t trips = 1;        // row: vectors per thread
  bool keepsRow = true;     // row: all trips of a thread are in registers
  int64_t unroll = 1;       // column: rows that a warp reads at once
  int64_t parts = 1;        // column: of the rows
  int64_t rowsPerPart = 0;  // column
  int64_t scratchBytes = 0; // column: counters, then sums of the parts
  bool isMulti = false;     // blocks' y is one of several launches

  int64_t getRowsPerBlock() const { return threads / team; }
  int64_t getWarps() const { return threads / warp; }
  int64_t getSpan() const { return warp * vector; } // column: of a block
  int64_t getColumnBlocks() const { return blocks / parts; }

private:
  void layRows(const KernelInfo &info);
  void layElements(const KernelInfo &info);
  void layColumns(const KernelInfo &info);
};

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_CUDALAYOUT_H
