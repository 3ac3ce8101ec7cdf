//===- SimulateTasksTest.cpp - A step of a program, task by task ----------===//
//
// What a simulation says is held against what a step is: for each execution of
// a task an equation says when it begins and ends, from the ends of all that it
// waits for. The equations look at every execution there is, and know nothing
// of the order in which the simulator finds them out; since each begins with
// what is earlier in time, they have one solution.
//
//===----------------------------------------------------------------------===//
#include "cleave/Simulate/SimulateTasks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <map>
#include <random>

using namespace cleave;

namespace {

using Kind = TaskShape::Kind;

Task compute(const char *name = "compute") {
  Task task;
  task.name = name;
  return task;
}

Task communicate(Kind kind, int64_t stream, int64_t peer = 0) {
  Task task;
  task.name = "communicate";
  task.shape.kind = kind;
  task.shape.peer = peer;
  task.stream = stream;
  return task;
}

/// One list that runs once, with its seconds, of each stage.
struct Example {
  TaskProgram program;
  TaskTimes times;

  void addStage(std::vector<std::pair<Task, double>> tasks,
                std::vector<int64_t> links = {}) {
    StageTasks &stage = program.stages.emplace_back();
    std::vector<double> &seconds = times.seconds.emplace_back();
    for (auto &[task, taken] : tasks) {
      stage.tasks.push_back(task);
      seconds.push_back(taken);
    }
    links.resize(tasks.size(), -1);
    times.links.push_back(links);
    stage.runs.push_back({0, int64_t(tasks.size()), 0});
    stage.updateRun = 1;
  }
};

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(SimulateTasks, communicationRunsBesideCompute) {
  Example example;
  Task gather = communicate(Kind::Collective, 1);
  gather.event = 1;
  Task use = compute();
  use.waits = {1};
  example.addStage({{gather, 5}, {compute(), 3}, {use, 2}});
  TaskSimulation result = simulate(example.program, example.times, true);
  EXPECT_DOUBLE_EQ(result.step, 7);
  const StageTime &time = result.stages[0];
  EXPECT_DOUBLE_EQ(time.compute, 5);
  EXPECT_DOUBLE_EQ(time.waiting, 2);
  EXPECT_DOUBLE_EQ(time.exposed, 0);
  EXPECT_DOUBLE_EQ(time.communication, 5);
  makeSerial(example.program);
  result = simulate(example.program, example.times);
  EXPECT_DOUBLE_EQ(result.step, 10);
  EXPECT_DOUBLE_EQ(result.stages[0].exposed, 5);
}

TEST(SimulateTasks, aStreamGetsATaskWhenTheOwnOneComesToIt) {
  Example example;
  example.addStage({{compute(), 3}, {communicate(Kind::Collective, 1), 5}});
  // All streams are waited for at the end.
  TaskSimulation result = simulate(example.program, example.times);
  EXPECT_DOUBLE_EQ(result.step, 8);
  EXPECT_DOUBLE_EQ(result.stages[0].waiting, 5);
}

TEST(SimulateTasks, transfersShareALink) {
  Example example;
  example.addStage({{communicate(Kind::Collective, 1), 4},
                    {compute(), 1},
                    {communicate(Kind::Collective, 2), 4}},
                   {0, -1, 0});
  TaskSimulation result = simulate(example.program, example.times);
  // The second comes when the first has 3 to go, which take 6 of both.
  EXPECT_DOUBLE_EQ(result.seconds[0][0], 7);
  EXPECT_DOUBLE_EQ(result.seconds[0][2], 7);
  EXPECT_DOUBLE_EQ(result.step, 8);
  example.times.links[0][2] = 1;
  EXPECT_DOUBLE_EQ(simulate(example.program, example.times).step, 5);
}

/// Communication takes 4 of what computes beside it, which loses at most half
/// of each second of its own; nothing of what it waits meanwhile.
TEST(SimulateTasks, communicationSlowsDownWhatComputesBesideIt) {
  Example example;
  Task late = compute();
  late.waits = {1};
  Task gather = communicate(Kind::Collective, 1);
  gather.event = 1;
  example.addStage({{gather, 10}, {compute(), 4}, {late, 6}});
  example.times.slowdowns = {{4, 0, 0}};
  example.times.mostSlowdown = 0.5;
  TaskSimulation result = simulate(example.program, example.times, true);
  EXPECT_DOUBLE_EQ(result.seconds[0][1], 4 + 2);
  // The 4 seconds in which it waits are those of the other 2.
  EXPECT_DOUBLE_EQ(result.seconds[0][2], 6);
  EXPECT_DOUBLE_EQ(result.stages[0].compute, 10);
  EXPECT_DOUBLE_EQ(result.stages[0].waiting, 2 + 4);
  EXPECT_DOUBLE_EQ(result.step, 16);
  // What does not wait loses the rest later.
  example.program.stages[0].tasks[2].waits.clear();
  result = simulate(example.program, example.times, true);
  EXPECT_DOUBLE_EQ(result.seconds[0][2], 6 + 2);
  EXPECT_DOUBLE_EQ(result.step, 14);
}

/// The last of the ranks comes a second later; that is not waited for where the
/// stream is busy for as long.
TEST(SimulateTasks, communicationBeginsOnceTheLastRankComesToIt) {
  Example example;
  Task late = compute();
  late.waits = {2};
  Task first = communicate(Kind::Collective, 1), second = first;
  first.event = 1;
  second.event = 2;
  example.addStage({{first, 3}, {second, 2}, {late, 1}});
  example.times.skews = {{1, 1, 1}};
  TaskSimulation result = simulate(example.program, example.times);
  EXPECT_DOUBLE_EQ(result.step, 1 + 3 + 2 + 1);
  EXPECT_DOUBLE_EQ(result.stages[0].waiting, 6);
}

TEST(SimulateTasks, whatComesFirstToALinkHasItToItself) {
  Example example;
  Task first = compute();
  first.event = 1;
  first.stream = 1;
  Task late = communicate(Kind::Collective, 1);
  // Behind it in the list, and ready long before.
  Task early = communicate(Kind::Collective, 2);
  early.event = 2;
  Task use = compute();
  use.waits = {2};
  example.addStage({{first, 5}, {late, 4}, {early, 4}, {use, 1}},
                   {-1, 0, 0, -1});
  TaskSimulation result = simulate(example.program, example.times, true);
  EXPECT_DOUBLE_EQ(result.seconds[0][2], 4);
  EXPECT_DOUBLE_EQ(result.seconds[0][1], 4);
  EXPECT_DOUBLE_EQ(result.stages[0].waiting, 8); // 4 for `early`, 4 at the end
  EXPECT_DOUBLE_EQ(result.step, 9);
}

TEST(SimulateTasks, aStageWaitsForMessages) {
  Example example;
  example.addStage({{compute(), 3}, {communicate(Kind::Send, 0, 1), 2}});
  example.addStage({{communicate(Kind::Recv, 0, 0), 0}, {compute(), 4}});
  TaskSimulation result = simulate(example.program, example.times);
  EXPECT_DOUBLE_EQ(result.stages[1].idle, 5);
  // All ranks meet behind a step.
  EXPECT_DOUBLE_EQ(result.stages[0].idle, 4);
  EXPECT_DOUBLE_EQ(result.step, 9);
  // What a receive spans is what it waits for, as in a trace of a run.
  EXPECT_DOUBLE_EQ(result.seconds[1][0], 5);
}

TEST(SimulateTasks, stagesMeetInACollectiveOfAll) {
  Example example;
  example.program.mesh = Mesh({{"pp", 2}});
  example.program.stageAxis = 0;
  Task norm = communicate(Kind::Collective, 0);
  norm.shape.axes = {0};
  example.addStage({{compute(), 3}, {norm, 2}});
  example.addStage({{compute(), 1}, {norm, 2}});
  TaskSimulation result = simulate(example.program, example.times);
  EXPECT_DOUBLE_EQ(result.stages[1].idle, 2);
  EXPECT_DOUBLE_EQ(result.stages[0].idle, 0);
  EXPECT_DOUBLE_EQ(result.step, 5);
}

/// The update waits for all streams of its own stage, and ranks agree behind
/// it.
TEST(SimulateTasks, theAgreementComesBehindTheUpdate) {
  Example example;
  for (double seconds : {1, 5}) {
    example.addStage(
        {{communicate(Kind::Collective, 1), 2}, {compute(), seconds}});
    example.program.stages.back().runs = {{0, 1, 0}, {1, 2, 0}};
    example.program.stages.back().updateRun = 1;
  }
  example.times.agreement = 10;
  TaskSimulation result = simulate(example.program, example.times);
  EXPECT_DOUBLE_EQ(result.step, 17);
  EXPECT_DOUBLE_EQ(result.stages[0].waiting, 2);
  EXPECT_DOUBLE_EQ(result.stages[0].idle, 4);
  EXPECT_DOUBLE_EQ(result.stages[1].idle, 0);
  EXPECT_DOUBLE_EQ(result.stages[1].exposed, 10);
}

TEST(SimulateTasks, aTraceHasATrackForEachStream) {
  Example example;
  Task aside = communicate(Kind::Collective, 1);
  example.addStage({{aside, 1e-3}, {compute("gemm x"), 2e-3}});
  std::string text;
  llvm::raw_string_ostream os(text);
  printTrace(os, example.program,
             simulate(example.program, example.times, true));
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  ASSERT_TRUE(bool(root));
  std::map<std::string, std::pair<int64_t, double>> slices;
  for (const llvm::json::Value &value :
       *root->getAsObject()->getArray("traceEvents")) {
    const llvm::json::Object &event = *value.getAsObject();
    if (event.getString("ph") == llvm::StringRef("X"))
      slices[event.getString("name")->str()] = {*event.getInteger("tid"),
                                                *event.getNumber("dur")};
  }
  EXPECT_EQ(slices.at("communicate"), std::pair(int64_t(2), 1000.));
  EXPECT_EQ(slices.at("gemm x"), std::pair(int64_t(0), 2000.));
}

//===----------------------------------------------------------------------===//
// At random, against the equations of a step
//===----------------------------------------------------------------------===//

/// Stages, in each of which a list runs several times, and then an update.
class RandomStep {
public:
  explicit RandomStep(unsigned seed) : generator(seed) {
    size_t stages = 1 + draw(3);
    program.mesh = Mesh({{"pp", int64_t(stages)}, {"dp", 2}});
    program.stageAxis = 0;
    program.stages.resize(stages);
    times.seconds.resize(stages);
    times.links.resize(stages);
    times.agreement = draw(3);
    events.resize(stages);
    // Whatever all stages do in some order, each of them does in that order.
    size_t count = 5 + draw(30);
    for (size_t i = 0; i != count; ++i)
      addSomething();
    int64_t repeats = 1 + int64_t(draw(3));
    for (StageTasks &stage : program.stages) {
      int64_t end = int64_t(stage.tasks.size());
      int64_t cut = int64_t(draw(size_t(end) + 1));
      for (int64_t i = 0; i != repeats; ++i) {
        if (cut > 0)
          stage.runs.push_back({0, cut, i});
        if (cut < end)
          stage.runs.push_back({cut, end, i});
      }
      stage.updateRun = int64_t(stage.runs.size());
    }
  }

  TaskProgram program;
  TaskTimes times;

private:
  size_t draw(size_t below) { return generator() % below; }

  void add(size_t stage, Task task, double seconds, int64_t link) {
    if (draw(3) == 0) {
      task.event = int64_t(events[stage].size()) + 1;
      events[stage].push_back(task.event);
    }
    for (int64_t event : events[stage])
      if (event != task.event && draw(6) == 0)
        task.waits.push_back(event);
    program.stages[stage].tasks.push_back(std::move(task));
    times.seconds[stage].push_back(seconds);
    times.links[stage].push_back(link);
  }

  void addSomething() {
    size_t stage = draw(program.stages.size());
    double seconds = double(draw(8));
    int64_t stream = int64_t(draw(4)), link = int64_t(draw(3)) - 1;
    switch (draw(5)) {
    case 0:
    case 1:
      return add(stage, compute(), seconds, -1);
    case 2: {
      Task task = communicate(Kind::Collective, stream);
      task.shape.axes = {1};
      return add(stage, task, seconds, link);
    }
    case 3: {
      if (program.stages.size() == 1)
        return;
      size_t peer =
          (stage + 1 + draw(program.stages.size() - 1)) % program.stages.size();
      Task send = communicate(Kind::Send, stream, int64_t(peer));
      Task recv = communicate(Kind::Recv, 0, int64_t(stage));
      // One channel of one stream keeps the order of its messages.
      send.shape.channel = recv.shape.channel = stream;
      add(stage, send, seconds, link);
      return add(peer, recv, double(draw(2)), -1);
    }
    default:
      for (size_t each = 0; each != program.stages.size(); ++each) {
        Task meeting = communicate(Kind::Collective, 0);
        meeting.shape.axes = {0, 1};
        add(each, meeting, seconds, -1);
      }
    }
  }

  std::mt19937 generator;
  std::vector<std::vector<int64_t>> events;
};

/// One execution of a task, and what the simulation says of it.
struct Execution {
  int64_t task;
  double seconds, ready = -1, end = -1;
  double begin() const { return end - seconds; }
};

class Equations {
public:
  Equations(const RandomStep &step, const TaskSimulation &simulation)
      : program(step.program), times(step.times), simulation(simulation) {}

  void check() {
    readSpans();
    for (size_t i = 0; i != program.stages.size(); ++i)
      checkStage(i);
    checkBegins();
    checkEnd();
  }

private:
  const Task &getTask(size_t stage, const Execution &execution) {
    return program.stages[stage].tasks[size_t(execution.task)];
  }

  /// The executions of each stage in its serial order. Of a stream the spans
  /// come in that order.
  void readSpans() {
    stages.resize(program.stages.size());
    for (size_t i = 0; i != stages.size(); ++i) {
      std::map<int64_t, std::vector<TaskSpan>> spans; // by stream
      for (const TaskSpan &span : simulation.spans)
        if (size_t(span.stage) == i)
          spans[program.stages[i].tasks[size_t(span.task)].stream].push_back(
              span);
      std::map<int64_t, size_t> next;
      for (const TaskRun &run : program.stages[i].runs)
        for (int64_t task = run.begin; task != run.end; ++task) {
          int64_t stream = program.stages[i].tasks[size_t(task)].stream;
          const TaskSpan &span = spans[stream].at(next[stream]++);
          ASSERT_EQ(span.task, task);
          stages[i].push_back(
              {task, times.seconds[i][size_t(task)], span.start, span.end});
        }
    }
  }

  /// When each may begin: its stream is free, the own stream has come to it,
  /// and the latest records of its events are done.
  void checkStage(size_t number) {
    std::map<int64_t, double> free, recorded;
    for (const Execution &each : stages[number]) {
      const Task &task = getTask(number, each);
      double ready = std::max(free[0], free[task.stream]);
      for (int64_t event : task.waits)
        ready = std::max(ready, recorded[event]);
      EXPECT_NEAR(each.ready, ready, 1e-9) << "stage " << number;
      free[task.stream] = each.end;
      if (task.event > 0)
        recorded[task.event] = each.end;
    }
  }

  /// When each begins then: once the message is there or all stages are; at
  /// once else.
  void checkBegins() {
    std::map<std::tuple<size_t, size_t, int64_t>, std::vector<double>> sent;
    for (size_t i = 0; i != stages.size(); ++i)
      for (const Execution &each : stages[i]) {
        const TaskShape &shape = getTask(i, each).shape;
        if (shape.kind == Kind::Send)
          sent[{i, size_t(shape.peer), shape.channel}].push_back(each.end);
      }
    std::map<std::tuple<size_t, size_t, int64_t>, size_t> received;
    std::vector<std::vector<double>> meetings(stages.size()), met = meetings;
    for (size_t i = 0; i != stages.size(); ++i) {
      std::map<int64_t, std::vector<Execution>> users;
      for (const Execution &each : stages[i]) {
        const TaskShape &shape = getTask(i, each).shape;
        int64_t link = times.links[i][size_t(each.task)];
        if (shape.kind == Kind::Recv) {
          std::tuple key(size_t(shape.peer), i, shape.channel);
          double arrival = sent.at(key).at(received[key]++);
          EXPECT_NEAR(each.begin(), std::max(each.ready, arrival), 1e-9);
        } else if (llvm::is_contained(shape.axes, 0u)) {
          meetings[i].push_back(each.ready);
          met[i].push_back(each.begin());
        } else if (link >= 0) {
          users[link].push_back(each);
        } else {
          EXPECT_NEAR(each.begin(), each.ready, 1e-9);
        }
      }
      for (auto &[link, all] : users)
        checkLink(all);
    }
    for (size_t round = 0; round != meetings[0].size(); ++round) {
      double last = 0;
      for (const std::vector<double> &stage : meetings)
        last = std::max(last, stage.at(round));
      for (const std::vector<double> &stage : met)
        EXPECT_NEAR(stage.at(round), last, 1e-9);
    }
  }

  /// Those that are there share the link: at all times each has one part in as
  /// many, which adds up to what it takes by itself.
  void checkLink(const std::vector<Execution> &users) {
    std::vector<double> changes;
    for (const Execution &each : users)
      llvm::append_values(changes, each.ready, each.end);
    llvm::sort(changes);
    std::vector<double> served(users.size());
    for (size_t i = 1; i < changes.size(); ++i) {
      auto isThere = [&](const Execution &each) {
        return each.ready <= changes[i - 1] && each.end >= changes[i];
      };
      double count = double(llvm::count_if(users, isThere));
      for (size_t k = 0; k != users.size(); ++k)
        if (isThere(users[k]))
          served[k] += (changes[i] - changes[i - 1]) / count;
    }
    for (size_t k = 0; k != users.size(); ++k)
      EXPECT_NEAR(served[k], users[k].seconds, 1e-9);
  }

  /// Nothing runs in the update here, so all stages end at the same time.
  void checkEnd() {
    double end = 0;
    for (const std::vector<Execution> &stage : stages)
      for (const Execution &each : stage)
        end = std::max(end, each.end);
    end += times.agreement;
    EXPECT_NEAR(simulation.step, end, 1e-9);
    for (const StageTime &stage : simulation.stages)
      EXPECT_NEAR(stage.getStep(), end, 1e-9);
  }

  const TaskProgram &program;
  const TaskTimes &times;
  const TaskSimulation &simulation;
  std::vector<std::vector<Execution>> stages;
};

TEST(SimulateTasks, equationsOfRandomSteps) {
  size_t spans = 0;
  for (unsigned seed = 0; seed != 2000; ++seed) {
    SCOPED_TRACE(seed);
    RandomStep step(seed);
    TaskSimulation simulation = simulate(step.program, step.times, true);
    Equations(step, simulation).check();
    spans += simulation.spans.size();
    if (HasFailure())
      break;
  }
  EXPECT_GT(spans, 50'000u);
}

} // namespace
