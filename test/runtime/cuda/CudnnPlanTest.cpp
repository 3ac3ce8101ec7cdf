//===- CudnnPlanTest.cpp - Plans of attention without a GPU ---------------===//
//
// cuDNN builds plans for a GPU that it is told of, so that graphs for which it
// has no engine are seen on any machine that has the library. That results are
// right is seen on a GPU only: cuda_attention.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/CudnnAttention.h"
#include "gtest/gtest.h"
#include <dlfcn.h>
#include <string_view>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using cleave::cuda::AttentionSizes;

namespace {

constexpr std::string_view h200 = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000,
  "cudaDeviceId": 0, "pciDeviceId": 0, "isTccDriver": 0,
  "multiProcessorCount": 132, "warpSize": 32, "supportCoopLaunch": 1,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560,
  "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000,
  "memClockRateKHz": 3201000, "memoryBusWidth": 6144, "smCountOrigin": 0,
  "oversizedSharedMemoryPerBlock": 0})";

class CudnnPlanTest : public testing::Test {
protected:
  void SetUp() override {
    // Under its name cuDNN finds this one.
    ASSERT_TRUE(dlopen(CLEAVE_NO_DEVICE_DRIVER, RTLD_NOW)) << dlerror();
    std::string absence;
    Cudnn::open(library, absence);
    if (!library)
      GTEST_SKIP() << absence;
    // Other versions may ask for more of it, or for a GPU.
    if (Status status = describeDevice(); !status.ok())
      GTEST_SKIP() << status.message();
  }
  Status describeDevice() {
    CLEAVE_RETURN_IF_ERROR(
        CudnnDescriptor::create(*library, cudnn::descDevice, device));
    CLEAVE_RETURN_IF_ERROR(device.set(cudnn::attrDeviceJson, cudnn::typeChar,
                                      int64_t(h200.size()), h200.data()));
    return device.finalize();
  }
  static void expectSuccess(const Status &status) {
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Status create(const AttentionSizes &sizes, bool isGrad,
                uint64_t &scratchBytes) {
    std::unique_ptr<CudnnAttention> made;
    CLEAVE_RETURN_IF_ERROR(CudnnAttention::create(
        {*library, nullptr, device.get()}, sizes, isGrad, made));
    scratchBytes = made->getScratchBytes();
    return Status();
  }
  void expectPlans(const AttentionSizes &sizes) {
    SCOPED_TRACE(testing::Message()
                 << "batch " << sizes.batch << " seq " << sizes.seq << " heads "
                 << sizes.heads << '/' << sizes.kvHeads << " dim "
                 << sizes.headDim << " window " << sizes.window);
    uint64_t bytes = 0;
    expectSuccess(create(sizes, false, bytes));
    EXPECT_LT(bytes, uint64_t(1) << 20);
    expectSuccess(create(sizes, true, bytes));
    // dq in f32, and where heads share keys dk and dv of each.
    uint64_t elements = uint64_t(sizes.batch * sizes.seq * sizes.heads) *
                        uint64_t(sizes.headDim);
    EXPECT_LT(bytes, elements * 9 + (1 << 20));
  }

  const Cudnn *library = nullptr;
  CudnnDescriptor device;
};

} // namespace

TEST_F(CudnnPlanTest, OneHeadOfKeysForEach) {
  expectPlans({32, 1024, 12, 12, 64, 0, 0.125f, 0});
}

TEST_F(CudnnPlanTest, SharedKeys) {
  expectPlans({4, 4096, 32, 8, 64, 0, 0.125f, 0});
  expectPlans({2, 4096, 24, 8, 128, 0, 0.1f, 0});
}

TEST_F(CudnnPlanTest, SequencesThatFillNoTile) {
  AttentionSizes sizes = {2, 100, 4, 2, 72, 0, 0.1f, 0};
  uint64_t bytes = 0;
  if (library->getVersion() > 91500)
    return expectPlans(sizes);
  expectSuccess(create(sizes, false, bytes));
  EXPECT_EQ(create(sizes, true, bytes).message(),
            "sequences of 100, which is no multiple of 128, need 9.15.1 or "
            "later");
}

TEST_F(CudnnPlanTest, Windows) {
  expectPlans({1, 4096, 8, 4, 256, 1024, 0.0625f, 0});
}

TEST_F(CudnnPlanTest, WhatItHasNoEngineFor) {
  uint64_t bytes = 0;
  for (bool isGrad : {false, true}) {
    EXPECT_EQ(create({1, 64, 2, 2, 64, 0, 0.125f, 20}, isGrad, bytes).message(),
              "scores are capped");
    EXPECT_EQ(create({1, 1, 2, 2, 64, 0, 0.125f, 0}, isGrad, bytes).message(),
              "one token is no sequence");
    EXPECT_FALSE(create({1, 64, 2, 2, 12, 0, 0.125f, 0}, isGrad, bytes).ok());
  }
}

// cudnnCreate fails.
TEST_F(CudnnPlanTest, OwnKernelsWithoutADevice) {
  CudnnAttentions attentions;
  const CudnnAttention *found = nullptr;
  expectSuccess(attentions.find({{1, 64, 2, 2, 64, 0, 0.125f, 0}, true, true},
                                UINT64_MAX, found));
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(attentions.describe().find("own kernels (cudnnCreate failed at "),
            0u)
      << attentions.describe();
}
