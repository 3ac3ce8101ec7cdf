//===- Overlap.cpp - Communication beside compute -------------------------===//
#include "cleave/Streams/Overlap.h"
#include "cleave/Streams/Order.h"
#include "lib/Streams/Followers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>
#include <limits>

using namespace cleave;
using llvm::ArrayRef;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// A prefetch begins at most as many of its slots ahead of its use: beyond that
/// the stream is never idle, and memory is held for nothing.
constexpr double mostSlotsAhead = 3;
/// Communication of which less is hidden stays where it is, unless all that its
/// stream does is late: another thread, or another queue of the device, is not
/// free either.
constexpr double leastHidden = 0.1;

class Scheduler {
public:
  explicit Scheduler(ArrayRef<OverlapOp> given)
      : ops(given), leaders(findLeaders(given)), states(given.size()) {
    for (auto [op, leader] : llvm::zip(ops, leaders))
      if (leader >= 0)
        op.stream = ops[size_t(leader)].stream;
  }

  OverlapResult run();

private:
  struct State {
    llvm::SmallVector<int64_t, 4> before, after; ///< ops that it depends on
    double begin = 0;  ///< of compute, were none to wait
    double latest = 0; ///< before which communication need not begin
    bool isIssued = false;
    double start = 0, finish = 0;
    double waited = 0;     ///< by the own stream for this
    bool isNeeded = false; ///< by something here; of what grows
    bool isBehind = false; ///< its stream was busy when it could begin
  };

  bool isAside(int64_t op) const { return ops[op].stream > 0; }
  void findDependences();
  void sortByDeadline();
  void findLatest();
  double getDeadline(int64_t op) const;
  bool isFree(int64_t op) const {
    return llvm::all_of(states[op].before,
                        [&](int64_t other) { return states[other].isIssued; });
  }
  /// When the own stream may begin the op; all that it depends on was issued.
  double getReady(int64_t op) const;
  void issueAside(int64_t op);
  void issueDue(double until);
  void issueOwn(int64_t op);
  int64_t chooseOwn() const;
  void postponeExposed();
  void findJoins();

  std::vector<OverlapOp> ops;   ///< followers in the stream of their leader
  std::vector<int64_t> leaders; ///< by op; -1: it does not follow
  std::vector<State> states;
  std::vector<int64_t> own;   ///< ops of the own stream, in their order
  size_t firstOwn = 0;        ///< that may not be issued yet
  std::vector<int64_t> aside; ///< by when they are needed
  double longest = 0;         ///< of `aside`
  double now = 0;
  std::array<double, maxStreams> free = {};
  std::array<int64_t, maxStreams> needed = {}; ///< ops that are not issued yet
  OverlapResult result;
};

} // namespace

std::vector<llvm::SmallVector<int64_t, 4>>
cleave::findDependences(ArrayRef<OverlapOp> ops) {
  struct Buffer {
    int64_t writer = -1;
    llvm::SmallVector<int64_t, 4> readers;
  };
  std::vector<llvm::SmallVector<int64_t, 4>> before(ops.size());
  auto add = [&](int64_t from, size_t to) {
    if (from >= 0 && size_t(from) != to &&
        !llvm::is_contained(before[to], from))
      before[to].push_back(from);
  };
  llvm::DenseMap<int64_t, Buffer> buffers;
  int64_t fence = -1;
  llvm::SmallVector<int64_t> sinceFence;
  for (auto [i, op] : llvm::enumerate(ops)) {
    for (int64_t read : op.reads) {
      add(buffers[read].writer, i);
      buffers[read].readers.push_back(int64_t(i));
    }
    for (int64_t write : op.writes) {
      Buffer &buffer = buffers[write];
      add(buffer.writer, i);
      for (int64_t reader : buffer.readers)
        add(reader, i);
      buffer = {int64_t(i), {}};
    }
    if (op.stream > 0)
      continue;
    add(fence, i);
    if (op.isFence) {
      for (int64_t other : sinceFence)
        add(other, i);
      sinceFence.clear();
      fence = int64_t(i);
    } else {
      sinceFence.push_back(int64_t(i));
    }
  }
  return before;
}

void Scheduler::findDependences() {
  for (auto [i, before] : llvm::enumerate(cleave::findDependences(ops))) {
    for (int64_t other : before)
      states[size_t(other)].after.push_back(int64_t(i));
    states[i].before = std::move(before);
  }
}

/// When the first compute that uses what the op does begins; never.
double Scheduler::getDeadline(int64_t op) const {
  double deadline = never;
  for (int64_t user : states[op].after)
    deadline = std::min(deadline, isAside(user) ? states[user].latest
                                                : states[user].begin);
  return deadline;
}

/// Of communication, what is needed first comes first: whatever else a stream
/// did before that would be waited for. What nothing here needs comes last.
void Scheduler::sortByDeadline() {
  std::vector<double> deadlines(ops.size(), never);
  for (int64_t op : llvm::reverse(aside))
    for (int64_t user : states[size_t(op)].after)
      deadlines[size_t(op)] = std::min(
          deadlines[size_t(op)],
          isAside(user) ? deadlines[size_t(user)] - ops[size_t(user)].seconds
                        : states[size_t(user)].begin);
  for (int64_t op : aside)
    if (ops[size_t(op)].grows && deadlines[size_t(op)] < never) {
      states[size_t(op)].isNeeded = true;
      ++needed[size_t(ops[size_t(op)].stream)];
    }
  // What depends on an op is needed no earlier: it stays behind it.
  llvm::sort(aside, [&](int64_t a, int64_t b) {
    return std::pair(deadlines[size_t(a)], a) <
           std::pair(deadlines[size_t(b)], b);
  });
}

/// From the last to the first, so that a stream can do them one after the
/// other. What begins as early as it can has no slot of its own: those of the
/// others are longer instead.
void Scheduler::findLatest() {
  std::array<double, maxStreams> growing = {}, other = {}, next;
  next.fill(never);
  for (int64_t op : aside)
    (ops[op].grows ? growing : other)[size_t(ops[op].stream)] +=
        ops[op].seconds;
  for (int64_t op : llvm::reverse(aside)) {
    size_t stream = size_t(ops[op].stream);
    double deadline = getDeadline(op);
    if (!ops[op].grows) {
      states[op].latest = deadline - ops[op].seconds;
      continue;
    }
    double share = 1 + other[stream] / std::max(growing[stream], 1e-30);
    double slot = ops[op].seconds * std::min(share, mostSlotsAhead);
    if (deadline == never)
      deadline = result.compute;
    states[op].latest =
        std::min(next[stream], std::max(std::min(deadline, next[stream]) - slot,
                                        deadline - mostSlotsAhead * slot));
    next[stream] = states[op].latest;
  }
}

double Scheduler::getReady(int64_t op) const {
  double ready = 0;
  for (int64_t other : states[op].before)
    ready = std::max(ready, states[other].finish);
  return ready;
}

void Scheduler::issueAside(int64_t op) {
  State &state = states[op];
  double &streamFree = free[size_t(ops[op].stream)];
  double ready = std::max(now, getReady(op));
  state.isBehind = streamFree > ready;
  state.start = std::max(streamFree, ready);
  state.finish = streamFree = state.start + ops[op].seconds;
  state.isIssued = true;
  needed[size_t(ops[op].stream)] -= state.isNeeded;
  result.order.push_back(op);
  if (leaders[op] < 0)
    result.communication += ops[op].seconds;
}

/// Issues the communication that can begin, and is due once compute is, were
/// none to wait, at `until`. What nothing here needs does not stand in the way
/// of what something does.
void Scheduler::issueDue(double until) {
  for (int64_t op : aside) {
    const State &state = states[op];
    if (state.isIssued || !isFree(op))
      continue;
    bool isDue = state.latest <= until &&
                 (state.isNeeded || needed[size_t(ops[op].stream)] == 0);
    if (!ops[op].grows || isDue)
      issueAside(op);
  }
}

void Scheduler::issueOwn(int64_t op) {
  State &state = states[op];
  double ready = std::max(getReady(op), now);
  if (ready > now) {
    for (int64_t other : state.before)
      if (isAside(other) && states[other].finish > now) {
        int64_t what = leaders[other] < 0 ? other : leaders[other];
        states[what].waited +=
            std::min(states[other].finish - now, ops[what].seconds);
      }
    result.exposed += ready - now;
  }
  state.start = ready;
  state.finish = now = ready + ops[op].seconds;
  state.isIssued = true;
  result.order.push_back(op);
  while (firstOwn < own.size() && states[own[firstOwn]].isIssued)
    ++firstOwn;
}

/// The first op that need not wait, among those that may go ahead of others; if
/// there is none, the first.
int64_t Scheduler::chooseOwn() const {
  int64_t first = own[firstOwn];
  double wait = getReady(first) - now;
  if (wait <= 0)
    return first;
  double furthest =
      states[first].begin + ops[first].seconds + mostSlotsAhead * longest;
  double skipped = 0; ///< beside the first
  for (size_t i = firstOwn + 1; i < own.size(); ++i) {
    const State &state = states[own[i]];
    if (state.isIssued)
      continue;
    if (skipped > wait || state.begin > furthest)
      break;
    if (isFree(own[i]) && getReady(own[i]) <= now)
      return own[i];
    skipped += ops[own[i]].seconds;
  }
  return first;
}

/// What is reduced and not worth a stream: behind all that does not need it,
/// since it is waited for where it stands. What only sends is waited for by
/// others, and stays.
void Scheduler::postponeExposed() {
  std::vector<bool> isPostponed(ops.size());
  for (int64_t op : aside)
    isPostponed[size_t(op)] = result.streams[size_t(op)] == 0 &&
                              !ops[size_t(op)].grows &&
                              !ops[size_t(op)].writes.empty();
  std::vector<int64_t> order = std::move(result.order), held;
  result.order.clear();
  // With those that are held and that the op needs, before it.
  auto emit = [&](auto &self, int64_t op) -> void {
    for (int64_t earlier : states[size_t(op)].before)
      if (isPostponed[size_t(earlier)])
        self(self, earlier);
    isPostponed[size_t(op)] = false;
    result.order.push_back(op);
  };
  for (int64_t op : order) {
    if (isPostponed[size_t(op)])
      held.push_back(op);
    else
      emit(emit, op);
  }
  for (int64_t op : held)
    if (isPostponed[size_t(op)])
      emit(emit, op);
}

/// Where the rank's own stream knows what others did: at the first op that
/// depends on it, or begins when it has been done for as long as the longest
/// communication takes, since times are but predicted.
void Scheduler::findJoins() {
  result.joins.resize(ops.size());
  std::array<llvm::SmallVector<int64_t>, maxStreams> open;
  for (int64_t op : result.order) {
    int64_t stream = result.streams[size_t(op)];
    if (stream > 0) {
      open[size_t(stream)].push_back(op);
      continue;
    }
    for (llvm::SmallVector<int64_t> &each : open) {
      size_t known = 0, done = 0;
      for (auto [i, other] : llvm::enumerate(each)) {
        if (llvm::is_contained(states[size_t(op)].before, other))
          known = i + 1;
        if (states[size_t(other)].finish + longest <= states[size_t(op)].start)
          done = i + 1;
      }
      if (done > known)
        result.joins[size_t(op)].push_back(each[done - 1]);
      each.erase(each.begin(), each.begin() + std::max(known, done));
    }
  }
}

OverlapResult Scheduler::run() {
  result.streams.resize(ops.size());
  result.withNext.resize(ops.size());
  for (auto [i, op] : llvm::enumerate(ops)) {
    (isAside(int64_t(i)) ? aside : own).push_back(int64_t(i));
    states[i].begin = result.compute;
    if (isAside(int64_t(i)))
      longest = std::max(longest, op.seconds);
    else
      result.compute += op.seconds;
  }
  findDependences();
  sortByDeadline();
  findLatest();
  while (firstOwn < own.size()) {
    int64_t next = own[firstOwn];
    // What its first op needs is then issued: it comes earlier in the list.
    issueDue(states[next].begin + ops[next].seconds);
    issueOwn(chooseOwn());
  }
  issueDue(never);
  result.seconds = std::max(now, *std::max_element(free.begin(), free.end()));
  for (const State &state : states)
    result.waited.push_back(state.waited);
  for (int64_t op : aside)
    if (leaders[op] < 0 &&
        (states[op].isBehind ||
         ops[op].seconds - states[op].waited > leastHidden * ops[op].seconds))
      result.streams[op] = ops[op].stream;
  for (int64_t op : aside)
    if (leaders[op] >= 0)
      result.streams[op] = result.streams[size_t(leaders[op])];
  postponeExposed();
  findJoins();
  return std::move(result);
}

OverlapResult cleave::overlap(ArrayRef<OverlapOp> ops) {
  return Scheduler(ops).run();
}
