//===- MpiRanks.cpp - One rank of MpiTest, started by mpirun --------------===//
//
//   MpiRanks collectives  every collective on every mesh of the world's size,
//                         and the bits of rounding sums against local ranks
//   MpiRanks messages     messages of many channels between all ranks
//   MpiRanks fail R       rank R fails while the others wait
//   MpiRanks lose R       rank R fails while the others wait for its message
//   MpiRanks agree        every rank has the same failure
//   MpiRanks size N       a program for N ranks
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Log.h"
#include "runtime/comm/Mpi.h"
#include "runtime/comm/World.h"
#include "test/runtime/comm/CollectiveChecks.h"
#include "test/runtime/comm/MessageChecks.h"
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace cleave::runtime;
using namespace cleave::test;

/// Bits of both backends for many sizes, the largest of several segments.
static Status compareWithLocal(MpiWorld &world) {
  Mesh mesh({world.getSize()});
  std::unique_ptr<Communicator> communicator = world.makeCommunicator(mesh);
  for (ElementType type : {ElementType::F32, ElementType::BF16})
    for (uint64_t elements : {16, 1000, 4096, 100003, 9000001}) {
      uint64_t mine, local = 0;
      CLEAVE_RETURN_IF_ERROR(
          computeDigest(*communicator, elements, type, mine));
      CLEAVE_RETURN_IF_ERROR(runRanks(mesh, {}, [&](Communicator &threads) {
        uint64_t digest;
        Status status = computeDigest(threads, elements, type, digest);
        if (status.ok() && threads.getRank() == 0)
          local = digest;
        return status;
      }));
      if (mine != local)
        return Status::error("mpi and local differ in the bits of " +
                             std::to_string(elements) + " elements");
    }
  return {};
}

static Status checkCollectives() {
  std::unique_ptr<MpiWorld> world;
  CLEAVE_RETURN_IF_ERROR(MpiWorld::start(1, world));
  int64_t checks = 0;
  for (const std::vector<int> &sizes : getAllMeshes(world->getSize())) {
    Mesh mesh(sizes);
    if (mesh.getWorldSize() != world->getSize())
      continue;
    std::unique_ptr<Communicator> communicator = world->makeCommunicator(mesh);
    Status status = checkAllCollectives(*communicator, checks);
    if (status.ok())
      status = checkHostCalls(*communicator);
    if (!status.ok())
      communicator->abort(status);
    CLEAVE_RETURN_IF_ERROR(status);
  }
  CLEAVE_RETURN_IF_ERROR(compareWithLocal(*world));
  if (world->getRank() == 0)
    std::printf("%lld collectives checked on a rank\n",
                static_cast<long long>(checks));
  return {};
}

static Status failOn(Communicator &communicator, int failing) {
  if (communicator.getRank() == failing)
    return Status::error("disk on fire");
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
  return communicator.barrier(*world);
}

static Status checkAllMessages(Communicator &communicator) {
  CLEAVE_RETURN_IF_ERROR(checkMessages(communicator));
  CLEAVE_RETURN_IF_ERROR(checkRing(communicator, 100));
  if (communicator.getRank() == 0)
    std::printf("messages checked\n");
  return {};
}

static Status loseMessage(Communicator &communicator, int failing) {
  if (communicator.getRank() == failing)
    return Status::error("disk on fire");
  char byte;
  return communicator.receive(failing, 0, &byte, 1);
}

int main(int argc, char **argv) {
  std::string_view mode = argc > 1 ? argv[1] : "";
  int number = argc > 2 ? std::atoi(argv[2]) : 4;
  WorldOptions options{detectBackend(), 1, {}};
  Status status;
  if (options.backend != Backend::Mpi)
    status = Status::error("was not started by mpirun");
  else if (mode == "collectives")
    status = checkCollectives();
  else if (mode == "fail")
    status = runRanks(Mesh({4}), options, [&](Communicator &communicator) {
      return failOn(communicator, number);
    });
  else if (mode == "messages")
    status = runRanks(Mesh({number}), options, checkAllMessages);
  else if (mode == "lose")
    status = runRanks(Mesh({4}), options, [&](Communicator &communicator) {
      return loseMessage(communicator, number);
    });
  else if (mode == "agree")
    status = runRanks(Mesh({4}), options, [](Communicator &communicator) {
      return communicator.agree(Status::error("data.bin: does not exist"));
    });
  else if (mode == "size")
    status = runRanks(Mesh({number}), options,
                      [](Communicator &) { return Status(); });
  else
    status = Status::error("knows no mode \"" + std::string(mode) + "\"");
  if (status.getCode() == StatusCode::Failed)
    logError(status.message());
  return status.ok() ? 0 : 1;
}
