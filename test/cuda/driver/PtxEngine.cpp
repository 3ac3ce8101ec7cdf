//===- PtxEngine.cpp - Kernels by their PTX -------------------------------===//
#include "test/cuda/driver/Codes.h"
#include "test/cuda/driver/Engine.h"
#include "test/cuda/ptx/Run.h"
#include <cstdlib>
#include <cstring>
#include <unordered_map>

using namespace cleave;
using namespace cleave::simulated;

namespace {

class PtxFunction : public simulated::Function {
public:
  PtxFunction(std::shared_ptr<const ptx::Module> module,
              const ptx::Function &kernel, uint64_t seed)
      : module(std::move(module)), kernel(kernel), seed(seed) {}

  std::vector<size_t> getParameterSizes() const override {
    std::vector<size_t> sizes;
    for (const ptx::Variable &parameter : kernel.parameters)
      sizes.push_back(parameter.bytes);
    return sizes;
  }

  void launch(const LaunchShape &shape, Parameters parameters,
              Execution &execution) const override {
    ptx::Launch launch;
    launch.kernel = kernel.name;
    launch.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
    launch.block = {shape.block.x, shape.block.y, shape.block.z};
    launch.sharedBytes = shape.sharedBytes;
    std::vector<void *> pointers;
    for (const std::vector<std::byte> &parameter : parameters)
      pointers.push_back(const_cast<std::byte *>(parameter.data()));
    launch.parameters = ptx::packParameters(kernel, pointers.data());
    ptx::Memory memory([&](uint64_t address, ptx::Allocation &found) {
      uint64_t bytes = 0;
      found.host = execution.findAllocation(address, found.address, bytes);
      found.bytes = bytes;
      return found.host != nullptr;
    });
    // Every launch has an order of its own, the same in each run of a seed.
    ptx::Options options;
    options.seed = (seed << 32) + execution.getOperation() + 1;
    runtime::Status status = ptx::run(*module, launch, memory, options);
    if (!status.ok())
      execution.fail(errorLaunchFailed, status.message());
  }

private:
  std::shared_ptr<const ptx::Module> module;
  const ptx::Function &kernel;
  uint64_t seed;
};

class PtxEngine : public Engine {
public:
  PtxEngine() {
    if (const char *text = std::getenv("CLEAVE_SIMULATED_SEED"))
      seed = std::strtoull(text, nullptr, 10);
  }

  std::shared_ptr<const simulated::Function>
  find(const Image &image, const std::string &name,
       std::string &why) const override {
    if (!image.isPtx) {
      why = "the image is a cubin, and this engine executes PTX";
      return nullptr;
    }
    std::shared_ptr<const ptx::Module> &module = modules[image.bytes];
    if (!module) {
      auto parsed = std::make_shared<ptx::Module>();
      runtime::Status status = ptx::Module::parse(image.bytes, *parsed);
      if (!status.ok()) {
        why = status.message();
        return nullptr;
      }
      module = std::move(parsed);
    }
    const ptx::Function *kernel = module->findKernel(name);
    if (kernel)
      return std::make_shared<PtxFunction>(module, *kernel, seed);
    why = "the PTX has no such kernel";
    return nullptr;
  }

private:
  uint64_t seed = 0;
  /// By their text.
  mutable std::unordered_map<std::string, std::shared_ptr<const ptx::Module>>
      modules;
};

} // namespace

std::unique_ptr<Engine> simulated::makePtxEngine() {
  return std::make_unique<PtxEngine>();
}
