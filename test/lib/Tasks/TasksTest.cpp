//===- TasksTest.cpp - What instructions ask for, and what that takes -----===//
//
// Seconds are held to what lib/Cost says of the same work, which its own tests
// hold to measurements; what a task is comes from the table of instructions.
//
//===----------------------------------------------------------------------===//
#include "cleave/Tasks/Price.h"
#include "gtest/gtest.h"

using namespace cleave;

namespace {

using Kind = TaskShape::Kind;

Machine getMachine() {
  llvm::Expected<Machine> machine = cleave::getMachine("h100-sxm:16");
  EXPECT_TRUE(bool(machine));
  return *machine;
}

TaskPricer getPricer() {
  Machine machine = getMachine();
  return TaskPricer(Mesh({{"pp", 2}, {"dp", 4}, {"tp", 2}}), Axis(0), machine,
                    machine.device);
}

namespace fb = program;
constexpr auto bf16 = fb::DType::BF16;

/// The shape of an instruction with these fields.
template <typename Work>
TaskShape getShape(const Work &work, llvm::ArrayRef<int64_t> operandBytes,
                   AxisList group = {}) {
  fb::OpcodeUnion fields;
  fields.Set(Work(work));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fields.Pack(builder));
  return getTaskShape(
      fields.type,
      flatbuffers::GetRoot<flatbuffers::Table>(builder.GetBufferPointer()),
      operandBytes, std::move(group));
}

TEST(Tasks, productsByTheirSizes) {
  TaskShape shape =
      getShape(fb::GemmT{{}, 64, 128, 256, false, true, bf16, bf16, bf16},
               {64 * 256 * 2, 128 * 256 * 2, 64 * 128 * 2, 4096});
  EXPECT_EQ(shape.kind, Kind::Matmul);
  EXPECT_EQ(shape.dtype, DType::BF16);
  EXPECT_DOUBLE_EQ(
      getPricer().getSeconds(shape),
      getMatmulTime(getMachine().device, DType::BF16, 64, 128, 256));
  EXPECT_FALSE(shape.communicates());
}

TEST(Tasks, attentionByWhatItsMaskLeaves) {
  Machine machine = getMachine();
  llvm::StringRef kernel = machine.device.attention.begin()->first;
  for (int64_t window : {0, 100}) {
    auto expect = [&](const TaskShape &shape, Direction direction) {
      double pairs = getCausalPairs(512, double(window));
      EXPECT_DOUBLE_EQ(getPricer().getSeconds(shape),
                       getAttentionTime(machine.device, kernel, DType::BF16,
                                        direction, 16, 512, pairs, 64, 64));
    };
    expect(getShape(fb::AttentionT{{}, 2, 512, 8, 4, 64, window, bf16}, {}),
           Direction::Forward);
    expect(getShape(fb::AttentionGradT{{}, 2, 512, 8, 4, 64, window, bf16}, {}),
           Direction::Backward);
  }
}

TEST(Tasks, restByItsBytes) {
  double rate = 1 / getStreamTime(getMachine().device, 1);
  auto getBytes = [&](const auto &work, llvm::ArrayRef<int64_t> operands) {
    TaskShape shape = getShape(work, operands);
    EXPECT_EQ(shape.kind, Kind::Memory);
    return getPricer().getSeconds(shape) * rate;
  };
  EXPECT_NEAR(getBytes(fb::LaunchT(), {100, 20, 3}), 123, 1e-6);
  EXPECT_NEAR(getBytes(fb::FillT(), {64}), 64, 1e-6);
  // 10 rows of 8 from a large table, in bf16.
  EXPECT_NEAR(
      getBytes(fb::EmbeddingT{{}, 10, 8, 1'000'000, bf16, bf16}, {40, 1, 1}),
      10 * 8 * 4, 1e-6);
  // bf16 rows, added to rows of an f32 table that is set to zero first.
  fb::EmbeddingGradT gradient{{}, 10, 8, 50, bf16};
  EXPECT_NEAR(getBytes(gradient, {}), 10 * 8 * (2 + 8) + 50 * 8 * 4, 1e-6);
  gradient.accumulate = fb::Accumulate::Always;
  EXPECT_NEAR(getBytes(gradient, {}), 10 * 8 * (2 + 8), 1e-6);
}

TEST(Tasks, collectivesByTheirGroup) {
  Machine machine = getMachine();
  TaskPricer pricer = getPricer();
  const int64_t bytes[] = {1 << 20, 1 << 20};
  struct Case {
    TaskShape shape;
    CollectiveKind kind;
    AxisList axes;
    Group group;
    double whole; ///< of the bytes that a rank puts in
  };
  for (const Case &each : {Case{getShape(fb::AllReduceT(), bytes, {2}),
                                CollectiveKind::AllReduce,
                                {2},
                                {2, 1},
                                1},
                           Case{getShape(fb::AllGatherT(), bytes, {1}),
                                CollectiveKind::AllGather,
                                {1},
                                {4, 2},
                                4},
                           Case{getShape(fb::ReduceScatterT(), bytes, {1, 2}),
                                CollectiveKind::ReduceScatter,
                                {1, 2},
                                {8, 1},
                                1},
                           Case{getShape(fb::AllToAllT(), bytes, {0}),
                                CollectiveKind::AllToAll,
                                {0},
                                {2, 8},
                                1}}) {
    const TaskShape &shape = each.shape;
    EXPECT_TRUE(shape.communicates());
    EXPECT_DOUBLE_EQ(pricer.getSeconds(shape),
                     getCollectiveTime(machine, each.kind, each.group,
                                       each.whole * (1 << 20)));
    EXPECT_EQ(pricer.getCrossedAxes(shape), each.axes);
    // Eight to a node: only stages are apart.
    bool isBetweenStages = each.axes.front() == 0;
    EXPECT_EQ(pricer.tiesStages(shape), isBetweenStages);
    EXPECT_EQ(pricer.leavesNode(shape), isBetweenStages);
    EXPECT_EQ(pricer.getLevel(shape), isBetweenStages ? 1 : 0);
  }
}

TEST(Tasks, softwareAsItsProfileSays) {
  Profile profile;
  profile.attention = "cudnn";
  profile.matrixRate = 0.5;
  profile.rankSkew = 1e-3;
  Machine machine = getMachine();
  TaskPricer plain = getPricer();
  TaskPricer pricer(Mesh({{"pp", 2}, {"dp", 4}, {"tp", 2}}), Axis(0), machine,
                    machine.device, TaskRates(profile));
  Task task;
  task.phase = "forward";
  task.shape.kind = Kind::Matmul;
  task.shape.dtype = DType::BF16;
  task.shape.m = task.shape.n = task.shape.k = 4096;
  EXPECT_DOUBLE_EQ(pricer.getSeconds(task), 2 * plain.getSeconds(task));
  task.shape.kind = Kind::Attention;
  task.shape.heads = 8;
  task.shape.rows = 2048;
  task.shape.pairs = getCausalPairs(2048, 0);
  task.shape.headDim = 128;
  EXPECT_DOUBLE_EQ(pricer.getSeconds(task),
                   getAttentionTime(machine.device, "cudnn", DType::BF16,
                                    Direction::Forward, 8, 2048,
                                    getCausalPairs(2048, 0), 128, 128));
  // A collective in whose time nothing else runs, in a pass over the model.
  const int64_t bytes[] = {1 << 20, 1 << 20};
  task.shape = getShape(fb::AllReduceT(), bytes, {2});
  EXPECT_DOUBLE_EQ(pricer.getSeconds(task), plain.getSeconds(task) + 1e-3);
  task.stream = 1;
  EXPECT_DOUBLE_EQ(pricer.getSeconds(task), plain.getSeconds(task));
  EXPECT_EQ(pricer.getSkew(task), 1e-3);
  task.stream = 0;
  task.phase = "optimizer";
  EXPECT_DOUBLE_EQ(pricer.getSeconds(task), plain.getSeconds(task));
  EXPECT_EQ(pricer.getSkew(task), 0);
}

/// A product that adds to sums of f32 reads and writes them: of few rows, that
/// is what takes the time.
TEST(Tasks, productsAddToSums) {
  Machine machine = getMachine();
  TaskPricer pricer = getPricer();
  fb::GemmT gemm;
  gemm.m = gemm.n = 4096;
  gemm.type_a = gemm.type_b = fb::DType::BF16;
  gemm.type_c = fb::DType::F32;
  for (int64_t rows : {64, 1 << 20}) {
    gemm.k = rows;
    gemm.accumulate = fb::Accumulate::Never;
    double alone = pricer.getSeconds(getShape(gemm, {}));
    gemm.accumulate = fb::Accumulate::AfterFirst;
    double adding = pricer.getSeconds(getShape(gemm, {}));
    double sums = getStreamTime(machine.device, 2. * 4 * 4096 * 4096);
    EXPECT_GE(adding, std::max(alone, sums));
    EXPECT_LE(adding, alone + sums);
    if (rows == 64)
      EXPECT_GT(adding, 2 * alone);
    else
      EXPECT_LT(adding, 1.01 * alone);
  }
}

/// What begins together takes what one collective of all its bytes does, and
/// each has a share of that.
TEST(Tasks, bucketsStartUpOnce) {
  TaskPricer pricer = getPricer();
  TaskProgram program;
  program.mesh = Mesh({{"pp", 2}, {"dp", 4}, {"tp", 2}});
  StageTasks &stage = program.stages.emplace_back();
  for (int64_t bytes : {1 << 10, 3 << 10, 4 << 10, 8 << 10}) {
    Task &task = stage.tasks.emplace_back();
    task.shape = getShape(fb::AllGatherT(), {bytes, 4 * bytes}, {1});
    task.stream = 1;
    task.withNext = bytes < 4 << 10;
  }
  std::vector<double> seconds = priceTasks(program, pricer).seconds.front();
  ASSERT_EQ(seconds.size(), 4u);
  TaskShape whole = stage.tasks[3].shape; // as many bytes as the first three
  double together = pricer.getSeconds(whole);
  EXPECT_DOUBLE_EQ(seconds[0], together / 8);
  EXPECT_DOUBLE_EQ(seconds[1], together * 3 / 8);
  EXPECT_DOUBLE_EQ(seconds[2], together / 2);
  EXPECT_DOUBLE_EQ(seconds[3], together);
  EXPECT_LT(together, 2 * pricer.getSeconds(stage.tasks[2].shape));
  makeSerial(program);
  EXPECT_DOUBLE_EQ(priceTasks(program, pricer).seconds.front()[2],
                   pricer.getSeconds(stage.tasks[2].shape));
}

/// Of what runs in other streams: a kernel takes all of the device, what moves
/// data a share; on a CPU a core does.
TEST(Tasks, otherStreamsSlowComputeDown) {
  Profile profile;
  profile.overlapSlowdown = 0.25;
  Machine machine = getMachine();
  TaskProgram program;
  program.mesh = Mesh({{"pp", 2}, {"dp", 4}, {"tp", 2}});
  StageTasks &stage = program.stages.emplace_back();
  for (int64_t stream : {0, 1}) {
    stage.tasks.emplace_back().shape = getShape(fb::CopyT(), {4096, 4096});
    stage.tasks.emplace_back().shape =
        getShape(fb::AllGatherT(), {4096, 4 * 4096}, {1});
    for (Task &task : llvm::MutableArrayRef(stage.tasks).take_back(2))
      task.stream = stream;
  }
  for (bool isCpu : {false, true}) {
    machine.device.cores = isCpu ? 4 : 0;
    TaskTimes times =
        priceTasks(program, TaskPricer(program.mesh, Axis(0), machine,
                                       machine.device, TaskRates(profile)));
    double share = isCpu ? 1 : 0.25;
    EXPECT_DOUBLE_EQ(times.mostSlowdown, share);
    const std::vector<double> &slowdowns = times.slowdowns.front(),
                              &seconds = times.seconds.front();
    EXPECT_EQ(slowdowns[0], 0);
    EXPECT_EQ(slowdowns[1], 0);
    EXPECT_DOUBLE_EQ(slowdowns[2], seconds[2]);
    EXPECT_DOUBLE_EQ(slowdowns[3], share * seconds[3]);
  }
}

TEST(Tasks, messagesByTheirSize) {
  TaskPricer pricer = getPricer();
  TaskShape send = getShape(fb::SendT{{}, 1, 3}, {4096});
  EXPECT_EQ(send.peer, 1);
  EXPECT_EQ(send.channel, 3);
  EXPECT_DOUBLE_EQ(pricer.getSeconds(send),
                   getSendTime(getMachine(), {2, 8}, 4096));
  EXPECT_FALSE(pricer.tiesStages(send));
  EXPECT_EQ(pricer.getLevel(send), 1);
  // Who receives waits; the link is the sender's to use.
  TaskShape recv = getShape(fb::RecvT{{}, 0, 3}, {4096});
  EXPECT_DOUBLE_EQ(pricer.getSeconds(recv), 0);
  EXPECT_TRUE(pricer.tiesStages(recv));
  EXPECT_EQ(pricer.getLevel(recv), std::nullopt);
}

TEST(Tasks, programsAsTheyAreWritten) {
  program::ProgramT written;
  for (auto [name, size] : {std::pair("pp", 2), {"dp", 4}}) {
    auto axis = std::make_unique<program::AxisT>();
    axis->name = name;
    axis->size = uint64_t(size);
    written.axes.push_back(std::move(axis));
  }
  written.stage_axis = 0;
  written.global_batch = 6;
  written.seq_len = 7;
  written.flops_per_step = 1e9;
  auto stage = std::make_unique<program::StageT>();
  stage->arena_bytes = 4096;
  for (int i = 0; i != 3; ++i) {
    auto instruction = std::make_unique<program::InstructionT>();
    if (i == 1)
      instruction->work.Set(fb::AllReduceT());
    else
      instruction->work.Set(fb::CopyT());
    instruction->name = i == 2 ? "" : "instruction " + std::to_string(i);
    instruction->category = "forward";
    instruction->operands = {{0, 64, 0, 0, 0}, {64, 64, 0, 0, 0}};
    if (i == 1) {
      instruction->group = {1};
      instruction->stream = 2;
      instruction->event = 5;
    } else if (i == 2) {
      instruction->waits = {5};
      // Reads one buffer in two ways, and writes it and another.
      program::LaunchT launch;
      launch.kernel = 0;
      instruction->work.Set(std::move(launch));
      instruction->operands = {{0, 64, 0, 0, 0},
                               {0, 64, 0, 0, 0},
                               {0, 64, 0, 0, 0},
                               {64, 64, 0, 0, 0}};
    }
    stage->instructions.push_back(std::move(instruction));
  }
  for (auto [begin, end] : {std::pair(0, 2), {2, 3}}) {
    auto segment = std::make_unique<program::SegmentT>();
    segment->begin = uint64_t(begin);
    segment->end = uint64_t(end);
    stage->segments.push_back(std::move(segment));
  }
  stage->runs = {{0, 0, true}, {0, 1, false}, {1, 0, true}};
  stage->update_run = 2;
  written.stages.push_back(std::move(stage));
  auto kernel = std::make_unique<program::KernelT>();
  kernel->inputs = 2;
  written.kernels.push_back(std::move(kernel));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(program::Program::Pack(builder, &written));
  TaskProgram read = readTasks(
      *flatbuffers::GetRoot<program::Program>(builder.GetBufferPointer()));

  EXPECT_EQ(read.mesh, Mesh({{"pp", 2}, {"dp", 4}}));
  EXPECT_EQ(read.stageAxis, Axis(0));
  EXPECT_DOUBLE_EQ(read.tokens, 42);
  EXPECT_DOUBLE_EQ(read.modelFlops, 1e9);
  ASSERT_EQ(read.stages.size(), 1u);
  const StageTasks &tasks = read.stages[0];
  EXPECT_DOUBLE_EQ(tasks.memory, 4096);
  EXPECT_EQ(tasks.updateRun, 2);
  EXPECT_EQ(tasks.countStreams(), 3);
  ASSERT_EQ(tasks.tasks.size(), 3u);
  EXPECT_EQ(tasks.tasks[0].name, "instruction 0");
  EXPECT_EQ(tasks.tasks[0].phase, "forward");
  EXPECT_EQ(tasks.tasks[1].shape.axes, AxisList({1}));
  EXPECT_EQ(tasks.tasks[1].event, 5);
  EXPECT_EQ(tasks.tasks[2].waits.front(), 5);
  EXPECT_EQ(tasks.tasks[2].name, "Launch");
  EXPECT_DOUBLE_EQ(tasks.tasks[0].shape.bytes, 128);
  EXPECT_DOUBLE_EQ(tasks.tasks[2].shape.bytes, 192);
  ASSERT_EQ(tasks.runs.size(), 3u);
  EXPECT_EQ(tasks.runs[1].microBatch, 1);
  EXPECT_EQ(tasks.runs[2].begin, 2);
  EXPECT_EQ(tasks.runs[2].end, 3);
  makeSerial(read);
  EXPECT_EQ(read.stages[0].countStreams(), 1);
  EXPECT_TRUE(read.stages[0].tasks[2].waits.empty());
}

} // namespace
