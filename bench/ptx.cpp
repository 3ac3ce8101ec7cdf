//===- ptx.cpp - How fast the PTX interpreter is --------------------------===//
//
// Prints millions of instructions, counted for each thread that does one, in a
// second, of the runtime's attention kernels: with all checks and without.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/kernels/Images.h"
#include "runtime/cuda/kernels/Launches.h"
#include "test/cuda/ptx/Run.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

using namespace cleave;

namespace {

/// Zeros at addresses of a device, as operands of a kernel.
class Operands {
public:
  template <class T = void>
  T *add(size_t bytes) {
    storage.emplace_back(bytes);
    uint64_t address = storage.size() << 32;
    memory.add(address, bytes, storage.back().data());
    return reinterpret_cast<T *>(address);
  }

  ptx::Memory memory;

private:
  std::vector<std::vector<std::byte>> storage;
};

template <class Params>
void measure(const ptx::Module &module,
             const std::vector<cuda::KernelLaunch> &launches,
             const Params &params, const Operands &operands) {
  for (const cuda::KernelLaunch &each : launches) {
    ptx::Launch launch;
    launch.kernel = each.symbol;
    std::copy_n(each.grid, 3, launch.grid.begin());
    std::copy_n(each.block, 3, launch.block.begin());
    launch.sharedBytes = each.sharedBytes;
    auto *bytes = reinterpret_cast<const std::byte *>(&params);
    launch.parameters.assign(bytes, bytes + sizeof params);
    std::printf("%-40s", each.symbol.c_str());
    for (bool checks : {true, false}) {
      ptx::Options options;
      options.checksShared = options.checksRegisters = checks;
      ptx::Counts counts;
      auto begin = std::chrono::steady_clock::now();
      ptx::Status status =
          ptx::run(module, launch, operands.memory, options, &counts);
      std::chrono::duration<double> taken =
          std::chrono::steady_clock::now() - begin;
      if (!status.ok())
        std::printf("%s\n", status.message().c_str());
      std::printf("%8.1f %s",
                  double(counts.threadInstructions) * 1e-6 / taken.count(),
                  checks ? "" : "unchecked\n");
    }
  }
}

} // namespace

int main() {
  ptx::Module module;
  ptx::Status status = ptx::Module::parse(
      reinterpret_cast<const char *>(cuda::kernelPtx), module);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  using cpu::ElementType;
  for (ElementType type : {ElementType::BF16, ElementType::F32})
    for (int64_t dim : {64, 128}) {
      cuda::AttentionSizes sizes = {
          1, 512, 2, 2, dim, 0, float(1 / std::sqrt(dim)), 0};
      size_t bytes =
          size_t(512 * 2 * dim) * (type == ElementType::BF16 ? 2 : 4);
      Operands operands;
      void *array[8];
      std::generate_n(array, 8, [&] { return operands.add(bytes); });
      auto *lse = operands.add<float>(512 * 2 * 4);
      measure(module, cuda::getAttentionLaunches(sizes, type),
              cuda::AttentionParams{sizes, array[0], array[1], array[2],
                                    array[3], lse},
              operands);
      measure(module, cuda::getAttentionGradLaunches(sizes, type),
              cuda::AttentionGradParams{
                  sizes, array[0], array[1], array[2], array[3], lse, array[4],
                  array[5], array[6], array[7],
                  operands.add(cuda::getAttentionGradScratch(sizes))},
              operands);
    }
  return 0;
}
