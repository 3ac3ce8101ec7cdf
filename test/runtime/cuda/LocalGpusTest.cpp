//===- LocalGpusTest.cpp - What a rank leaves to those that go on ---------===//
//
// On the machine of test/cuda, where memory that was freed is nobody's.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/LocalGpus.h"
#include "runtime/comm/World.h"
#include "gtest/gtest.h"
#include <dlfcn.h>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

namespace {

constexpr uint64_t bytes = 4096;

Status getFreeBytes(const Driver &driver, size_t &free) {
  size_t total = 0;
  CLEAVE_CUDA(driver, memGetInfo(&free, &total));
  return Status();
}

/// Expects `bytes` times `value` there.
Status expectBytes(const Driver &driver, Address address, int value) {
  std::vector<unsigned char> read(bytes);
  CLEAVE_CUDA(driver, copyDeviceToHost(read.data(), address, bytes));
  EXPECT_EQ(read, std::vector<unsigned char>(bytes, value));
  return Status();
}

} // namespace

TEST(LocalGpus, MessagesAndMemoryOutliveTheirRank) {
  // The runtime opens the driver by a name that this one has.
  ASSERT_TRUE(dlopen(CLEAVE_SIMULATED_FOLDER "/libcuda.so.1", RTLD_NOW))
      << dlerror();
  Status status = runRanks(Mesh({2}), {}, [](Communicator &host) -> Status {
    const Driver *driver = nullptr;
    std::string absence;
    CLEAVE_RETURN_IF_ERROR(Driver::open(driver, absence));
    std::unique_ptr<Context> context;
    CLEAVE_RETURN_IF_ERROR(Context::create(*driver, 0, context));
    const Group *world = nullptr;
    CLEAVE_RETURN_IF_ERROR(host.getWorldGroup(world));
    size_t before = 0, after = 0;
    CLEAVE_RETURN_IF_ERROR(getFreeBytes(*driver, before));
    CLEAVE_RETURN_IF_ERROR(host.barrier(*world));

    OwnKernels kernels;
    std::unique_ptr<GpuCommunicator> gpus;
    CLEAVE_RETURN_IF_ERROR(LocalGpus::create(host, *context, kernels, gpus));
    Handle stream;
    CLEAVE_RETURN_IF_ERROR(context->createStream(stream));
    DeviceMemory memory;
    CLEAVE_RETURN_IF_ERROR(
        DeviceMemory::allocate(*context, bytes, "the test", memory));
    Address address = memory.getAddress();
    CLEAVE_RETURN_IF_ERROR(host.broadcast(&address, sizeof(address)));
    if (host.getRank() == 0) {
      CLEAVE_CUDA(*driver, memsetAsync(address, 7, bytes, stream.get()));
      CLEAVE_RETURN_IF_ERROR(gpus->send(1, 0, address, bytes, stream.get()));
      CLEAVE_CUDA(*driver, memsetAsync(address, 8, bytes, stream.get()));
      CLEAVE_CUDA(*driver, streamSynchronize(stream.get()));
      gpus->keep(std::move(memory));
      gpus.reset();
      CLEAVE_RETURN_IF_ERROR(host.barrier(*world));
      return host.barrier(*world);
    }
    // The other rank has ended.
    CLEAVE_RETURN_IF_ERROR(host.barrier(*world));
    CLEAVE_RETURN_IF_ERROR(
        gpus->receive(0, 0, memory.getAddress(), bytes, stream.get()));
    CLEAVE_CUDA(*driver, streamSynchronize(stream.get()));
    CLEAVE_RETURN_IF_ERROR(expectBytes(*driver, memory.getAddress(), 7));
    CLEAVE_RETURN_IF_ERROR(expectBytes(*driver, address, 8));
    gpus.reset();
    memory = DeviceMemory();
    CLEAVE_RETURN_IF_ERROR(getFreeBytes(*driver, after));
    EXPECT_EQ(after, before);
    return host.barrier(*world);
  });
  EXPECT_TRUE(status.ok()) << status.message();
}
