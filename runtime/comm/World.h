//===- World.h - Starting and ending the ranks ----------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_WORLD_H
#define CLEAVE_RUNTIME_COMM_WORLD_H

#include "runtime/comm/Agreement.h"
#include "runtime/comm/ProcessWorld.h"
#include <functional>

namespace cleave::runtime {

enum class Backend {
  Local, ///< every rank is a thread of this process
  Mpi,   ///< this process is one rank, of mpirun or srun
  Tcp,   ///< this process is one rank, of torchrun or what sets its variables
};

/// As --transport has it.
const char *getName(Backend backend);

/// Mpi where mpirun or srun started this process as one of several ranks, Tcp
/// where torchrun did, else Local.
Backend detectBackend();

/// This process's number among the launcher's, as its variables say; 0 where
/// none started it.
int getLauncherRank();

/// Prints an error that a process finds by itself, before it knows of others:
/// a wrong command line. Process 0 says it at once; the launcher then ends the
/// others, which wait a little with the same words. So it is said once where
/// all have it, and is not lost where one has.
void logErrorAlone(const std::string &message);

/// For a run that was told to have its ranks as threads: fails where a launcher
/// started several processes. Each would train alone, and those that wait for
/// it as a rank would wait in vain. Waits for its turn to speak.
Status checkNotLaunched();

/// Meets the launcher's other processes. Not of Local.
Status startProcesses(Backend backend, int threadsPerRank,
                      std::unique_ptr<ProcessWorld> &world);

struct WorldOptions {
  Backend backend = Backend::Local;
  int threadsPerRank = 1; ///< that may want a core: of compute, of streams
  /// What all processes must have alike before they can believe that they have
  /// one mesh: the program.
  std::vector<AgreementItem> identity;
};

/// Runs `body` once for each rank that lives in this process, and returns when
/// all have. When a body fails, all ranks stop.
///
/// Returns the cause, to be printed; an Aborted status where it already is, by
/// this process or another. Fails, naming what differs, when the processes of a
/// launcher are not of one program, and naming both numbers, when it made
/// another number of ranks than the mesh has.
Status runRanks(const Mesh &mesh, const WorldOptions &options,
                const std::function<Status(Communicator &)> &body);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_WORLD_H
