//===- WatchRanks.cpp - A run whose ranks fall ill, for tests -------------===//
//
//   WatchRanks [KEY=VALUE...]
//
// Steps of the toy program over dp x tp ranks: threads of this process, or
// processes under mpirun. After step `at` of the watchdog's count, rank `rank`
// falls ill:
//
//   what=stop|kill|hang|freeze|skip|leave
//       stop: SIGSTOP to its process; kill: SIGKILL; hang: it waits for ever;
//       freeze: only its thread is stopped, from outside; skip: it makes one
//       collective less than the others, then waits for all; leave: it fails
//   where=compute|collective|save|load
//   dp, tp, steps, watchdog (seconds), patient (seconds), step-ms (of compute),
//   save-every (steps), save-ms
//
// "ill PID TID TIME" on stdout says when, by CLOCK_MONOTONIC; for freeze, who
// reads it stops that thread. The others' watchdogs do the rest.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/ExitCodes.h"
#include "runtime/base/Log.h"
#include "runtime/comm/PhaseScope.h"
#include "runtime/comm/World.h"
#include "runtime/watch/Watchdog.h"
#include "test/runtime/train/ToyProgram.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace cleave;
using namespace cleave::runtime;

namespace {

/// How long an illness outside of compute takes to come: until then the rank
/// is where it shall be, and the others are on their way there.
constexpr int onsetMs = 100;

/// What the command line says.
struct Settings {
  std::string what = "none", where = "compute";
  int64_t rank = 0, at = 40, dp = 2, tp = 1, steps = 1'000'000, stepMs = 5,
          saveEvery = 0, saveMs = 3 * onsetMs;
  double watchdog = 10, patient = 600;
};
Settings settings;

void sleepMs(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// The step that each rank's kernel is in.
std::vector<int64_t> kernelSteps;

void sayIll(pid_t thread) {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("ill %d %d %.3f\n", int(::getpid()), int(thread),
              double(now.tv_sec) + double(now.tv_nsec) / 1e9);
  std::fflush(stdout);
}

/// Falls ill, on the rank's thread, or for its process.
void fallIll(pid_t thread) {
  sayIll(thread);
  if (settings.what == "stop")
    ::raise(SIGSTOP);
  else if (settings.what == "kill")
    ::raise(SIGKILL);
  else if (settings.what == "hang")
    for (;;)
      ::pause();
  else if (settings.what == "freeze")
    sleepMs(500); // until it is frozen
}

/// The same, a little later, while the rank goes on to where it shall be.
void fallIllSoon() {
  pid_t thread = pid_t(::syscall(SYS_gettid));
  std::thread([thread] {
    sleepMs(onsetMs);
    fallIll(thread);
  }).detach();
}

/// Launched once a step on every rank; params[0] is its number.
void compute(void *const *, const int64_t *params, int64_t, int64_t) {
  int64_t rank = params[0], step = kernelSteps[size_t(rank)]++;
  sleepMs(settings.stepMs);
  if (step != settings.at || settings.what == "none" ||
      settings.what == "skip" || settings.what == "leave" ||
      settings.where == "save" || settings.where == "load")
    return;
  bool isCollective = settings.where == "collective";
  if (rank == settings.rank)
    isCollective ? fallIllSoon() : fallIll(pid_t(::syscall(SYS_gettid)));
  else if (isCollective)
    sleepMs(3 * onsetMs);
}

/// The toy with a kernel that knows its rank, before the gradients' sum.
std::vector<uint8_t> makeProgram(bool skips) {
  test::ProgramBuilder b =
      test::makeToyProgram(uint64_t(settings.dp), uint64_t(settings.tp));
  auto &instructions = b.stage->instructions;
  size_t sum = 0;
  while (instructions[sum]->work.type != test::Opcode::AllReduce ||
         instructions[sum]->group != std::vector<uint8_t>{0})
    ++sum;
  instructions[sum]->name = "sum_grad";
  test::fb::Operand scratch = b.allocate(64);
  b.start(test::ProgramBuilder::After);
  b.launch("compute", 1, {scratch}, {0, 1}).name = "compute";
  std::rotate(instructions.begin() + std::ptrdiff_t(sum),
              instructions.end() - 1, instructions.end());
  if (skips)
    instructions.erase(instructions.begin() + std::ptrdiff_t(sum) + 1);
  return b.seal();
}

Status waitForAll(Communicator &communicator) {
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
  return communicator.barrier(*world);
}

/// Where state is written, and all wait for it.
Status save(Communicator &communicator, int64_t step) {
  PhaseScope phase(communicator, Phase::Saving);
  static std::atomic<bool> wasIll{false};
  bool isIll = step >= settings.at && settings.where == "save" &&
               communicator.getRank() == settings.rank &&
               settings.what != "none" && !wasIll.exchange(true);
  if (isIll && settings.what == "hang")
    fallIll(pid_t(::syscall(SYS_gettid)));
  else if (isIll)
    fallIllSoon();
  if (settings.saveMs > 0)
    sleepMs(settings.saveMs);
  return waitForAll(communicator);
}

Status runRank(const Program &program, const Program &shortened,
               Watchdog &watchdog, Communicator &communicator) {
  std::vector<CleaveKernelEntry> kernels(std::begin(test::toy::kernels),
                                         std::end(test::toy::kernels));
  kernels.push_back({"compute", compute});
  WatchedRank watched;
  CLEAVE_RETURN_IF_ERROR(watched.enter(&watchdog, communicator));
  bool isIll = communicator.getRank() == settings.rank;
  std::unique_ptr<Executor> executor, other;
  {
    PhaseScope phase(communicator, Phase::Loading);
    KernelTable table{kernels.data(), kernels.size()};
    CLEAVE_RETURN_IF_ERROR(
        Executor::create(program, communicator, table, {}, executor));
    CLEAVE_RETURN_IF_ERROR(
        Executor::create(shortened, communicator, table, {}, other));
    if (isIll && settings.where == "load")
      fallIll(pid_t(::syscall(SYS_gettid)));
  }
  for (int64_t step = 0; step < settings.steps; ++step) {
    bool skips = isIll && settings.what == "skip" && step == settings.at;
    if (skips)
      sayIll(0);
    CLEAVE_RETURN_IF_ERROR((skips ? *other : *executor).runStep(step));
    if (skips)
      return waitForAll(communicator);
    if (isIll && settings.what == "leave" && step == settings.at)
      return Status::error("it has left");
    if (settings.saveEvery > 0 && (step + 1) % settings.saveEvery == 0)
      CLEAVE_RETURN_IF_ERROR(save(communicator, step));
  }
  PhaseScope phase(communicator, Phase::Finishing);
  return waitForAll(communicator);
}

bool readSettings(int argc, char **argv) {
  std::map<std::string, std::string *> texts{{"what", &settings.what},
                                             {"where", &settings.where}};
  std::map<std::string, int64_t *> numbers{{"rank", &settings.rank},
                                           {"at", &settings.at},
                                           {"dp", &settings.dp},
                                           {"tp", &settings.tp},
                                           {"steps", &settings.steps},
                                           {"step-ms", &settings.stepMs},
                                           {"save-every", &settings.saveEvery},
                                           {"save-ms", &settings.saveMs}};
  std::map<std::string, double *> seconds{{"watchdog", &settings.watchdog},
                                          {"patient", &settings.patient}};
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equal = argument.find('=');
    if (equal == argument.npos)
      return false;
    std::string key = argument.substr(0, equal),
                value = argument.substr(equal + 1);
    if (texts.count(key))
      *texts[key] = value;
    else if (numbers.count(key))
      *numbers[key] = std::atoll(value.c_str());
    else if (seconds.count(key))
      *seconds[key] = std::atof(value.c_str());
    else
      return false;
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  if (!readSettings(argc, argv)) {
    logError("WatchRanks expects KEY=VALUE");
    return ExitUsage;
  }
  Program program, shortened;
  for (bool skips : {false, true}) {
    std::vector<uint8_t> bytes = makeProgram(skips);
    if (Status status = Program::load(bytes.data(), bytes.size(), "the toy",
                                      skips ? shortened : program);
        !status.ok()) {
      logError(status.message());
      return ExitFailure;
    }
  }
  // As the real one, which finishes its step and saves.
  std::signal(SIGTERM, [](int) {});
  kernelSteps.resize(size_t(program.getWorldSize()));
  Watchdog watchdog(program, {settings.watchdog, settings.patient});
  WorldOptions world;
  world.backend = detectBackend();
  Status status =
      runRanks(program.getMesh(), world, [&](Communicator &communicator) {
        return runRank(program, shortened, watchdog, communicator);
      });
  if (status.getCode() == StatusCode::Failed)
    logError(status.message());
  return status.ok() ? ExitDone : ExitFailure;
}
