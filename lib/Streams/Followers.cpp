//===- Followers.cpp ------------------------------------------------------===//
#include "lib/Streams/Followers.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using llvm::ArrayRef;

static bool reads(const OverlapOp &op, const OverlapOp &writer) {
  return llvm::any_of(op.reads, [&](int64_t each) {
    return llvm::is_contained(writer.writes, each);
  });
}

std::vector<int64_t> cleave::findLeaders(ArrayRef<OverlapOp> ops) {
  std::vector<int64_t> leaders(ops.size(), -1);
  if (llvm::none_of(ops, [](const OverlapOp &op) { return op.mayFollow; }))
    return leaders;
  // Nothing follows past data that it shares; it does past fences.
  std::vector<OverlapOp> unfenced(ops);
  for (OverlapOp &op : unfenced)
    op.isFence = false;
  std::vector<llvm::SmallVector<int64_t, 4>> before = findDependences(unfenced);
  std::vector<double> begins; ///< of compute, were none to wait
  double now = 0;
  for (auto [i, op] : llvm::enumerate(ops)) {
    begins.push_back(now);
    if (op.stream == 0)
      now += op.seconds;
    if (op.stream > 0 || !op.mayFollow)
      continue;
    for (int64_t other : before[i])
      if (ops[size_t(other)].stream > 0 && !ops[size_t(other)].grows &&
          reads(op, ops[size_t(other)]))
        leaders[i] = std::max(leaders[i], other);
  }
  // From the last to the first, so that it is known which users follow.
  for (size_t user = ops.size(); user-- > 0;) {
    if (ops[user].stream > 0 || leaders[user] >= 0)
      continue;
    for (int64_t other : before[user]) {
      int64_t &leader = leaders[size_t(other)];
      if (leader >= 0 &&
          begins[user] - begins[size_t(other)] <
              ops[size_t(leader)].seconds + ops[size_t(other)].seconds)
        leader = -1;
    }
  }
  return leaders;
}
