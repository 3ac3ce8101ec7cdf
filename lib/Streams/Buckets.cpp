//===- Buckets.cpp - Communication that begins together -------------------===//
//
// A bucket is an op in place of several: it takes what they take together, and
// accesses what any of them does. So a segment with buckets is scheduled as one
// without, and what comes out says what the buckets are worth.
//
//===----------------------------------------------------------------------===//
#include "cleave/Streams/Overlap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <utility>

using namespace cleave;
using llvm::ArrayRef;

namespace {

/// Of what a segment costs, that larger buckets have to save: they also keep
/// memory for longer.
constexpr double leastSaved = 0.001;
/// What a second of communication costs, though it is hidden, of one that is
/// waited for: a thread or a queue of its own is not free.
constexpr double hiddenCost = 0.1;

double getCost(const OverlapResult &result) {
  return result.seconds + hiddenCost * result.communication;
}

/// About how many buckets there are of a kind.
constexpr int64_t numbersOfBuckets[] = {64, 32, 16, 8, 4, 2, 1};

class Bucketer {
public:
  Bucketer(ArrayRef<OverlapOp> ops, BucketPricer price,
           const OverlapMemory &memory)
      : ops(ops), price(price), memory(memory), before(findDependences(ops)),
        adds(ops.size()), firstAfter(ops.size(), int64_t(ops.size())) {
    for (auto [i, op] : llvm::enumerate(ops))
      adds[i] =
          op.stream == 0 && op.mayFollow &&
          llvm::any_of(before[i], [&](int64_t other) {
            const OverlapOp &writer = ops[size_t(other)];
            return (writer.stream > 0 && !writer.grows) || adds[size_t(other)];
          });
    for (size_t i = ops.size(); i-- > 0;)
      for (int64_t other : before[i]) {
        int64_t first = adds[i] ? firstAfter[i] : int64_t(i);
        firstAfter[size_t(other)] = std::min(firstAfter[size_t(other)], first);
      }
    for (auto [i, op] : llvm::enumerate(ops))
      if (op.stream > 0 && op.kind >= 0)
        kinds[op.kind].push_back(int64_t(i));
  }

  OverlapResult run();

private:
  using Members = llvm::SmallVector<int64_t>;
  /// By kind, the seconds that a bucket may take; none: no buckets.
  using Limits = llvm::MapVector<int64_t, double>;

  /// Buckets in their order, most of one op.
  using Buckets = std::vector<llvm::SmallVector<int64_t, 1>>;

  OverlapResult schedule(const Buckets &buckets) const;
  Buckets makeBuckets(const Limits &limits) const;
  /// `places`: by op, the one that it begins with.
  bool mayJoin(ArrayRef<int64_t> bucket, int64_t op,
               ArrayRef<int64_t> places) const;
  OverlapOp merge(ArrayRef<int64_t> bucket) const;
  double getSavable(ArrayRef<int64_t> members) const;

  ArrayRef<OverlapOp> ops;
  BucketPricer price;
  const OverlapMemory &memory;
  std::vector<llvm::SmallVector<int64_t, 4>> before;
  /// By op, whether it only adds up what communication brought in, itself or
  /// through others that do: it can be done behind whatever bucket that is in.
  std::vector<bool> adds;
  /// By op, the first that depends on it, or on what adds it up, and does not
  /// add up itself.
  std::vector<int64_t> firstAfter;
  llvm::MapVector<int64_t, Members> kinds;
};

} // namespace

/// Whether the op, which comes behind a bucket's, may begin where they do.
bool Bucketer::mayJoin(ArrayRef<int64_t> bucket, int64_t op,
                       ArrayRef<int64_t> places) const {
  if (bucket.size() == mostInBucket)
    return false;
  if (ops[size_t(op)].grows)
    return llvm::all_of(before[size_t(op)], [&](int64_t other) {
      return places[size_t(other)] < bucket.front();
    });
  return llvm::all_of(
      bucket, [&](int64_t member) { return firstAfter[size_t(member)] > op; });
}

Bucketer::Buckets Bucketer::makeBuckets(const Limits &limits) const {
  Buckets buckets;
  std::vector<int64_t> begins; ///< by bucket, where it does
  const int64_t nowhere = int64_t(ops.size());
  llvm::MapVector<int64_t, Members> open; ///< by kind
  std::vector<bool> isOpen(ops.size());   ///< by op, whether its bucket is
  Members waiting; ///< what adds up what is in buckets that are open
  std::vector<int64_t> places(ops.size());
  auto place = [&](ArrayRef<int64_t> members, int64_t at) {
    for (int64_t member : members)
      places[size_t(member)] = at;
    buckets.emplace_back(members);
    begins.push_back(at);
  };
  auto mayPlace = [&](int64_t op) {
    return llvm::none_of(before[size_t(op)], [&](int64_t other) {
      return isOpen[size_t(other)] || places[size_t(other)] == nowhere;
    });
  };
  auto close = [&](Members &bucket) {
    if (bucket.empty())
      return;
    place(bucket,
          ops[size_t(bucket.front())].grows ? bucket.front() : bucket.back());
    for (int64_t member : bucket)
      isOpen[size_t(member)] = false;
    bucket.clear();
    Members rest;
    for (int64_t op : waiting) {
      if (!mayPlace(op)) {
        rest.push_back(op);
        continue;
      }
      int64_t last = op;
      for (int64_t other : before[size_t(op)])
        last = std::max(last, places[size_t(other)]);
      place({op}, last);
    }
    waiting = std::move(rest);
  };
  for (auto [i, op] : llvm::enumerate(ops)) {
    if (adds[i] && !mayPlace(int64_t(i))) {
      places[i] = nowhere;
      waiting.push_back(int64_t(i));
      continue;
    }
    auto limit = limits.find(op.stream > 0 ? op.kind : -1);
    if (limit == limits.end()) {
      place({int64_t(i)}, int64_t(i));
      continue;
    }
    Members &bucket = open[op.kind];
    if (!bucket.empty()) {
      Members larger = bucket;
      larger.push_back(int64_t(i));
      if (!mayJoin(bucket, int64_t(i), places) || price(larger) > limit->second)
        close(bucket);
    }
    bucket.push_back(int64_t(i));
    isOpen[i] = true;
    for (int64_t member : bucket)
      places[size_t(member)] = op.grows ? bucket.front() : int64_t(i);
  }
  for (auto &[kind, bucket] : open)
    close(bucket);
  // In the order of their begins; those that begin together as they were made.
  std::vector<size_t> next(ops.size() + 1, 0);
  for (int64_t begin : begins)
    ++next[size_t(begin) + 1];
  for (size_t at = 1; at != next.size(); ++at)
    next[at] += next[at - 1];
  Buckets sorted(buckets.size());
  for (auto [bucket, begin] : llvm::zip_equal(buckets, begins))
    sorted[next[size_t(begin)]++] = std::move(bucket);
  return sorted;
}

OverlapOp Bucketer::merge(ArrayRef<int64_t> bucket) const {
  OverlapOp merged = ops[size_t(bucket.front())];
  merged.members.assign(bucket.begin(), bucket.end());
  if (bucket.size() == 1)
    return merged;
  for (int64_t member : bucket.drop_front()) {
    const OverlapOp &op = ops[size_t(member)];
    merged.reads.append(op.reads);
    merged.writes.append(op.writes);
    merged.skew = std::max(merged.skew, op.skew);
  }
  merged.seconds = price(bucket);
  return merged;
}

OverlapResult Bucketer::schedule(const Buckets &buckets) const {
  std::vector<OverlapOp> merged;
  merged.reserve(buckets.size());
  for (const auto &bucket : buckets)
    merged.push_back(merge(bucket));
  // By bucket; what is of the whole segment stays.
  OverlapResult result = overlap(merged, memory);
  const std::vector<int64_t> order = std::exchange(result.order, {});
  const std::vector<int64_t> streams = std::exchange(result.streams, {});
  const std::vector<double> waited = std::exchange(result.waited, {});
  const auto joins = std::exchange(result.joins, {});
  result.order.reserve(ops.size());
  result.streams.assign(ops.size(), 0);
  result.withNext.assign(ops.size(), false);
  result.waited.assign(ops.size(), 0);
  result.joins.assign(ops.size(), {});
  for (int64_t each : order)
    for (int64_t member : buckets[size_t(each)]) {
      ArrayRef<int64_t> bucket = buckets[size_t(each)];
      result.order.push_back(member);
      result.streams[size_t(member)] = streams[size_t(each)];
      result.withNext[size_t(member)] = member != bucket.back();
      result.waited[size_t(member)] =
          waited[size_t(each)] / double(bucket.size());
      for (int64_t other : joins[size_t(each)])
        result.joins[size_t(member)].push_back(buckets[size_t(other)].back());
    }
  return result;
}

/// Seconds that one bucket of all would take less than they do by themselves.
double Bucketer::getSavable(ArrayRef<int64_t> members) const {
  double apart = 0;
  for (int64_t member : members)
    apart += ops[size_t(member)].seconds;
  return apart - price(members);
}

OverlapResult Bucketer::run() {
  Limits limits;
  OverlapResult best = overlap(ops, memory);
  const double mostBytes = std::max(best.bytes, memory.limit);
  double bestCost = getCost(best);
  // What can save most first, since the others come in between it.
  std::vector<std::pair<double, int64_t>> order;
  for (const auto &[kind, members] : kinds)
    order.push_back({-getSavable(members), kind});
  llvm::sort(order);
  for (auto [unsaved, kind] : order) {
    // What cannot save enough need not be tried.
    if ((1 + hiddenCost) * -unsaved < leastSaved * bestCost)
      continue;
    const Members &members = kinds[kind];
    double all = price(members);
    Limits chosen = limits;
    Buckets last = makeBuckets(limits);
    for (int64_t number : numbersOfBuckets) {
      if (number >= int64_t(members.size()))
        continue;
      Limits tried = limits;
      tried[kind] = all / double(number);
      // What may not begin together makes the same ones, whatever their size.
      Buckets buckets = makeBuckets(tried);
      if (buckets == last)
        continue;
      OverlapResult result = schedule(buckets);
      last = std::move(buckets);
      if (result.bytes > mostBytes ||
          getCost(result) >= (1 - leastSaved) * bestCost)
        continue;
      bestCost = getCost(result);
      best = std::move(result);
      chosen = std::move(tried);
    }
    limits = std::move(chosen);
  }
  return best;
}

OverlapResult cleave::overlapInBuckets(ArrayRef<OverlapOp> ops,
                                       BucketPricer getSeconds,
                                       const OverlapMemory &memory) {
  return Bucketer(ops, getSeconds, memory).run();
}
