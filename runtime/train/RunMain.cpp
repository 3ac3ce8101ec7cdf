//===- RunMain.cpp - From the command line to an exit code ----------------===//
#include "runtime/base/Cpus.h"
#include "runtime/base/Log.h"
#include "runtime/comm/tcp/Place.h"
#include "runtime/executor/Devices.h"
#include "runtime/train/OptionItems.h"
#include "runtime/train/Peak.h"
#include "runtime/train/StopSignal.h"
#include "runtime/train/Train.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace cleave::runtime;

/// Cores that the ranks' compute threads keep busy.
static double getBusyCores(const Program &program, const Options &options) {
  double threads = options.threads ? options.threads : program->threads();
  double ranks = program.getWorldSize();
  double available = getAvailableCpus();
  if (options.backend == Backend::Local)
    return std::min(available, ranks * threads);
  // A launcher may give each rank cores of its own, or let all share a node's.
  double perNode = 1;
  for (const char *name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_TASKS_PER_NODE",
                           "LOCAL_WORLD_SIZE"})
    if (const char *text = std::getenv(name); text && std::atoi(text) > 0) {
      perNode = std::atoi(text);
      break;
    }
  double share = std::max(1u, std::thread::hardware_concurrency()) / perNode;
  return ranks * std::min({threads, available, std::max(share, 1 / perNode)});
}

/// Of one core, in GFLOP/s.
static double getCorePeak(const Program &program, const Options &options) {
  return options.peakGflops > 0 ? options.peakGflops
                                : measureCorePeakGflops(getMatrixType(program));
}

/// Whether this process's ranks compute on GPUs, which have a peak of their
/// own. Where that cannot be found out, the ranks say why. The first to ask for
/// a GPU, while the process has no other thread: the driver reads settings from
/// the environment.
static bool usesGpu(const Options &options, KernelTable kernels) {
  bool isGpu = false;
  return chooseDevice(options.device, kernels, isGpu).ok() && isGpu;
}

int cleave::runtime::runMain(int argc, const char *const *argv,
                             const void *programData, size_t programSize,
                             KernelTable kernels) {
  // A limit on the size of files is then an error, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  Options options;
  std::string message;
  switch (parseOptions(argc, argv, options, message)) {
  case ParseResult::Help:
    if (getLauncherRank() == 0 &&
        (std::fputs(message.c_str(), stdout) < 0 || std::fflush(stdout) != 0)) {
      logError(std::string("standard output: ") + std::strerror(errno));
      return ExitFailure;
    }
    return ExitDone;
  case ParseResult::UsageError:
    logErrorAlone(message + "; --help lists the options");
    return ExitUsage;
  case ParseResult::Run:
    break;
  }

  Program program;
  const char *name = argc > 0 ? argv[0] : "the executable";
  if (Status status = Program::load(programData, programSize, name, program);
      !status.ok()) {
    logErrorAlone(status.message());
    return ExitFailure;
  }
  TrainOptions settings;
  static_cast<Options &>(settings) = options;
  if (!usesGpu(options, kernels))
    settings.totalPeakFlops =
        getCorePeak(program, options) * 1e9 * getBusyCores(program, options);
  if (options.backend == Backend::Local)
    if (Status status = checkNotLaunched(); !status.ok()) {
      logError(status.message());
      return 1;
    }
  WatchdogOptions watch;
  watch.seconds = options.watchdogSeconds;
  if (Status status = tcp::readJoinSeconds(watch.joinSeconds); !status.ok()) {
    logErrorAlone(status.message());
    return ExitFailure;
  }
  Watchdog watchdog(program, watch);
  settings.watchdog = &watchdog;
  WorldOptions world;
  world.backend = options.backend;
  world.threadsPerRank =
      options.threads ? options.threads : int(program->threads());
  if (!options.serial)
    world.threadsPerRank += int(program.countStreams()) - 1;
  installStopSignals();
  std::atomic<int> exitCode{ExitDone};
  world.identity = describeProgram(program);
  Status status =
      runRanks(program.getMesh(), world, [&](Communicator &communicator) {
        return trainRank(program, kernels, settings, communicator, exitCode);
      });
  if (status.getCode() == StatusCode::Failed)
    logError(status.message());
  if (!status.ok() && exitCode == ExitDone)
    exitCode = ExitFailure;
  // A line that could not be written ended no step, but is missing somewhere.
  if (getLauncherRank() == 0 && exitCode == ExitDone &&
      (std::fflush(stdout) != 0 || std::ferror(stdout))) {
    logError("standard output: not all lines could be written");
    exitCode = ExitFailure;
  }
  return exitCode;
}
