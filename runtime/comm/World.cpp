//===- World.cpp ----------------------------------------------------------===//
#include "runtime/comm/World.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Log.h"
#include "runtime/comm/Local.h"
#include "runtime/comm/Mpi.h"
#include "runtime/comm/tcp/Tcp.h"
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;

const char *cleave::runtime::getName(Backend backend) {
  return backend == Backend::Local ? "local"
         : backend == Backend::Mpi ? "mpi"
                                   : "tcp";
}

/// Whether torchrun's variables, which others set for PyTorch's sake even where
/// there is one process, tell of several; and where they tell nothing, which
/// is then an error.
static bool isOneOfTorchrun() {
  const char *size = std::getenv("WORLD_SIZE");
  return size && std::getenv("RANK") && std::string_view(size) != "1";
}

Backend cleave::runtime::detectBackend() {
  // Open MPI's own variable; PMIx's and PMI's, as srun sets them.
  for (const char *name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI2_RANK"})
    if (std::getenv(name))
      return Backend::Mpi;
  const char *tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks && std::atoi(tasks) > 1)
    return Backend::Mpi;
  return isOneOfTorchrun() ? Backend::Tcp : Backend::Local;
}

int cleave::runtime::getLauncherRank() {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                           "PMI2_RANK", "SLURM_PROCID", "RANK"})
    if (const char *rank = std::getenv(name))
      return std::max(std::atoi(rank), 0);
  return 0;
}

/// Longer, from each of the first processes to the next, than the second or so
/// that a launcher takes to end all when one has ended with an error.
static void waitForTurn() {
  ::sleep(3 * unsigned(std::min(getLauncherRank(), 4)));
}

void cleave::runtime::logErrorAlone(const std::string &message) {
  waitForTurn();
  logError(message);
}

Status cleave::runtime::checkNotLaunched() {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                           "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"})
    if (const char *text = std::getenv(name); text && std::atoi(text) > 1) {
      waitForTurn();
      return Status::error(
          "--transport is \"local\" on rank " +
          std::to_string(getLauncherRank()) + " of the " + std::string(text) +
          " that the launcher started, so it would train alone; take \"" +
          getName(detectBackend()) + "\", or unset " + name +
          " where each should");
    }
  return {};
}

/// More would spend their time in being scheduled.
static constexpr int maxLocalRanks = 1024;

static Status runLocal(const Mesh &mesh, const WorldOptions &options,
                       const std::function<Status(Communicator &)> &body) {
  int size = mesh.getWorldSize();
  if (size > maxLocalRanks)
    return Status::error(
        "the program was compiled for " + std::to_string(size) +
        " ranks, and a process has at most " + std::to_string(maxLocalRanks) +
        " of them as threads; start them as processes, by mpirun -np " +
        std::to_string(size) + " or torchrun");
  LocalWorld world(mesh, size * options.threadsPerRank);
  auto run = [&](int rank) {
    std::unique_ptr<Communicator> communicator = world.makeCommunicator(rank);
    Status status = catchExceptions([&] { return body(*communicator); });
    // Of a failure that all agreed on, a rank may hear by being stopped, before
    // it gets to return it.
    if (status.getCode() == StatusCode::Aborted &&
        communicator->hasAgreedToFail())
      status = communicator->getAgreedFailure();
    if (!status.ok())
      world.abort(rank, status);
    return communicator->hasAgreedToFail();
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < size; ++rank) {
    try {
      threads.emplace_back(run, rank);
    } catch (const std::system_error &error) {
      world.abort(rank, Status::error("cannot start its thread: " +
                                      std::string(error.what())));
      break;
    }
  }
  bool agreed = run(0);
  for (std::thread &thread : threads)
    thread.join();
  int rank;
  Status cause = world.getCause(rank);
  if (cause.ok() || size == 1 || agreed)
    return cause;
  return Status::error("rank " + std::to_string(rank) + ": " + cause.message());
}

/// A failure that all processes know of. Rank 0 says it before any process
/// ends, since the launcher stops all when one ends with an error: the end of
/// the world, which follows, waits for all.
static Status sayOnce(int rank, const std::string &message) {
  if (rank == 0)
    logError(message);
  return Status::aborted(message);
}

/// How the ranks of processes end when one has failed, or all agreed to.
static Status endAll(Communicator &communicator, const Status &status) {
  if (communicator.hasAgreedToFail())
    return sayOnce(communicator.getRank(), status.message());
  communicator.abort(status); // of MPI, does not return
  return Status::aborted(status.message());
}

/// That the processes are of one program, whatever their programs' meshes say.
static Status agreeOnProgram(ProcessWorld &world, const Mesh &mesh,
                             const WorldOptions &options) {
  std::vector<AgreementItem> items = options.identity;
  items.push_back({"the number of ranks that the program was compiled for",
                   std::to_string(mesh.getWorldSize())});
  std::unique_ptr<Communicator> everyone =
      world.makeCommunicator(Mesh({world.getSize()}));
  Status status = agreeOnItems(*everyone, items);
  return status.ok() ? status : endAll(*everyone, status);
}

Status cleave::runtime::startProcesses(Backend backend, int threadsPerRank,
                                       std::unique_ptr<ProcessWorld> &world) {
  return backend == Backend::Mpi ? MpiWorld::start(threadsPerRank, world)
                                 : TcpWorld::start(world);
}

static Status runProcesses(const Mesh &mesh, const WorldOptions &options,
                           const std::function<Status(Communicator &)> &body) {
  std::unique_ptr<ProcessWorld> world;
  CLEAVE_RETURN_IF_ERROR(
      startProcesses(options.backend, options.threadsPerRank, world));
  CLEAVE_RETURN_IF_ERROR(agreeOnProgram(*world, mesh, options));
  if (world->getSize() != mesh.getWorldSize())
    return sayOnce(world->getRank(),
                   "the launcher started " + std::to_string(world->getSize()) +
                       " ranks, but the program was compiled for " +
                       std::to_string(mesh.getWorldSize()));
  std::unique_ptr<Communicator> communicator = world->makeCommunicator(mesh);
  Status status = catchExceptions([&] { return body(*communicator); });
  return status.ok() ? status : endAll(*communicator, status);
}

Status
cleave::runtime::runRanks(const Mesh &mesh, const WorldOptions &options,
                          const std::function<Status(Communicator &)> &body) {
  return options.backend == Backend::Local ? runLocal(mesh, options, body)
                                           : runProcesses(mesh, options, body);
}
