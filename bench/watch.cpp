//===- watch.cpp - What the watchdog costs --------------------------------===//
//
//   watch [EXECUTABLE STEP_SECONDS]
//
// The toy program's instructions do next to nothing, so its steps with and
// without a watchdog, by turns, differ by what watching costs. Then, for an
// executable and the seconds that its step takes, which share that is.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/World.h"
#include "runtime/watch/Watchdog.h"
#include "test/runtime/train/ToyProgram.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>

using namespace cleave;
using namespace cleave::runtime;

namespace {

double getSeconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double getCpuSeconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  auto toSeconds = [](timeval time) {
    return double(time.tv_sec) + double(time.tv_usec) / 1e6;
  };
  return toSeconds(usage.ru_utime) + toSeconds(usage.ru_stime);
}

uint64_t countExecuted(const Program &program) {
  uint64_t count = 0;
  for (const program::Run &run : program.getStage(0).getRuns()) {
    const program::Segment &segment =
        program.getStage(0).getSegment(run.segment());
    count += segment.end() - segment.begin();
  }
  return count;
}

/// Nanoseconds of an instruction, and of entering and leaving a collective.
Status measure(double &instructionNs, double &collectiveNs) {
  constexpr int rounds = 41, steps = 20'000;
  Program program;
  CLEAVE_RETURN_IF_ERROR(test::makeToyProgram(1, 1).load(program));
  Watchdog watchdog(program, {});
  ExecutorOptions options;
  options.threads = 1; // to wake up a second takes longer than the toy's step
  return runRanks(program.getMesh(), {}, [&](Communicator &communicator) {
    std::unique_ptr<Executor> executor;
    CLEAVE_RETURN_IF_ERROR(Executor::create(
        program, communicator, test::toy::kernelTable, options, executor));
    CLEAVE_RETURN_IF_ERROR(watchdog.enter(communicator));
    RankPosition *position = communicator.getPosition();
    std::vector<double> differences, plain;
    for (int round = 0; round < rounds; ++round) {
      double seconds[2];
      for (bool isWatched : {false, true}) {
        communicator.setPosition(isWatched ? position : nullptr);
        double start = getSeconds();
        for (int64_t step = 0; step < steps; ++step)
          CLEAVE_RETURN_IF_ERROR(executor->runStep(step));
        seconds[isWatched] = getSeconds() - start;
      }
      plain.push_back(seconds[0] / steps);
      differences.push_back((seconds[1] - seconds[0]) / steps);
    }
    auto getMedian = [](std::vector<double> values) {
      std::sort(values.begin(), values.end());
      return values[values.size() / 2];
    };
    double count = double(countExecuted(program));
    instructionNs = std::max(0.0, getMedian(differences) / count * 1e9);
    std::printf("toy step: %.0f ns, watched %+.1f ns: %.2f ns for each of %.0f "
                "instructions\n",
                getMedian(plain) * 1e9, getMedian(differences) * 1e9,
                instructionNs, count);
    constexpr int meetings = 10'000'000;
    double start = getSeconds();
    for (int i = 0; i < meetings; ++i) {
      position->enterCollective(CollectiveCall::AllReduce, 1, uint64_t(i));
      position->leaveCollective();
    }
    collectiveNs = (getSeconds() - start) / meetings * 1e9;
    std::printf("collective: %.2f ns\n", collectiveNs);
    watchdog.leave(communicator);
    return Status();
  });
}

/// CPU time of the watchdog's thread while the rank sleeps.
Status measureThread(double &share) {
  Program program;
  CLEAVE_RETURN_IF_ERROR(test::makeToyProgram(1, 1).load(program));
  Watchdog watchdog(program, {});
  return runRanks(program.getMesh(), {}, [&](Communicator &communicator) {
    CLEAVE_RETURN_IF_ERROR(watchdog.enter(communicator));
    double cpu = getCpuSeconds(), start = getSeconds();
    std::this_thread::sleep_for(std::chrono::seconds(5));
    share = (getCpuSeconds() - cpu) / (getSeconds() - start);
    std::printf("watchdog's thread: %.4f %% of a core\n", 100 * share);
    watchdog.leave(communicator);
    return Status();
  });
}

} // namespace

int main(int argc, char **argv) {
  double instructionNs = 0, collectiveNs = 0, share = 0;
  Status status = measure(instructionNs, collectiveNs);
  if (status.ok())
    status = measureThread(share);
  if (status.ok() && argc == 3) {
    Program program;
    status = Program::loadFile(argv[1], program);
    if (status.ok()) {
      double step = std::atof(argv[2]), count = double(countExecuted(program));
      // As if each were a collective, too.
      double seconds = count * (instructionNs + collectiveNs) / 1e9;
      std::printf("%s: %.0f instructions in %g s: %.5f %% of a step, and the "
                  "thread's %.4f %%\n",
                  argv[1], count, step, 100 * seconds / step, 100 * share);
    }
  }
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
