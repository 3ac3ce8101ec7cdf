//===- Mpi.h - Ranks as processes of a launcher ---------------------------===//
//
// libmpi (Open MPI's ABI) is opened at run time, so that one executable runs
// with and without it. A runtime built without Open MPI's mpi.h has no such
// backend, and says so.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_MPI_H
#define CLEAVE_RUNTIME_COMM_MPI_H

#include "runtime/comm/Communicator.h"
#include <memory>

namespace cleave::runtime {

struct MpiApi;

/// MPI_COMM_WORLD, from MPI_Init to MPI_Finalize.
class MpiWorld {
public:
  static Status start(int threadsPerRank, std::unique_ptr<MpiWorld> &world);
  ~MpiWorld();

  int getRank() const { return rank; }
  int getSize() const { return size; }

  /// This process's rank. The mesh has getSize() ranks. Outlived by this.
  std::unique_ptr<Communicator> makeCommunicator(const Mesh &mesh);

private:
  MpiWorld();

  std::unique_ptr<MpiApi> api;
  int rank = 0, size = 1;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MPI_H
