//===- MicroBatches.cpp ---------------------------------------------------===//
#include "passes/Kernels/MicroBatches.h"

using namespace mlir;
using namespace cleave;

bool cleave::isRepeated(xf::AccumulateOp op) {
  return op.getSegments() || op.getCount() > 1;
}

int64_t cleave::countInFlight(ArrayRef<int64_t> order, int64_t from,
                              const llvm::SmallDenseSet<int64_t> &to,
                              int64_t count) {
  SmallVector<int64_t> left(size_t(count), int64_t(to.size()));
  int64_t oldest = 0, most = 1;
  for (size_t i = 0; i < order.size(); i += 2) {
    int64_t segment = order[i], microBatch = order[i + 1];
    if (segment == from)
      most = std::max(most, microBatch - oldest + 1);
    if (to.contains(segment))
      --left[size_t(microBatch)];
    while (oldest < count && left[size_t(oldest)] == 0)
      ++oldest;
  }
  return most;
}
