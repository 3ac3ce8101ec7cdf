//===- FailuresTest.cpp - What is said of calls that fail -----------------===//
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/Library.h"
#include "runtime/cuda/NcclGpus.h"
#include "gtest/gtest.h"

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

TEST(Failures, CallsHaveTheNamesOfTheLibrary) {
  constexpr EntryName names[] = {{"memAlloc", "cuMemAlloc_v2"},
                                 {"memFree", "cuMemFree_v2"},
                                 {"init", "cuInit"}};
  EXPECT_EQ(describeFailure("memAlloc(&result.address, bytes)", names,
                            "/a/b/Driver.cpp", 12),
            "cuMemAlloc failed at Driver.cpp:12: ");
  EXPECT_EQ(describeFailure("init", names, "Driver.cpp", 3),
            "cuInit failed at Driver.cpp:3: ");
  EXPECT_EQ(describeFailure("an operation in flight", names, "N.cpp", 1),
            "an operation in flight failed at N.cpp:1: ");
}

TEST(Failures, OfTheDriver) {
  Driver driver;
  driver.api.getErrorName = [](int, const char **name) {
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return success;
  };
  driver.api.getErrorString = [](int, const char **text) {
    *text = "out of memory";
    return success;
  };
  EXPECT_TRUE(driver.check(success, "memAlloc(a, b)", "D.cpp", 1).ok());
  EXPECT_EQ(
      driver.check(errorOutOfMemory, "memAlloc(a, b)", "D.cpp", 1).message(),
      "cuMemAlloc failed at D.cpp:1: CUDA_ERROR_OUT_OF_MEMORY (2), out "
      "of memory; `nvidia-smi` shows who else uses the GPU's memory, and "
      "a smaller micro-batch takes less");
  // What this driver does not know.
  driver.api.getErrorName = [](int, const char **) {
    return errorInvalidValue;
  };
  driver.api.getErrorString = driver.api.getErrorName;
  EXPECT_EQ(driver.check(4711, "graphLaunch(a, b)", "D.cpp", 2).message(),
            "cuGraphLaunch failed at D.cpp:2: unknown error (4711); "
            "`nvidia-smi` shows the state of the GPU, and the kernel's Xid "
            "messages its errors");
}

TEST(Failures, OfCublasLt) {
  CublasLt library;
  EXPECT_EQ(
      library.check(statusNotInitialized, "create(&h)", "C.cpp", 1).message(),
      "cublasLtCreate failed at C.cpp:1: status 1 of cuBLASLt 0: "
      "CUBLAS_STATUS_NOT_INITIALIZED, the library cannot start; the "
      "driver may be older than it: `nvidia-smi` shows up to which CUDA "
      "the driver goes");
  EXPECT_EQ(library.check(14, "matmul(a, b)", "C.cpp", 2).message(),
            "cublasLtMatmul failed at C.cpp:2: status 14 of cuBLASLt 0: an "
            "error within the library; another version may not have it");
}

TEST(Failures, OfNccl) {
  Nccl nccl;
  nccl.api.getErrorString = [](int) { return "remote process exited"; };
  nccl.api.getLastError = [](void *) { return ""; };
  EXPECT_TRUE(nccl.check(ncclInProgress, "groupEnd()", "N.cpp", 1).ok());
  EXPECT_EQ(nccl.check(ncclRemoteError, "groupEnd()", "N.cpp", 1).message(),
            "ncclGroupEnd failed at N.cpp:1: remote process exited (6); "
            "another rank, or its machine, has ended: what it said is the "
            "cause");
  nccl.api.getLastError = [](void *) { return "no route to host"; };
  EXPECT_EQ(
      nccl.check(ncclSystemError, "commInitRank(a)", "N.cpp", 2).message(),
      "ncclCommInitRank failed at N.cpp:2: remote process exited (2): no "
      "route to host; a connection could not be made or was lost, or the "
      "system lacks memory: NCCL_DEBUG=WARN says which, "
      "NCCL_SOCKET_IFNAME names the network that machines meet in");
}
