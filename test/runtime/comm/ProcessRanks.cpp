//===- ProcessRanks.cpp - One rank of MpiTest and TcpTest -----------------===//
//
//   ProcessRanks BACKEND RANKS MODE [R]
//
//   collectives  every collective on every mesh of the world's size, and the
//                bits of rounding sums against local ranks
//   messages     messages of many channels between all ranks
//   streams      collectives of several threads at a time
//   fail R       rank R fails while the others wait
//   lose R       likewise for its message
//   die R        rank R ends without a word
//   agree        every rank has the same failure
//   differ       ranks call different collectives
//   none         nothing; the program is for RANKS ranks
//
// The backend is mpi or tcp, and must be what the variables of the launcher
// tell.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Log.h"
#include "runtime/comm/World.h"
#include "test/runtime/comm/CollectiveChecks.h"
#include "test/runtime/comm/MessageChecks.h"
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;
using namespace cleave::test;

/// Bits of both backends for many sizes, the largest of several segments.
static Status compareWithLocal(ProcessWorld &world) {
  Mesh mesh({world.getSize()});
  std::unique_ptr<Communicator> communicator = world.makeCommunicator(mesh);
  for (ElementType type : {ElementType::F32, ElementType::BF16})
    for (uint64_t elements : {16, 1000, 4096, 100003, 9000001}) {
      uint64_t mine, local = 0;
      CLEAVE_RETURN_IF_ERROR(
          computeDigest(*communicator, elements, type, mine));
      // One for all: the ranks of a process are as many as there are processes.
      if (world.getRank() == 0)
        CLEAVE_RETURN_IF_ERROR(runRanks(mesh, {}, [&](Communicator &threads) {
          uint64_t digest;
          Status status = computeDigest(threads, elements, type, digest);
          if (status.ok() && threads.getRank() == 0)
            local = digest;
          return status;
        }));
      CLEAVE_RETURN_IF_ERROR(communicator->broadcast(&local, sizeof(local)));
      if (mine != local)
        return Status::error("processes and threads differ in the bits of " +
                             std::to_string(elements) + " elements");
    }
  return {};
}

static Status checkCollectives(Backend backend) {
  std::unique_ptr<ProcessWorld> world;
  CLEAVE_RETURN_IF_ERROR(startProcesses(backend, 1, world));
  int64_t checks = 0;
  std::vector<std::vector<int>> meshes = getAllMeshes(world->getSize());
  if (world->getSize() == 1)
    meshes = {{1}, {1, 1}};
  for (const std::vector<int> &sizes : meshes) {
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

static Status checkAllMessages(Communicator &communicator) {
  CLEAVE_RETURN_IF_ERROR(checkMessages(communicator));
  CLEAVE_RETURN_IF_ERROR(checkRing(communicator, 100));
  if (communicator.getRank() == 0)
    std::printf("messages checked\n");
  return {};
}

/// Sums of the stream's number, of other sizes on each, while the others'
/// streams may be anywhere else.
static Status sumInStream(Communicator &communicator, const Group &world,
                          int stream) {
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values(size_t(1 + round * 37 * (stream + 1)),
                              float(stream + round));
    CLEAVE_RETURN_IF_ERROR(communicator.allReduce(
        world, values.data(), values.data(), values.size(), ElementType::F32,
        Reduction::Sum));
    float expected = float((stream + round) * world.getSize());
    if (values.front() != expected || values.back() != expected)
      return Status::error("stream " + std::to_string(stream) +
                           " got another's sum");
  }
  return {};
}

static Status checkStreams(Communicator &communicator) {
  constexpr int count = 4;
  std::unique_ptr<Communicator> forks[count];
  const Group *worlds[count];
  Status statuses[count];
  std::vector<std::thread> threads;
  // Groups are made in one order on all ranks.
  for (int i = 0; i < count; ++i) {
    CLEAVE_RETURN_IF_ERROR(communicator.fork(i + 1, forks[i]));
    CLEAVE_RETURN_IF_ERROR(forks[i]->getWorldGroup(worlds[i]));
  }
  for (int i = 0; i < count; ++i)
    threads.emplace_back(
        [&, i] { statuses[i] = sumInStream(*forks[i], *worlds[i], i); });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    CLEAVE_RETURN_IF_ERROR(status);
  if (communicator.getRank() == 0)
    std::printf("streams checked\n");
  return {};
}

/// All but one rank wait, for all of them or for its message.
static Status waitFor(Communicator &communicator, int failing,
                      bool isForMessage) {
  if (isForMessage) {
    char byte;
    return communicator.receive(failing, 0, &byte, 1);
  }
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
  return communicator.barrier(*world);
}

static Status differ(Communicator &communicator) {
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
  std::vector<float> values(64);
  return communicator.allReduce(*world, values.data(), values.data(),
                                16 + uint64_t(communicator.getRank()),
                                ElementType::F32, Reduction::Sum);
}

static Status run(std::string_view mode, int number,
                  Communicator &communicator) {
  if (mode == "messages")
    return checkAllMessages(communicator);
  if (mode == "streams")
    return checkStreams(communicator);
  if (mode == "agree")
    return communicator.agree(Status::error("data.bin: does not exist"));
  if (mode == "differ")
    return differ(communicator);
  if (mode == "none")
    return {};
  if (communicator.getRank() != number)
    return waitFor(communicator, number, mode == "lose");
  if (mode == "die")
    ::_exit(1);
  return Status::error("disk on fire");
}

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  std::string_view backend = argv[1], mode = argv[3];
  int ranks = std::atoi(argv[2]), number = argc > 4 ? std::atoi(argv[4]) : 0;
  WorldOptions options{detectBackend(), 1, {}};
  if (ranks == 1 && backend == "tcp")
    options.backend = Backend::Tcp; // which a single process has to ask for
  Status status;
  if (getName(options.backend) != backend)
    status = Status::error("the launcher's variables tell of " +
                           std::string(getName(options.backend)));
  else if (mode == "collectives")
    status = checkCollectives(options.backend);
  else
    status = runRanks(Mesh({ranks}), options, [&](Communicator &communicator) {
      return run(mode, number, communicator);
    });
  if (status.getCode() == StatusCode::Failed)
    logError(status.message());
  return status.ok() ? 0 : 1;
}
