//===- Mpi.h - Ranks as processes of a launcher ---------------------------===//
//
// libmpi (Open MPI's ABI) is opened at run time, so that one executable runs
// with and without it. A runtime built without Open MPI's mpi.h has no such
// backend, and says so.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_MPI_H
#define CLEAVE_RUNTIME_COMM_MPI_H

#include "runtime/comm/ProcessWorld.h"
#include <memory>

namespace cleave::runtime {

struct MpiApi;

/// MPI_COMM_WORLD, from MPI_Init to MPI_Finalize.
class MpiWorld : public ProcessWorld {
public:
  static Status start(int threadsPerRank, std::unique_ptr<ProcessWorld> &world);
  ~MpiWorld() override;

  std::unique_ptr<Communicator> makeCommunicator(const Mesh &mesh) override;

private:
  MpiWorld();

  std::unique_ptr<MpiApi> api;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MPI_H
