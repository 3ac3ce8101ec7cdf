//===- TwinTest.cpp - Kernels by the CPU's code ---------------------------===//
#include "runtime/comm/Reduce.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/cuda/kernels/EmbeddingSort.h"
#include "runtime/cuda/kernels/Kernels.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/program_generated.h"
#include "test/cuda/Simulated.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace cleave::simulated;
namespace fb = cleave::program;
namespace kernels = cleave::cuda;

//===----------------------------------------------------------------------===//
// What a compiled program brings: kernels, and a program that has them. They
// are found though nothing exports them.
//===----------------------------------------------------------------------===//

/// out[r] += in[r] * (1 + shard index), or, in a first run, = it.
static void scaleRows(void *const *buffers, const int64_t *params,
                      int64_t begin, int64_t end) {
  auto *in = static_cast<const float *>(buffers[0]);
  auto *out = static_cast<float *>(buffers[1]);
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < 4; ++c)
      out[r * 4 + c] = (params[1] ? out[r * 4 + c] : 0) +
                       in[r * 4 + c] * float(1 + params[0]);
}

/// out[c] = the sum of in over its rows.
static void sumRows(void *const *buffers, const int64_t *, int64_t begin,
                    int64_t end) {
  auto *in = static_cast<const float *>(buffers[0]);
  auto *out = static_cast<float *>(buffers[1]);
  for (int64_t c = begin; c < end; ++c) {
    out[c] = 0;
    for (int64_t r = 0; r < 3; ++r)
      out[c] += in[r * 4 + c];
  }
}

extern "C" {
struct TestKernel {
  const char *symbol;
  void (*fn)(void *const *, const int64_t *, int64_t, int64_t);
};
[[gnu::used]] TestKernel cleave_kernels[] = {{"scale_rows", scaleRows},
                                             {"sum_rows", sumRows}};
[[gnu::used]] uint64_t cleave_kernel_count = 2;
struct TestCudaKernel {
  const char *symbol, *multiSymbol;
  uint32_t blocks, threads;
  uint64_t scratchBytes;
};
struct TestCudaCode {
  const TestCudaKernel *kernels;
  uint64_t count;
};
[[gnu::used]] unsigned char cleave_program[4096];
[[gnu::used]] uint64_t cleave_program_size = 0;
}

/// Simulation::launch() has one block. Blocks of the second one meet.
static constexpr uint64_t counterBytes = 16384,
                          meetingBytes = counterBytes + 64;
static const TestCudaKernel cudaKernels[] = {
    {"scale_rows", "scale_rows_multi", 1, 32, 0},
    {"sum_rows", nullptr, 1, 32, meetingBytes}};
extern "C" {
[[gnu::used]] TestCudaCode cleave_cuda_code = {cudaKernels, 2};
}

namespace {

class Twin : public testing::Test {
protected:
  static void SetUpTestSuite() {
    fb::ProgramT program;
    auto add = [&](const char *symbol, fb::KernelMode mode,
                   std::vector<fb::Access> accesses) {
      auto kernel = std::make_unique<fb::KernelT>();
      kernel->symbol = symbol;
      kernel->mode = mode;
      kernel->rows = 3;
      kernel->columns = 4;
      kernel->grain = 1;
      kernel->inputs = 1;
      kernel->accesses = std::move(accesses);
      program.kernels.push_back(std::move(kernel));
    };
    fb::Access rows(0, 1, 0, 4, 1, fb::DType::F32);
    fb::Access columns(0, 1, 1, 0, 1, fb::DType::F32);
    add("scale_rows", fb::KernelMode::Row, {rows, rows});
    add("sum_rows", fb::KernelMode::Column, {rows, columns});
    flatbuffers::FlatBufferBuilder builder;
    fb::FinishProgramBuffer(builder, fb::Program::Pack(builder, &program));
    std::vector<uint8_t> sealed = cleave::runtime::sealProgram(
        builder.GetBufferPointer(), builder.GetSize());
    ASSERT_LE(sealed.size(), sizeof cleave_program);
    std::memcpy(cleave_program, sealed.data(), sealed.size());
    cleave_program_size = sealed.size();
  }

  int launch(const char *name, Address in, Address out, int64_t shard,
             int64_t further, Address meeting = 0) {
    void *parameters[] = {&in, &out, &shard, &further, &meeting};
    return machine.launch(machine.getFunction(name), parameters, stream);
  }
  /// A kernel of the runtime, with its structure.
  template <typename Params>
  void launch(const std::string &name, Params &params) {
    void *parameters[] = {&params};
    EXPECT_EQ(machine.launch(machine.getFunction(name), parameters, stream),
              success);
  }
  /// What is said of launches that fail.
  std::string getFailure() {
    testing::internal::CaptureStderr();
    EXPECT_NE(machine.cuda.streamSynchronize(stream), success);
    return testing::internal::GetCapturedStderr();
  }
  static void *toPointer(Address address) {
    return reinterpret_cast<void *>(uintptr_t(address));
  }

  Simulation machine;
  void *stream = machine.makeStream();
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
};

TEST_F(Twin, GeneratedKernels) {
  Address in = machine.upload(values), out = machine.allocate(48),
          sums = machine.allocate(16);
  ASSERT_EQ(launch("scale_rows", in, out, 1, 0), success);
  ASSERT_EQ(launch("scale_rows", in, out, 0, 1), success);
  Address meeting = machine.upload(std::vector<char>(meetingBytes));
  ASSERT_EQ(launch("sum_rows", in, sums, 0, 0, meeting), success);
  ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
  std::vector<float> scaled = machine.download<float>(out, 12);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(scaled[i], 3 * values[i]);
  EXPECT_EQ(machine.download<float>(sums, 4),
            std::vector<float>({15, 18, 21, 24}));
}

/// A table with a row for each of several launches.
TEST_F(Twin, SeveralLaunchesAtOnce) {
  Address a = machine.upload(values), b = machine.upload(values),
          outA = machine.allocate(48), outB = machine.allocate(48);
  std::vector<uint64_t> rows = {a, outA, 1, b, outB, 2};
  Address table = machine.upload(rows);
  int64_t further = 0;
  void *parameters[] = {&table, &further};
  auto launchRows = [&](unsigned count) {
    return machine.cuda.launchKernel(machine.getFunction("scale_rows_multi"), 1,
                                     count, 1, 32, 1, 1, 0, stream, parameters,
                                     nullptr);
  };
  ASSERT_EQ(launchRows(2), success);
  ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
  std::vector<float> scaledA = machine.download<float>(outA, 12),
                     scaledB = machine.download<float>(outB, 12);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(scaledA[i], 2 * values[i]) << i;
    EXPECT_EQ(scaledB[i], 3 * values[i]) << i;
  }
  ASSERT_EQ(launchRows(3), success);
  std::string text = getFailure();
  EXPECT_NE(text.find("the table: 72 bytes"), std::string::npos) << text;
}

TEST_F(Twin, OperandThatIsTooSmall) {
  Address in = machine.upload(values), out = machine.allocate(44);
  ASSERT_EQ(launch("scale_rows", in, out, 0, 0), success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(machine.cuda.streamSynchronize(stream), errorIllegalAddress);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("launch of scale_rows"), std::string::npos) << text;
  EXPECT_NE(text.find("operand 1: 48 bytes"), std::string::npos) << text;
}

TEST_F(Twin, OperandThatIsNotAligned) {
  Address in = machine.upload(values), out = machine.allocate(100);
  ASSERT_EQ(launch("scale_rows", in, out + 8, 0, 0), success);
  std::string text = getFailure();
  EXPECT_NE(text.find("operand 1 is not aligned to 16 bytes"),
            std::string::npos)
      << text;
}

/// Blocks find zeros where they meet.
TEST_F(Twin, CountersThatAreNotZero) {
  Address in = machine.upload(values), sums = machine.allocate(16),
          meeting = machine.upload(std::vector<char>(meetingBytes));
  // All that is behind the counters may be anything.
  ASSERT_EQ(machine.cuda.memsetAsync(meeting + counterBytes, 1, 64, stream),
            success);
  ASSERT_EQ(launch("sum_rows", in, sums, 0, 0, meeting), success);
  ASSERT_EQ(machine.cuda.streamSynchronize(stream), success);
  ASSERT_EQ(machine.cuda.memsetAsync(meeting + counterBytes - 1, 1, 1, stream),
            success);
  ASSERT_EQ(launch("sum_rows", in, sums, 0, 0, meeting), success);
  std::string text = getFailure();
  EXPECT_NE(text.find("counters where blocks meet"), std::string::npos) << text;
}

TEST_F(Twin, ScratchThatIsTooSmall) {
  Address in = machine.upload(values), sums = machine.allocate(16),
          meeting = machine.upload(std::vector<char>(meetingBytes - 1));
  ASSERT_EQ(launch("sum_rows", in, sums, 0, 0, meeting), success);
  std::string text = getFailure();
  EXPECT_NE(text.find("the scratch: 16448 bytes"), std::string::npos) << text;
}

TEST_F(Twin, GridOfAnotherSize) {
  Address in = machine.upload(values), out = machine.allocate(48), meeting = 0;
  int64_t number = 0;
  void *parameters[] = {&in, &out, &number, &number, &meeting};
  ASSERT_EQ(machine.cuda.launchKernel(machine.getFunction("scale_rows"), 2, 1,
                                      1, 32, 1, 1, 0, stream, parameters,
                                      nullptr),
            success);
  std::string text = getFailure();
  EXPECT_NE(text.find("expects 1 blocks of 32 threads, got 2 of 32"),
            std::string::npos)
      << text;
}

TEST_F(Twin, UnknownKernel) {
  const char *ptx = ".version 8.0\n.target sm_90\n.visible .entry other() {}";
  void *module = nullptr, *function = nullptr;
  ASSERT_EQ(machine.cuda.moduleLoadDataEx(&module, ptx, 0, nullptr, nullptr),
            success);
  EXPECT_EQ(machine.cuda.moduleGetFunction(&function, module, "other"),
            errorNotFound);
}

/// Two look-ups of row 2, one of row 0, and one of a row that others have.
struct Lookup {
  explicit Lookup(const Simulation &machine) : grad(machine.allocate(48)) {
    auto point = [](Address address) {
      return reinterpret_cast<void *>(uintptr_t(address));
    };
    auto *ids = static_cast<int32_t *>(
        point(machine.upload(std::vector<int32_t>{2, 0, 5, 2})));
    void *scratch =
        point(machine.allocate(kernels::getEmbeddingSort(4, 3).bytes));
    params = {4, 4, 3, 0, ids, nullptr, point(machine.allocate(4 * 16))};
    gradParams = {4, 4, 3, 0, ids, params.out, point(grad), scratch, 0};
  }
  Address grad;
  kernels::EmbeddingParams params;
  kernels::EmbeddingGradParams gradParams;
};

TEST_F(Twin, Embedding) {
  Lookup lookup(machine);
  lookup.params.table = toPointer(machine.upload(values));
  launch("cleave_embedding_f32_f32", lookup.params);
  for (const char *name :
       {"cleave_part_embedding_count_0", "cleave_part_embedding_scatter_0",
        "cleave_part_embedding_starts", "cleave_embedding_grad_f32_f32"})
    launch(name, lookup.gradParams);
  EXPECT_EQ(machine.download<float>(Address(uintptr_t(lookup.params.out)), 16),
            std::vector<float>(
                {9, 10, 11, 12, 1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11, 12}));
  EXPECT_EQ(machine.download<float>(lookup.grad, 12),
            std::vector<float>({1, 2, 3, 4, 0, 0, 0, 0, 18, 20, 22, 24}));
}

/// The last launch of an instruction finds its scratch as those before it left
/// it.
TEST_F(Twin, ScratchThatAnotherLaunchWrites) {
  Lookup lookup(machine);
  launch("cleave_part_embedding_starts", lookup.gradParams);
  ASSERT_EQ(
      machine.cuda.memsetAsync(
          Address(uintptr_t(lookup.gradParams.scratch)) + 8, 0, 1, stream),
      success);
  launch("cleave_embedding_grad_f32_f32", lookup.gradParams);
  std::string text = getFailure();
  EXPECT_NE(text.find("byte 8 of the scratch"), std::string::npos) << text;
}

TEST_F(Twin, LastLaunchWithoutThoseBefore) {
  Lookup lookup(machine);
  launch("cleave_embedding_grad_f32_f32", lookup.gradParams);
  std::string text = getFailure();
  EXPECT_NE(text.find("byte 0 of the scratch"), std::string::npos) << text;
}

/// A sequence of one token has its own value as output.
TEST_F(Twin, AttentionOfOneToken) {
  std::vector<float> q(16, 1);
  std::vector<float> v = {1, 2,  3,  4,  5,  6,  7,  8,
                          9, 10, 11, 12, 13, 14, 15, 16};
  Address out = machine.allocate(64), lse = machine.allocate(4);
  kernels::AttentionParams params{{1, 1, 1, 1, 16, 0, 0.25f, 0},
                                  toPointer(machine.upload(q)),
                                  toPointer(machine.upload(q)),
                                  toPointer(machine.upload(v)),
                                  toPointer(out),
                                  static_cast<float *>(toPointer(lse))};
  launch("cleave_attention_f32_d16", params);
  EXPECT_EQ(machine.download<float>(out, 16), v);
  EXPECT_EQ(machine.download<float>(lse, 1), std::vector<float>({4}));
}

TEST_F(Twin, CopyRows) {
  Address in = machine.upload(values), out = machine.allocate(24);
  kernels::CopyRowsParams params{3,
                                 8,
                                 16,
                                 8,
                                 reinterpret_cast<void *>(uintptr_t(in + 4)),
                                 reinterpret_cast<void *>(uintptr_t(out))};
  launch("cleave_copy_rows", params);
  EXPECT_EQ(machine.download<float>(out, 6),
            std::vector<float>({2, 3, 6, 7, 10, 11}));
}

/// Numbers of every kind: small and large, ties, infinities and NaN.
std::vector<float> makeNumbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers = {0,
                                -0.0f,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::denorm_min(),
                                std::bit_cast<float>(0x3f808000u),
                                std::bit_cast<float>(0x3f818000u),
                                std::bit_cast<float>(0x3f808001u)};
  while (numbers.size() < count)
    numbers.push_back(std::ldexp(float(int32_t(random())), int(random() % 40)));
  return numbers;
}

TEST_F(Twin, Convert) {
  std::vector<float> in = makeNumbers(1000, 1);
  Address out = machine.allocate(2000);
  kernels::ConvertParams params{
      1000, static_cast<float *>(toPointer(machine.upload(in))),
      toPointer(out)};
  launch("cleave_convert_f32_bf16", params);
  std::vector<uint16_t> rounded = machine.download<uint16_t>(out, 1000);
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_EQ(rounded[i], cleave::cpu::toBf16(in[i])) << in[i];
  // Halfway goes to even.
  EXPECT_EQ(rounded[6], 0x3f80);
  EXPECT_EQ(rounded[7], 0x3f82);
  EXPECT_EQ(rounded[8], 0x3f81);
}

/// The bits of the CPU's communicators, in every output; the second output is
/// one of the inputs.
TEST_F(Twin, Reduce) {
  using namespace cleave::runtime;
  constexpr size_t count = 3000, inputs = 5;
  for (ElementType type :
       {ElementType::F32, ElementType::BF16, ElementType::I32})
    for (Reduction reduction : {Reduction::Sum, Reduction::Max}) {
      uint64_t bytes = count * getElementBytes(type);
      kernels::ReduceParams params{};
      params.elements = count;
      params.inputs = inputs;
      params.outputs = 2;
      std::vector<std::vector<float>> numbers;
      std::vector<const void *> all;
      for (size_t i = 0; i < inputs; ++i) {
        numbers.push_back(makeNumbers(count, unsigned(i)));
        std::ranges::rotate(numbers[i], numbers[i].begin() + long(i) * 3);
        params.in[i] = toPointer(machine.upload(numbers[i]));
      }
      for (const std::vector<float> &each : numbers)
        all.push_back(each.data());
      std::vector<char> expected(bytes);
      void *result = expected.data();
      reduceInOrder(all, {&result, 1}, count, type, reduction);

      Address out = machine.allocate(bytes);
      params.out[0] = toPointer(out);
      params.out[1] = const_cast<void *>(params.in[3]);
      launch(std::string("cleave_reduce_") +
                 (reduction == Reduction::Sum ? "sum_" : "max_") +
                 (type == ElementType::F32    ? "f32"
                  : type == ElementType::BF16 ? "bf16"
                                              : "i32"),
             params);
      EXPECT_EQ(machine.download<char>(out, bytes), expected);
      EXPECT_EQ(
          machine.download<char>(Address(uintptr_t(params.out[1])), bytes),
          expected);
    }
}

TEST_F(Twin, ReductionIntoPartOfAnInput) {
  Address place = machine.upload(values);
  kernels::ReduceParams params{};
  params.elements = 4;
  params.inputs = params.outputs = 1;
  params.in[0] = toPointer(place);
  params.out[0] = toPointer(place + 4);
  launch("cleave_reduce_sum_f32", params);
  std::string text = getFailure();
  EXPECT_NE(text.find("output 0 is part of another buffer"), std::string::npos)
      << text;
}

/// Rows that lie by themselves go to pairs with a gap between them.
TEST_F(Twin, CopyParts) {
  Address in = machine.upload(std::vector<int16_t>{1, 2, 3, 4, 5, 6}),
          out = machine.upload(std::vector<int16_t>(10, -1));
  kernels::CopyPartsParams params{
      3, 4, {3, 4, 12}, {2, 4, 12}, toPointer(in), toPointer(out)};
  launch("cleave_copy_parts", params);
  EXPECT_EQ(machine.download<int16_t>(out, 10),
            std::vector<int16_t>({1, 2, 3, 4, -1, -1, 5, 6, -1, -1}));
}

TEST_F(Twin, CopyPartsOfOddBytes) {
  Address in = machine.allocate(64);
  kernels::CopyPartsParams params{
      2, 3, {2, 4, 8}, {2, 4, 8}, toPointer(in), toPointer(in + 32)};
  launch("cleave_copy_parts", params);
  std::string text = getFailure();
  EXPECT_NE(text.find("MISALIGNED"), std::string::npos) << text;
}

} // namespace
