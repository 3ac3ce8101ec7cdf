//===- Overlap.cpp - Communication beside compute -------------------------===//
#include "cleave/Streams/Overlap.h"
#include "cleave/Streams/Order.h"
#include "lib/Streams/Followers.h"
#include "lib/Streams/MemoryInFlight.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <queue>
#include <set>

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
  Scheduler(ArrayRef<OverlapOp> given, const OverlapMemory &memory)
      : ops(given), leaders(findLeaders(given)), states(given.size()),
        bounds(memory), memory(given, memory), inUse(given.size()) {
    if (llvm::all_of(leaders, [](int64_t leader) { return leader < 0; }))
      return;
    following = given.vec();
    for (auto [op, leader] : llvm::zip_equal(following, leaders))
      if (leader >= 0)
        op.stream = given[size_t(leader)].stream;
    ops = following;
  }

  OverlapResult run();

private:
  struct State {
    llvm::SmallVector<int64_t, 4> before, after; ///< ops that it depends on
    double begin = 0;    ///< of compute, were none to wait
    double release = 0;  ///< when communication could then begin
    double deadline = 0; ///< and when what it does is needed
    double latest = 0;   ///< before which communication need not begin
    size_t rank = 0;     ///< of communication, in `aside`
    size_t toIssue = 0;  ///< ops that it depends on and that are not issued
    bool isIssued = false;
    double start = 0, finish = 0;
    double waited = 0;          ///< by the own stream for this
    bool isNeeded = false;      ///< by something here; of what grows
    bool isBehind = false;      ///< its stream was busy when it could begin
    bool isReturned = false;    ///< to the own stream, in the end
    size_t place = 0;           ///< among what its stream was issued
    int64_t ownBefore = 0;      ///< ops that the own stream was given before it
    int64_t ownUntilKnown = -1; ///< and before the first one that depends on it
  };

  bool isAside(int64_t op) const { return ops[op].stream > 0; }
  void findDependences();
  void sortByDeadline();
  void findReleases();
  void findLatest();
  void keepClear(size_t i);
  double getDeadline(int64_t op) const;
  bool isFree(int64_t op) const { return states[op].toIssue == 0; }
  void setIssued(int64_t op);
  void addCandidate(int64_t op);
  /// When the own stream may begin the op; all that it depends on was issued.
  double getReady(int64_t op) const;
  void issueAside(int64_t op);
  void issueDue(double until);
  void issueOwn(int64_t op);
  int64_t chooseOwn() const;
  /// The first op in the list that the own stream has not done; the number of
  /// ops if it has done all.
  int64_t getNextOwn() const {
    return firstOwn < own.size() ? own[firstOwn] : int64_t(ops.size());
  }
  void noteInUse();
  void noteKnown(int64_t op);
  void addWaited(int64_t op, double from);
  /// The own stream knows the first `count` ops of a stream done before `op`
  /// begins, which depends on the last of them or does not.
  void know(size_t stream, size_t count, int64_t op, bool depends);
  void joinDone(int64_t op, double start);
  double joinForMemory(int64_t op, double start);
  void closeStreams();
  void postponeExposed();
  void setJoins();
  double getMostInUse() const;

  ArrayRef<OverlapOp> ops;          ///< followers in the stream of their leader
  std::vector<OverlapOp> following; ///< what `ops` has, if any follows
  std::vector<int64_t> leaders;     ///< by op; -1: it does not follow
  std::vector<State> states;
  std::vector<int64_t> own;   ///< ops of the own stream, in their order
  size_t firstOwn = 0;        ///< that may not be issued yet
  std::vector<int64_t> aside; ///< by when they are needed
  /// Of `aside`, by rank: what is not issued and could begin, as all that it
  /// depends on is issued, and it is due or does not grow.
  std::set<size_t> candidates;
  /// And what could but is not due yet: (latest, op), the first due on top.
  using Growing = std::pair<double, int64_t>;
  std::priority_queue<Growing, std::vector<Growing>, std::greater<Growing>>
      early;
  double due = 0;     ///< compute up to then has what it needs issued
  double longest = 0; ///< of `aside`
  double now = 0;
  std::array<double, maxStreams> free = {};
  std::array<int64_t, maxStreams> needed = {}; ///< ops that are not issued yet
  /// By stream: its ops as they were issued, and how many are known done.
  std::array<std::vector<int64_t>, maxStreams> issued;
  std::array<size_t, maxStreams> known = {};
  /// The op that the own stream was given last, how many it was given, and how
  /// many ops of each stream that one stands behind.
  int64_t lastOwn = -1, numOwn = 0;
  std::array<size_t, maxStreams> ahead = {};
  struct Join {
    int64_t op;    ///< of the own stream
    size_t stream; ///< of which it knows `count` ops done
    size_t count;
    bool depends; ///< on the last of these
  };
  std::vector<Join> joins;
  const OverlapMemory &bounds;
  MemoryInFlight memory;
  std::vector<double> inUse; ///< by op of the own stream
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
  std::vector<Buffer> buffers;
  for (const OverlapOp &op : ops)
    for (ArrayRef<int64_t> accessed : {ArrayRef(op.reads), ArrayRef(op.writes)})
      for (int64_t buffer : accessed)
        if (size_t(buffer) >= buffers.size())
          buffers.resize(size_t(buffer) + 1);
  int64_t fence = -1;
  llvm::SmallVector<int64_t> sinceFence;
  for (auto [i, op] : llvm::enumerate(ops)) {
    for (int64_t read : op.reads) {
      Buffer &buffer = buffers[size_t(read)];
      add(buffer.writer, i);
      buffer.readers.push_back(int64_t(i));
    }
    for (int64_t write : op.writes) {
      Buffer &buffer = buffers[size_t(write)];
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
    states[i].toIssue = before.size();
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
  for (int64_t op : llvm::reverse(aside)) {
    double &deadline = states[op].deadline = never;
    for (int64_t user : states[op].after)
      deadline = std::min(deadline, isAside(user) ? states[user].deadline -
                                                        ops[user].seconds
                                                  : states[user].begin);
  }
  for (int64_t op : aside)
    if (ops[op].grows && states[op].deadline < never) {
      states[op].isNeeded = true;
      ++needed[size_t(ops[op].stream)];
    }
  // What depends on an op is needed no earlier: it stays behind it.
  llvm::sort(aside, [&](int64_t a, int64_t b) {
    return std::pair(states[a].deadline, a) < std::pair(states[b].deadline, b);
  });
  for (auto [rank, op] : llvm::enumerate(aside))
    states[op].rank = rank;
}

/// When communication can begin, were no compute to wait and streams idle.
void Scheduler::findReleases() {
  for (size_t i = 0; i < ops.size(); ++i)
    for (int64_t other : states[i].before) {
      double from =
          isAside(other) ? states[other].release : states[other].begin;
      states[i].release =
          std::max(states[i].release, from + ops[other].seconds + ops[i].skew);
    }
}

/// Lets what grows, number `i` of `aside`, begin so early that it is done when
/// something that is needed sooner can begin, where it would be in the way of
/// that.
void Scheduler::keepClear(size_t i) {
  int64_t op = aside[i];
  State &state = states[op];
  double seconds = ops[op].seconds;
  double earliest = state.deadline - mostSlotsAhead * seconds;
  for (size_t k = i; k-- > 0;) {
    const State &other = states[aside[k]];
    if (other.deadline + 2 * longest < state.latest)
      break;
    if (ops[aside[k]].stream == ops[op].stream &&
        std::max(0., state.latest) < other.release &&
        other.release < state.latest + seconds)
      state.latest =
          std::max(std::min(state.latest, earliest), other.release - seconds);
  }
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
    double deadline = getDeadline(op) - ops[op].skew;
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
  double ready = std::max(now + ops[op].skew, getReady(op));
  state.isBehind = streamFree > ready;
  state.start = std::max(streamFree, ready);
  state.finish = streamFree = state.start + ops[op].seconds;
  setIssued(op);
  needed[size_t(ops[op].stream)] -= state.isNeeded;
  result.order.push_back(op);
  state.place = issued[size_t(ops[op].stream)].size();
  issued[size_t(ops[op].stream)].push_back(op);
  state.ownBefore = numOwn;
  memory.begin(op);
  noteInUse();
  if (leaders[op] < 0)
    result.communication += ops[op].seconds;
}

void Scheduler::setIssued(int64_t op) {
  states[op].isIssued = true;
  if (isAside(op))
    candidates.erase(states[op].rank);
  for (int64_t user : states[op].after)
    if (--states[user].toIssue == 0 && isAside(user))
      addCandidate(user);
}

void Scheduler::addCandidate(int64_t op) {
  if (ops[op].grows && states[op].latest > due)
    early.push({states[op].latest, op});
  else
    candidates.insert(states[op].rank);
}

/// Issues the communication that can begin, and is due once compute is, were
/// none to wait, at `until`, and for which there is memory. What nothing here
/// needs does not stand in the way of what something does.
void Scheduler::issueDue(double until) {
  due = until;
  for (; !early.empty() && early.top().first <= due; early.pop())
    candidates.insert(states[early.top().second].rank);
  int64_t next = getNextOwn();
  std::array<bool, maxStreams> isFull = {};
  // What becomes free meanwhile is needed no sooner, and comes behind.
  for (auto at = candidates.begin(); at != candidates.end();) {
    size_t rank = *at;
    int64_t op = aside[rank];
    auto stream = size_t(ops[op].stream);
    bool grows = ops[op].grows;
    if (grows && !states[op].isNeeded && needed[stream] > 0) {
      ++at;
      continue;
    }
    // What stands before the next op has its memory in any case.
    if (op > next && ((grows && isFull[stream]) || !memory.fits(op, next))) {
      isFull[stream] = isFull[stream] || grows;
      ++at;
      continue;
    }
    issueAside(op);
    at = candidates.upper_bound(rank);
  }
}

/// What is in use where the own stream did its last op, or has something begin
/// behind that.
void Scheduler::noteInUse() {
  if (lastOwn >= 0)
    inUse[size_t(lastOwn)] =
        std::max(inUse[size_t(lastOwn)], memory.getInUse());
}

/// The own stream waits for another one's op, as it has nothing else to do from
/// some time on.
void Scheduler::addWaited(int64_t op, double from) {
  if (states[op].finish <= from)
    return;
  int64_t what = leaders[op] < 0 ? op : leaders[op];
  states[what].waited +=
      std::min(states[op].finish - from, ops[what].seconds + ops[what].skew);
}

void Scheduler::know(size_t stream, size_t count, int64_t op, bool depends) {
  if (count <= known[stream])
    return;
  for (size_t i = known[stream]; i != count; ++i)
    memory.end(issued[stream][i]);
  known[stream] = count;
  joins.push_back({op, stream, count, depends});
}

/// What has been done for as long as the longest communication takes, since
/// times are but predicted.
void Scheduler::joinDone(int64_t op, double start) {
  for (size_t stream = 1; stream != maxStreams; ++stream) {
    size_t count = known[stream];
    while (count != issued[stream].size() &&
           states[issued[stream][count]].finish + longest <= start)
      ++count;
    know(stream, count, op, /*depends=*/false);
  }
}

/// Waits for what the op has too little memory with, the first that is done
/// first. Returns when it can begin.
double Scheduler::joinForMemory(int64_t op, double start) {
  while (memory.isFull(getNextOwn())) {
    int64_t first = -1;
    for (size_t stream = 1; stream != maxStreams; ++stream)
      for (size_t i = known[stream]; i < ahead[stream]; ++i)
        if (int64_t other = issued[stream][i]; memory.mayFree(other)) {
          if (first < 0 || states[other].finish < states[first].finish)
            first = other;
          break;
        }
    if (first < 0)
      break;
    addWaited(first, start);
    start = std::max(start, states[first].finish);
    know(size_t(ops[first].stream), states[first].place + 1, op,
         /*depends=*/false);
  }
  return start;
}

/// The own stream's last op waits for all that others do. What would begin
/// behind it there, that stream does itself.
void Scheduler::closeStreams() {
  if (lastOwn >= 0) {
    State &last = states[lastOwn];
    double start = last.start;
    for (size_t stream = 1; stream != maxStreams; ++stream) {
      for (size_t i = known[stream]; i < ahead[stream]; ++i) {
        addWaited(issued[stream][i], last.start);
        start = std::max(start, states[issued[stream][i]].finish);
      }
      know(stream, ahead[stream], lastOwn, /*depends=*/false);
    }
    result.exposed += start - last.start;
    last.finish = now += start - last.start;
    last.start = start;
  }
  auto behind = llvm::find(result.order, lastOwn);
  for (auto it = behind == result.order.end() ? result.order.begin() : behind;
       it != result.order.end(); ++it) {
    if (!isAside(*it))
      continue;
    states[*it].isReturned = true;
    now += ops[*it].seconds;
    result.exposed += leaders[*it] < 0 ? ops[*it].seconds : 0;
  }
  free.fill(0);
}

/// The next op of the own stream depends on what this op does, itself or
/// through what other streams do.
void Scheduler::noteKnown(int64_t op) {
  for (int64_t other : states[op].before)
    if (isAside(other) && states[other].ownUntilKnown < 0) {
      states[other].ownUntilKnown = numOwn;
      noteKnown(other);
    }
}

void Scheduler::issueOwn(int64_t op) {
  State &state = states[op];
  setIssued(op);
  while (firstOwn < own.size() && states[own[firstOwn]].isIssued)
    ++firstOwn;
  for (int64_t other : state.before)
    if (isAside(other))
      addWaited(other, now);
  memory.reach(op);
  memory.begin(op);
  lastOwn = op;
  noteKnown(op);
  ++numOwn;
  for (size_t stream = 1; stream != maxStreams; ++stream)
    ahead[stream] = issued[stream].size();
  for (int64_t other : state.before)
    if (isAside(other))
      know(size_t(ops[other].stream), states[other].place + 1, op,
           /*depends=*/true);
  double ready = std::max(getReady(op), now);
  joinDone(op, ready);
  ready = joinForMemory(op, ready);
  noteInUse();
  memory.end(op);
  result.exposed += ready - now;
  state.start = ready;
  state.finish = now = ready + ops[op].seconds;
  result.order.push_back(op);
}

/// The first op that need not wait, among those that may go ahead of others and
/// have memory there; if there is none, the first.
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
    if (isFree(own[i]) && getReady(own[i]) <= now && memory.fits(own[i], first))
      return own[i];
    skipped += ops[own[i]].seconds;
  }
  return first;
}

/// What is reduced and not worth a stream: behind all that does not need it,
/// since it is waited for where it stands; or before what has no memory with
/// what it would free. What only sends is waited for by others, and stays.
void Scheduler::postponeExposed() {
  std::vector<bool> isPostponed(ops.size());
  for (int64_t op : aside)
    isPostponed[size_t(op)] = result.streams[size_t(op)] == 0 &&
                              !ops[size_t(op)].grows &&
                              !ops[size_t(op)].isSent();
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
  auto emitHeld = [&] {
    for (int64_t op : held)
      if (isPostponed[size_t(op)])
        emit(emit, op);
    held.clear();
  };
  double bytes = 0;
  for (int64_t op : order) {
    if (isPostponed[size_t(op)]) {
      held.push_back(op);
      bytes += memory.getFreed(op);
      continue;
    }
    if (!held.empty() && inUse[size_t(op)] + bytes > memory.getLimit()) {
      emitHeld();
      bytes = 0;
    }
    emit(emit, op);
  }
  emitHeld();
}

/// Of what the own stream is to know done, what is in another stream after all:
/// so is what stood before something there that it depends on.
void Scheduler::setJoins() {
  result.joins.resize(ops.size());
  auto isOwn = [&](int64_t op) { return result.streams[size_t(op)] == 0; };
  /// By stream and number of ops that it was issued, the last that stays there.
  std::array<std::vector<int64_t>, maxStreams> last;
  for (size_t stream = 1; stream != maxStreams; ++stream) {
    last[stream] = {-1};
    for (int64_t op : issued[stream])
      last[stream].push_back(isOwn(op) ? last[stream].back() : op);
  }
  for (const Join &join : joins) {
    int64_t other = last[join.stream][join.count];
    auto &own = result.joins[size_t(join.op)];
    if (other >= 0 && !llvm::is_contained(own, other) &&
        !(join.depends && other == issued[join.stream][join.count - 1]))
      own.push_back(other);
  }
}

/// Of the order that was found; the own stream knows what it depends on or
/// joins, and what stands before that in its stream.
double Scheduler::getMostInUse() const {
  MemoryInFlight walk(ops, bounds);
  std::array<std::vector<int64_t>, maxStreams> inFlight;
  std::vector<size_t> places(ops.size());
  std::array<size_t, maxStreams> numKnown = {};
  double most = 0;
  for (int64_t op : result.order) {
    int64_t stream = result.streams[size_t(op)];
    if (stream > 0) {
      inFlight[size_t(stream)].push_back(op);
      places[size_t(op)] = inFlight[size_t(stream)].size();
    } else {
      walk.reach(op);
    }
    walk.begin(op);
    auto learn = [&](int64_t other) {
      auto from = size_t(result.streams[size_t(other)]);
      for (size_t &known = numKnown[from];
           from > 0 && known < places[size_t(other)]; ++known)
        walk.end(inFlight[from][known]);
    };
    if (stream == 0) {
      llvm::for_each(states[size_t(op)].before, learn);
      llvm::for_each(result.joins[size_t(op)], learn);
    }
    most = std::max(most, walk.getInUse());
    if (stream == 0)
      walk.end(op);
  }
  return most;
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
  findReleases();
  findLatest();
  for (size_t i = aside.size(); i-- > 0;)
    if (ops[aside[i]].grows && states[aside[i]].isNeeded)
      keepClear(i);
  for (int64_t op : aside)
    if (isFree(op))
      addCandidate(op);
  while (firstOwn < own.size()) {
    int64_t next = own[firstOwn];
    // What its first op needs is then issued: it comes earlier in the list.
    issueDue(states[next].begin + ops[next].seconds);
    issueOwn(chooseOwn());
  }
  issueDue(never);
  if (bounds.closes)
    closeStreams();
  result.seconds = std::max(now, *std::max_element(free.begin(), free.end()));
  for (const State &state : states)
    result.waited.push_back(state.waited);
  for (int64_t op : aside)
    if (ops[op].isSent())
      result.sent += states[op].finish;
  for (int64_t op : aside)
    if (leaders[op] < 0 && !states[op].isReturned &&
        (states[op].isBehind ||
         (ops[op].grows && states[op].ownBefore != states[op].ownUntilKnown) ||
         ops[op].seconds + ops[op].skew - states[op].waited >
             leastHidden * ops[op].seconds))
      result.streams[op] = ops[op].stream;
  for (int64_t op : aside)
    if (leaders[op] >= 0 && !states[op].isReturned)
      result.streams[op] = result.streams[size_t(leaders[op])];
  postponeExposed();
  setJoins();
  result.bytes = getMostInUse();
  return std::move(result);
}

OverlapResult cleave::overlap(ArrayRef<OverlapOp> ops,
                              const OverlapMemory &memory) {
  return Scheduler(ops, memory).run();
}
