//===- CollectiveLaunches.cpp ---------------------------------------------===//
#include "runtime/cuda/kernels/CollectiveLaunches.h"
#include <algorithm>

using namespace cleave::cuda;
using cleave::cpu::ElementType;

/// A thread for each of `items`, up to what fills the largest GPU.
static std::vector<KernelLaunch> makeLaunch(const std::string &symbol,
                                            int64_t items) {
  constexpr int64_t threads = 256, mostBlocks = 2048;
  int64_t blocks =
      std::clamp<int64_t>((items + threads - 1) / threads, 1, mostBlocks);
  return {{symbol, {unsigned(blocks), 1, 1}, {unsigned(threads), 1, 1}, 0}};
}

std::vector<KernelLaunch> cleave::cuda::getConvertLaunches(int64_t elements) {
  return makeLaunch("cleave_convert_f32_bf16", elements);
}

std::vector<KernelLaunch> cleave::cuda::getReduceLaunches(int64_t elements,
                                                          ElementType type,
                                                          bool isMax) {
  std::string name = isMax ? "cleave_reduce_max_" : "cleave_reduce_sum_";
  return makeLaunch(name + (type == ElementType::F32    ? "f32"
                            : type == ElementType::BF16 ? "bf16"
                                                        : "i32"),
                    elements);
}

std::vector<KernelLaunch>
cleave::cuda::getCopyPartsLaunches(const CopyPartsParams &params) {
  return makeLaunch("cleave_copy_parts", params.rows * params.bytes / 16);
}
