//===- Twin.cpp - Generated kernels, by the executable's own for the CPU --===//
//
// The twin of a generated CUDA kernel is the function of its name in the table
// `cleave_kernels` of the running executable. What it is launched over, the
// kernel table of the executable's program says; how a GPU launches it, the
// table of `cleave_cuda_code`. A launch's parameters are an address for each
// operand, then the two numbers that a CPU kernel is given, then the address of
// memory where blocks meet, of which the CPU's kernel has no need; or, of a
// launch that is several, the address of a table of them
// (runtime/abi/Kernel.h).
//
//===----------------------------------------------------------------------===//
#include "runtime/abi/Kernel.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Verify.h"
#include "runtime/program/program_generated.h"
#include "test/cuda/driver/Codes.h"
#include "test/cuda/driver/Engine.h"
#include "test/cuda/driver/RuntimeKernels.h"
#include "test/cuda/driver/Symbols.h"
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

using namespace cleave::simulated;
namespace fb = cleave::program;

namespace {

/// What the executable's compiled program has.
struct Generated {
  const CleaveKernelEntry *kernels = nullptr;
  uint64_t count = 0;
  const CleaveCudaCode *cuda = nullptr; ///< null without
  std::vector<uint64_t> storage;        ///< aligned as FlatBuffers asks
  const fb::Program *program = nullptr; ///< null without one

  static Generated find();
};

Generated Generated::find() {
  Generated result;
  auto *kernels = findSymbol("cleave_kernels");
  auto *count = findSymbol("cleave_kernel_count");
  auto *bytes = findSymbol("cleave_program");
  auto *size = findSymbol("cleave_program_size");
  if (!kernels || !count || !bytes || !size)
    return result;
  uint64_t total = *static_cast<const uint64_t *>(size);
  constexpr uint64_t header = cleave::runtime::programHeaderBytes;
  if (total <= header)
    return result;
  result.storage.resize((total - header + 7) / 8);
  std::memcpy(result.storage.data(), static_cast<const char *>(bytes) + header,
              total - header);
  auto *data = reinterpret_cast<const uint8_t *>(result.storage.data());
  flatbuffers::Verifier verifier(data, total - header);
  if (!fb::VerifyProgramBuffer(verifier))
    return result;
  result.program = fb::GetProgram(data);
  result.kernels = static_cast<const CleaveKernelEntry *>(kernels);
  result.count = *static_cast<const uint64_t *>(count);
  result.cuda =
      static_cast<const CleaveCudaCode *>(findSymbol("cleave_cuda_code"));
  return result;
}

/// Of operands and of where blocks meet; token ids of a micro-batch begin at
/// any multiple of 4.
constexpr uint64_t alignment = 16, integerAlignment = 4;

class GeneratedFunction : public Function {
public:
  GeneratedFunction(CleaveKernelFn fn, const fb::Kernel &kernel,
                    const CleaveCudaKernel *cuda, bool isMulti)
      : fn(fn), kernel(kernel), cuda(cuda), isMulti(isMulti) {}

  std::vector<size_t> getParameterSizes() const override {
    size_t count = isMulti ? 2 : kernel.accesses()->size() + 3;
    return std::vector<size_t>(count, sizeof(uint64_t));
  }

  void launch(const LaunchShape &shape, Parameters parameters,
              Execution &execution) const override {
    size_t operands = kernel.accesses()->size();
    std::vector<uint64_t> words(parameters.size());
    for (size_t i = 0; i < words.size(); ++i)
      std::memcpy(&words[i], parameters[i].data(), sizeof(words[i]));
    Address meeting = isMulti ? 0 : words[operands + 2];
    if (cuda)
      checkCuda(shape, meeting, execution);
    if (execution.hasFailed())
      return;
    if (!isMulti)
      return launch(words.data(), int64_t(words[operands + 1]), execution);
    uint64_t rowBytes = (operands + 1) * sizeof(uint64_t);
    std::byte *table =
        execution.translate(words[0], shape.grid.y * rowBytes, "the table");
    std::vector<uint64_t> row(operands + 1);
    for (unsigned y = 0; y < shape.grid.y && !execution.hasFailed(); ++y) {
      std::memcpy(row.data(), table + y * rowBytes, rowBytes);
      launch(row.data(), int64_t(words[1]), execution);
    }
  }

private:
  /// `words`: the operands' addresses, then the first number.
  void launch(const uint64_t *words, int64_t number,
              Execution &execution) const {
    size_t operands = kernel.accesses()->size();
    std::vector<void *> buffers(operands);
    for (size_t i = 0; i < operands; ++i)
      buffers[i] = translate(words[i], i, execution);
    if (execution.hasFailed())
      return;
    int64_t numbers[] = {int64_t(words[operands]), number};
    bool isColumn = kernel.mode() == fb::KernelMode::Column;
    execution.getPool().parallelFor(
        0, int64_t(isColumn ? kernel.columns() : kernel.rows()),
        int64_t(kernel.grain()), [&](int64_t begin, int64_t end, int) {
          fn(buffers.data(), numbers, begin, end);
        });
  }

  /// What the kernel's code for GPUs counts on. Behind its counters, blocks
  /// leave anything.
  void checkCuda(const LaunchShape &shape, Address meeting,
                 Execution &execution) const {
    if (shape.grid.x != cuda->blocks || shape.block.x != cuda->threads ||
        (shape.grid.y != 1 && !isMulti) ||
        shape.grid.z * shape.block.y * shape.block.z != 1)
      execution.fail(errorIllegalAddress,
                     "expects " + std::to_string(cuda->blocks) + " blocks of " +
                         std::to_string(cuda->threads) + " threads, got " +
                         std::to_string(shape.grid.x) + " of " +
                         std::to_string(shape.block.x));
    uint64_t bytes = cuda->scratch_bytes,
             counters = std::min<uint64_t>(bytes, CLEAVE_CUDA_COUNTER_BYTES);
    checkAlignment(bytes > 0 ? meeting : 0, "the scratch", execution);
    std::byte *begin = execution.translate(meeting, bytes, "the scratch");
    if (execution.hasFailed() || bytes == 0)
      return;
    if (std::any_of(begin, begin + counters,
                    [](std::byte byte) { return byte != std::byte(0); }))
      execution.fail(errorIllegalAddress,
                     "the counters where blocks meet are not zero");
    std::memset(begin + counters, 0xff, bytes - counters);
  }

  static void checkAlignment(Address address, const char *name,
                             Execution &execution,
                             uint64_t expected = alignment) {
    if (address % expected != 0)
      execution.fail(errorMisalignedAddress,
                     std::string(name) + " is not aligned to " +
                         std::to_string(expected) + " bytes");
  }

  /// All that the kernel touches of an operand lies in one allocation.
  void *translate(Address address, size_t i, Execution &execution) const {
    const fb::Access &access =
        *kernel.accesses()->Get(flatbuffers::uoffset_t(i));
    std::string name = "operand " + std::to_string(i);
    auto touched = cleave::runtime::getTouchedBytes(kernel, access);
    if (!touched) {
      execution.fail(errorIllegalAddress, name + " has no size");
      return nullptr;
    }
    checkAlignment(address, name.c_str(), execution,
                   access.dtype() == fb::DType::I32 ? integerAlignment
                                                    : alignment);
    std::byte *first = execution.translate(
        address + touched->begin, touched->end - touched->begin, name.c_str());
    return first ? first - touched->begin : nullptr;
  }

  CleaveKernelFn fn;
  const fb::Kernel &kernel;
  const CleaveCudaKernel *cuda;
  bool isMulti;
};

class TwinEngine : public Engine {
public:
  std::shared_ptr<const Function> find(const Image &, const std::string &name,
                                       std::string &why) const override {
    if (auto function = findRuntimeKernel(name))
      return function;
    if (!found)
      found = Generated::find();
    const Generated &generated = *found;
    if (!generated.program) {
      why = "the executable has no cleave_kernels and cleave_program, or was "
            "stripped of their names";
      return nullptr;
    }
    std::string symbol = name;
    const CleaveCudaKernel *cuda = nullptr;
    bool isMulti = false;
    for (uint64_t i = 0; generated.cuda && i < generated.cuda->kernel_count;
         ++i) {
      const CleaveCudaKernel &each = generated.cuda->kernels[i];
      bool names = each.multi_symbol && name == each.multi_symbol;
      if (!names && name != each.symbol)
        continue;
      symbol = each.symbol;
      cuda = &each;
      isMulti = names;
    }
    CleaveKernelFn fn = nullptr;
    for (uint64_t i = 0; i < generated.count; ++i)
      if (symbol == generated.kernels[i].symbol)
        fn = generated.kernels[i].fn;
    if (fn && generated.program->kernels())
      for (const fb::Kernel *kernel : *generated.program->kernels())
        if (kernel->symbol() && kernel->symbol()->string_view() == symbol &&
            kernel->accesses())
          return std::make_shared<GeneratedFunction>(fn, *kernel, cuda,
                                                     isMulti);
    why = fn ? "the executable's program has no such kernel"
             : "the executable has no CPU kernel of that name";
    return nullptr;
  }

private:
  mutable std::optional<Generated> found; ///< once somebody asked
};

} // namespace

std::unique_ptr<Engine> cleave::simulated::makeTwinEngine() {
  return std::make_unique<TwinEngine>();
}

std::unique_ptr<Engine> cleave::simulated::makeEngine(const std::string &name) {
  if (name == "twin")
    return makeTwinEngine();
  if (name == "ptx")
    return makePtxEngine();
  return nullptr;
}
