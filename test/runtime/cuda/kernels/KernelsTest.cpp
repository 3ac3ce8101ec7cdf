//===- KernelsTest.cpp - The runtime's own kernels, emulated --------------===//
#include "Emulator.h"
#include "RuntimeKernels.h"

using namespace cleave;

namespace {

class EmulatedMachine {
public:
  static const char *getAbsence() { return nullptr; }
  void *place(void *memory, size_t) { return memory; }
  const void *placeInput(const void *memory, size_t) { return memory; }
  template <class Params>
  void launch(const std::vector<cuda::KernelLaunch> &launches,
              const Params &params) {
    cuda::emulate(launches, params);
  }
};

} // namespace

namespace cleave {
INSTANTIATE_TYPED_TEST_SUITE_P(Emulated, RuntimeKernels, EmulatedMachine);
} // namespace cleave

namespace {

TEST(CudaLaunchesTest, LargestHeadDimIsSaid) {
  EXPECT_TRUE(cuda::hasAttention({1, 8, 1, 1, 256, 0, 1, 0}));
  EXPECT_FALSE(cuda::hasAttention({1, 8, 1, 1, 257, 0, 1, 0}));
}

TEST(CudaLaunchesTest, TheLastKernelIsTheInstructions) {
  auto check = [](const std::vector<cuda::KernelLaunch> &launches,
                  const std::string &name) {
    ASSERT_FALSE(launches.empty());
    for (const cuda::KernelLaunch &launch : launches) {
      const char *start =
          &launch == &launches.back() ? name.c_str() : "cleave_part_";
      EXPECT_EQ(launch.symbol.compare(0, strlen(start), start), 0)
          << launch.symbol;
    }
  };
  for (int64_t dim : {64, 100, 130}) {
    cuda::AttentionSizes sizes = {1, 8, 2, 1, dim, 0, 1, 0};
    check(cuda::getAttentionLaunches(sizes, F32), "cleave_attention_f32");
    check(cuda::getAttentionLaunches(sizes, BF16), "cleave_attention_bf16");
    check(cuda::getAttentionGradLaunches(sizes, F32),
          "cleave_attention_grad_f32");
    check(cuda::getAttentionGradLaunches(sizes, BF16),
          "cleave_attention_grad_bf16");
  }
  check(cuda::getEmbeddingGradLaunches({5, 8, 9, 0, {}, {}, {}, {}, 0}, BF16,
                                       F32),
        "cleave_embedding_grad_bf16_f32");
}

} // namespace
