//===- RuntimeKernelTest.cpp - The runtime's own kernels, by their PTX ----===//
//
// As the kernels' own tests have it, but of the text that GPUs get.
//
//===----------------------------------------------------------------------===//
#include "Testing.h"
#include "runtime/cpu/Embedding.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/kernels/CollectiveLaunches.h"
#include "runtime/cuda/kernels/Images.h"
#include "test/runtime/cpu/AttentionReference.h"

using namespace cleave;
using cpu::Buffer;
using ptx::Device;

namespace {

constexpr cpu::ElementType F32 = cpu::ElementType::F32;
constexpr cpu::ElementType BF16 = cpu::ElementType::BF16;

const ptx::Module &getModule() {
  static const ptx::Module module = [] {
    ptx::Module result;
    auto text = reinterpret_cast<const char *>(cuda::kernelPtx);
    ptx::expectOk(ptx::Module::parse(text, result));
    return result;
  }();
  return module;
}

class PtxRuntimeTest : public testing::Test {
protected:
  void SetUp() override {
    if (cuda::kernelPtx[0] == 0)
      GTEST_SKIP() << "the build had no clang for NVIDIA's GPUs";
  }
};

using PtxAttentionTest = PtxRuntimeTest;
using PtxEmbeddingTest = PtxRuntimeTest;
using PtxCollectiveTest = PtxRuntimeTest;

template <class Params>
ptx::Status runOne(const ptx::Module &module, const cuda::KernelLaunch &each,
                   const Params &params, const Device &device, uint64_t seed) {
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

template <class Params>
void launch(const std::vector<cuda::KernelLaunch> &launches,
            const Params &params, const Device &device) {
  static uint64_t seed = 0;
  for (const cuda::KernelLaunch &each : launches)
    ptx::expectOk(runOne(getModule(), each, params, device, seed++));
}

/// An address on the device as the parameters have it.
template <class T = void>
T *place(Device &device, Buffer &buffer) {
  return reinterpret_cast<T *>(device.add(buffer.data(), buffer.sizeBytes()));
}
template <class T>
T *place(Device &device, std::vector<T> &values) {
  return reinterpret_cast<T *>(device.add(values));
}
/// What is only read.
template <class T = const void>
T *placeInput(Device &device, const Buffer &buffer) {
  return reinterpret_cast<T *>(
      device.add(const_cast<void *>(buffer.data()), buffer.sizeBytes(), false));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Both directions against the reference in f64.
void checkAttention(const cpu::AttentionShape &s) {
  SCOPED_TRACE(testing::Message()
               << "batch " << s.batch << " seq " << s.seq << " heads "
               << s.heads << '/' << s.kvHeads << " dim " << s.headDim
               << " window " << s.window << " cap " << s.softcap << " scale "
               << s.scale << " type " << int(s.type));
  const cuda::AttentionSizes sizes = {s.batch,   s.seq,    s.heads, s.kvHeads,
                                      s.headDim, s.window, s.scale, s.softcap};
  const size_t queries = size_t(s.batch * s.seq * s.heads * s.headDim);
  const size_t keys = size_t(s.batch * s.seq * s.kvHeads * s.headDim);
  Buffer q = Buffer::random(s.type, queries, 1);
  Buffer k = Buffer::random(s.type, keys, 2);
  Buffer v = Buffer::random(s.type, keys, 3);
  Buffer dout = Buffer::random(s.type, queries, 4);
  Buffer out(s.type, queries), lse(F32, size_t(s.batch * s.heads * s.seq));
  Buffer dq(s.type, queries), dk(s.type, keys), dv(s.type, keys);
  Device device;
  auto *lseData = place<float>(device, lse);
  const void *qData = placeInput(device, q), *kData = placeInput(device, k),
             *vData = placeInput(device, v);
  void *outData = place(device, out);
  launch(cuda::getAttentionLaunches(sizes, s.type),
         cuda::AttentionParams{sizes, qData, kData, vData, outData, lseData},
         device);
  cpu::Workspace scratch(cuda::getAttentionGradScratch(sizes));
  auto *scratchData = reinterpret_cast<void *>(
      device.add(scratch.data(), cuda::getAttentionGradScratch(sizes)));
  launch(cuda::getAttentionGradLaunches(sizes, s.type),
         cuda::AttentionGradParams{sizes, qData, kData, vData, outData, lseData,
                                   placeInput(device, dout), place(device, dq),
                                   place(device, dk), place(device, dv),
                                   scratchData},
         device);
  cpu::Reference reference(s, q, k, v, dout);
  // As on the CPU; in bf16 the weights are rounded too.
  bool narrow = s.type == BF16;
  double near = narrow ? 6e-3 : 1e-6;
  EXPECT_LT(getError(out, reference.out), near);
  EXPECT_LT(getError(lse, reference.lse), 1e-6);
  double nearGrad = narrow ? 2e-2 : 2e-6;
  double dqSize = std::max(1e-3, reference.dqSize / 10);
  double dkSize = std::max(1e-3, reference.dkSize / 10);
  EXPECT_LT(getError(dq, reference.dq, dqSize), nearGrad);
  EXPECT_LT(getError(dk, reference.dk, dkSize), nearGrad);
  EXPECT_LT(getError(dv, reference.dv), near);
}

cpu::AttentionShape getShape(int64_t seq, int64_t headDim,
                             cpu::ElementType type) {
  return {1, seq, 1, 1, headDim, 0, type, float(1 / std::sqrt(headDim)), 0};
}

TEST_F(PtxAttentionTest, EveryLength) {
  for (int64_t seq : {1, 15, 17, 63, 64, 65, 129, 200})
    for (cpu::ElementType type : {F32, BF16})
      checkAttention(getShape(seq, 24, type));
}

TEST_F(PtxAttentionTest, EveryHeadDim) {
  for (int64_t dim : {1, 7, 8, 16, 64, 72, 96, 100, 128, 160, 192, 200, 256})
    for (cpu::ElementType type : {F32, BF16})
      checkAttention(getShape(70, dim, type));
}

TEST_F(PtxAttentionTest, ManyTilesOfEveryClass) {
  for (int64_t dim : {64, 96, 128, 192, 256})
    checkAttention(getShape(dim < 192 ? 300 : 150, dim, BF16));
}

TEST_F(PtxAttentionTest, GroupsWindowsAndCaps) {
  for (cpu::ElementType type : {F32, BF16}) {
    for (auto [heads, kvHeads] : {std::array<int64_t, 2>{4, 2}, {3, 1}}) {
      cpu::AttentionShape s = getShape(100, 16, type);
      s.batch = heads == 3 ? 1 : 2;
      s.heads = heads;
      s.kvHeads = kvHeads;
      s.window = heads == 3 ? 30 : 0;
      s.softcap = heads == 3 ? 0.5f : 0.0f;
      checkAttention(s);
    }
    for (int64_t window : {1, 17, 65, 149, 1000}) {
      cpu::AttentionShape s = getShape(150, 16, type);
      s.window = window;
      s.softcap = window % 2 == 0 ? 30.0f : 0.0f;
      checkAttention(s);
    }
  }
}

TEST_F(PtxAttentionTest, WindowsOfEveryClass) {
  for (int64_t dim : {64, 96, 128, 192, 256})
    for (int64_t window : {40, 130}) {
      cpu::AttentionShape s = getShape(dim < 192 ? 280 : 170, dim, BF16);
      s.window = window;
      s.softcap = window == 40 ? 5.0f : 0.0f;
      checkAttention(s);
    }
}

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
TEST_F(PtxAttentionTest, EveryBarrierThatIsMissingIsFound) {
  cpu::AttentionShape s = getShape(200, 64, BF16);
  const cuda::AttentionSizes sizes = {s.batch,   s.seq,    s.heads, s.kvHeads,
                                      s.headDim, s.window, s.scale, s.softcap};
  Buffer values = Buffer::random(BF16, 200 * 64, 1), results(BF16, 200 * 64);
  Buffer lse(F32, 200);
  Device device;
  const void *in = placeInput(device, values);
  cuda::AttentionParams params = {
      sizes, in, in, in, place(device, results), place<float>(device, lse)};
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
      status = runOne(module, each, params, device, seed);
    ptx::expectError(status, {"kernel " + each.symbol, "shared address"});
  }
  EXPECT_GE(removed, 2);
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// Ids of which some are outside the table, and many are the same.
std::vector<int32_t> getIds(int64_t rows, int64_t tableRows, int64_t first) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<int64_t> uniform(-2, tableRows + 2);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r)
    ids.push_back(
        int32_t(first + (r % 3 == 0 ? tableRows / 2 : uniform(generator))));
  return ids;
}

TEST_F(PtxEmbeddingTest, LooksUp) {
  cpu::ThreadPool pool(1);
  for (int64_t width : {1, 4, 130, 516})
    for (cpu::ElementType typeTable : {F32, BF16})
      for (cpu::ElementType typeOut : {F32, BF16}) {
        const int64_t rows = 20, tableRows = 9, first = 100;
        std::vector<int32_t> ids = getIds(rows, tableRows, first);
        Buffer table = Buffer::random(typeTable, size_t(tableRows * width), 1);
        Buffer got(typeOut, size_t(rows * width));
        Buffer want(typeOut, size_t(rows * width));
        Device device;
        cuda::EmbeddingParams params = {rows,
                                        width,
                                        tableRows,
                                        first,
                                        place(device, ids),
                                        placeInput(device, table),
                                        place(device, got)};
        launch(cuda::getEmbeddingLaunches(params, typeTable, typeOut), params,
               device);
        cpu::embedding({rows, width, tableRows, first, typeTable, typeOut,
                        ids.data(), table.data(), want.data()},
                       pool);
        EXPECT_TRUE(got == want);
      }
}

struct GradCase {
  int64_t rows, width, tableRows, first;
};

void checkEmbeddingGrad(const GradCase &c, cpu::ElementType typeDout,
                        cpu::ElementType typeDtable, bool accumulate) {
  SCOPED_TRACE(testing::Message()
               << "rows " << c.rows << " width " << c.width << " table "
               << c.tableRows << " types " << int(typeDout) << int(typeDtable)
               << " accumulate " << accumulate);
  cpu::ThreadPool pool(1);
  std::vector<int32_t> ids = getIds(c.rows, c.tableRows, c.first);
  Buffer dout = Buffer::random(typeDout, size_t(c.rows * c.width), 1);
  Buffer want = Buffer::random(typeDtable, size_t(c.tableRows * c.width), 2);
  Buffer got = want;
  size_t scratchBytes = cuda::getEmbeddingGradScratch(c.rows, c.tableRows);
  cpu::Workspace scratch(scratchBytes);
  Device device;
  cuda::EmbeddingGradParams params = {
      c.rows,
      c.width,
      c.tableRows,
      c.first,
      place(device, ids),
      placeInput(device, dout),
      place(device, got),
      reinterpret_cast<void *>(device.add(scratch.data(), scratchBytes)),
      accumulate};
  launch(cuda::getEmbeddingGradLaunches(params, typeDout, typeDtable), params,
         device);
  cpu::embeddingGrad({c.rows, c.width, c.tableRows, c.first, typeDout,
                      typeDtable, ids.data(), dout.data(), want.data(),
                      accumulate},
                     pool);
  EXPECT_TRUE(got == want);
}

TEST_F(PtxEmbeddingTest, GradientHasTheBitsOfTheCpu) {
  for (cpu::ElementType typeDout : {F32, BF16})
    for (cpu::ElementType typeDtable : {F32, BF16})
      for (bool accumulate : {false, true}) {
        checkEmbeddingGrad({300, 12, 40, -7}, typeDout, typeDtable, accumulate);
        checkEmbeddingGrad({70, 517, 9, 100}, typeDout, typeDtable, accumulate);
      }
}

TEST_F(PtxEmbeddingTest, GradientOfManyIds) {
  checkEmbeddingGrad({5000, 2, 255, 0}, F32, F32, false);
  checkEmbeddingGrad({5000, 2, 256, 0}, F32, F32, false);
  checkEmbeddingGrad({3000, 1, 70000, 1 << 20}, F32, F32, true);
}

TEST_F(PtxEmbeddingTest, GradientOfNoRowsClearsTheTable) {
  checkEmbeddingGrad({0, 8, 20, 0}, F32, F32, false);
  checkEmbeddingGrad({0, 8, 20, 0}, F32, F32, true);
}

//===----------------------------------------------------------------------===//
// Copies, conversions and sums
//===----------------------------------------------------------------------===//

TEST_F(PtxCollectiveTest, CopiesRowsOfAnyAlignment) {
  for (int64_t outer : {1, 3, 70})
    for (int64_t bytes : {1, 2, 12, 16, 64, 1000})
      for (int64_t gap : {0, 1, 2, 4, 8, 16}) {
        int64_t inStride = bytes + gap, outStride = bytes + 2 * gap;
        std::vector<char> in(size_t(outer * inStride)),
            got(size_t(outer * outStride), 'x');
        for (size_t i = 0; i < in.size(); ++i)
          in[i] = char(i * 7 + i / 256);
        std::vector<char> want = got;
        for (int64_t i = 0; i < outer; ++i)
          std::copy_n(in.begin() + i * inStride, bytes,
                      want.begin() + i * outStride);
        Device device;
        cuda::CopyRowsParams params = {outer,
                                       bytes,
                                       inStride,
                                       outStride,
                                       place(device, in),
                                       place(device, got)};
        launch(cuda::getCopyRowsLaunches(params), params, device);
        EXPECT_EQ(got, want);
      }
}

TEST_F(PtxCollectiveTest, ConvertsToBf16) {
  std::vector<float> in = {0.0f,        -0.0f,     1.0f,     1.00390625f,
                           1.01171875f, 3.3e38f,   -3.4e38f, 1e-40f,
                           INFINITY,    -INFINITY, 1.0e-20f, -7.7f};
  for (int i = 0; i < 600; ++i)
    in.push_back(float(std::sin(i * 1.7) * std::exp2(i % 40 - 20)));
  in.push_back(NAN);
  std::vector<uint16_t> got(in.size());
  Device device;
  cuda::ConvertParams params = {int64_t(in.size()), place(device, in),
                                place(device, got)};
  launch(cuda::getConvertLaunches(params.elements), params, device);
  for (size_t i = 0; i + 1 < in.size(); ++i)
    EXPECT_EQ(got[i], cpu::toBf16(in[i])) << in[i];
  EXPECT_TRUE(std::isnan(cpu::fromBf16(got.back())));
}

/// In the order of the inputs, in f32.
void checkReduce(cpu::ElementType type, bool isMax, int inputs, int outputs) {
  const size_t elements = 777;
  std::vector<Buffer> in, out(size_t(outputs), Buffer(type, elements));
  Device device;
  cuda::ReduceParams params = {};
  params.elements = int64_t(elements);
  params.inputs = inputs;
  params.outputs = outputs;
  for (int n = 0; n < inputs; ++n)
    in.push_back(Buffer::random(type, elements, unsigned(n + 1)));
  for (int n = 0; n < inputs; ++n)
    params.in[n] = placeInput(device, in[size_t(n)]);
  for (int n = 0; n < outputs; ++n)
    params.out[n] = place(device, out[size_t(n)]);
  launch(cuda::getReduceLaunches(params.elements, type, isMax), params, device);
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

TEST_F(PtxCollectiveTest, ReducesInOrder) {
  for (cpu::ElementType type : {F32, BF16})
    for (bool isMax : {false, true}) {
      checkReduce(type, isMax, 1, 1);
      checkReduce(type, isMax, 5, 2);
    }
}

TEST_F(PtxCollectiveTest, CopiesParts) {
  std::vector<int32_t> in(300), got(600, -1), want = got;
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = int32_t(i);
  // Three words each: rows one after the other, to pairs with a gap between.
  const int64_t rows = 100;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t word = 0; word < 3; ++word)
      want[size_t(row / 2 * 9 + row % 2 * 4 + word)] =
          in[size_t(row * 3 + word)];
  Device device;
  cuda::CopyPartsParams params = {rows,
                                  12,
                                  {rows, 12, 0},
                                  {2, 16, 36},
                                  place(device, in),
                                  place(device, got)};
  launch(cuda::getCopyPartsLaunches(params), params, device);
  EXPECT_EQ(got, want);
}

} // namespace
