//===- CudnnTest.cpp - What is said of cuDNN, and where it is not used ----===//
#include "runtime/cuda/CudnnAttention.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace cleave;
using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

namespace {

constexpr cleave::cuda::AttentionSizes sizes = {1, 64, 2, 2, 64, 0, 0.125f, 0};

class CudnnAttentionsTest : public testing::Test {
protected:
  void TearDown() override { unsetenv("CLEAVE_ATTENTION"); }

  CudnnAttentions attentions;
  const CudnnAttention *found = nullptr;
};

} // namespace

TEST(CudnnTest, Versions) {
  for (size_t version : {90600, 90900, 91002, 91300, 91401, 91900, 92800})
    EXPECT_TRUE(Cudnn::checkVersion(version).ok()) << version;
  for (size_t version : {91000, 91001, 91400})
    EXPECT_FALSE(Cudnn::checkVersion(version).ok()) << version;
  EXPECT_EQ(Cudnn::checkVersion(90501).message(),
            "cuDNN 9.5.1 is too old, expects 9.6.0 or later");
  EXPECT_EQ(Cudnn::checkVersion(91001).message(),
            "the attention of cuDNN 9.10.1 is known to be wrong");
}

TEST_F(CudnnAttentionsTest, OwnKernelsByChoice) {
  setenv("CLEAVE_ATTENTION", "own", 1);
  EXPECT_EQ(attentions.describe(), "");
  EXPECT_TRUE(attentions.find({sizes, true, false}, UINT64_MAX, found).ok());
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(attentions.describe(), "own kernels (CLEAVE_ATTENTION is own)");
  std::string version;
  EXPECT_TRUE(attentions.getVersion(version).ok());
  EXPECT_EQ(version, "none");
}

TEST_F(CudnnAttentionsTest, ChoiceThatIsNone) {
  setenv("CLEAVE_ATTENTION", "best", 1);
  std::string version;
  EXPECT_EQ(attentions.getVersion(version).message(),
            "the environment variable CLEAVE_ATTENTION is \"best\", expects "
            "\"own\", \"cudnn\" or \"auto\"");
}

// Nothing has opened a driver here.
TEST_F(CudnnAttentionsTest, OwnKernelsWithoutADriver) {
  EXPECT_TRUE(attentions.find({sizes, true, true}, UINT64_MAX, found).ok());
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(attentions.describe(),
            "own kernels (the CUDA driver has no cuGetProcAddress_v2)");
}

TEST_F(CudnnAttentionsTest, CudnnByChoiceIsMissed) {
  setenv("CLEAVE_ATTENTION", "cudnn", 1);
  Status status = attentions.find({sizes, true, false}, UINT64_MAX, found);
  EXPECT_EQ(status.message(),
            "cuDNN cannot compute this attention, and the environment variable "
            "CLEAVE_ATTENTION is \"cudnn\": the CUDA driver has no "
            "cuGetProcAddress_v2; with CLEAVE_ATTENTION=auto the kernels of "
            "Cleave compute it");
}

// Whatever else stands against it, so that nobody looks for a library.
TEST_F(CudnnAttentionsTest, CudnnByChoiceHasNoFixedOrder) {
  setenv("CLEAVE_ATTENTION", "cudnn", 1);
  Status status = attentions.find({sizes, true, true, true}, UINT64_MAX, found);
  EXPECT_EQ(
      status.message(),
      "cuDNN cannot compute this attention, and the environment variable "
      "CLEAVE_ATTENTION is \"cudnn\": several ranks compute the same "
      "gradient, and cuDNN adds in an order that differs from one to the "
      "other; with CLEAVE_ATTENTION=auto the kernels of Cleave compute it");
}

TEST_F(CudnnAttentionsTest, UnknownChoice) {
  setenv("CLEAVE_ATTENTION", "cuDNN", 1);
  Status status = attentions.find({sizes, true, false}, UINT64_MAX, found);
  EXPECT_EQ(status.message(),
            "the environment variable CLEAVE_ATTENTION is \"cuDNN\", expects "
            "\"own\", \"cudnn\" or \"auto\"");
}
