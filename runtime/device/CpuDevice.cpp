//===- CpuDevice.cpp ------------------------------------------------------===//
#include "runtime/device/CpuDevice.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Quote.h"
#include "runtime/cpu/Features.h"
#include "runtime/program/Print.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <cstring>

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

CpuDevice::CpuDevice(const Program &program, Communicator &communicator,
                     Arena allocated, const DeviceOptions &options,
                     cpu::ThreadPool &pool)
    : program(program), communicator(communicator),
      stage(program.getStageOf(communicator.getRank())), pool(pool),
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

Status CpuDevice::create(const Program &program, Communicator &communicator,
                         std::span<const BoundInstruction> instructions,
                         KernelTable kernels, const DeviceOptions &options,
                         cpu::ThreadPool &pool,
                         std::unique_ptr<Device> &device) {
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
  std::unique_ptr<CpuDevice> result(
      new CpuDevice(program, communicator, std::move(arena), options, pool));
  if (!options.serial)
    CLEAVE_RETURN_IF_ERROR(result->startStreams(options));
  CLEAVE_RETURN_IF_ERROR(makeGroups(
      program, [&](const fb::Instruction &instruction) -> Communicator & {
        return result->getCommunicator(instruction);
      }));
  CLEAVE_RETURN_IF_ERROR(result->prepare(instructions, kernels, options));
  device = std::move(result);
  return {};
}

std::string CpuDevice::getName() const {
  int count = pool.getThreads();
  return std::to_string(count) + (count == 1 ? " CPU thread" : " CPU threads");
}

/// Those of the program, whichever of them this rank's stage has: to fork is
/// collective over the world.
Status CpuDevice::startStreams(const DeviceOptions &options) {
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

Communicator &CpuDevice::getCommunicator(const fb::Instruction &instruction) {
  size_t number = instruction.stream();
  return number > 0 && number < threads.size()
             ? threads[number]->getStream().getCommunicator()
             : communicator;
}

Status CpuDevice::prepareLaunch(KernelTable kernels,
                                CpuInstruction &bound) const {
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

/// And what each bucket takes of an emulated link.
Status CpuDevice::prepare(std::span<const BoundInstruction> bound,
                          KernelTable kernels, const DeviceOptions &options) {
  for (const BoundInstruction &common : bound) {
    CpuInstruction each{common};
    if (isCollective(each.opcode))
      CLEAVE_RETURN_IF_ERROR(
          getCommunicator(*each.instruction)
              .getGroup(toSpan(each.instruction->group()), each.group));
    if (each.opcode == fb::Opcode::Launch)
      CLEAVE_RETURN_IF_ERROR(prepareLaunch(kernels, each));
    if (each.bucket > 0) {
      std::vector<const fb::Instruction *> bucket;
      for (const BoundInstruction &other : std::span(&common, each.bucket))
        bucket.push_back(other.instruction);
      each.linkSeconds =
          getLinkSeconds(program, bucket, options.links, each.linkAxis);
    }
    instructions.push_back(each);
  }
  return {};
}

/// Where it ends, all streams have done what they were given.
Status CpuDevice::run(const StepInputs &,
                      const std::function<Status()> &enqueueAll,
                      const std::function<void()> &meanwhile) {
  std::ranges::fill(recorded, StreamPoint());
  if (lastEndNs > 0)
    hostSeconds += double(getMonotonicNs() - lastEndNs) * 1e-9;
  Status status = catchExceptions([&]() -> Status {
    CLEAVE_RETURN_IF_ERROR(enqueueAll());
    meanwhile();
    return joinStreams();
  });
  // Streams may be in collectives with ranks that wait for this one, and this
  // ends once they have.
  if (!status.ok() && !threads.empty()) {
    progress.fail(status);
    communicator.abort(status);
  }
  lastEndNs = getMonotonicNs();
  return status;
}

/// What instructions that begin together wait for: of each event the latest
/// record so far.
std::vector<StreamPoint>
CpuDevice::findWaits(std::span<const CpuInstruction> bucket) {
  std::vector<StreamPoint> waits;
  for (const CpuInstruction &bound : bucket)
    for (uint32_t event : toSpan(bound.instruction->waits())) {
      const StreamPoint &point = recorded[event];
      // The rank's own stream has done all that comes before.
      if (point.stream != 0 && point.stream != bound.instruction->stream())
        waits.push_back(point);
    }
  return waits;
}

Status CpuDevice::enqueue(const BoundInstruction &common,
                          const RunContext &context) {
  const CpuInstruction &first = instructions[common.index];
  std::span<const CpuInstruction> bucket(&first, first.bucket);
  size_t number = threads.empty() ? 0 : first.instruction->stream();
  RankPosition *position = communicator.getPosition();
  if (number > 0) {
    threads[number]->push({&first, context, findWaits(bucket)});
  } else {
    for (const StreamPoint &point : findWaits(bucket)) {
      uint64_t begin = observer ? getMonotonicNs() : 0;
      CLEAVE_RETURN_IF_ERROR(waitFor(point));
      if (position)
        position->setInstruction(context.run, uint32_t(first.index));
      if (observer) {
        std::lock_guard<std::mutex> lock(observing);
        observer->onWait(first.index, begin, getMonotonicNs());
      }
    }
    delays.sleep();
    CLEAVE_RETURN_IF_ERROR(execute(ownStream, first, context));
  }
  ++issued[number];
  for (const CpuInstruction &each : bucket)
    if (uint32_t event = each.instruction->event(); event > 0)
      recorded[event] = {number, issued[number]};
  return {};
}

/// On the stream's thread.
Status CpuDevice::execute(Stream &stream, const CpuInstruction &bound,
                          const RunContext &context) {
  uint64_t begin = observer ? getMonotonicNs() : 0;
  Status status = stream.execute(bound, context);
  if (observer) {
    std::lock_guard<std::mutex> lock(observing);
    observe(&stream == &ownStream ? 0 : bound.instruction->stream(), bound,
            context, begin, getMonotonicNs());
  }
  if (status.getCode() == StatusCode::Failed)
    return status.at("step " + std::to_string(context.inputs.step) + ", " +
                     describeInstruction(this->stage, bound.index));
  return status;
}

/// Of instructions that began together each has a share of the time, by its
/// bytes.
void CpuDevice::observe(size_t number, const CpuInstruction &first,
                        const RunContext &context, uint64_t begin,
                        uint64_t end) {
  std::span<const CpuInstruction> bucket(&first, first.bucket);
  auto getBytes = [](const CpuInstruction &bound) {
    double bytes = 0;
    for (const fb::Operand &operand : bound.operands)
      bytes += double(operand.bytes());
    return bytes;
  };
  double all = 0, done = 0;
  for (const CpuInstruction &each : bucket)
    all += getBytes(each);
  uint64_t from = begin;
  for (const CpuInstruction &each : bucket) {
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
Status CpuDevice::waitFor(StreamPoint point) {
  RankPosition *position = communicator.getPosition();
  if (!position)
    return progress.wait(0, point);
  Status status = progress.wait(0, point, [&](size_t stream) {
    position->show(threads[stream]->getPosition());
  });
  position->leaveCollective();
  return status;
}

Status CpuDevice::joinStreams() {
  for (size_t number = 1; number < threads.size(); ++number)
    CLEAVE_RETURN_IF_ERROR(waitFor({number, issued[number]}));
  return {};
}

Status CpuDevice::read(uint64_t offset, uint64_t bytes, const Reader &body) {
  return body({arena.getData() + offset, bytes});
}

Status CpuDevice::clear(uint64_t offset, uint64_t bytes) {
  pool.parallelFor(
      0, int64_t(bytes), 1 << 20, [&](int64_t begin, int64_t end, int) {
        std::memset(arena.getData() + offset + begin, 0, size_t(end - begin));
      });
  return {};
}

Status CpuDevice::write(uint64_t offset, uint64_t bytes, const Writer &body) {
  return body({arena.getData() + offset, bytes});
}

Status CpuDevice::allocateStaging(uint64_t bytes,
                                  std::span<std::byte> &memory) {
  staging.push_back(std::make_unique<std::byte[]>(bytes));
  memory = {staging.back().get(), bytes};
  return {};
}

Status CpuDevice::writeStaged(uint64_t offset,
                              std::span<const std::byte> staged) {
  std::memcpy(arena.getData() + offset, staged.data(), staged.size());
  return {};
}
