//===- MpiAbsent.cpp - For a runtime built without Open MPI's headers -----===//
#include "runtime/comm/Mpi.h"

using namespace cleave::runtime;

struct cleave::runtime::MpiApi {};

Status MpiWorld::start(int threadsPerRank,
                       std::unique_ptr<ProcessWorld> &world) {
  return Status::error("this runtime was built without the mpi backend: "
                       "Open MPI's mpi.h was not found; --transport tcp needs "
                       "no MPI");
}

MpiWorld::MpiWorld() = default;
MpiWorld::~MpiWorld() = default;

std::unique_ptr<Communicator> MpiWorld::makeCommunicator(const Mesh &mesh) {
  return nullptr;
}
