//===- Executor.cpp -------------------------------------------------------===//
#include "runtime/executor/Executor.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Quote.h"
#include "runtime/cpu/Features.h"
#include "runtime/program/Print.h"
#include "runtime/program/Verify.h"
#include "runtime/program/Work.h"
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

/// The most operands of a launch.
static size_t countBuffers(const Stage &stage) {
  size_t most = 0;
  for (size_t i = 0; i < stage.getInstructionCount(); ++i)
    most = std::max(most, toSpan(stage.getInstruction(i).operands()).size());
  return most;
}

Executor::Executor(const Program &program, Communicator &communicator,
                   Arena allocated, const ExecutorOptions &options, int threads)
    : program(program), communicator(communicator),
      stage(program.getStageOf(communicator.getRank())), pool(threads),
      arena(std::move(allocated)),
      delays(options.delaySeed, uint64_t(communicator.getRank()), 0),
      issued(program.countStreams()), recorded(stage.getInstructionCount() + 1),
      progress(program.countStreams()),
      ownStream(arena.getData(), communicator, pool, links,
                countBuffers(stage)) {}

static Status allocate(const Program &program, Communicator &communicator,
                       Arena &arena) {
  RankRange ranks = communicator.getProcessRanks();
  uint64_t all = 0;
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank)
    all += program.getStageOf(rank)->arena_bytes();
  Stage stage = program.getStageOf(communicator.getRank());
  return Arena::allocate(stage->arena_bytes(), {all, ranks.count}, arena);
}

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
  CLEAVE_RETURN_IF_ERROR(verifyLinks(program, options.links));
  Arena arena;
  CLEAVE_RETURN_IF_ERROR(allocate(program, communicator, arena));
  // All bits set is a NaN in every float type.
  if (options.poison)
    std::memset(arena.getData(), 0xff, arena.getSize());
  std::unique_ptr<Executor> result(
      new Executor(program, communicator, std::move(arena), options, threads));
  if (!options.serial)
    CLEAVE_RETURN_IF_ERROR(result->startStreams(options));
  CLEAVE_RETURN_IF_ERROR(result->makeGroups());
  CLEAVE_RETURN_IF_ERROR(result->prepare(kernels, options));
  executor = std::move(result);
  return {};
}

/// Those of the program, whichever of them this rank's stage has: to fork is
/// collective over the world.
Status Executor::startStreams(const ExecutorOptions &options) {
  threads.resize(program.countStreams());
  for (size_t number = 1; number < threads.size(); ++number) {
    std::unique_ptr<Communicator> forked;
    CLEAVE_RETURN_IF_ERROR(communicator.fork(int(number), forked));
    RandomDelays delays(options.delaySeed, uint64_t(communicator.getRank()),
                        number);
    auto body = [this](Stream &stream, const StreamThread::Task &task) {
      return execute(stream, *task.bound, task.context);
    };
    threads[number] = std::make_unique<StreamThread>(
        number, arena.getData(), std::move(forked), links, countBuffers(stage),
        progress, delays, body);
  }
  return {};
}

Communicator &Executor::getCommunicator(const fb::Instruction &instruction) {
  size_t number = instruction.stream();
  return number > 0 && number < threads.size()
             ? threads[number]->getStream().getCommunicator()
             : communicator;
}

/// Those of all stages, in the order of the program: to make one is collective
/// over the world.
Status Executor::makeGroups() {
  for (size_t number = 0; number < program.getStageCount(); ++number) {
    Stage other = program.getStage(number);
    const Group *group;
    for (size_t i = 0; i < other.getInstructionCount(); ++i) {
      const fb::Instruction &instruction = other.getInstruction(i);
      if (isCollective(instruction.work_type()))
        CLEAVE_RETURN_IF_ERROR(
            getCommunicator(instruction)
                .getGroup(toSpan(instruction.group()), group));
    }
  }
  return {};
}

Status Executor::prepareLaunch(KernelTable kernels,
                               BoundInstruction &bound) const {
  const fb::Kernel &kernel = getKernel(program.get(), *bound.instruction);
  std::string_view symbol = toView(kernel.symbol());
  for (uint64_t i = 0; i < kernels.count; ++i)
    if (symbol == kernels.entries[i].symbol)
      bound.kernel = kernels.entries[i].fn;
  if (!bound.kernel)
    return Status::error("the executable has no kernel " + quote(symbol) +
                         ", which the program launches");
  bool isColumn = kernel.mode() == fb::KernelMode::Column;
  bound.range = int64_t(isColumn ? kernel.columns() : kernel.rows());
  bound.grain = int64_t(kernel.grain());
  return {};
}

Status Executor::prepare(KernelTable kernels, const ExecutorOptions &options) {
  for (size_t i = 0; i < stage.getInstructionCount(); ++i) {
    const fb::Instruction &instruction = stage.getInstruction(i);
    BoundInstruction bound;
    bound.index = i;
    bound.instruction = &instruction;
    bound.opcode = instruction.work_type();
    bound.operands = toSpan(instruction.operands());
    auto axes = toSpan(instruction.group());
    const Mesh &mesh = program.getMesh();
    bound.shardIndex = mesh.getShardIndex(communicator.getRank(), axes);
    bound.shardCount = uint64_t(mesh.getShardCount(axes));
    if (isCollective(bound.opcode))
      CLEAVE_RETURN_IF_ERROR(
          getCommunicator(instruction).getGroup(axes, bound.group));
    if (isMessage(bound.opcode)) {
      Message message = getMessage(instruction);
      bound.peer = mesh.moveTo(communicator.getRank(), program->stage_axis(),
                               int(message.stage));
      bound.channel = int(message.channel);
    }
    if (bound.opcode == fb::Opcode::Launch)
      CLEAVE_RETURN_IF_ERROR(prepareLaunch(kernels, bound));
    if (bound.opcode == fb::Opcode::Schedule)
      CLEAVE_RETURN_IF_ERROR(resolveSchedule(*instruction.work_as_Schedule(),
                                             options.schedule, bound.schedule));
    instructions.push_back(bound);
  }
  findBuckets(options);
  return {};
}

/// And what each takes of an emulated link. A serial run begins one at a time.
void Executor::findBuckets(const ExecutorOptions &options) {
  std::vector<const fb::Instruction *> bucket;
  for (BoundInstruction &bound : instructions) {
    bucket.push_back(bound.instruction);
    if (bound.instruction->with_next() && !options.serial)
      continue;
    BoundInstruction &first = *(&bound + 1 - bucket.size());
    for (BoundInstruction &each : std::span(&first, bucket.size()))
      each.bucket = 0;
    first.bucket = bucket.size();
    first.linkSeconds =
        getLinkSeconds(program, bucket, options.links, first.linkAxis);
    bucket.clear();
  }
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

/// Where it ends, all streams have done what they were given.
Status Executor::runRange(size_t begin, size_t end) {
  std::ranges::fill(recorded, StreamPoint());
  Status status = catchExceptions([&]() -> Status {
    for (size_t run = begin; run < end; ++run)
      CLEAVE_RETURN_IF_ERROR(runSegment(run));
    return joinStreams();
  });
  // Streams may be in collectives with ranks that wait for this one, and this
  // ends once they have.
  if (!status.ok() && !threads.empty()) {
    progress.fail(status);
    communicator.abort(status);
  }
  return status;
}

Status Executor::runSegment(size_t run) {
  const fb::Run &current = stage.getRuns()[run];
  const fb::Segment &segment = stage.getSegment(current.segment());
  RunContext context{uint32_t(run), current.micro_batch(), current.first(),
                     currentStep, currentUpdates};
  for (size_t i = segment.begin(); i < segment.end(); ++i)
    CLEAVE_RETURN_IF_ERROR(runInstruction(i, context));
  return {};
}

/// What instructions that begin together wait for: of each event the latest
/// record so far.
std::vector<StreamPoint>
Executor::findWaits(std::span<const BoundInstruction> bucket) {
  std::vector<StreamPoint> waits;
  for (const BoundInstruction &bound : bucket)
    for (uint32_t event : toSpan(bound.instruction->waits())) {
      const StreamPoint &point = recorded[event];
      // The rank's own stream has done all that comes before.
      if (point.stream != 0 && point.stream != bound.instruction->stream())
        waits.push_back(point);
    }
  return waits;
}

/// Executes the instruction, and those that begin together with it, or hands
/// them to their stream.
Status Executor::runInstruction(size_t index, const RunContext &context) {
  const BoundInstruction &bound = instructions[index];
  if (bound.bucket == 0)
    return {};
  std::span<const BoundInstruction> bucket(&bound, bound.bucket);
  const fb::Instruction &instruction = *bound.instruction;
  size_t number = threads.empty() ? 0 : instruction.stream();
  RankPosition *position = communicator.getPosition();
  if (position)
    position->setInstruction(context.run, uint32_t(index));
  if (number > 0) {
    threads[number]->push({&bound, context, findWaits(bucket)});
  } else {
    for (const StreamPoint &point : findWaits(bucket)) {
      uint64_t begin = observer ? getNow() : 0;
      CLEAVE_RETURN_IF_ERROR(waitFor(point));
      if (position)
        position->setInstruction(context.run, uint32_t(index));
      if (observer) {
        std::lock_guard<std::mutex> lock(observing);
        observer->onWait(index, begin, getNow());
      }
    }
    delays.sleep();
    CLEAVE_RETURN_IF_ERROR(execute(ownStream, bound, context));
  }
  ++issued[number];
  for (const BoundInstruction &each : bucket)
    if (uint32_t event = each.instruction->event(); event > 0)
      recorded[event] = {number, issued[number]};
  return {};
}

/// On the stream's thread.
Status Executor::execute(Stream &stream, const BoundInstruction &bound,
                         const RunContext &context) {
  uint64_t begin = observer ? getNow() : 0;
  Status status = stream.execute(bound, context);
  if (observer) {
    std::lock_guard<std::mutex> lock(observing);
    observe(&stream == &ownStream ? 0 : bound.instruction->stream(), bound,
            context, begin, getNow());
  }
  if (status.getCode() == StatusCode::Failed)
    return Status::error("step " + std::to_string(context.step) + ", " +
                         describeInstruction(this->stage, bound.index) + ": " +
                         status.message());
  return status;
}

/// Of instructions that began together each has a share of the time, by its
/// bytes.
void Executor::observe(size_t number, const BoundInstruction &first,
                       const RunContext &context, uint64_t begin,
                       uint64_t end) {
  std::span<const BoundInstruction> bucket(&first, first.bucket);
  auto getBytes = [](const BoundInstruction &bound) {
    double bytes = 0;
    for (const fb::Operand &operand : bound.operands)
      bytes += double(operand.bytes());
    return bytes;
  };
  double all = 0, done = 0;
  for (const BoundInstruction &each : bucket)
    all += getBytes(each);
  uint64_t from = begin;
  for (const BoundInstruction &each : bucket) {
    done += getBytes(each);
    uint64_t to = &each == &bucket.back()
                      ? end
                      : begin + uint64_t(double(end - begin) * done / all);
    observer->onInstruction({each.index, context.microBatch, number, from, to});
    from = to;
  }
}

/// The rank's thread waits. Meanwhile the rank is where that stream is which
/// keeps it waiting.
Status Executor::waitFor(StreamPoint point) {
  RankPosition *position = communicator.getPosition();
  if (!position)
    return progress.wait(0, point);
  Status status = progress.wait(0, point, [&](size_t stream) {
    position->show(threads[stream]->getPosition());
  });
  position->leaveCollective();
  return status;
}

Status Executor::joinStreams() {
  for (size_t number = 1; number < threads.size(); ++number)
    CLEAVE_RETURN_IF_ERROR(waitFor({number, issued[number]}));
  return {};
}

uint64_t Executor::getHighWaterBytes() const {
  uint64_t bytes = std::max(highWater, ownStream.getHighWater());
  for (size_t number = 1; number < threads.size(); ++number)
    bytes = std::max(bytes, threads[number]->getStream().getHighWater());
  return bytes;
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
  for (const BoundInstruction &candidate : instructions)
    if (candidate.opcode == fb::Opcode::Schedule)
      return runtime::getLearningRate(candidate.schedule, step);
  return 0;
}
