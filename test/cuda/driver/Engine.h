//===- Engine.h - What executes a kernel of the simulated machine ---------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_ENGINE_H
#define CLEAVE_TEST_CUDA_DRIVER_ENGINE_H

#include "test/cuda/driver/Image.h"
#include "test/cuda/driver/Work.h"
#include <memory>
#include <span>
#include <vector>

namespace cleave::simulated {

struct Dimensions {
  unsigned x, y, z;
};

struct LaunchShape {
  Dimensions grid, block;
  unsigned sharedBytes; ///< dynamic shared memory of each block
};

/// The bytes of each of a launch's parameters, as they were when it was
/// enqueued.
using Parameters = std::span<const std::vector<std::byte>>;

/// A function of a loaded module, as an engine executes it. Immutable.
class Function {
public:
  virtual ~Function() = default;
  /// Of each parameter, in order: what cuLaunchKernel copies.
  virtual std::vector<size_t> getParameterSizes() const = 0;
  /// Executes the whole grid.
  virtual void launch(const LaunchShape &shape, Parameters parameters,
                      Execution &execution) const = 0;
};

class Engine {
public:
  virtual ~Engine() = default;
  /// The function `name` of an image that has it; null where this engine cannot
  /// execute it, and `why` then says so.
  virtual std::shared_ptr<const Function>
  find(const Image &image, const std::string &name, std::string &why) const = 0;
};

/// Executes a kernel by the CPU's code for the same thing: a generated one by
/// the function of that name in the running executable, a kernel of the runtime
/// by runtime/cpu.
std::unique_ptr<Engine> makeTwinEngine();

/// Executes a kernel by its PTX, on the interpreter of test/cuda/ptx.
std::unique_ptr<Engine> makePtxEngine();

/// By CLEAVE_SIMULATED_ENGINE's name; null for one that there is not.
std::unique_ptr<Engine> makeEngine(const std::string &name);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_ENGINE_H
