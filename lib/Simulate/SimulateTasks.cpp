//===- SimulateTasks.cpp - A step of a program, task by task --------------===//
//
// State: for each stage how far its own stream is in the runs, and for each of
// its other streams the tasks that were handed over; for each stream its clock.
// Each stream is played as far as what is known allows. What it may lack is the
// end of another stream's task, a message, other stages in a collective, or a
// link that several streams share.
//
// What moves over a shared link at the same time has equal shares of it, as
// flows of a network have. So when each is done depends on which others come
// meanwhile. It is decided only when no stream can go on without that: whatever
// else will come depends on what is under way, and comes no earlier than the
// first of these ends.
//
//===----------------------------------------------------------------------===//
#include "cleave/Simulate/SimulateTasks.h"
#include "llvm/ADT/STLExtras.h"
#include <cassert>
#include <map>
#include <queue>

using namespace cleave;

namespace {
enum class Port : uint8_t { None, Send, Recv, Meeting };

/// A task, with what the walk asks for in reach.
struct Op {
  double seconds;
  double skew;
  double slowdown;              ///< of compute beside it
  uint32_t firstWait, endWaits; ///< in StageState::waits
  int32_t stream, event;
  int32_t link; ///< -1: none that other streams use
  int32_t port; ///< the channel of a message, or the meeting
  Port kind;
  bool communicates;
};

/// The `ordinal`-th task of a stream, counted from 1.
struct Point {
  int32_t stream = 0;
  int64_t ordinal = 0;
};

/// A task of another stream than the first.
struct Issued {
  int32_t op;
  int32_t run;
  double time; ///< when the rank's own stream came to it
  llvm::SmallVector<Point, 2> waits;
};

struct StreamState {
  double now = 0;
  std::vector<Issued> tasks; ///< all that were handed over
  size_t next = 0;           ///< of these
  std::vector<double> ends;  ///< of those that are done
  // Of the task that is next:
  bool asked = false, moved = false, joined = false;
  double end = 0; ///< of what its link moved
};

/// What a rank moves at the same time.
struct Link {
  /// Seconds that a transfer would have had, were it there from the beginning.
  double served = 0;
  double now = 0; ///< up to which that is so
  /// Streams, by what `served` is when their transfers end.
  std::multimap<double, int32_t> transfers;
  int64_t changes = 0; ///< of the transfers

  void advance(double time) {
    if (!transfers.empty())
      served += (time - now) / double(transfers.size());
    now = time;
  }
  /// When the first of them ends, if no other comes before.
  double getFirstEnd() const {
    return now + std::max(0., transfers.begin()->first - served) *
                     double(transfers.size());
  }
};

/// When a task begins, with what it needs of others, and when it ends.
struct Execution {
  double begin, end;
};

struct StageState {
  std::vector<Op> ops;
  std::vector<int32_t> waits; ///< events
  std::vector<StreamState> streams;
  std::vector<Point> recorded; ///< by event
  std::vector<Link> links;
  std::vector<int64_t> meetings; ///< rounds that it was in, by meeting
  size_t run = 0;
  int64_t op = -1; ///< -1: before the run
  /// Seconds that compute loses to what was handed over to other streams, and
  /// has not lost yet.
  double slowdown = 0;
  bool ended = false;
};

class Simulator {
public:
  Simulator(const TaskProgram &program, const TaskTimes &times, bool keepSpans)
      : program(program), keepSpans(keepSpans), agreement(times.agreement),
        mostSlowdown(times.mostSlowdown) {
    size_t count = program.stages.size();
    result.stages.resize(count);
    stages.resize(count);
    agreementMeeting = addMeeting();
    for (size_t stage = 0; stage != count; ++stage)
      prepare(stage, times);
    for (size_t stage = 0; stage != count; ++stage) {
      size_t tasks = program.stages[stage].tasks.size();
      stages[stage].meetings.resize(meetings.size());
      result.seconds.emplace_back(tasks);
      result.counts.emplace_back(tasks);
    }
  }

  TaskSimulation run() {
    for (size_t stage = 0; stage != stages.size(); ++stage)
      wake(stage);
    for (;;) {
      while (!awake.empty()) {
        size_t stage = awake.back();
        awake.pop_back();
        isAwake[stage] = false;
        advance(stage);
      }
      if (events.empty())
        break;
      Event event = events.top();
      events.pop();
      happen(event);
    }
    assert(llvm::all_of(stages,
                        [](const StageState &stage) { return stage.ended; }) &&
           "nobody waits for ever");
    for (const StageTime &time : result.stages)
      result.step = std::max(result.step, time.getStep());
    return std::move(result);
  }

private:
  /// A transfer comes to a link, or the first of a link's ends, if it has not
  /// changed since.
  struct Event {
    double time;
    int64_t number;
    size_t stage;
    int32_t link;
    int32_t stream; ///< that comes; -1: one ends
    double seconds; ///< of what comes
    int64_t changes;
    bool operator<(const Event &other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };
  struct Round {
    size_t stages = 0; ///< that are there
    double time = 0;   ///< when the last of them came
  };

  int32_t addMeeting() {
    meetings.emplace_back();
    return int32_t(meetings.size()) - 1;
  }

  int32_t getChannel(int64_t from, int64_t to, int64_t channel) {
    auto [it, isNew] = channels.insert(
        {std::tuple(from, to, channel), int32_t(messages.size())});
    if (isNew) {
      messages.emplace_back();
      received.push_back(0);
    }
    return it->second;
  }

  void prepare(size_t number, const TaskTimes &times) {
    const StageTasks &tasks = program.stages[number];
    StageState &stage = stages[number];
    stage.streams.resize(size_t(tasks.countStreams()));
    int64_t events = 0;
    std::map<int64_t, llvm::SmallVector<int64_t, 2>> users; // by link
    for (size_t i = 0; i != tasks.tasks.size(); ++i) {
      const Task &task = tasks.tasks[i];
      Op op = {};
      op.seconds = times.seconds[number][i];
      op.skew = times.skews.empty() ? 0 : times.skews[number][i];
      op.slowdown = times.slowdowns.empty() ? 0 : times.slowdowns[number][i];
      op.stream = int32_t(task.stream);
      op.event = int32_t(task.event);
      op.firstWait = uint32_t(stage.waits.size());
      stage.waits.insert(stage.waits.end(), task.waits.begin(),
                         task.waits.end());
      op.endWaits = uint32_t(stage.waits.size());
      events = std::max(events, task.event);
      for (int64_t event : task.waits)
        events = std::max(events, event);
      connect(number, task.shape, op);
      op.link = op.kind == Port::Meeting ? -1 : int32_t(times.links[number][i]);
      if (op.link >= 0 && !llvm::is_contained(users[op.link], op.stream))
        users[op.link].push_back(op.stream);
      stage.ops.push_back(op);
    }
    // Tasks of one stream do not wait for each other's link.
    for (Op &op : stage.ops)
      if (op.link >= 0 && users[op.link].size() == 1)
        op.link = -1;
    stage.links.resize(users.empty() ? 0 : size_t(users.rbegin()->first) + 1);
    stage.recorded.resize(size_t(events) + 1);
  }

  void connect(size_t number, const TaskShape &shape, Op &op) {
    op.communicates = shape.communicates();
    if (shape.kind == TaskShape::Kind::Send) {
      op.kind = Port::Send;
      op.port = getChannel(int64_t(number), shape.peer, shape.channel);
    } else if (shape.kind == TaskShape::Kind::Recv) {
      op.kind = Port::Recv;
      op.port = getChannel(shape.peer, int64_t(number), shape.channel);
    } else if (shape.kind == TaskShape::Kind::Collective && program.stageAxis &&
               llvm::is_contained(shape.axes, *program.stageAxis)) {
      op.kind = Port::Meeting;
      auto [it, isNew] = groups.try_emplace(
          std::vector<Axis>(shape.axes.begin(), shape.axes.end()), 0);
      if (isNew)
        it->second = addMeeting();
      op.port = it->second;
    }
  }

  void wake(size_t stage) {
    if (isAwake.size() < stages.size())
      isAwake.resize(stages.size());
    if (!isAwake[stage])
      awake.push_back(stage);
    isAwake[stage] = true;
  }

  /// Plays all streams of a stage as far as they go.
  void advance(size_t number) {
    StageState &stage = stages[number];
    for (bool moved = true; moved;) {
      moved = advanceOwn(number);
      for (size_t stream = 1; stream < stage.streams.size(); ++stream)
        moved |= advanceStream(number, stream);
    }
  }

  void happen(const Event &event) {
    Link &link = stages[event.stage].links[size_t(event.link)];
    if (event.stream < 0 && event.changes != link.changes)
      return;
    link.advance(event.time);
    if (event.stream >= 0) {
      link.transfers.insert({link.served + event.seconds, event.stream});
    } else {
      auto first = link.transfers.begin();
      StreamState &stream = stages[event.stage].streams[size_t(first->second)];
      stream.moved = true;
      stream.end = event.time;
      link.transfers.erase(first);
      wake(event.stage);
    }
    ++link.changes;
    if (!link.transfers.empty())
      events.push({link.getFirstEnd(), count++, event.stage, event.link, -1, 0,
                   link.changes});
  }

  /// The next round of a meeting, once all stages are in it: when it begins.
  std::optional<double> meet(size_t number, int32_t meeting,
                             StreamState &stream, double ready) {
    std::vector<Round> &rounds = meetings[size_t(meeting)];
    int64_t &at = stages[number].meetings[size_t(meeting)];
    if (rounds.size() <= size_t(at))
      rounds.resize(size_t(at) + 1);
    Round &round = rounds[size_t(at)];
    if (!stream.joined) {
      stream.joined = true;
      round.time = std::max(round.time, ready);
      if (++round.stages == stages.size())
        for (size_t stage = 0; stage != stages.size(); ++stage)
          wake(stage);
    }
    if (round.stages < stages.size())
      return std::nullopt;
    stream.joined = false;
    ++at;
    return round.time;
  }

  /// When a task that may begin at `ready` is executed; nothing as long as what
  /// it needs of others is not known.
  std::optional<Execution> execute(size_t number, size_t streamNumber,
                                   const Op &op, double ready) {
    StageState &stage = stages[number];
    StreamState &stream = stage.streams[streamNumber];
    auto from = [&](double begin) {
      return Execution{begin, begin + op.seconds};
    };
    if (op.kind == Port::Recv) {
      size_t &next = received[size_t(op.port)];
      const std::vector<double> &sent = messages[size_t(op.port)];
      if (next == sent.size())
        return std::nullopt;
      return from(std::max(ready, sent[next++]));
    }
    if (op.kind == Port::Meeting) {
      std::optional<double> begin = meet(number, op.port, stream, ready);
      return begin ? std::optional(from(*begin)) : std::nullopt;
    }
    if (op.link < 0)
      return from(ready);
    if (!stream.moved) {
      if (!stream.asked)
        events.push({ready, count++, number, op.link, int32_t(streamNumber),
                     op.seconds, 0});
      stream.asked = true;
      return std::nullopt;
    }
    stream.asked = stream.moved = false;
    return Execution{ready, stream.end};
  }

  /// What a task leaves behind.
  void finish(size_t number, const Op &op, int64_t run, double ready,
              double end) {
    StageState &stage = stages[number];
    size_t task = size_t(&op - stage.ops.data());
    result.seconds[number][task] += end - ready;
    ++result.counts[number][task];
    if (op.communicates)
      result.stages[number].communication += op.seconds;
    if (keepSpans)
      result.spans.push_back({int64_t(number), int64_t(task), run, ready, end});
    if (op.kind == Port::Send) {
      messages[size_t(op.port)].push_back(end);
      wake(size_t(program.stages[number].tasks[task].shape.peer));
    }
  }

  bool advanceStream(size_t number, size_t streamNumber) {
    StageState &stage = stages[number];
    StreamState &stream = stage.streams[streamNumber];
    bool moved = false;
    for (; stream.next < stream.tasks.size(); ++stream.next) {
      Issued &issued = stream.tasks[stream.next];
      const Op &op = stage.ops[size_t(issued.op)];
      double ready = std::max(stream.now, issued.time + op.skew);
      for (Point point : issued.waits) {
        std::optional<double> end = getEnd(stage, point);
        if (!end)
          return moved;
        ready = std::max(ready, *end);
      }
      std::optional<Execution> times = execute(number, streamNumber, op, ready);
      if (!times)
        return moved;
      finish(number, op, issued.run, ready, times->end);
      stream.now = times->end;
      stream.ends.push_back(stream.now);
      moved = true;
    }
    return moved;
  }

  /// When a point is reached, if that is known. What the own stream has done is
  /// done.
  std::optional<double> getEnd(const StageState &stage, Point point) {
    if (point.stream == 0 || point.ordinal == 0)
      return 0;
    const StreamState &stream = stage.streams[size_t(point.stream)];
    if (int64_t(stream.ends.size()) < point.ordinal)
      return std::nullopt;
    return stream.ends[size_t(point.ordinal) - 1];
  }

  /// When all that was handed over is done.
  std::optional<double> getJoin(const StageState &stage) {
    double time = stage.streams.front().now;
    for (const StreamState &stream : llvm::drop_begin(stage.streams)) {
      if (stream.next < stream.tasks.size())
        return std::nullopt;
      time = std::max(time, stream.now);
    }
    return time;
  }

  /// While the own stream waits, other streams slow nothing down.
  void waitUntil(StageState &stage, double time, double &sum) {
    StreamState &own = stage.streams.front();
    double waited = std::max(0., time - own.now);
    sum += waited;
    own.now += waited;
    stage.slowdown = std::max(0., stage.slowdown - mostSlowdown * waited);
  }

  bool advanceOwn(size_t number) {
    StageState &stage = stages[number];
    const std::vector<TaskRun> &runs = program.stages[number].runs;
    bool moved = false;
    while (!stage.ended) {
      if (stage.op < 0) {
        if (!beginRun(number))
          return moved;
        moved = true;
        continue;
      }
      if (!comeTo(number, stage.ops[size_t(stage.op)]))
        return moved;
      moved = true;
      if (++stage.op == runs[stage.run].end) {
        stage.op = -1;
        ++stage.run;
      }
    }
    return moved;
  }

  /// What comes before a run, or behind the last; false if it must wait.
  bool beginRun(size_t number) {
    const StageTasks &tasks = program.stages[number];
    StageState &stage = stages[number];
    StreamState &own = stage.streams.front();
    StageTime &time = result.stages[number];
    bool atEnd = stage.run == tasks.runs.size();
    if (atEnd || int64_t(stage.run) == tasks.updateRun) {
      std::optional<double> join = getJoin(stage);
      if (!join)
        return false;
      waitUntil(stage, *join, time.waiting);
      llvm::fill(stage.recorded, Point());
    }
    if (!atEnd) {
      stage.op = tasks.runs[stage.run].begin;
      return true;
    }
    std::optional<double> start = meet(number, agreementMeeting, own, own.now);
    if (!start)
      return false;
    waitUntil(stage, *start, time.idle);
    waitUntil(stage, *start + agreement, time.exposed);
    stage.ended = true;
    return true;
  }

  /// Executes a task in the own stream or hands it over; false if it must wait.
  bool comeTo(size_t number, const Op &op) {
    StageState &stage = stages[number];
    StreamState &own = stage.streams.front();
    llvm::ArrayRef<int32_t> waits =
        llvm::ArrayRef(stage.waits)
            .slice(op.firstWait, op.endWaits - op.firstWait);
    if (op.stream > 0) {
      StreamState &stream = stage.streams[size_t(op.stream)];
      Issued &issued = stream.tasks.emplace_back();
      issued.op = int32_t(&op - stage.ops.data());
      issued.run = int32_t(stage.run);
      issued.time = own.now;
      stage.slowdown += op.slowdown;
      for (int32_t event : waits) {
        Point point = stage.recorded[size_t(event)];
        if (point.stream != 0 && point.stream != op.stream)
          issued.waits.push_back(point);
      }
      if (op.event > 0)
        stage.recorded[size_t(op.event)] = {op.stream,
                                            int64_t(stream.tasks.size())};
      return true;
    }
    double ready = own.now;
    for (int32_t event : waits) {
      std::optional<double> end = getEnd(stage, stage.recorded[size_t(event)]);
      if (!end)
        return false;
      ready = std::max(ready, *end);
    }
    std::optional<Execution> times = execute(number, 0, op, ready);
    if (!times)
      return false;
    StageTime &time = result.stages[number];
    waitUntil(stage, ready, time.waiting);
    // It begins later where it is for other stages to be there.
    waitUntil(stage, times->begin, time.idle);
    if (op.communicates) {
      waitUntil(stage, times->end, time.exposed);
    } else {
      double slowdown = std::min(stage.slowdown, mostSlowdown * op.seconds);
      stage.slowdown -= slowdown;
      time.compute += op.seconds;
      time.waiting += slowdown;
      times->end += slowdown;
      own.now = times->end;
    }
    finish(number, op, int64_t(stage.run), ready, times->end);
    if (op.event > 0)
      stage.recorded[size_t(op.event)] = Point();
    return true;
  }

  const TaskProgram &program;
  bool keepSpans;
  double agreement, mostSlowdown;
  std::vector<StageState> stages;
  std::vector<size_t> awake; ///< stages that may go on
  std::vector<char> isAwake;
  std::priority_queue<Event> events;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int32_t> channels;
  std::vector<std::vector<double>> messages; ///< by channel: when they arrive
  std::vector<size_t> received;
  std::map<std::vector<Axis>, int32_t> groups;
  std::vector<std::vector<Round>> meetings;
  int32_t agreementMeeting;
  int64_t count = 0;
  TaskSimulation result;
};
} // namespace

TaskSimulation cleave::simulate(const TaskProgram &program,
                                const TaskTimes &times, bool keepSpans) {
  return Simulator(program, times, keepSpans).run();
}
