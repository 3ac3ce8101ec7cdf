//===- CudaDevice.cpp -----------------------------------------------------===//
#include "runtime/cuda/CudaDevice.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Clock.h"
#include "runtime/cuda/LocalGpus.h"
#include "runtime/cuda/NcclGpus.h"
#include "runtime/cuda/RandomNumbers.h"
#include "runtime/cuda/kernels/Images.h"
#include "runtime/program/Print.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
namespace fb = cleave::program;

Status cuda::findDevices(bool &hasGpu, std::string &absence) {
  hasGpu = false;
  if (cleave::cuda::kernelPtxBytes <= 1) {
    absence = "this Cleave was built without its CUDA kernels: build it with a "
              "clang that has the target nvptx64";
    return Status();
  }
  const Driver *driver = nullptr;
  CLEAVE_RETURN_IF_ERROR(Driver::open(driver, absence));
  hasGpu = driver != nullptr;
  return Status();
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

CudaDevice::CudaDevice(const Program &program, Communicator &communicator)
    : program(program), communicator(communicator),
      stage(program.getStageOf(communicator.getRank())) {}

CudaDevice::~CudaDevice() {
  if (driver)
    driver->api.contextSynchronize();
  if (sharesGpu && !streams.empty() && streams[0].communicator)
    streams[0].communicator->keep(std::move(arena));
  matmuls.clear();
  if (matmulHandle)
    cublasLt->api.destroy(matmulHandle);
}

Status CudaDevice::create(const Program &program, Communicator &communicator,
                          std::span<const BoundInstruction> instructions,
                          const CleaveCudaCode &code,
                          const DeviceOptions &options,
                          std::unique_ptr<Device> &device) {
  std::unique_ptr<CudaDevice> result(new CudaDevice(program, communicator));
  if (Status status = result->openAll(instructions, code, options);
      !status.ok()) {
    result->fail(status);
    return status;
  }
  device = std::move(result);
  return Status();
}

std::string CudaDevice::getName() const {
  std::string attention = attentions.describe();
  return context->getName() +
         (attention.empty() ? "" : ", attention by " + attention);
}

Status CudaDevice::openAll(std::span<const BoundInstruction> instructions,
                           const CleaveCudaCode &code,
                           const DeviceOptions &options) {
  if (!options.links.empty() || options.delaySeed)
    return Status::error("--emulate-link and --stream-delays are for CPUs: add "
                         "--device cpu");
  std::copy_n(code.peak_flops, 2, peakFlops);
  CLEAVE_RETURN_IF_ERROR(open(options));
  CLEAVE_RETURN_IF_ERROR(loadCode(*context, code.chip, code.cubin, code.ptx,
                                  "the program's code", generated));
  CLEAVE_RETURN_IF_ERROR(OwnKernels::load(*context, ownKernels));
  CLEAVE_RETURN_IF_ERROR(connect());
  CLEAVE_RETURN_IF_ERROR(prepare(instructions, code));
  // Behind the trials of products, which write there. All bits set is a NaN in
  // every float type.
  if (options.poison)
    CLEAVE_CUDA(*driver, memsetAsync(arena.getAddress(), 0xff, arena.getSize(),
                                     streams[0].handle.get()));
  return synchronize();
}

/// The number of this rank among those of its machine: its thread's, where they
/// are one process, else as launchers tell it.
static int getLocalRank(const Communicator &communicator) {
  RankRange process = communicator.getProcessRanks();
  if (process.count > 1)
    return communicator.getRank() - process.first;
  for (const char *name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "SLURM_LOCALID", "MPI_LOCALRANKID"})
    if (const char *text = std::getenv(name))
      return std::atoi(text);
  return communicator.getRank();
}

Status CudaDevice::open(const DeviceOptions &options) {
  std::string absence;
  CLEAVE_RETURN_IF_ERROR(Driver::open(driver, absence));
  if (!driver)
    return Status::error(absence);
  RankRange process = communicator.getProcessRanks();
  int rank = getLocalRank(communicator), count = driver->getDeviceCount();
  // A launcher may show each rank its own GPU alone. NCCL refuses one GPU
  // twice.
  if (process.count == 1 && count == 1 && std::getenv("CUDA_VISIBLE_DEVICES"))
    rank = 0;
  if (process.count == 1 && rank >= count)
    return Status::error("this machine has " + std::to_string(count) +
                         (count == 1 ? " GPU" : " GPUs") +
                         ", and this is its rank " + std::to_string(rank) +
                         " (counted from 0): start at most one rank a GPU, or "
                         "set LOCAL_RANK, the rank's number on its machine");
  // Without peer access, a kernel of one GPU cannot reach another's memory: so
  // ranks of a process have a GPU each, or all of them share one.
  sharesGpu = process.count > 1 && process.count > count;
  CLEAVE_RETURN_IF_ERROR(
      Context::create(*driver, sharesGpu ? 0 : rank, context));
  CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(
      *context, std::max<uint64_t>(stage->arena_bytes(), 1), "the arena",
      arena));
  isSerial = options.serial;
  streams.resize(isSerial ? 1 : program.countStreams());
  for (Stream &stream : streams) {
    CLEAVE_RETURN_IF_ERROR(context->createStream(stream.handle));
    CLEAVE_RETURN_IF_ERROR(context->createEvent(false, stream.begin));
    CLEAVE_RETURN_IF_ERROR(context->createEvent(false, stream.end));
  }
  CLEAVE_RETURN_IF_ERROR(context->createEvent(true, timeOrigin));
  CLEAVE_RETURN_IF_ERROR(CublasLt::open(driver->getVersion(), cublasLt));
  return cublasLt->check(cublasLt->api.create(&matmulHandle), "create",
                         __FILE__, __LINE__);
}

/// How this rank's GPU meets others.
Status CudaDevice::connect() {
  CLEAVE_RETURN_IF_ERROR(
      makeGroups(program, [&](const fb::Instruction &) -> Communicator & {
        return communicator;
      }));
  int ranks = communicator.getWorldSize();
  if (ranks == 1)
    return Status();
  std::vector<std::unique_ptr<GpuCommunicator>> made;
  if (!sharesGpu)
    if (Status status = NcclGpus::create(program, streams.size(), communicator,
                                         *context, ownKernels, made);
        !status.ok()) {
      fail(status); // before what was made ends, which waits for others
      return status;
    }
  for (size_t i = 0; i < streams.size(); ++i)
    if (!sharesGpu)
      streams[i].communicator = std::move(made[i]);
    else
      CLEAVE_RETURN_IF_ERROR(LocalGpus::create(
          communicator, *context, ownKernels, streams[i].communicator));
  return Status();
}

Status CudaDevice::prepare(std::span<const BoundInstruction> bound,
                           const CleaveCudaCode &code) {
  size_t scheduleCount = 0;
  for (const BoundInstruction &each : bound)
    scheduleCount += each.opcode == fb::Opcode::Schedule;
  CLEAVE_RETURN_IF_ERROR(PinnedMemory::allocate(
      *context, scheduleCount * sizeof(ScheduleValues), schedules));
  auto *values = reinterpret_cast<ScheduleValues *>(schedules.getData());

  CLEAVE_RETURN_IF_ERROR(agreeOnAttention());
  uint32_t lastEvent = 0;
  for (const BoundInstruction &common : bound) {
    CudaInstruction each{common};
    if (each.opcode == fb::Opcode::Schedule)
      each.values = values++;
    if (Status status = prepare(each, code); !status.ok())
      return Status::error(describeInstruction(stage, each.index) + ": " +
                           status.message());
    lastEvent = std::max(lastEvent, each.instruction->event());
    instructions.push_back(std::move(each));
  }
  CLEAVE_RETURN_IF_ERROR(prepareLanes(bound));
  CLEAVE_RETURN_IF_ERROR(prepareTables());
  events.resize(lastEvent + 1);
  isRecorded.resize(lastEvent + 1);
  for (size_t i = 1; i < events.size(); ++i)
    CLEAVE_RETURN_IF_ERROR(context->createEvent(false, events[i]));

  std::vector<uint64_t> scratch(streams.size()), joined(streams.size());
  for (const CudaInstruction &each : instructions) {
    size_t stream = isSerial ? 0 : each.instruction->stream();
    scratch[stream] = std::max(scratch[stream], each.scratchBytes);
    joined[stream] = std::max(joined[stream], each.joinedBytes);
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    Stream &stream = streams[i];
    CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(
        *context, scratch[i], "the workspace of libraries and kernels",
        stream.scratch));
    CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(
        *context, joined[i], "what blocks of kernels meet in", stream.joined));
    if (joined[i] > 0)
      CLEAVE_CUDA(*driver, memsetAsync(stream.joined.getAddress(), 0, joined[i],
                                       stream.handle.get()));
  }

  CLEAVE_RETURN_IF_ERROR(prepareBrought());
  // Operands hold nothing yet, so trials may overwrite them.
  CLEAVE_RETURN_IF_ERROR(
      fillWithRandomNumbers(*driver, arena, streams[0].handle.get()));
  CLEAVE_RETURN_IF_ERROR(chooseAlgorithms());
  CLEAVE_RETURN_IF_ERROR(warmUp());
  return synchronize();
}

Status CudaDevice::prepareBrought() {
  constexpr uint64_t most = sizeof(double); // bytes
  for (const fb::Output *output : toList(stage->outputs()))
    if (output->operand()->bytes() <= most)
      brought.push_back(
          {output->operand()->offset(), output->operand()->bytes(), nullptr});
  CLEAVE_RETURN_IF_ERROR(
      PinnedMemory::allocate(*context, brought.size() * most, scalars));
  for (size_t i = 0; i < brought.size(); ++i)
    brought[i].place = scalars.getData() + i * most;
  return Status();
}

Status CudaDevice::prepareLanes(std::span<const BoundInstruction> bound) {
  auto canShare = [&](size_t i) {
    const CudaInstruction &each = instructions[i];
    // What others wait for, or what has memory of the stream, is in its order.
    return !isSerial && each.opcode == fb::Opcode::Launch &&
           each.joinedBytes == 0 && each.instruction->event() == 0 &&
           toSpan(each.instruction->waits()).empty();
  };
  auto getMulti = [&](size_t i) -> const void * {
    const CudaInstruction &each = instructions[i];
    // A table is the same for all micro-batches.
    bool moves =
        std::ranges::any_of(each.operands, [](const fb::Operand &operand) {
          return operand.places() > 1;
        });
    return !moves && each.multi.function
               ? &getKernel(program.get(), *each.instruction)
               : nullptr;
  };
  lanes = assignLanes(program, stage, bound, canShare, getMulti);
  for (const CudaInstruction &each : instructions) {
    Stream &stream = streams[isSerial ? 0 : each.instruction->stream()];
    while (stream.sides.size() + 1 < lanes[each.index].count) {
      Side &side = stream.sides.emplace_back();
      CLEAVE_RETURN_IF_ERROR(context->createStream(side.handle));
      CLEAVE_RETURN_IF_ERROR(context->createEvent(false, side.end));
    }
    if (!stream.sides.empty() && !stream.forked.get())
      CLEAVE_RETURN_IF_ERROR(context->createEvent(false, stream.forked));
  }
  return Status();
}

/// Writes the tables of launches that are one, with a row for each as
/// CleaveCudaKernel says.
Status CudaDevice::prepareTables() {
  std::vector<uint64_t> words;
  for (CudaInstruction &first : instructions) {
    const std::vector<size_t> &together = lanes[first.index].together;
    if (together.empty())
      continue;
    first.multi.grid[1] = unsigned(together.size());
    first.table = words.size() * sizeof(words[0]);
    for (size_t index : together) {
      const CudaInstruction &each = instructions[index];
      for (size_t i = 0; i < each.operands.size(); ++i)
        words.push_back(get(each, i, RunContext()));
      words.push_back(uint64_t(each.shardIndex));
    }
  }
  CLEAVE_RETURN_IF_ERROR(
      DeviceMemory::allocate(*context, words.size() * sizeof(words[0]),
                             "tables of kernels' operands", tables));
  if (words.empty())
    return Status();
  for (CudaInstruction &each : instructions)
    if (!lanes[each.index].together.empty())
      each.table += tables.getAddress();
  void *stream = streams[0].handle.get();
  CLEAVE_CUDA(*driver, copyHostToDeviceAsync(tables.getAddress(), words.data(),
                                             tables.getSize(), stream));
  CLEAVE_CUDA(*driver, streamSynchronize(stream));
  return Status();
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

Status CudaDevice::run(const RunRange &range,
                       const std::function<Status()> &enqueueAll,
                       const std::function<void()> &meanwhile) {
  return attempt([&]() -> Status {
    if (observer && !running.empty())
      CLEAVE_RETURN_IF_ERROR(waitForRanges());
    CLEAVE_RETURN_IF_ERROR(handOver(range, enqueueAll));
    meanwhile();
    CLEAVE_RETURN_IF_ERROR(waitForRanges());
    isBrought = isJudged(range);
    return Status();
  });
}

/// Whoever observes asks for the times of instructions when the range is done.
Status CudaDevice::begin(const RunRange &range,
                         const std::function<Status()> &enqueueAll) {
  if (observer)
    return run(range, enqueueAll, [] {});
  CLEAVE_RETURN_IF_ERROR(finish());
  return attempt([&] { return handOver(range, enqueueAll); });
}

Status CudaDevice::finish() {
  return attempt([&] { return running.empty() ? Status() : waitForRanges(); });
}

Status CudaDevice::attempt(const std::function<Status()> &body) {
  Status status = catchExceptions(body);
  if (!status.ok())
    fail(status);
  return status;
}

/// Tells the other ranks first: NCCL may end a communicator only once they end
/// theirs, which they do when they know.
void CudaDevice::fail(const Status &status) {
  if (!communicator.hasAgreedToFail())
    communicator.abort(status);
  giveUp();
}

/// The other ranks may not come to what this one would wait for: to destroy a
/// communicator is collective. NCCL gives a communicator up once no graph has
/// operations of it, and a GPU that has failed destroys none: there, to end the
/// process is what tells the others.
void CudaDevice::giveUp() {
  if (streams.empty() || !streams[0].communicator)
    return;
  int state = driver->api.eventQuery(streams[0].end.get());
  bool isUsable = state == success || state == errorNotReady;
  if (isUsable)
    for (auto &[runs, range] : ranges)
      range.graph = Handle();
  for (Stream &each : streams)
    if (!each.communicator)
      continue;
    else if (isUsable)
      each.communicator->abort();
    else
      each.communicator->abandon();
}

/// To stream 0 and those that begin behind it.
Status CudaDevice::handOver(const RunRange &range,
                            const std::function<Status()> &enqueueAll) {
  CLEAVE_RETURN_IF_ERROR(context->bind());
  isBrought = false;
  Range &own = ranges[{range.begin, range.end}];
  if (!own.begin)
    CLEAVE_RETURN_IF_ERROR(prepareRange(range, own));
  // The device has read those of the last time: between two times that a range
  // is run the host waits.
  for (CudaInstruction *each : own.schedules)
    *each->values = getScheduleValues(*each, range.step, range.updates);
  CLEAVE_RETURN_IF_ERROR(launchRange(range, enqueueAll, own));
  std::swap(own.ends[0], own.ends[1]);
  void *end = own.ends[0].get();
  CLEAVE_CUDA(*driver, eventRecord(end, streams[0].handle.get()));
  running.push_back({own.begin.get(), end});
  return Status();
}

Status CudaDevice::prepareRange(const RunRange &range, Range &own) {
  for (Handle *event : {&own.begin, &own.ends[0], &own.ends[1]})
    CLEAVE_RETURN_IF_ERROR(context->createEvent(/*isTimed=*/true, *event));
  std::set<uint64_t> segments;
  for (size_t run = range.begin; run < range.end; ++run)
    segments.insert(stage.getRuns()[run].segment());
  for (uint64_t number : segments) {
    const fb::Segment &segment = stage.getSegment(number);
    for (size_t i = segment.begin(); i < segment.end(); ++i) {
      CudaInstruction *each = &instructions[i];
      if (!each->values)
        continue;
      for (const auto &[runs, other] : ranges)
        if (std::ranges::find(other.schedules, each) != other.schedules.end())
          return Status::error(describeInstruction(stage, i) +
                               " is part of both the gradients and the update "
                               "of a step; a GPU is handed the one while it "
                               "is in the other");
      own.schedules.push_back(each);
    }
  }
  return Status();
}

/// Call by call, or as a graph.
Status CudaDevice::launchRange(const RunRange &range,
                               const std::function<Status()> &enqueueAll,
                               Range &own) {
  if (observer) {
    CLEAVE_CUDA(*driver,
                eventRecord(timeOrigin.get(), streams[0].handle.get()));
    CLEAVE_CUDA(*driver, eventSynchronize(timeOrigin.get()));
    originNs = getMonotonicNs();
    return enqueueRange(range, enqueueAll, own, eventRecordDefault);
  }
  // The first time all is done that cannot be captured, such as loading code.
  if (own.timesRun++ == 0 || !canBeCaptured())
    return enqueueRange(range, enqueueAll, own, eventRecordDefault);
  if (!own.graph)
    CLEAVE_RETURN_IF_ERROR(captureRange(range, enqueueAll, own));
  CLEAVE_CUDA(*driver, graphLaunch(own.graph.get(), streams[0].handle.get()));
  return Status();
}

Status CudaDevice::waitForRanges() {
  CLEAVE_RETURN_IF_ERROR(context->bind());
  CLEAVE_RETURN_IF_ERROR(synchronize());
  CLEAVE_RETURN_IF_ERROR(measureHost());
  return observer ? reportTimes() : Status();
}

bool CudaDevice::canBeCaptured() const {
  return std::ranges::all_of(streams, [](const Stream &stream) {
    return !stream.communicator || stream.communicator->canBeCaptured();
  });
}

/// Whether what it computes says if there is to be an update.
bool CudaDevice::isJudged(const RunRange &range) const {
  return range.end <= stage->update_run();
}

/// `beginFlags`: those by which the device records the range's begin.
Status CudaDevice::enqueueRange(const RunRange &range,
                                const std::function<Status()> &enqueueAll,
                                const Range &own, unsigned beginFlags) {
  isRecorded.assign(isRecorded.size(), false);
  CLEAVE_CUDA(*driver,
              eventRecordWithFlags(own.begin.get(), streams[0].handle.get(),
                                   beginFlags));
  CLEAVE_RETURN_IF_ERROR(fork());
  CLEAVE_RETURN_IF_ERROR(enqueueAll());
  CLEAVE_RETURN_IF_ERROR(join());
  if (isJudged(range))
    for (const Brought &each : brought)
      CLEAVE_CUDA(*driver, copyDeviceToHostAsync(
                               each.place, arena.getAddress() + each.offset,
                               each.bytes, streams[0].handle.get()));
  return Status();
}

Status CudaDevice::captureRange(const RunRange &range,
                                const std::function<Status()> &enqueueAll,
                                Range &own) {
  void *origin = streams[0].handle.get();
  CLEAVE_CUDA(*driver, streamBeginCapture(origin, captureThreadLocal));
  Status status = enqueueRange(range, enqueueAll, own, eventRecordExternal);
  void *graph = nullptr;
  int ended = driver->api.streamEndCapture(origin, &graph);
  Handle owned(graph, driver->api.graphDestroy);
  CLEAVE_RETURN_IF_ERROR(status);
  CLEAVE_RETURN_IF_ERROR(
      driver->check(ended, "streamEndCapture", __FILE__, __LINE__));
  void *executable = nullptr;
  CLEAVE_CUDA(*driver, graphInstantiate(&executable, graph, 0));
  own.graph = Handle(executable, driver->api.graphExecDestroy);
  return Status();
}

/// All streams begin behind what stream 0 has done.
Status CudaDevice::fork() {
  if (streams.size() == 1)
    return Status();
  CLEAVE_CUDA(*driver,
              eventRecord(streams[0].begin.get(), streams[0].handle.get()));
  for (size_t i = 1; i < streams.size(); ++i)
    CLEAVE_CUDA(*driver, streamWaitEvent(streams[i].handle.get(),
                                         streams[0].begin.get(), 0));
  return Status();
}

/// Stream 0 goes on once all have done what they were given.
Status CudaDevice::join() {
  for (Stream &stream : streams)
    if (stream.communicator)
      CLEAVE_RETURN_IF_ERROR(stream.communicator->join(stream.handle.get()));
  for (size_t i = 1; i < streams.size(); ++i) {
    CLEAVE_CUDA(*driver,
                eventRecord(streams[i].end.get(), streams[i].handle.get()));
    CLEAVE_CUDA(*driver, streamWaitEvent(streams[0].handle.get(),
                                         streams[i].end.get(), 0));
  }
  return Status();
}

/// A rank that waits for others looks whether one of them, or what connects
/// them, has failed.
Status CudaDevice::synchronize() {
  void *stream = streams[0].handle.get();
  if (!streams[0].communicator) {
    CLEAVE_CUDA(*driver, streamSynchronize(stream));
    return Status();
  }
  CLEAVE_CUDA(*driver, eventRecord(streams[0].end.get(), stream));
  for (;;) {
    int state = driver->api.eventQuery(streams[0].end.get());
    if (state != errorNotReady)
      return driver->check(state, "eventQuery", __FILE__, __LINE__);
    Status status = communicator.isAborted()
                        ? Status::aborted("another rank failed")
                        : Status();
    for (Stream &each : streams)
      if (status.ok())
        status = each.communicator->check();
    CLEAVE_RETURN_IF_ERROR(status);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// By the device's clock, so that it has what the host takes to see that a
/// range has ended, and the device to begin a graph.
Status CudaDevice::measureHost() {
  for (const Ran &ran : running) {
    float milliseconds = 0;
    if (lastEnd)
      CLEAVE_CUDA(*driver, eventElapsedTime(&milliseconds, lastEnd, ran.begin));
    hostSeconds += double(milliseconds) * 1e-3;
    lastEnd = ran.end;
  }
  running.clear();
  return Status();
}

Status CudaDevice::reportTimes() {
  for (const Timed &each : timed) {
    float begin = 0, end = 0; // milliseconds
    CLEAVE_CUDA(*driver,
                eventElapsedTime(&begin, timeOrigin.get(), each.begin.get()));
    CLEAVE_CUDA(*driver,
                eventElapsedTime(&end, timeOrigin.get(), each.end.get()));
    observer->onInstruction({each.index, each.microBatch, each.stream,
                             originNs + uint64_t(double(begin) * 1e6),
                             originNs + uint64_t(double(end) * 1e6)});
  }
  timed.clear();
  return Status();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status CudaDevice::read(uint64_t offset, uint64_t bytes, const Reader &body) {
  for (const Brought &each : brought)
    if (isBrought && each.offset == offset && each.bytes == bytes)
      return body({each.place, each.bytes});
  CLEAVE_RETURN_IF_ERROR(finish());
  CLEAVE_RETURN_IF_ERROR(context->bind());
  std::vector<std::byte> copy(bytes);
  CLEAVE_CUDA(*driver,
              copyDeviceToHostAsync(copy.data(), arena.getAddress() + offset,
                                    bytes, streams[0].handle.get()));
  CLEAVE_CUDA(*driver, streamSynchronize(streams[0].handle.get()));
  return body(copy);
}

Status CudaDevice::clear(uint64_t offset, uint64_t bytes) {
  isBrought = false;
  CLEAVE_RETURN_IF_ERROR(context->bind());
  CLEAVE_CUDA(*driver, memsetAsync(arena.getAddress() + offset, 0, bytes,
                                   streams[0].handle.get()));
  return Status();
}

/// In stream 0, all ranges come behind the copy. The host's memory is free once
/// it is done.
Status CudaDevice::write(uint64_t offset, uint64_t bytes, const Writer &body) {
  isBrought = false;
  CLEAVE_RETURN_IF_ERROR(finish());
  CLEAVE_RETURN_IF_ERROR(context->bind());
  auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  CLEAVE_RETURN_IF_ERROR(body({copy.get(), bytes}));
  CLEAVE_CUDA(*driver,
              copyHostToDeviceAsync(arena.getAddress() + offset, copy.get(),
                                    bytes, streams[0].handle.get()));
  CLEAVE_CUDA(*driver, streamSynchronize(streams[0].handle.get()));
  return Status();
}

Status CudaDevice::allocateStaging(uint64_t bytes,
                                   std::span<std::byte> &memory) {
  CLEAVE_RETURN_IF_ERROR(context->bind());
  CLEAVE_RETURN_IF_ERROR(
      PinnedMemory::allocate(*context, bytes, staging.emplace_back()));
  memory = {staging.back().getData(), bytes};
  return Status();
}

/// In stream 0, as write(); but the host goes on.
Status CudaDevice::writeStaged(uint64_t offset,
                               std::span<const std::byte> staged) {
  isBrought = false;
  CLEAVE_RETURN_IF_ERROR(context->bind());
  CLEAVE_CUDA(*driver,
              copyHostToDeviceAsync(arena.getAddress() + offset, staged.data(),
                                    staged.size(), streams[0].handle.get()));
  return Status();
}
