//===- SimulatedDeviceTest.cpp - Programs by hand on simulated GPUs -------===//
//
// What no program of the compiler has, or few do: moves between placements, and
// what a GPU refuses. The machine of test/cuda has two GPUs here, so that two
// ranks meet by NCCL and four share one GPU.
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/Bf16.h"
#include "runtime/cuda/RandomNumbers.h"
#include "runtime/executor/Gather.h"
#include "test/runtime/executor/MovesProgram.h"
#include "test/runtime/executor/RunProgram.h"
#include "test/runtime/train/CopiedBatches.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <ranges>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::test;

namespace {

/// A program's code without kernels that anything launches.
const CleaveCudaKernel unused{"unused", nullptr, 1, 32, 0};
const CleaveCudaCode code{
    &unused, 1, "sm_90", ".version 8.0\n.target sm_90\n.address_size 64\n",
    nullptr, 0, {}};

class SimulatedDevice : public testing::Test {
protected:
  /// The runtime opens libraries by names that these have.
  static void SetUpTestSuite() {
    setenv("CLEAVE_SIMULATED_GPUS", "2", 1);
    for (const char *name :
         {"libcuda.so.1", "libcublasLt.so.13", "libnccl.so.2"})
      ASSERT_TRUE(
          dlopen((CLEAVE_SIMULATED_FOLDER "/" + std::string(name)).c_str(),
                 RTLD_NOW | RTLD_LOCAL))
          << dlerror();
  }

  static Status run(const ProgramBuilder &b, ExecutorOptions options,
                    const std::function<Status(Executor &)> &body) {
    return runProgram(b, body, {nullptr, 0, &code}, options);
  }

  /// What is said of a program that no GPU executes.
  static std::string getRefusal(const ProgramBuilder &b,
                                ExecutorOptions options = {}) {
    options.device = DeviceKind::Cuda;
    return run(b, options, [](Executor &) { return Status(); }).message();
  }
};

using Outputs = std::map<std::string, std::vector<std::byte>>;

/// As it is enqueued, captured, and launched again; as CPUs have it.
TEST_F(SimulatedDevice, MovesHaveTheBitsOfCpus) {
  for (int64_t tp : {1, 2, 4}) {
    ProgramBuilder b = makeMoves(tp);
    auto runOn = [&](DeviceKind device) {
      ExecutorOptions options = makeOptions(1);
      options.device = device;
      Outputs outputs;
      Status status = run(b, options, [&](Executor &executor) -> Status {
        int rank = executor.getCommunicator().getRank();
        const Program &program = executor.getProgram();
        CLEAVE_RETURN_IF_ERROR(
            executor.write(*program.findState("x", "constant")->operand(),
                           [&](std::span<std::byte> bytes) {
                             std::span<float> values = toFloatSpan(bytes);
                             for (size_t i = 0; i < values.size(); ++i)
                               values[i] = float(i * size_t(rank + 1)) - 99.5f;
                             return Status();
                           }));
        for (int64_t step = 0; step < 3; ++step) {
          CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
          for (const fb::Output *output : program.getOutputs()) {
            GlobalTensor tensor;
            CLEAVE_RETURN_IF_ERROR(gatherOutput(executor, *output, tensor));
            if (rank == 0)
              outputs[output->name()->str() + std::to_string(step)] =
                  tensor.data;
          }
        }
        return Status();
      });
      EXPECT_TRUE(status.ok()) << status.message();
      return outputs;
    };
    Outputs expected = runOn(DeviceKind::Cpu);
    ASSERT_EQ(expected.size(), 8u * 3);
    EXPECT_EQ(runOn(DeviceKind::Cuda), expected) << "tp " << tp;
  }
}

/// The host reads a batch while the device has yet to copy the one before, as
/// it enqueues a step, captures it, and launches it again.
TEST_F(SimulatedDevice, CopiesBatchesThatWereReadAhead) {
  ExecutorOptions options;
  options.device = DeviceKind::Cuda;
  Status status =
      run(makeCopiedBatches(), options, [](Executor &executor) -> Status {
        CountedBatches source;
        std::unique_ptr<Batches> batches;
        CLEAVE_RETURN_IF_ERROR(Batches::create(executor, source, batches));
        for (int64_t step = 0; step < 6; ++step) {
          CLEAVE_RETURN_IF_ERROR(batches->load(uint64_t(step)));
          CLEAVE_RETURN_IF_ERROR(executor.runStep(
              {step, step}, [&] { batches->prefetch(uint64_t(step) + 1); }));
          // Before the first step, nothing waited.
          EXPECT_EQ(executor.takeHostSeconds() > 0, step > 0) << step;
          EXPECT_EQ(executor.takeHostSeconds(), 0);
          if (step % 2 == 0)
            EXPECT_TRUE(hasBatch(executor, uint64_t(step))) << step;
        }
        return Status();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

/// So the test above would see that a batch is overwritten too early.
TEST_F(SimulatedDevice, ReadsStagedMemoryWhileTheHostGoesOn) {
  ExecutorOptions options;
  options.device = DeviceKind::Cuda;
  Status status =
      run(makeCopiedBatches(), options, [](Executor &executor) -> Status {
        const fb::Operand &tokens = *executor.getStage()->tokens();
        std::span<std::byte> staged;
        CLEAVE_RETURN_IF_ERROR(
            executor.allocateStaging(tokens.bytes(), staged));
        std::ranges::fill(staged, std::byte(1));
        CLEAVE_RETURN_IF_ERROR(executor.writeStaged(tokens, staged));
        CLEAVE_RETURN_IF_ERROR(executor.runStep(
            {0, 0}, [&] { std::ranges::fill(staged, std::byte(2)); }));
        return executor.read(
            *executor.getStage().findOutput("tokens")->operand(),
            [&](std::span<const std::byte> bytes) {
              EXPECT_TRUE(std::ranges::equal(bytes, staged));
              return Status();
            });
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

/// A loss comes to the host before the update begins, and what is read is what
/// the arena has: also once the host wrote there, or the update did.
TEST_F(SimulatedDevice, ScalarsAreThoseOfTheArena) {
  ProgramBuilder b({});
  fb::Operand x = b.allocate(4), loss = b.allocate(4), late = b.allocate(4),
              w = b.allocate(4);
  b.state("x", {}, {}, x);
  b.state("w", {}, {}, w).role = "parameter";
  b.start(ProgramBuilder::Before);
  b.add(fb::CopyT(), {x, loss});
  b.addUpdate();
  b.add(fb::CopyT(), {x, late});
  b.output("loss", {}, {}, loss);
  b.output("late", {}, {}, late);
  ExecutorOptions options;
  options.device = DeviceKind::Cuda;
  Status status = run(b, options, [](Executor &executor) -> Status {
    const Stage &stage = executor.getStage();
    auto write = [&](const fb::Operand &operand, float value) {
      return executor.write(operand, [&](std::span<std::byte> bytes) {
        toFloatSpan(bytes)[0] = value;
        return Status();
      });
    };
    auto expect = [&](const char *name, float value) {
      return executor.read(*stage.findOutput(name)->operand(),
                           [&](std::span<const std::byte> bytes) {
                             float read = 0;
                             std::memcpy(&read, bytes.data(), sizeof(read));
                             EXPECT_EQ(read, value) << name;
                             return Status();
                           });
    };
    const fb::Operand &x = *stage.findState("x", "constant")->operand();
    for (int64_t step = 0; step < 4; ++step) {
      float value = float(step) + 1;
      CLEAVE_RETURN_IF_ERROR(write(x, value));
      CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
      CLEAVE_RETURN_IF_ERROR(expect("loss", value));
      CLEAVE_RETURN_IF_ERROR(expect("late", value));
      CLEAVE_RETURN_IF_ERROR(expect("loss", value));
      CLEAVE_RETURN_IF_ERROR(executor.runStep(step));
      CLEAVE_RETURN_IF_ERROR(
          write(*stage.findOutput("loss")->operand(), -value));
      CLEAVE_RETURN_IF_ERROR(expect("loss", -value));
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

/// Of any size, with nothing behind it, and no NaN.
TEST_F(SimulatedDevice, TimesProductsOfNumbersLikeThoseOfTraining) {
  const Driver *driver = nullptr;
  std::string absence;
  ASSERT_TRUE(Driver::open(driver, absence).ok()) << absence;
  std::unique_ptr<Context> context;
  ASSERT_TRUE(Context::create(*driver, 0, context).ok());
  Handle stream;
  ASSERT_TRUE(context->createStream(stream).ok());
  for (size_t bytes : {size_t(36), (size_t(5) << 20) + 12}) {
    DeviceMemory memory;
    ASSERT_TRUE(DeviceMemory::allocate(*context, bytes, "a test", memory).ok());
    ASSERT_TRUE(fillWithRandomNumbers(*driver, memory, stream.get()).ok());
    ASSERT_EQ(driver->api.streamSynchronize(stream.get()), success);
    std::vector<uint16_t> halves(bytes / 2);
    std::vector<float> singles(bytes / 4);
    ASSERT_EQ(
        driver->api.copyDeviceToHost(halves.data(), memory.getAddress(), bytes),
        success);
    std::memcpy(singles.data(), halves.data(), bytes);
    auto expectNormal = [&](auto &&numbers) {
      double sum = 0, squares = 0;
      for (double number : numbers) {
        ASSERT_LT(std::abs(number), 8); // nor is it a NaN
        sum += number / double(numbers.size());
        squares += number * number / double(numbers.size());
      }
      if (bytes > 1000) {
        EXPECT_NEAR(sum, 0, 0.01);
        EXPECT_NEAR(squares, 1, 0.01);
      }
    };
    expectNormal(singles);
    expectNormal(halves | std::views::transform(cleave::cpu::fromBf16));
  }
}

TEST_F(SimulatedDevice, RefusesWhatIsForCpus) {
  ExecutorOptions options;
  options.delaySeed = 1;
  EXPECT_EQ(getRefusal(makeMoves(1), options),
            "--emulate-link and --stream-delays are for CPUs: add --device "
            "cpu");
}

TEST_F(SimulatedDevice, RefusesProductsOfTwoTypes) {
  ProgramBuilder b({});
  fb::Operand a = b.allocate(16 * 16 * 4), other = b.allocate(16 * 16 * 2),
              c = b.allocate(16 * 16 * 4);
  b.state("a", {16, 16}, {{}, {}}, a);
  b.state("b", {16, 16}, {{}, {}}, other).dtype = fb::DType::BF16;
  auto &gemm = b.gemm(16, 16, 16, a, other, c);
  gemm.work.AsGemm()->type_b = fb::DType::BF16;
  std::string refusal = getRefusal(b);
  EXPECT_NE(refusal.find("Gemm"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("cuBLASLt multiplies matrices of one type, got F32 "
                         "and BF16"),
            std::string::npos)
      << refusal;
}

TEST_F(SimulatedDevice, RefusesAttentionOfWideHeads) {
  ProgramBuilder b({});
  constexpr int64_t width = 320, seq = 16;
  std::vector<fb::Operand> operands;
  for (const char *name : {"q", "k", "v"}) {
    operands.push_back(b.allocate(seq * width * 4));
    b.state(name, {seq, width}, {{}, {}}, operands.back());
  }
  operands.push_back(b.allocate(seq * width * 4));
  operands.push_back(b.allocate(seq * 4));
  operands.push_back(b.allocate(
      cleave::cpu::attentionWorkspaceBytes(1, seq, 1, 1, width, 0, 2)));
  b.add(fb::AttentionT{{}, 1, seq, 1, 1, width, 0, fb::DType::F32, 0.5},
        operands);
  std::string refusal = getRefusal(b);
  EXPECT_NE(refusal.find("there is no CUDA kernel for attention of batch 1, "
                         "sequence 16, head dimension 320: expects at most "
                         "65535, 1048560 and 256"),
            std::string::npos)
      << refusal;
}

TEST_F(SimulatedDevice, RefusesKernelsThatTheExecutableHasNotGot) {
  ProgramBuilder b({});
  fb::Operand in = b.allocate(64), out = b.allocate(64);
  b.state("in", {16}, {{}}, in);
  b.launch("missing", 4, {in, out});
  std::string refusal = getRefusal(b);
  EXPECT_NE(refusal.find("the executable has no CUDA kernel \"missing\""),
            std::string::npos)
      << refusal;
}

} // namespace
