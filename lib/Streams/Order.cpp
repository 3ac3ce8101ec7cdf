//===- Order.cpp ----------------------------------------------------------===//
//
// The step is gone through in its serial order. Of each stretch of bytes is
// kept who wrote it last, and who read it since, of each stream the last; what
// an op accesses, it must know.
//
// Runs that repeat, for micro-batches that all move on by as many, are gone
// through as often as there are places that they take in turns, times the
// periods after which an op knows of all that it will ever know: from then on
// each run meets what the one before it met. An op knows of another by a chain
// of ops, each behind the one before it in its stream, or waiting for its
// event; a shortest one comes to each stream once, and both kinds of link may
// lead into the next period: n + (n - 1) of n streams. So it is with a stretch
// of the list that runs for one micro-batch after the other, and with the
// forward and backward runs of a pipeline (1F1B), which take turns:
//
//   F0 F1 F2 | F3 B0 | F4 B1 | F5 B2 | ... | F99 B96 | B97 B98 B99
//
// Not so where each run has a place of its own: what it finds there is of an
// earlier stretch's run, which the runs before it need not have known.
//
//===----------------------------------------------------------------------===//
#include "cleave/Streams/Order.h"
#include "llvm/ADT/STLExtras.h"
#include <array>
#include <map>
#include <numeric>

using namespace cleave;

namespace {

using Clock = std::array<int64_t, maxStreams>;

void join(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// The `ordinal`-th op of its stream, from 1 on; 0: there is none.
struct Point {
  int64_t ordinal = 0, op = -1;
};

class Walker {
public:
  explicit Walker(StreamProgram &program)
      : program(program), lastClocks(program.ops.size()),
        lastOrdinals(program.ops.size()), recorders(program.ops.size() + 1, -1),
        accesses(findContested(program)) {
    for (auto [i, op] : llvm::enumerate(program.ops)) {
      numStreams = std::max(numStreams, size_t(op.stream) + 1);
      if (op.event > 0)
        record(op.event, int64_t(i));
    }
  }

  /// Stops where `visit(op, run)` returns false, once the op knows what it
  /// waits for.
  template <typename Visit>
  void walk(Visit &&visit);

  /// What an op accesses and does not know: of each stream the latest.
  std::array<Point, maxStreams> findUnknown(int64_t op, const StreamRun &run,
                                            int64_t &byte);
  /// Notes that the op has its accesses.
  void access(int64_t op, const StreamRun &run);

  Clock &getClock(int64_t op) { return known[size_t(program.ops[op].stream)]; }
  bool knows(int64_t op, int64_t stream, int64_t ordinal) {
    return getClock(op)[size_t(stream)] >= ordinal;
  }
  /// Whether stream 0 does, after what it waited for last.
  bool ownKnows(int64_t stream, int64_t ordinal) const {
    return known[0][size_t(stream)] >= ordinal;
  }
  int64_t getOrdinal(int64_t stream) const { return issued[size_t(stream)]; }
  /// The op waits for the latest of another.
  void addWait(int64_t op, int64_t other);

private:
  struct History {
    Point write;
    int64_t writer = 0; ///< its stream
    std::array<Point, maxStreams> reads = {};
  };
  struct Stretch {
    int64_t end = 0;
    History history;
  };
  /// Runs of which each is the same stretch of the list as the one `length`
  /// before it, for a micro-batch that is `step` further.
  struct Repetition {
    size_t length = 1, count = 1; ///< `count` times `length` runs
    int64_t step = 0;
    size_t worthwhile = 1; ///< how many times to go through them
  };
  using Accesses = llvm::SmallVector<ByteAccess, 4>;

  void record(int64_t event, int64_t op) {
    if (event >= int64_t(recorders.size()))
      recorders.resize(size_t(event) + 1, -1);
    recorders[size_t(event)] = op;
  }
  int64_t getBegin(const ByteAccess &access, const StreamRun &run) const {
    return access.places > 1
               ? access.begin + run.microBatch % access.places * access.stride
               : access.begin;
  }
  void split(int64_t at);
  void note(const ByteAccess &access, int64_t op, const StreamRun &run);
  static std::vector<Accesses> findContested(const StreamProgram &program);
  Repetition findRepetition(size_t first) const;
  Repetition findRepetition(size_t first, size_t length) const;
  size_t countWorthwhile(size_t first, const Repetition &repetition) const;

  StreamProgram &program;
  std::vector<Clock> lastClocks; ///< after the latest execution of each op
  std::vector<int64_t> lastOrdinals;
  std::vector<int64_t> recorders; ///< by event
  std::vector<Accesses> accesses; ///< of each op, see findContested()
  int64_t numEvents = 0;
  size_t numStreams = 1;
  Clock issued = {};
  std::array<Clock, maxStreams> known = {};
  std::map<int64_t, Stretch> stretches;
};

} // namespace

/// The accesses of each op, but for those to bytes that no op writes, such as
/// the ids of a batch: nobody waits for these.
std::vector<Walker::Accesses>
Walker::findContested(const StreamProgram &program) {
  std::map<int64_t, int64_t> written; // begin to end, apart from each other
  for (const StreamOp &op : program.ops)
    for (const ByteAccess &access : op.accesses) {
      if (!access.writes)
        continue;
      int64_t begin = access.begin, end = access.getEnd();
      auto next = written.upper_bound(begin);
      if (next != written.begin() && std::prev(next)->second >= begin)
        --next;
      while (next != written.end() && next->first <= end) {
        begin = std::min(begin, next->first);
        end = std::max(end, next->second);
        next = written.erase(next);
      }
      written[begin] = end;
    }
  auto isWritten = [&](const ByteAccess &access) {
    auto next = written.lower_bound(access.getEnd());
    return next != written.begin() && std::prev(next)->second > access.begin;
  };
  std::vector<Accesses> contested;
  for (const StreamOp &op : program.ops)
    contested.emplace_back(llvm::make_filter_range(op.accesses, isWritten));
  return contested;
}

/// As often as it goes from `first` on.
Walker::Repetition Walker::findRepetition(size_t first, size_t length) const {
  const std::vector<StreamRun> &runs = program.runs;
  size_t end = int64_t(first) < program.updateRun
                   ? size_t(std::min(program.updateRun, int64_t(runs.size())))
                   : runs.size();
  Repetition found;
  found.length = length;
  if (first + length >= end)
    return found;
  found.step = runs[first + length].microBatch - runs[first].microBatch;
  auto goesOn = [&](size_t i) {
    const StreamRun &run = runs[i], &next = runs[i + length];
    return next.begin == run.begin && next.end == run.end &&
           next.microBatch - run.microBatch == found.step;
  };
  size_t alike = 0;
  while (first + alike + length < end && goesOn(first + alike))
    ++alike;
  found.count = 1 + alike / length;
  return found;
}

/// The one that saves the most runs; else the next run by itself.
Walker::Repetition Walker::findRepetition(size_t first) const {
  // Of an interleaved schedule, two times stages times chunks.
  constexpr size_t longest = 256;
  Repetition best;
  size_t most = 0;
  for (size_t length = 1; length <= longest; ++length) {
    Repetition found = findRepetition(first, length);
    if ((found.count - 1) * length <= most)
      continue;
    found.worthwhile = countWorthwhile(first, found);
    size_t saved = (found.count - found.worthwhile) * length;
    if (saved > most) {
      most = saved;
      best = found;
    }
  }
  return best;
}

size_t Walker::countWorthwhile(size_t first,
                               const Repetition &repetition) const {
  const size_t repetitions = 2 * numStreams + 1;
  size_t turns = 1;
  if (repetition.count <= repetitions)
    return repetition.count;
  for (size_t i = first; i < first + repetition.length; ++i)
    for (int64_t op = program.runs[i].begin; op < program.runs[i].end; ++op)
      for (const ByteAccess &access : accesses[size_t(op)]) {
        if (access.places > 0)
          turns =
              std::lcm(turns, size_t(access.places /
                                     std::gcd(access.places, repetition.step)));
        if (turns * repetitions >= repetition.count)
          return repetition.count;
      }
  // The last of them is in the places of the last of all. Where nothing is
  // accessed, there may be fewer.
  return std::min(repetition.count,
                  turns * repetitions + repetition.count % turns);
}

template <typename Visit>
void Walker::walk(Visit &&visit) {
  for (size_t first = 0; first < program.runs.size();) {
    Repetition repetition = findRepetition(first);
    if (int64_t(first) == program.updateRun)
      for (Clock &clock : known)
        clock = issued;
    size_t end = first + repetition.worthwhile * repetition.length;
    for (size_t i = first; i < end; ++i) {
      const StreamRun &run = program.runs[i];
      for (int64_t op = run.begin; op < run.end; ++op) {
        const StreamOp &each = program.ops[op];
        Clock &clock = getClock(op);
        for (int64_t event : each.waits)
          join(clock, lastClocks[size_t(recorders[size_t(event)])]);
        clock[size_t(each.stream)] = ++issued[size_t(each.stream)];
        lastOrdinals[size_t(op)] = issued[size_t(each.stream)];
        if (!visit(op, run))
          return;
        lastClocks[size_t(op)] = clock;
      }
    }
    first += repetition.count * repetition.length;
  }
}

/// Makes `at` a border of stretches.
void Walker::split(int64_t at) {
  auto stretch = stretches.lower_bound(at);
  if (stretch == stretches.begin() || (--stretch)->second.end <= at)
    return;
  stretches[at] = stretch->second;
  stretch->second.end = at;
}

std::array<Point, maxStreams>
Walker::findUnknown(int64_t op, const StreamRun &run, int64_t &byte) {
  std::array<Point, maxStreams> unknown = {};
  auto need = [&](Point point, int64_t stream, int64_t at) {
    if (knows(op, stream, point.ordinal) ||
        unknown[size_t(stream)].ordinal >= point.ordinal)
      return;
    unknown[size_t(stream)] = point;
    byte = at;
  };
  for (const ByteAccess &access : accesses[size_t(op)]) {
    int64_t begin = getBegin(access, run), end = begin + access.bytes;
    auto it = stretches.upper_bound(begin);
    if (it != stretches.begin() && std::prev(it)->second.end > begin)
      --it;
    for (; it != stretches.end() && it->first < end; ++it) {
      const History &history = it->second.history;
      need(history.write, history.writer, std::max(it->first, begin));
      for (int64_t i = 0; access.writes && i < maxStreams; ++i)
        need(history.reads[size_t(i)], i, std::max(it->first, begin));
    }
  }
  return unknown;
}

void Walker::access(int64_t op, const StreamRun &run) {
  for (const ByteAccess &access : accesses[size_t(op)])
    note(access, op, run);
}

void Walker::note(const ByteAccess &access, int64_t op, const StreamRun &run) {
  int64_t stream = program.ops[op].stream;
  // Its number was noted when it was gone through last.
  Point mine{lastOrdinals[size_t(op)], op};
  int64_t begin = getBegin(access, run), end = begin + access.bytes;
  split(begin);
  split(end);
  auto first = stretches.lower_bound(begin), last = stretches.lower_bound(end);
  if (access.writes) {
    stretches.erase(first, last);
    stretches[begin] = {end, {mine, stream, {}}};
    return;
  }
  for (int64_t at = begin; at < end;) {
    if (first == last || first->first > at) {
      Stretch gap{first == last ? end : first->first, {}};
      first = stretches.emplace_hint(first, at, gap);
    }
    first->second.history.reads[size_t(stream)] = mine;
    at = first->second.end;
    ++first;
  }
}

void Walker::addWait(int64_t op, int64_t other) {
  StreamOp &recorder = program.ops[other];
  if (recorder.event == 0) {
    while (numEvents + 1 < int64_t(recorders.size()) &&
           recorders[size_t(numEvents) + 1] >= 0)
      ++numEvents;
    recorder.event = ++numEvents;
    record(recorder.event, other);
  }
  program.ops[op].waits.push_back(recorder.event);
  join(getClock(op), lastClocks[size_t(other)]);
}

bool StreamProgram::hasStreams() const {
  return llvm::any_of(ops, [](const StreamOp &op) { return op.stream != 0; });
}

std::optional<Race> cleave::findRace(const StreamProgram &program) {
  if (!program.hasStreams())
    return std::nullopt;
  StreamProgram copy = program;
  Walker walker(copy);
  std::optional<Race> race;
  walker.walk([&](int64_t op, const StreamRun &run) {
    int64_t byte = 0;
    for (const Point &point : walker.findUnknown(op, run, byte))
      if (point.ordinal > 0)
        race = Race{point.op, op, byte, run.microBatch};
    walker.access(op, run);
    return !race;
  });
  return race;
}

/// Of the ops that begin together with one, the last.
static int64_t getLastTogether(const StreamProgram &program, int64_t op) {
  while (program.ops[op].withNext && op + 1 < int64_t(program.ops.size()))
    ++op;
  return op;
}

void cleave::addWaits(StreamProgram &program) {
  if (!program.hasStreams())
    return;
  Walker walker(program);
  walker.walk([&](int64_t op, const StreamRun &run) {
    int64_t byte = 0;
    std::array<Point, maxStreams> unknown = walker.findUnknown(op, run, byte);
    // The latest first: it may know of the others.
    llvm::sort(unknown, [](const Point &a, const Point &b) {
      return std::pair(a.op, a.ordinal) > std::pair(b.op, b.ordinal);
    });
    for (const Point &point : unknown)
      if (point.ordinal > 0 &&
          !walker.knows(op, program.ops[point.op].stream, point.ordinal))
        walker.addWait(op, getLastTogether(program, point.op));
    walker.access(op, run);
    return true;
  });
}

std::vector<OpRange> cleave::getInFlight(const StreamProgram &program) {
  std::vector<OpRange> ranges;
  for (size_t i = 0; i < program.ops.size(); ++i)
    ranges.push_back({int64_t(i), int64_t(i)});
  if (!program.hasStreams())
    return ranges;
  StreamProgram copy = program;
  Walker walker(copy);
  struct Flight {
    Point point;
    int64_t since; ///< in the run at hand
  };
  std::vector<Flight> open;
  auto include = [&](const Flight &flight, int64_t last) {
    OpRange &range = ranges[size_t(flight.point.op)];
    if (flight.since > last)
      return;
    range.first = std::min(range.first, flight.since);
    range.last = std::max(range.last, last);
  };
  walker.walk([&](int64_t op, const StreamRun &run) {
    if (op == run.begin)
      for (Flight &flight : open)
        flight.since = op;
    llvm::erase_if(open, [&](const Flight &flight) {
      int64_t stream = program.ops[flight.point.op].stream;
      if (!walker.ownKnows(stream, flight.point.ordinal))
        return false;
      include(flight, op - 1);
      return true;
    });
    if (int64_t stream = program.ops[op].stream)
      open.push_back({{walker.getOrdinal(stream), op}, op});
    if (op + 1 == run.end)
      for (const Flight &flight : open)
        include(flight, op);
    return true;
  });
  return ranges;
}
