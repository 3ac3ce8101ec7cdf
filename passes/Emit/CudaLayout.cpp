//===- CudaLayout.cpp - How threads are laid over a kernel's space --------===//
#include "passes/Emit/CudaLayout.h"
#include "runtime/abi/Kernel.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

/// Blocks that fill the multiprocessors of the largest GPUs twice.
static constexpr int64_t manyBlocks = 264;

static int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t alignUp(int64_t x, int64_t y) { return divideUp(x, y) * y; }

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

/// The most elements, a power of two, that every access along the lanes can
/// take at once at an aligned address; `wanted` at most.
static int64_t findVector(const KernelInfo &info, int64_t wanted) {
  bool flat = info.mode == exec::KernelMode::Flat;
  auto fits = [&](const Access &access, int64_t vector) {
    bool isAlongLanes = flat ? access.isContiguousAlongRows() : access.column;
    if (!isAlongLanes || vector == 1)
      return true;
    // Token ids of a micro-batch begin at any multiple of 4 bytes.
    return !access.type.isInteger(32) && access.offset % vector == 0 &&
           (flat || access.rowStride % vector == 0);
  };
  int64_t vector = wanted;
  while (vector > 1) {
    auto fitsVector = [&](const Access &access) {
      return fits(access, vector);
    };
    if ((flat || info.columns % vector == 0) &&
        llvm::all_of(info.inputs, fitsVector) &&
        llvm::all_of(info.outputs, fitsVector))
      break;
    vector /= 2;
  }
  return vector;
}

/// Elements of 16 bytes of the narrowest type.
static int64_t getWantedVector(const KernelInfo &info) {
  int64_t vector = 4;
  for (const SmallVector<Access> *accesses : {&info.inputs, &info.outputs})
    for (const Access &access : *accesses)
      if (access.type.isBF16())
        vector = 8;
  return vector;
}

//===----------------------------------------------------------------------===//
// Modes
//===----------------------------------------------------------------------===//

void CudaLayout::layRows(const KernelInfo &info) {
  // Values of a row that a thread keeps, beside what it computes from them.
  constexpr int64_t mostKept = 72, mostTrips = 4, mostThreads = 512;
  vector = findVector(info, getWantedVector(info));
  int64_t vectors = info.columns / vector;
  auto setTeam = [&](int64_t members) {
    team = members <= warp ? int64_t(llvm::PowerOf2Ceil(uint64_t(members)))
                           : alignUp(members, warp);
    trips = divideUp(vectors, team);
  };
  int64_t keptPerTrip = 0;
  for (const Access &access : info.inputs)
    keptPerTrip += access.isOfRow() ? vector : 0;
  int64_t most = std::clamp<int64_t>(mostKept / std::max(keptPerTrip, vector),
                                     1, mostTrips);

  // Neighbours read neighbouring vectors, so a warp is the least that has
  // several trips. The trips that leave the fewest places of the last one
  // empty; of these the most.
  int64_t best = 0, fewest = 0;
  for (int64_t i = 1; i <= most; ++i) {
    int64_t members = std::max(divideUp(vectors, i), std::min(vectors, warp));
    setTeam(members);
    int64_t empty = team * trips - vectors;
    if (best == 0 || empty <= fewest) {
      best = members;
      fewest = empty;
    }
  }
  setTeam(best);
  keepsRow = team <= mostThreads;
  // Many long rows have small blocks, several on a multiprocessor: one begins
  // or ends while the others read.
  if (!keepsRow)
    setTeam(info.rows >= 4 * manyBlocks ? 4 * warp : mostThreads);
  threads = team > warp ? team : 4 * warp;
  blocks = divideUp(info.rows, getRowsPerBlock());
}

void CudaLayout::layElements(const KernelInfo &info) {
  vector = findVector(info, getWantedVector(info));
  threads = 256;
  blocks = divideUp(info.rows, vector * threads);
}

void CudaLayout::layColumns(const KernelInfo &info) {
  constexpr int64_t mostSharedBytes = 40 << 10, mostRead = 72;
  threads = info.rows >= 64 ? 256 : 128;
  vector = findVector(info, getWantedVector(info));
  int64_t outputs = int64_t(info.outputs.size());
  while (vector > 1 && (info.columns < getSpan() ||
                        4 * outputs * getWarps() * getSpan() > mostSharedBytes))
    vector /= 2;
  // Values that a thread has of the rows that it reads before it adds them.
  int64_t perRow = 0;
  for (const Access &access : info.inputs)
    perRow += access.column ? vector : 1;
  unroll = 8;
  while (unroll > 2 && unroll * perRow > mostRead)
    unroll /= 2;

  int64_t columnBlocks = divideUp(info.columns, getSpan());
  // Whole groups of the rows that warps read at once; two at least.
  int64_t group = getWarps() * unroll;
  parts = std::clamp<int64_t>(manyBlocks / columnBlocks, 1,
                              std::max<int64_t>(info.rows / (2 * group), 1));
  rowsPerPart = alignUp(divideUp(info.rows, parts), group);
  parts = divideUp(info.rows, rowsPerPart);
  blocks = columnBlocks * parts;
  if (parts > 1)
    scratchBytes = CLEAVE_CUDA_COUNTER_BYTES +
                   4 * parts * outputs * columnBlocks * getSpan();
}

CudaLayout CudaLayout::get(const KernelInfo &info) {
  CudaLayout layout;
  switch (info.mode) {
  case exec::KernelMode::Row:
    layout.layRows(info);
    break;
  case exec::KernelMode::Flat:
    layout.layElements(info);
    break;
  case exec::KernelMode::Column:
    layout.layColumns(info);
    break;
  }
  return layout;
}
