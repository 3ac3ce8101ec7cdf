//===- Executor.cpp -------------------------------------------------------===//
#include "runtime/executor/Executor.h"
#include "runtime/base/Cpus.h"
#include "runtime/comm/Agreement.h"
#include "runtime/executor/Devices.h"
#include "runtime/program/Verify.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <utility>

using namespace cleave::runtime;
namespace fb = cleave::program;

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
  bool isGpu;
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(chooseDevice(options.device, kernels, isGpu)));
  CLEAVE_RETURN_IF_ERROR(agreeOnItems(
      communicator,
      {{"the device that --device auto takes", isGpu ? "a GPU" : "the CPU"}}));
  // Beside a GPU all cores are the host's.
  int ranks = communicator.getProcessRanks().count;
  int hostThreads =
      isGpu ? std::max(int(getAvailableCpus()) / ranks, 1) : threads;
  std::unique_ptr<Executor> result(
      new Executor(program, communicator, hostThreads));
  CLEAVE_RETURN_IF_ERROR(result->bind(options));
  DeviceOptions settings = options;
  settings.threads = threads;
  CLEAVE_RETURN_IF_ERROR(createDevice(isGpu, program, communicator,
                                      result->instructions, kernels, settings,
                                      result->pool, result->device));
  executor = std::move(result);
  return {};
}

/// Resolves the stage's instructions. A serial run begins one at a time.
Status Executor::bind(const ExecutorOptions &options) {
  const Mesh &mesh = program.getMesh();
  size_t first = 0; // of the bucket
  for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
    const fb::Instruction &instruction = stage.getInstruction(i);
    BoundInstruction bound;
    bound.index = i;
    bound.instruction = &instruction;
    bound.opcode = instruction.work_type();
    bound.operands = toSpan(instruction.operands());
    auto axes = toSpan(instruction.group());
    bound.shardIndex = mesh.getShardIndex(communicator.getRank(), axes);
    bound.shardCount = uint64_t(mesh.getShardCount(axes));
    if (isMessage(bound.opcode)) {
      Message message = getMessage(instruction);
      bound.peer = mesh.moveTo(communicator.getRank(), program->stage_axis(),
                               int(message.stage));
      bound.channel = int(message.channel);
    }
    if (bound.opcode == fb::Opcode::Schedule)
      CLEAVE_RETURN_IF_ERROR(resolveSchedule(*instruction.work_as_Schedule(),
                                             options.schedule, bound.schedule));
    bound.bucket = 0;
    instructions.push_back(bound);
    ++instructions[first].bucket;
    if (!instruction.with_next() || options.serial)
      first = i + 1;
  }
  return {};
}

Status Executor::runStep(const StepInputs &inputs,
                         const std::function<void()> &meanwhile) {
  auto enqueueAll = [&] { return enqueueStep(inputs); };
  RankPosition *position = communicator.getPosition();
  if (position)
    position->beginStep(inputs.step);
  CLEAVE_RETURN_IF_ERROR(device->run(inputs, enqueueAll, [&] {
    if (position)
      position->leaveInstructions();
    meanwhile();
  }));
  // What is done for the first time takes long, which others expect of a first
  // step alone.
  if (!std::exchange(hasRun, true))
    CLEAVE_RETURN_IF_ERROR(finish());
  if (position)
    position->endStep();
  return {};
}

Status Executor::enqueueStep(const StepInputs &inputs) {
  for (size_t run = 0; run < stage.getRuns().size(); ++run) {
    if (run == stage->update_run())
      CLEAVE_RETURN_IF_ERROR(device->beginUpdate());
    CLEAVE_RETURN_IF_ERROR(enqueueRun(run, inputs));
  }
  return {};
}

Status Executor::enqueueRun(size_t run, const StepInputs &inputs) {
  const fb::Run &current = stage.getRuns()[run];
  const fb::Segment &segment = stage.getSegment(current.segment());
  RunContext context{uint32_t(run), current.micro_batch(), current.first(),
                     inputs};
  RankPosition *position = communicator.getPosition();
  for (size_t i = segment.begin(); i < segment.end(); ++i) {
    const BoundInstruction &bound = instructions[i];
    for (const fb::Operand &operand : bound.operands)
      noteUse(operand, context.microBatch);
    if (bound.bucket == 0)
      continue;
    if (position)
      position->setInstruction(context.run, uint32_t(i));
    CLEAVE_RETURN_IF_ERROR(device->enqueue(bound, context));
  }
  return {};
}

void Executor::noteUse(const fb::Operand &operand, uint64_t microBatch) {
  highWater =
      std::max(highWater, getPlace(operand, microBatch) + operand.bytes());
}

Status Executor::read(const fb::Operand &operand, const Device::Reader &body) {
  noteUse(operand, 0);
  return device->read(operand.offset(), operand.bytes(), body);
}

Status Executor::write(const fb::Operand &operand, const Device::Writer &body) {
  noteUse(operand, 0);
  return device->write(operand.offset(), operand.bytes(), body);
}

Status Executor::clear(const fb::Operand &operand) {
  noteUse(operand, 0);
  return device->clear(operand.offset(), operand.bytes());
}

Status Executor::writeStaged(const fb::Operand &operand,
                             std::span<const std::byte> staged) {
  noteUse(operand, 0);
  return device->writeStaged(operand.offset(), staged);
}

double Executor::getLearningRate(int64_t step) const {
  for (const BoundInstruction &candidate : instructions)
    if (candidate.opcode == fb::Opcode::Schedule)
      return runtime::getLearningRate(candidate.schedule, step);
  return 0;
}
