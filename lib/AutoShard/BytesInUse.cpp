//===- BytesInUse.cpp - What a choice needs at a time ---------------------===//
#include "cleave/AutoShard/BytesInUse.h"
#include "StepLists.h"
#include "cleave/AutoShard/Beside.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

/// By op of the list, what buffers take while it runs: each from the first op
/// that accesses it to the last.
static std::vector<double> getInUse(llvm::ArrayRef<ListOp> list,
                                    llvm::ArrayRef<double> bytes) {
  std::vector<std::pair<size_t, size_t>> uses(bytes.size(), {list.size(), 0});
  for (auto [at, each] : llvm::enumerate(list))
    for (const RowsOperand &operand : each.operands) {
      auto &[first, last] = uses[size_t(operand.buffer)];
      first = std::min(first, at);
      last = at;
    }
  std::vector<double> inUse(list.size() + 1, 0);
  for (auto [use, own] : llvm::zip_equal(uses, bytes))
    if (use.first <= use.second) {
      inUse[use.first] += own;
      inUse[use.second + 1] -= own;
    }
  for (size_t at = 1; at < inUse.size(); ++at)
    inUse[at] += inUse[at - 1];
  return inUse;
}

double cleave::getBytesInUse(const ShardingProblem &problem,
                             const ShardingChoice &choice,
                             llvm::ArrayRef<Move> moves) {
  StepLists lists = listStep(problem, choice, moves, BesideCompute());
  List step = std::move(lists.before);
  llvm::append_range(step, lists.inside);
  size_t passes = step.size();
  // What is made in the passes may be read behind them.
  llvm::append_range(step, lists.sums);
  llvm::append_range(step, lists.update);
  std::vector<double> inUse = getInUse(step, lists.bytes);
  inUse.resize(passes);
  double most = inUse.empty() ? 0 : *llvm::max_element(inUse);
  return choice.bytes - lists.keptBytes + most;
}

void cleave::setMemory(ShardingProblem &problem, const Device &device,
                       double kept) {
  problem.memory = kept > 0 ? kept : device.getRoom();
  problem.holdsTemporaries = kept == 0;
}
