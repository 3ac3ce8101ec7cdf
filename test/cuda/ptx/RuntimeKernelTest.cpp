//===- RuntimeKernelTest.cpp - The runtime's own kernels, by their PTX ----===//
//
// As the kernels' own tests have it, but of the text that GPUs get.
//
//===----------------------------------------------------------------------===//
#include "Testing.h"
#include "runtime/cuda/kernels/CollectiveLaunches.h"
#include "runtime/cuda/kernels/Images.h"
#include "test/runtime/cuda/kernels/RuntimeKernels.h"

using namespace cleave;
using cpu::Buffer;

namespace {

const ptx::Module &getModule() {
  static const ptx::Module module = [] {
    ptx::Module result;
    auto text = reinterpret_cast<const char *>(cuda::kernelPtx);
    ptx::expectOk(ptx::Module::parse(text, result));
    return result;
  }();
  return module;
}

template <class Params>
ptx::Status runOne(const ptx::Module &module, const cuda::KernelLaunch &each,
                   const Params &params, const ptx::Device &device,
                   uint64_t seed) {
  ptx::Launch launch;
  launch.kernel = each.symbol;
  std::copy_n(each.grid, 3, launch.grid.begin());
  std::copy_n(each.block, 3, launch.block.begin());
  launch.sharedBytes = each.sharedBytes;
  auto *bytes = reinterpret_cast<const std::byte *>(&params);
  launch.parameters.assign(bytes, bytes + sizeof params);
  ptx::Options options;
  options.seed = seed;
  return ptx::run(module, launch, device.memory, options);
}

class PtxMachine {
public:
  static const char *getAbsence() {
    return cuda::kernelPtx[0] == 0 ? "the build had no clang for NVIDIA's GPUs"
                                   : nullptr;
  }
  void *place(void *memory, size_t bytes) {
    return reinterpret_cast<void *>(device.add(memory, bytes));
  }
  const void *placeInput(const void *memory, size_t bytes) {
    return reinterpret_cast<const void *>(
        device.add(const_cast<void *>(memory), bytes, false));
  }
  template <class Params>
  void launch(const std::vector<cuda::KernelLaunch> &launches,
              const Params &params) {
    static uint64_t seed = 0;
    for (const cuda::KernelLaunch &each : launches)
      ptx::expectOk(runOne(getModule(), each, params, device, seed++));
  }

  ptx::Device device;
};

} // namespace

namespace cleave {
INSTANTIATE_TYPED_TEST_SUITE_P(Ptx, RuntimeKernels, PtxMachine);
} // namespace cleave

namespace {

/// What no other machine executes.
using PtxKernels = RuntimeKernels<PtxMachine>;

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// The module's text with one kernel alone.
std::string getText(const std::string &kernel) {
  std::string text = reinterpret_cast<const char *>(cuda::kernelPtx);
  const char *entry = ".visible .entry ";
  std::string header = text.substr(0, text.find(entry));
  size_t begin = text.find(entry + kernel + "(");
  return header + text.substr(begin, text.find(entry, begin + 1) - begin);
}

/// Without any one of its barriers and waits a kernel has a race, and that is
/// found, if not in every order.
TEST_F(PtxKernels, EveryBarrierThatIsMissingIsFound) {
  cpu::AttentionShape s = getShape(200, 64, BF16);
  const cuda::AttentionSizes sizes = {s.batch,   s.seq,    s.heads, s.kvHeads,
                                      s.headDim, s.window, s.scale, s.softcap};
  Buffer values = Buffer::random(BF16, 200 * 64, 1), results(BF16, 200 * 64);
  Buffer lse(F32, 200);
  PtxMachine machine;
  const void *in = placeInput(machine, values);
  cuda::AttentionParams params = {sizes,
                                  in,
                                  in,
                                  in,
                                  placeAll(machine, results),
                                  static_cast<float *>(placeAll(machine, lse))};
  cuda::KernelLaunch each = cuda::getAttentionLaunches(sizes, BF16).front();
  const std::string text = getText(each.symbol);
  int removed = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at) + 1;
    std::string line = text.substr(at, end - at);
    at = end;
    if (line.find("barrier.sync") == std::string::npos &&
        line.find("bar.warp.sync") == std::string::npos &&
        line.find("cp.async.wait") == std::string::npos)
      continue;
    ++removed;
    std::string without = text;
    without.replace(end - line.size(), line.size(), "\n");
    ptx::Module module;
    ptx::expectOk(ptx::Module::parse(without, module));
    ptx::Status status;
    for (uint64_t seed = 1; seed < 6 && status.ok(); ++seed)
      status = runOne(module, each, params, machine.device, seed);
    ptx::expectError(status, {"kernel " + each.symbol, "shared address"});
  }
  EXPECT_GE(removed, 2);
}

//===----------------------------------------------------------------------===//
// Conversions and sums
//===----------------------------------------------------------------------===//

TEST_F(PtxKernels, ConvertsToBf16) {
  std::vector<float> in = {0.0f,        -0.0f,     1.0f,     1.00390625f,
                           1.01171875f, 3.3e38f,   -3.4e38f, 1e-40f,
                           INFINITY,    -INFINITY, 1.0e-20f, -7.7f};
  for (int i = 0; i < 600; ++i)
    in.push_back(float(std::sin(i * 1.7) * std::exp2(i % 40 - 20)));
  in.push_back(NAN);
  std::vector<uint16_t> got(in.size());
  PtxMachine machine;
  cuda::ConvertParams params = {int64_t(in.size()), placeAll(machine, in),
                                placeAll(machine, got)};
  machine.launch(cuda::getConvertLaunches(params.elements), params);
  for (size_t i = 0; i + 1 < in.size(); ++i)
    EXPECT_EQ(got[i], cpu::toBf16(in[i])) << in[i];
  EXPECT_TRUE(std::isnan(cpu::fromBf16(got.back())));
}

/// In the order of the inputs, in f32.
void checkReduce(cpu::ElementType type, bool isMax, int inputs, int outputs) {
  const size_t elements = 777;
  std::vector<Buffer> in, out(size_t(outputs), Buffer(type, elements));
  PtxMachine machine;
  cuda::ReduceParams params = {};
  params.elements = int64_t(elements);
  params.inputs = inputs;
  params.outputs = outputs;
  for (int n = 0; n < inputs; ++n)
    in.push_back(Buffer::random(type, elements, unsigned(n + 1)));
  for (int n = 0; n < inputs; ++n)
    params.in[n] = placeInput(machine, in[size_t(n)]);
  for (int n = 0; n < outputs; ++n)
    params.out[n] = placeAll(machine, out[size_t(n)]);
  machine.launch(cuda::getReduceLaunches(params.elements, type, isMax), params);
  Buffer want(type, elements);
  for (size_t i = 0; i < elements; ++i) {
    float kept = float(in[0][i]);
    for (size_t n = 1; n < in.size(); ++n) {
      auto next = float(in[n][i]);
      kept = !isMax ? kept + next : next > kept ? next : kept;
    }
    want.set(i, kept);
  }
  for (const Buffer &got : out)
    EXPECT_TRUE(got == want);
}

TEST_F(PtxKernels, ReducesInOrder) {
  for (cpu::ElementType type : {F32, BF16})
    for (bool isMax : {false, true}) {
      checkReduce(type, isMax, 1, 1);
      checkReduce(type, isMax, 5, 2);
    }
}

TEST_F(PtxKernels, CopiesParts) {
  std::vector<int32_t> in(300), got(600, -1), want = got;
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = int32_t(i);
  // Three words each: rows one after the other, to pairs with a gap between.
  const int64_t rows = 100;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t word = 0; word < 3; ++word)
      want[size_t(row / 2 * 9 + row % 2 * 4 + word)] =
          in[size_t(row * 3 + word)];
  PtxMachine machine;
  cuda::CopyPartsParams params = {rows,
                                  12,
                                  {rows, 12, 0},
                                  {2, 16, 36},
                                  placeAll(machine, in),
                                  placeAll(machine, got)};
  machine.launch(cuda::getCopyPartsLaunches(params), params);
  EXPECT_EQ(got, want);
}

} // namespace
