//===- Executor.cpp -------------------------------------------------------===//
#include "runtime/executor/Executor.h"
#include "runtime/base/Quote.h"
#include "runtime/cpu/Features.h"
#include "runtime/program/Print.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <cstring>
#include <ctime>

using namespace cleave::runtime;
namespace cpu = cleave::cpu;
namespace fb = cleave::program;

static cpu::Isa getIsa(fb::Isa isa) {
  switch (isa) {
  case fb::Isa::Avx2:
    return cpu::Isa::Avx2;
  case fb::Isa::Avx512:
    return cpu::Isa::Avx512;
  case fb::Isa::Avx512Bf16:
    return cpu::Isa::Avx512Bf16;
  }
  return cpu::Isa::Portable;
}

Executor::Executor(const Program &program, Communicator &communicator,
                   int threads)
    : program(program), communicator(communicator),
      stage(program.getStageOf(communicator.getRank())), pool(threads) {}

Status Executor::create(const Program &program, Communicator &communicator,
                        KernelTable kernels, const ExecutorOptions &options,
                        std::unique_ptr<Executor> &executor) {
  int most = int(program->threads());
  int threads = options.threads == 0 ? most : options.threads;
  if (threads < 1 || threads > most)
    return Status::error("a rank cannot have " + std::to_string(threads) +
                         " threads: the program was compiled for 1 to " +
                         std::to_string(most));
  cpu::Isa isa = getIsa(program->isa());
  if (isa > cpu::getActiveIsa())
    return Status::error(
        std::string("this CPU has ") + cpu::getName(cpu::getActiveIsa()) +
        ", and the program was compiled for " + cpu::getName(isa) + " (CPU \"" +
        std::string(toView(program->cpu())) +
        "\"): name this CPU in the cluster.json");
  std::unique_ptr<Executor> result(
      new Executor(program, communicator, threads));
  CLEAVE_RETURN_IF_ERROR(result->allocate());
  // All bits set is a NaN in every float type.
  if (options.poison)
    std::memset(result->arena.getData(), 0xff, result->arena.getSize());
  CLEAVE_RETURN_IF_ERROR(result->makeGroups());
  CLEAVE_RETURN_IF_ERROR(result->prepare(kernels, options.schedule));
  executor = std::move(result);
  return {};
}

Status Executor::allocate() {
  RankRange ranks = communicator.getProcessRanks();
  uint64_t all = 0;
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank)
    all += program.getStageOf(rank)->arena_bytes();
  return Arena::allocate(stage->arena_bytes(), {all, ranks.count}, arena);
}

/// Those of all stages, in the order of the program: to make one is collective
/// over the world.
Status Executor::makeGroups() {
  for (size_t number = 0; number < program.getStageCount(); ++number) {
    Stage other = program.getStage(number);
    const Group *group;
    for (size_t i = 0; i < other.getInstructionCount(); ++i)
      if (isCollective(other.getInstruction(i).opcode()))
        CLEAVE_RETURN_IF_ERROR(communicator.getGroup(
            toSpan(other.getInstruction(i).group()), group));
  }
  return {};
}

Status Executor::prepareLaunch(KernelTable kernels, Step &step) const {
  const fb::Kernel *kernel = program->kernels()->Get(
      flatbuffers::uoffset_t(step.instruction->kernel()));
  std::string_view symbol = toView(kernel->symbol());
  for (uint64_t i = 0; i < kernels.count; ++i)
    if (symbol == kernels.entries[i].symbol)
      step.kernel = kernels.entries[i].fn;
  if (!step.kernel)
    return Status::error("the executable has no kernel " + quote(symbol) +
                         ", which the program launches");
  step.rows = int64_t(kernel->rows());
  step.grain = int64_t(kernel->grain());
  return {};
}

Status Executor::prepare(KernelTable kernels,
                         const ScheduleOverrides &overrides) {
  for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
    const fb::Instruction &instruction = stage.getInstruction(i);
    Step step;
    step.instruction = &instruction;
    step.opcode = instruction.opcode();
    step.operands = toSpan(instruction.operands());
    step.ints = toSpan(instruction.ints());
    step.floats = toSpan(instruction.floats());
    auto axes = toSpan(instruction.group());
    const Mesh &mesh = program.getMesh();
    step.shardIndex = mesh.getShardIndex(communicator.getRank(), axes);
    step.shardCount = uint64_t(mesh.getShardCount(axes));
    if (isCollective(step.opcode))
      CLEAVE_RETURN_IF_ERROR(communicator.getGroup(axes, step.group));
    if (isMessage(step.opcode)) {
      step.peer = mesh.moveTo(communicator.getRank(), program->stage_axis(),
                              int(step.ints[messagePeer]));
      step.channel = int(step.ints[messageChannel]);
    }
    if (step.opcode == fb::Opcode::Launch)
      CLEAVE_RETURN_IF_ERROR(prepareLaunch(kernels, step));
    if (step.opcode == fb::Opcode::Schedule)
      CLEAVE_RETURN_IF_ERROR(
          resolveSchedule(instruction, overrides, step.schedule));
    buffers.resize(std::max(buffers.size(), step.operands.size()));
    steps.push_back(step);
  }
  return {};
}

static uint64_t getNow() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

Status Executor::runStep(int64_t step) {
  CLEAVE_RETURN_IF_ERROR(computeGradients(step, step));
  return applyUpdate();
}

Status Executor::computeGradients(int64_t step, int64_t updates) {
  currentStep = step;
  currentUpdates = updates;
  if (RankPosition *position = communicator.getPosition())
    position->beginStep(step);
  return runRange(0, stage->update_run());
}

Status Executor::applyUpdate() {
  CLEAVE_RETURN_IF_ERROR(runRange(stage->update_run(), stage.getRuns().size()));
  skipUpdate();
  return {};
}

void Executor::skipUpdate() {
  if (RankPosition *position = communicator.getPosition())
    position->endStep();
}

Status Executor::runRange(size_t begin, size_t end) {
  for (size_t run = begin; run < end; ++run)
    CLEAVE_RETURN_IF_ERROR(runSegment(run));
  return {};
}

Status Executor::runSegment(size_t run) {
  const fb::Run &current = stage.getRuns()[run];
  const fb::Segment &segment = stage.getSegment(current.segment());
  microBatch = current.micro_batch();
  isFirst = current.first();
  RankPosition *position = communicator.getPosition();
  for (size_t i = segment.begin(); i < segment.end(); ++i) {
    if (communicator.isAborted())
      return Status::aborted("another rank failed");
    if (position)
      position->setInstruction(uint32_t(run), uint32_t(i));
    Status status = observer ? executeTimed(steps[i], i) : execute(steps[i]);
    if (status.getCode() == StatusCode::Failed)
      return Status::error("step " + std::to_string(currentStep) + ", " +
                           describeInstruction(stage, i) + ": " +
                           status.message());
    CLEAVE_RETURN_IF_ERROR(status);
  }
  return {};
}

Status Executor::executeTimed(const Step &step, size_t index) {
  uint64_t begin = getNow();
  Status status = execute(step);
  observer->onInstruction({index, microBatch, begin, getNow()});
  return status;
}

std::span<std::byte> Executor::getBytes(const fb::Operand &operand) {
  highWater = std::max(highWater, operand.offset() + operand.bytes());
  return {arena.getData() + operand.offset(), operand.bytes()};
}

std::span<int32_t> Executor::getIds(const fb::Operand *operand) {
  if (!operand)
    return {};
  std::span<std::byte> bytes = getBytes(*operand);
  return {reinterpret_cast<int32_t *>(bytes.data()), bytes.size() / 4};
}

double Executor::getLearningRate(int64_t step) const {
  for (const Step &candidate : steps)
    if (candidate.opcode == fb::Opcode::Schedule)
      return runtime::getLearningRate(candidate.schedule, step);
  return 0;
}
