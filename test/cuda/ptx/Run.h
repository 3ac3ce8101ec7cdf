//===- Run.h - Runs a kernel of a PTX module on the CPU -------------------===//
//
// A launch is run a warp at a time, all lanes of an instruction together.
// Branches split a warp's lanes, which meet again where the paths do. Warps of
// a block take turns: at barriers, and now and then where the seed has it so.
// Blocks run one after the other, in the order of the seed.
//
//     ptx::Module module;
//     ptx::Module::parse(text, module);
//     ptx::Memory memory;
//     memory.add(address, bytes, host);
//     ptx::Launch launch{"axpy", {blocks, 1, 1}, {threads, 1, 1}};
//     launch.parameters =
//         ptx::packParameters(*module.findKernel("axpy"), pointers);
//     ptx::run(module, launch, memory);
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_RUN_H
#define CLEAVE_TEST_CUDA_PTX_RUN_H

#include "Module.h"
#include <functional>

namespace cleave::ptx {

/// Bytes that kernels may reach.
struct Allocation {
  uint64_t address;
  size_t bytes;
  std::byte *host;
  bool isWritable = true;
};

/// What is allocated on the device. Allocations do not overlap.
class Memory {
public:
  /// Finds the last allocation that begins at or before an address.
  using Source = std::function<bool(uint64_t address, Allocation &found)>;

  Memory() = default;
  /// What `source` knows is added when it is asked for first.
  explicit Memory(Source source) : source(std::move(source)) {}

  void add(uint64_t address, size_t bytes, void *host, bool isWritable = true);
  void remove(uint64_t address);
  /// The allocation in which all of the bytes lie, or null.
  const Allocation *find(uint64_t address, size_t bytes) const;
  /// The last allocation that begins at or before `address`, or null.
  const Allocation *findBefore(uint64_t address) const;

private:
  Source source;
  mutable std::map<uint64_t, Allocation> allocations; // by address
};

struct Launch {
  std::string kernel;
  std::array<uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  uint32_t sharedBytes = 0; ///< beside what the kernel declares
  /// Each parameter at its offset, see Function::parameters.
  std::vector<std::byte> parameters;
};

/// The parameters' bytes from a pointer to each, as cuLaunchKernel takes them.
std::vector<std::byte> packParameters(const Function &kernel,
                                      void *const *pointers);

struct Options {
  uint64_t seed = 0;
  /// Races in shared memory, and reads of it where nothing wrote.
  bool checksShared = true;
  /// Reads of registers and local memory that nothing wrote.
  bool checksRegisters = true;
  /// A warp's turn is up after this many instructions or fewer; 0 is never.
  uint32_t longestTurn = 4096;
  /// Instructions of warps after which a launch is taken to be endless.
  uint64_t maxInstructions = uint64_t(1) << 40;
};

struct Counts {
  uint64_t warpInstructions = 0;
  uint64_t threadInstructions = 0; ///< by the lanes that took part
};

/// An error names the kernel, the block and thread, and the line of PTX. What
/// was written before it stays. `counts`, where there is one, is added to.
Status run(const Module &module, const Launch &launch, const Memory &memory,
           const Options &options = {}, Counts *counts = nullptr);

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_RUN_H
