//===- Parts.cpp - Ops in parts of their rows -----------------------------===//
#include "cleave/Streams/Parts.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <functional>
#include <numeric>

using namespace cleave;
using llvm::ArrayRef;
using llvm::SmallVector;

//===----------------------------------------------------------------------===//
// What ops access
//===----------------------------------------------------------------------===//

/// Buffers are cut where operands begin and end, and the stretches between
/// numbered.
void cleave::setAccesses(llvm::MutableArrayRef<OverlapOp> ops,
                         ArrayRef<ArrayRef<RowsOperand>> operands) {
  using Point = std::pair<int64_t, int64_t>; // of a buffer, a place
  std::vector<Point> points;
  for (ArrayRef<RowsOperand> each : operands)
    for (const RowsOperand &operand : each) {
      points.push_back({operand.buffer, operand.begin});
      points.push_back({operand.buffer, operand.end});
    }
  llvm::sort(points);
  points.erase(llvm::unique(points), points.end());
  for (auto [op, own] : llvm::zip_equal(ops, operands)) {
    op.reads.clear();
    op.writes.clear();
    for (const RowsOperand &operand : own)
      for (auto at =
               llvm::lower_bound(points, Point(operand.buffer, operand.begin));
           *at != Point(operand.buffer, operand.end); ++at)
        (operand.isWritten ? op.writes : op.reads)
            .push_back(at - points.begin());
  }
}

//===----------------------------------------------------------------------===//
// Which ops can be cut together
//===----------------------------------------------------------------------===//

Window::Window(std::vector<RowsOperands> operands)
    : operands(std::move(operands)), dependences(this->operands.size()) {}

const std::optional<Shares> &Window::getShares(size_t i, int64_t parts) const {
  auto [found, isNew] = shares.try_emplace({i, parts});
  if (isNew)
    found->second = computeShares(i, parts);
  return found->second;
}

static bool shareBytes(const RowsOperand &a, const RowsOperand &b) {
  return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}

bool Window::dependsOn(size_t later, size_t earlier) const {
  llvm::BitVector &known = dependences[later];
  if (known.empty()) {
    known.resize(unsigned(size()));
    for (size_t i = 0; i < later; ++i)
      for (const RowsOperand &x : operands[later])
        for (const RowsOperand &y : operands[i])
          if ((x.isWritten || y.isWritten) && shareBytes(x, y))
            known.set(unsigned(i));
  }
  return known[unsigned(earlier)];
}

bool Window::areApart(ArrayRef<size_t> members, int64_t parts) const {
  for (size_t a : members)
    for (size_t b : members) {
      ArrayRef<Share> sharesA = *getShares(a, parts),
                      sharesB = *getShares(b, parts);
      for (auto [i, x] : llvm::enumerate(operands[a]))
        for (auto [k, y] : llvm::enumerate(operands[b])) {
          bool isAlike = x.value == y.value && sharesA[i] == sharesB[k] &&
                         (a == b || sharesA[i] == Share::Part);
          if ((x.isWritten || y.isWritten) && x.buffer == y.buffer && !isAlike)
            return false;
        }
    }
  return true;
}

std::optional<SmallVector<bool>>
Window::findBefore(ArrayRef<size_t> members) const {
  SmallVector<bool> isMember(size()), isBefore(size());
  for (size_t i : members)
    isMember[i] = true;
  for (size_t i = members.back(); i-- > members.front();) {
    if (isMember[i])
      continue;
    for (size_t later = i + 1; later <= members.back(); ++later)
      isBefore[i] |=
          (isMember[later] || isBefore[later]) && dependsOn(later, i);
    if (isBefore[i] && llvm::any_of(members, [&](size_t earlier) {
          return earlier < i && dependsOn(i, earlier);
        }))
      return std::nullopt;
  }
  return isBefore;
}

//===----------------------------------------------------------------------===//
// Around a collective
//===----------------------------------------------------------------------===//

bool Surroundings::canCut(size_t i, int64_t parts) const {
  const std::optional<Shares> &shares = window.getShares(i, parts);
  return shares && !llvm::is_contained(*shares, Share::Sum);
}

/// Those that wrote what the op reads in parts, or read what it writes so,
/// before something else is there.
SmallVector<size_t> Surroundings::findPartners(size_t i, int64_t parts) const {
  SmallVector<size_t> found;
  auto isCutIn = [&](size_t other, const RowsOperand &operand, bool asOutput) {
    bool isUsed = false;
    for (auto [k, each] : llvm::enumerate(window.getOperands(other)))
      if (each.value == operand.value && each.isWritten == asOutput) {
        isUsed = true;
        if (!canCut(other, parts) ||
            (*window.getShares(other, parts))[k] != Share::Part)
          return false;
      }
    return isUsed;
  };
  auto writes = [&](size_t other, const RowsOperand &operand) {
    return llvm::any_of(window.getOperands(other), [&](const auto &each) {
      return each.isWritten && each.buffer == operand.buffer;
    });
  };
  for (auto [k, operand] : llvm::enumerate(window.getOperands(i))) {
    if ((*window.getShares(i, parts))[k] != Share::Part)
      continue;
    if (!operand.isWritten) {
      for (size_t other = i; other-- > 0;)
        if (writes(other, operand)) {
          if (isCutIn(other, operand, /*asOutput=*/true))
            found.push_back(other);
          break;
        }
      continue;
    }
    for (size_t other = i + 1; other < window.size(); ++other) {
      if (isCutIn(other, operand, /*asOutput=*/false))
        found.push_back(other);
      if (writes(other, operand))
        break;
    }
  }
  return found;
}

/// What streams through memory and has no member on one of its sides takes no
/// part.
void Surroundings::prune(llvm::SmallVectorImpl<size_t> &members,
                         int64_t parts) const {
  auto isLoose = [&](size_t i) {
    if (kinds[i] != RowsKind::Memory)
      return false;
    SmallVector<size_t> partners = findPartners(i, parts);
    auto isMember = [&](size_t other, bool before) {
      return (other < i) == before && llvm::is_contained(members, other);
    };
    return !llvm::any_of(partners,
                         [&](size_t each) { return isMember(each, true); }) ||
           !llvm::any_of(partners,
                         [&](size_t each) { return isMember(each, false); });
  };
  for (size_t before = 0; before != members.size();) {
    before = members.size();
    llvm::erase_if(members, isLoose);
  }
}

SmallVector<size_t> Surroundings::findMembers(int64_t parts) const {
  SmallVector<size_t> members;
  if (!canCut(middle, parts))
    return members;
  members.push_back(middle);
  auto tryAdd = [&](size_t other) {
    if (llvm::is_contained(members, other))
      return false;
    SmallVector<size_t> all = members;
    all.insert(llvm::lower_bound(all, other), other);
    if (!window.areApart(all, parts) || !window.findBefore(all))
      return false;
    members = std::move(all);
    return true;
  };
  // What comes too early for one that is still missing is tried again.
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i : SmallVector<size_t>(members))
      // There is enough to run beside what communicates up to a product.
      if (kinds[i] != RowsKind::Product)
        for (size_t other : findPartners(i, parts))
          grows |= tryAdd(other);
  }
  prune(members, parts);
  return members;
}

std::optional<std::vector<PartOf>> Surroundings::cut(ArrayRef<size_t> members,
                                                     int64_t parts) const {
  std::optional<SmallVector<bool>> isBefore = window.findBefore(members);
  if (!isBefore)
    return std::nullopt;
  std::vector<PartOf> list;
  auto addOthers = [&](bool before) {
    for (size_t i = members.front(); i < members.back(); ++i)
      if (!llvm::is_contained(members, i) && (*isBefore)[i] == before)
        list.push_back({i});
  };
  for (size_t i = 0; i != members.front(); ++i)
    list.push_back({i});
  addOthers(/*before=*/true);
  // From one collective to the next.
  for (auto begin = members.begin(), end = begin; begin != members.end();
       begin = end) {
    end = std::find_if(begin, members.end(),
                       [&](size_t i) { return streams[i] > 0; });
    if (end != members.end())
      ++end;
    for (int64_t number = 0; number < parts; ++number)
      for (size_t i : llvm::make_range(begin, end))
        list.push_back({i, number});
  }
  addOthers(/*before=*/false);
  for (size_t i = members.back() + 1; i != window.size(); ++i)
    list.push_back({i});
  return list;
}

//===----------------------------------------------------------------------===//
// How many parts, and what they are worth
//===----------------------------------------------------------------------===//

int64_t cleave::countRows(ArrayRef<int64_t> shape, size_t dim) {
  return std::accumulate(shape.begin(), shape.begin() + dim, int64_t(1),
                         std::multiplies());
}

int64_t cleave::countBlocks(ArrayRef<int64_t> shape, size_t dim) {
  if (dim == 0 || dim + 1 >= shape.size())
    return 1;
  int64_t missing =
      largestPartCount / std::gcd(largestPartCount, countRows(shape, dim));
  return std::gcd(missing, shape[dim]);
}

WindowTime WindowTime::measure(ArrayRef<OverlapOp> ops,
                               llvm::function_ref<bool(size_t)> isMember) {
  OverlapResult result = overlap(ops);
  WindowTime time;
  time.seconds = result.seconds + result.sent;
  time.sent = result.sent;
  time.compute = result.compute;
  for (auto [i, op] : llvm::enumerate(ops))
    if (op.stream > 0 && isMember(i)) {
      time.communication += op.seconds;
      time.waited += result.waited[i];
    }
  return time;
}
