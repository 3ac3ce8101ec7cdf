//===- cuda_runner.cpp - Runs kernels on a GPU and compares with the CPU --===//
//
// Usage: cuda_runner DIR [--untimed], as written by cuda_samples. Runs the PTX,
// and the cubin if there is one for the GPU, of every kernel on the same
// pseudo-random inputs as its CPU code, and compares all outputs. Prints
// "SKIPPED" and succeeds where there is no GPU. Links neither LLVM nor CUDA, so
// it and DIR can be carried to another machine.
//
//===----------------------------------------------------------------------===//
#include "runtime/abi/Kernel.h"
#include "runtime/cuda/Kernel.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using namespace cleave::runtime;

namespace {

struct Operand {
  bool isInput;
  std::string type, fill;
  size_t elements;
  int64_t columns;

  size_t getWidth() const { return type == "bf16" ? 2 : 4; }
  size_t getBytes() const { return elements * getWidth(); }
};

struct Kernel {
  std::string name;
  int64_t range;
  unsigned blocks, threads;
  size_t scratchBytes;
  bool sums;
  std::vector<Operand> operands;
};

/// Bytes at a multiple of 64.
struct Buffer {
  explicit Buffer(size_t bytes)
      : bytes(bytes), data(static_cast<char *>(
                          std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {}
  Buffer(Buffer &&other) noexcept : bytes(other.bytes), data(other.data) {
    other.data = nullptr;
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { std::free(data); }

  size_t bytes;
  char *data;
};

} // namespace

[[noreturn]] static void fail(const std::string &message) {
  fprintf(stderr, "cuda_runner: %s\n", message.c_str());
  std::exit(1);
}

static void require(const Status &status) {
  if (!status.ok())
    fail(status.message());
}

static std::vector<Kernel> readLaunches(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    fail("cannot read " + path);
  std::vector<Kernel> kernels;
  std::string word;
  while (file >> word) {
    if (word != "kernel")
      fail(path + ": expects \"kernel\", got \"" + word + "\"");
    Kernel kernel;
    size_t count = 0;
    file >> kernel.name >> kernel.range >> kernel.blocks >> kernel.threads >>
        kernel.scratchBytes >> count >> kernel.sums;
    for (size_t i = 0; i < count; ++i) {
      Operand operand;
      std::string direction;
      file >> word >> direction >> operand.type >> operand.elements >>
          operand.fill >> operand.columns;
      operand.isInput = direction == "in";
      kernel.operands.push_back(operand);
    }
    if (!file)
      fail(path + ": ends within a kernel");
    kernels.push_back(kernel);
  }
  return kernels;
}

static void fillBuffer(Buffer &buffer, const Operand &operand,
                       std::mt19937 &random) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int32_t> index(
      -1, int32_t(2 * operand.columns - 1));
  for (size_t i = 0; i < operand.elements; ++i) {
    char *at = buffer.data + i * operand.getWidth();
    if (operand.type == "i32") {
      int32_t value = index(random);
      std::memcpy(at, &value, 4);
      continue;
    }
    float value = normal(random);
    if (operand.fill == "positive")
      value = std::abs(value) + 0.1f;
    char raw[4];
    std::memcpy(raw, &value, 4);
    std::memcpy(at, raw + 4 - operand.getWidth(), operand.getWidth());
  }
}

static double readElement(const Buffer &buffer, const Operand &operand,
                          size_t i) {
  char raw[4] = {};
  std::memcpy(raw + 4 - operand.getWidth(),
              buffer.data + i * operand.getWidth(), operand.getWidth());
  if (operand.type == "i32") {
    int32_t value;
    std::memcpy(&value, raw, 4);
    return value;
  }
  float value;
  std::memcpy(&value, raw, 4);
  return double(value);
}

/// The largest difference, relative to the element plus the root mean square of
/// all, plus 1 for sums, in which terms of that size cancel. Equal infinities
/// and two NaN agree.
static double getDeviation(const Buffer &got, const Buffer &want,
                           const Kernel &kernel, const Operand &operand) {
  double squares = 0, worst = 0;
  size_t finite = 0;
  for (size_t i = 0; i < operand.elements; ++i)
    if (double x = readElement(want, operand, i); std::isfinite(x)) {
      squares += x * x;
      ++finite;
    }
  double scale = std::sqrt(squares / double(std::max<size_t>(finite, 1))) +
                 (kernel.sums ? 1 : 0);
  for (size_t i = 0; i < operand.elements; ++i) {
    double x = readElement(got, operand, i), y = readElement(want, operand, i);
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    double error = std::abs(x - y) / (std::abs(y) + scale);
    worst = std::max(worst, std::isnan(error) ? 1e30 : error);
  }
  return worst;
}

/// Runs all kernels of one module; the number that disagree.
static int runModule(const cuda::Context &context, const std::string &path,
                     const std::vector<Kernel> &kernels,
                     const CleaveKernelEntry *table, bool isTimed) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  image.push_back(0); // ends PTX
  const cuda::Driver &driver = context.getDriver();
  auto call = [&](int result, const char *name) {
    require(driver.check(result, name, __FILE__, __LINE__));
  };
  cuda::Handle module;
  require(context.loadModule(image.data(), module));
  int wrong = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel &kernel = kernels[k];
    if (kernel.name != table[k].symbol)
      fail("kernels.so and launches.txt disagree");
    std::mt19937 random(7);
    std::vector<Buffer> host, results;
    std::vector<cuda::DeviceMemory> memory(kernel.operands.size());
    std::vector<cuda::Address> device;
    std::vector<void *> pointers, parameters;
    size_t bytes = 0;
    for (size_t i = 0; i < kernel.operands.size(); ++i) {
      const Operand &operand = kernel.operands[i];
      host.emplace_back(operand.getBytes());
      fillBuffer(host[i], operand, random);
      require(cuda::DeviceMemory::allocate(context, operand.getBytes(),
                                           "an operand", memory[i]));
      device.push_back(memory[i].getAddress());
      call(driver.api.copyHostToDevice(device[i], host[i].data,
                                       operand.getBytes()),
           "copyHostToDevice");
      results.emplace_back(operand.getBytes());
      bytes += operand.getBytes();
    }
    int64_t params[] = {1, 2};
    for (size_t i = 0; i < device.size(); ++i) {
      pointers.push_back(host[i].data);
      parameters.push_back(&device[i]);
    }
    parameters.push_back(&params[0]);
    parameters.push_back(&params[1]);
    cuda::DeviceMemory scratch;
    require(cuda::DeviceMemory::allocate(context, kernel.scratchBytes,
                                         "scratch memory", scratch));
    cuda::Address scratchAddress = scratch.getAddress();
    if (kernel.scratchBytes)
      call(driver.api.memsetAsync(scratchAddress, 0, kernel.scratchBytes,
                                  nullptr),
           "memsetAsync");
    parameters.push_back(&scratchAddress);
    cuda::Kernel launched;
    require(
        context.getFunction(module, kernel.name.c_str(), launched.function));
    launched.grid[0] = kernel.blocks;
    launched.block[0] = kernel.threads;
    require(launched.launch(driver, parameters.data(), nullptr));
    call(driver.api.contextSynchronize(), "contextSynchronize");
    for (size_t i = 0; i < device.size(); ++i)
      call(driver.api.copyDeviceToHost(results[i].data, device[i],
                                       results[i].bytes),
           "copyDeviceToHost");
    table[k].fn(pointers.data(), params, 0, kernel.range);

    double worst = 0;
    bool agrees = true;
    for (size_t i = 0; i < device.size(); ++i) {
      const Operand &operand = kernel.operands[i];
      double deviation = getDeviation(results[i], host[i], kernel, operand);
      agrees &= deviation <= (operand.type == "bf16" ? 8e-3 : 1e-5);
      worst = std::max(worst, deviation);
    }
    wrong += !agrees;
    if (!isTimed) {
      printf("%-44s deviation %.1e%s\n", kernel.name.c_str(), worst,
             agrees ? "" : "  WRONG");
      continue;
    }
    // Timed last: a launch may accumulate.
    constexpr int repeats = 20;
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i)
      require(launched.launch(driver, parameters.data(), nullptr));
    call(driver.api.contextSynchronize(), "contextSynchronize");
    std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    printf("%-44s deviation %.1e  %8.2f us  %7.1f GB/s%s\n",
           kernel.name.c_str(), worst, taken.count() / repeats * 1e6,
           double(bytes) * repeats / taken.count() * 1e-9,
           agrees ? "" : "  WRONG");
  }
  printf("%s: %zu of %zu kernels agree\n", path.c_str(),
         kernels.size() - size_t(wrong), kernels.size());
  return wrong;
}

int main(int argc, char **argv) {
  bool isTimed = argc == 2;
  if (argc != 2 && !(argc == 3 && std::string(argv[2]) == "--untimed"))
    fail("usage: cuda_runner DIR [--untimed]");
  std::string directory = argv[1];
  std::vector<Kernel> kernels = readLaunches(directory + "/launches.txt");
  void *library = dlopen((directory + "/kernels.so").c_str(), RTLD_NOW);
  if (!library)
    fail(dlerror());
  auto *table =
      static_cast<const CleaveKernelEntry *>(dlsym(library, "cleave_kernels"));
  auto *count =
      static_cast<const uint64_t *>(dlsym(library, "cleave_kernel_count"));
  if (!table || !count || *count != kernels.size())
    fail("kernels.so and launches.txt disagree");

  const cuda::Driver *driver = nullptr;
  std::string absence;
  require(cuda::Driver::open(driver, absence));
  if (!driver) {
    printf("SKIPPED: %s; %zu kernels were not run\n", absence.c_str(),
           kernels.size());
    return 0;
  }
  std::unique_ptr<cuda::Context> context;
  require(cuda::Context::create(*driver, 0, context));
  printf("%s\n", context->getName().c_str());
  int wrong =
      runModule(*context, directory + "/kernels.ptx", kernels, table, isTimed);
  std::string cubin = directory + "/kernels.cubin";
  if (context->getChip() == "sm_90" && std::ifstream(cubin))
    wrong += runModule(*context, cubin, kernels, table, isTimed);
  return wrong ? 1 : 0;
}
