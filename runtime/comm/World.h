//===- World.h - Starting and ending the ranks ----------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_WORLD_H
#define CLEAVE_RUNTIME_COMM_WORLD_H

#include "runtime/comm/Communicator.h"
#include <functional>

namespace cleave::runtime {

enum class Backend {
  Local, ///< every rank is a thread of this process
  Mpi,   ///< this process is one rank
};

/// Mpi where a launcher (mpirun, srun) started this process as one of its
/// ranks, else Local.
Backend detectBackend();

struct WorldOptions {
  Backend backend = Backend::Local;
  int threadsPerRank = 1; ///< compute threads
};

/// Runs `body` once for each rank that lives in this process, and returns when
/// all have. When a body fails, all ranks stop.
///
/// Returns the cause, to be printed; an Aborted status where it already is, by
/// this process or another. Fails, naming both numbers, when the launcher made
/// another number of ranks than the mesh has.
Status runRanks(const Mesh &mesh, const WorldOptions &options,
                const std::function<Status(Communicator &)> &body);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_WORLD_H
