//===- Ranks.h - Ranks of the simulated NCCL, as a test has them ----------===//
#ifndef CLEAVE_TEST_CUDA_NCCL_RANKS_H
#define CLEAVE_TEST_CUDA_NCCL_RANKS_H

#include "runtime/cuda/NcclApi.h"
#include "test/cuda/Simulated.h"
#include <barrier>
#include <functional>
#include <thread>

namespace cleave::simulated {

constexpr int ncclInternalError = 3, ncclInvalidArgument = 4,
              ncclInvalidUsage = 5;

/// The library, opened as the product opens it.
inline const NcclApi &getNccl() {
  static const NcclApi api = [] {
    Libraries::get();
    NcclApi found;
    std::string path = CLEAVE_SIMULATED_FOLDER "/libnccl.so.2";
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(library) << dlerror();
    auto find = [&](auto &entry, const char *name) {
      entry =
          reinterpret_cast<std::decay_t<decltype(entry)>>(dlsym(library, name));
      EXPECT_TRUE(entry) << name;
    };
    find(found.getErrorString, "ncclGetErrorString");
    find(found.getLastError, "ncclGetLastError");
#define CLEAVE_FIND(name, symbol, ...) find(found.name, #symbol);
    CLEAVE_NCCL_CALLS(CLEAVE_FIND)
#undef CLEAVE_FIND
    return found;
  }();
  return api;
}

/// A rank with a GPU, a stream and a communicator of all ranks. Calls that are
/// expected to succeed are its functions.
class Rank {
public:
  Rank(int rank, int size, const NcclId &id, int device)
      : rank(rank), size(size) {
    void *context = nullptr;
    EXPECT_EQ(cuda.primaryContextRetain(&context, device), success);
    EXPECT_EQ(cuda.contextSetCurrent(context), success);
    EXPECT_EQ(cuda.streamCreate(&stream, streamNonBlocking), success);
    EXPECT_EQ(nccl.commInitRank(&comm, size, id, rank), ncclSuccess);
  }

  Address allocate(size_t bytes) const {
    Address address = 0;
    EXPECT_EQ(cuda.memAlloc(&address, bytes), success);
    return address;
  }
  template <typename T>
  Address upload(const std::vector<T> &values) const {
    Address address = allocate(values.size() * sizeof(T));
    write(address, values);
    return address;
  }
  template <typename T>
  void write(Address address, const std::vector<T> &values) const {
    EXPECT_EQ(cuda.copyHostToDevice(address, values.data(),
                                    values.size() * sizeof(T)),
              success);
    // The call may return before the bytes are there.
    EXPECT_EQ(cuda.contextSynchronize(), success);
  }
  template <typename T>
  std::vector<T> download(Address address, size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(cuda.copyDeviceToHost(values.data(), address, count * sizeof(T)),
              success);
    return values;
  }
  void synchronize() const {
    EXPECT_EQ(cuda.streamSynchronize(stream), success);
  }
  /// Waits for the threads of the other ranks.
  void meet() const { barrier->arrive_and_wait(); }
  void destroy() const { EXPECT_EQ(nccl.commDestroy(comm), ncclSuccess); }
  /// What NCCL says of the communicator once it says something.
  int waitForError() const {
    int error = ncclSuccess;
    for (int i = 0; i < 5000 && error == ncclSuccess; ++i) {
      EXPECT_EQ(nccl.commGetAsyncError(comm, &error), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return error;
  }
  static void *point(Address address) {
    return reinterpret_cast<void *>(address);
  }

  int allReduce(Address in, Address out, size_t count, int type = ncclFloat32,
                int reduction = ncclSum) const {
    return nccl.allReduce(point(in), point(out), count, type, reduction, comm,
                          stream);
  }
  int allGather(Address in, Address out, size_t count,
                int type = ncclInt8) const {
    return nccl.allGather(point(in), point(out), count, type, comm, stream);
  }
  int reduceScatter(Address in, Address out, size_t count,
                    int type = ncclFloat32, int reduction = ncclSum) const {
    return nccl.reduceScatter(point(in), point(out), count, type, reduction,
                              comm, stream);
  }
  int send(Address in, size_t count, int to, int type = ncclInt8) const {
    return nccl.send(point(in), count, type, to, comm, stream);
  }
  int receive(Address out, size_t count, int from, int type = ncclInt8) const {
    return nccl.recv(point(out), count, type, from, comm, stream);
  }

  const DriverApi &cuda = Libraries::get().driver;
  const NcclApi &nccl = getNccl();
  int rank, size;
  void *stream = nullptr;
  void *comm = nullptr;
  std::barrier<> *barrier = nullptr;
};

/// A new machine of so many GPUs, and a thread for each rank. `fault` is told
/// to NCCL alone.
inline void runRanks(int size, Simulation::Settings settings,
                     const std::function<void(Rank &)> &body,
                     const std::string &fault = "",
                     const std::function<int(int)> &getDevice = {}) {
  getNccl();
  settings.emplace("GPUS", std::to_string(size));
  settings.emplace("MEMORY", std::to_string(16 << 20));
  settings.emplace("THREADS", "1");
  Simulation::reset(settings);
  EXPECT_EQ(Libraries::get().driver.init(0), success);
  if (!fault.empty())
    setenv("CLEAVE_SIMULATED_FAULT", fault.c_str(), 1);
  NcclId id;
  ASSERT_EQ(getNccl().getUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  std::barrier<> barrier(size);
  for (int i = 0; i < size; ++i)
    threads.emplace_back([&, i] {
      Rank rank(i, size, id, getDevice ? getDevice(i) : i);
      rank.barrier = &barrier;
      body(rank);
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Numbers of a rank, of which sums depend on the order of the ranks.
inline std::vector<float> makeFloats(int rank, size_t count, int salt = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = uint32_t(rank * 7919 + int(i) * 104729 + salt * 1299709);
    bits = (bits ^ bits >> 7) * 2654435761u;
    values[i] =
        (float(bits >> 8) / float(1 << 20) - 8) * (bits % 5 == 0 ? 1e4f : 1);
  }
  return values;
}

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_NCCL_RANKS_H
