//===- RunMain.cpp - From the command line to an exit code ----------------===//
#include "runtime/base/Cpus.h"
#include "runtime/base/Log.h"
#include "runtime/train/Peak.h"
#include "runtime/train/Train.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace cleave::runtime;

/// Whether this process is the one of a launcher's that speaks before the
/// ranks know each other.
static bool isFirstProcess() {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                           "PMI2_RANK", "SLURM_PROCID"})
    if (const char *rank = std::getenv(name))
      return std::atoi(rank) == 0;
  return true;
}

/// Cores that the ranks' compute threads keep busy.
static double getBusyCores(const Program &program, const Options &options) {
  double threads = options.threads ? options.threads : program->threads();
  double ranks = program.getWorldSize();
  double available = getAvailableCpus();
  if (options.backend == Backend::Local)
    return std::min(available, ranks * threads);
  // A launcher may give each rank cores of its own, or let all share a node's.
  double perNode = 1;
  for (const char *name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_TASKS_PER_NODE"})
    if (const char *text = std::getenv(name); text && std::atoi(text) > 0) {
      perNode = std::atoi(text);
      break;
    }
  double share = std::max(1u, std::thread::hardware_concurrency()) / perNode;
  return ranks * std::min({threads, available, std::max(share, 1 / perNode)});
}

int cleave::runtime::runMain(int argc, const char *const *argv,
                             const void *programData, size_t programSize,
                             KernelTable kernels) {
  bool speaks = isFirstProcess();
  // A limit on the size of files is then an error, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  Options options;
  std::string message;
  switch (parseOptions(argc, argv, options, message)) {
  case ParseResult::Help:
    if (speaks)
      std::fputs(message.c_str(), stdout);
    return 0;
  case ParseResult::UsageError:
    if (speaks)
      logError(message + "; --help lists the options");
    return 2;
  case ParseResult::Run:
    break;
  }

  Program program;
  const char *name = argc > 0 ? argv[0] : "the executable";
  if (Status status = Program::load(programData, programSize, name, program);
      !status.ok()) {
    if (speaks)
      logError(status.message());
    return 1;
  }
  TrainOptions settings;
  static_cast<Options &>(settings) = options;
  double corePeak = options.peakGflops > 0 ? options.peakGflops * 1e9
                                           : measureCorePeakGflops() * 1e9;
  settings.totalPeakFlops = corePeak * getBusyCores(program, options);
  WatchdogOptions watch;
  watch.seconds = options.watchdogSeconds;
  Watchdog watchdog(program, watch);
  settings.watchdog = &watchdog;
  WorldOptions world;
  world.backend = options.backend;
  world.threadsPerRank =
      options.threads ? options.threads : int(program->threads());
  Status status =
      runRanks(program.getMesh(), world, [&](Communicator &communicator) {
        return trainRank(program, kernels, settings, communicator);
      });
  if (status.getCode() == StatusCode::Failed)
    logError(status.message());
  return status.ok() ? 0 : 1;
}
