//===- CudaDevice.cpp -----------------------------------------------------===//
#include "runtime/cuda/CudaDevice.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Clock.h"
#include "runtime/cuda/LocalGpus.h"
#include "runtime/cuda/NcclGpus.h"
#include "runtime/cuda/RandomNumbers.h"
#include "runtime/cuda/kernels/Images.h"
#include "runtime/program/Dataflow.h"
#include "runtime/program/Print.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

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
  if (driver && context)
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
  // What ranks need no others for may fail on all of them alike: said once.
  CLEAVE_RETURN_IF_ERROR(communicator.agree(openAlone(code, options)));
  CLEAVE_RETURN_IF_ERROR(connect());
  CLEAVE_RETURN_IF_ERROR(prepare(instructions, code));
  // Behind the trials of products, which write there. All bits set is a NaN in
  // every float type.
  if (options.poison)
    CLEAVE_CUDA(*driver, memsetAsync(arena.getAddress(), 0xff, arena.getSize(),
                                     streams[0].handle.get()));
  return synchronize();
}

Status CudaDevice::openAlone(const CleaveCudaCode &code,
                             const DeviceOptions &options) {
  CLEAVE_RETURN_IF_ERROR(open(options));
  CLEAVE_RETURN_IF_ERROR(loadCode(*context, code.chip, code.cubin, code.ptx,
                                  "the program's code", generated));
  CLEAVE_RETURN_IF_ERROR(OwnKernels::load(*context, ownKernels));
  const Nccl *nccl = nullptr;
  bool meetsByNccl = communicator.getWorldSize() > 1 && !sharesGpu;
  return meetsByNccl ? Nccl::open(nccl) : Status();
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
  for (Handle *event : {&timeOrigin, &stepBegin, &stepEnd, &lastEnd})
    CLEAVE_RETURN_IF_ERROR(context->createEvent(/*isTimed=*/true, *event));
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
  for (CudaInstruction &each : instructions)
    if (each.values)
      scheduled.push_back(&each);
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

  CLEAVE_RETURN_IF_ERROR(prepareBringer());
  // Operands hold nothing yet, so trials may overwrite them.
  CLEAVE_RETURN_IF_ERROR(
      fillWithRandomNumbers(*driver, arena, streams[0].handle.get()));
  CLEAVE_RETURN_IF_ERROR(chooseAlgorithms());
  CLEAVE_RETURN_IF_ERROR(warmUp());
  return synchronize();
}

/// Scalars that the update writes are not there before it. Nor may it read what
/// the host says of a step: the host is at the next one by then.
Status CudaDevice::prepareBringer() {
  std::set<uint32_t> late; // buffers
  std::span<const fb::Run> runs = stage.getRuns();
  for (size_t run = stage->update_run(); run < runs.size(); ++run) {
    const fb::Segment &segment = stage.getSegment(runs[run].segment());
    for (size_t i = segment.begin(); i < segment.end(); ++i) {
      if (instructions[i].values)
        return Status::error(describeInstruction(stage, i) +
                             " is part of the update, which a GPU is in while "
                             "the host says what the next step depends on");
      OperandRoles roles =
          getRoles(program.get(), *instructions[i].instruction);
      for (size_t k = 0; k < roles.outputs; ++k)
        late.insert(instructions[i].operands[roles.inputs + k].buffer());
    }
  }
  constexpr uint64_t most = sizeof(double); // bytes
  for (const fb::Output *output : toList(stage->outputs()))
    if (output->operand()->bytes() <= most &&
        !late.contains(output->operand()->buffer()))
      bringer.scalars.push_back(
          {output->operand()->offset(), output->operand()->bytes(), nullptr});
  size_t count = bringer.scalars.size();
  CLEAVE_RETURN_IF_ERROR(
      PinnedMemory::allocate(*context, (count + 2) * most, bringer.host));
  for (size_t i = 0; i < count; ++i)
    bringer.scalars[i].place = bringer.host.getData() + i * most;
  bringer.sent = reinterpret_cast<uint64_t *>(bringer.host.getData()) + count;
  bringer.returned = bringer.sent + 1;
  *bringer.sent = *bringer.returned = 0;
  CLEAVE_RETURN_IF_ERROR(DeviceMemory::allocate(
      *context, sizeof(uint64_t), "the number of a step", bringer.number));
  CLEAVE_RETURN_IF_ERROR(context->createStream(bringer.stream));
  CLEAVE_RETURN_IF_ERROR(context->createEvent(false, bringer.begin));
  CLEAVE_RETURN_IF_ERROR(context->createEvent(false, bringer.done));
  return context->createEvent(false, bringer.end);
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
// Steps
//===----------------------------------------------------------------------===//

/// Whoever observes asks for the times of instructions when the step is done,
/// and nothing else runs meanwhile.
Status CudaDevice::run(const StepInputs &inputs,
                       const std::function<Status()> &enqueueAll,
                       const std::function<void()> &meanwhile) {
  return attempt([&]() -> Status {
    CLEAVE_RETURN_IF_ERROR(context->bind());
    if (observer && isRunning)
      CLEAVE_RETURN_IF_ERROR(synchronize());
    CLEAVE_RETURN_IF_ERROR(handOver(inputs, enqueueAll));
    meanwhile();
    Status brought = waitForBrought();
    if (brought.getCode() == StatusCode::Failed)
      return brought.at("step " + std::to_string(inputs.step));
    CLEAVE_RETURN_IF_ERROR(brought);
    CLEAVE_RETURN_IF_ERROR(measureHost());
    if (!observer)
      return Status();
    CLEAVE_RETURN_IF_ERROR(synchronize());
    return reportTimes();
  });
}

Status CudaDevice::finish() {
  return attempt([&]() -> Status {
    CLEAVE_RETURN_IF_ERROR(context->bind());
    return isRunning ? synchronize() : Status();
  });
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
  bool isUsable = this->isUsable();
  if (isUsable)
    graph = Handle();
  for (Stream &each : streams)
    if (!each.communicator)
      continue;
    else if (isUsable)
      each.communicator->abort();
    else
      each.communicator->abandon();
}

/// Whether the GPU has not failed, by the latest that it was given.
bool CudaDevice::isUsable() const {
  for (const Handle *event : {&streams[0].end, &stepEnd, &bringer.done}) {
    int state = event->get() ? driver->api.eventQuery(event->get()) : success;
    if (state != success && state != errorNotReady)
      return false;
  }
  return true;
}

/// To stream 0 and those that begin behind it. The device has read the values
/// of the step before: they are needed for what the host has waited for.
Status CudaDevice::handOver(const StepInputs &inputs,
                            const std::function<Status()> &enqueueAll) {
  for (CudaInstruction *each : scheduled)
    *each->values = getScheduleValues(*each, inputs);
  ++*bringer.sent;
  bringer.isCurrent = false;
  CLEAVE_RETURN_IF_ERROR(launchStep(enqueueAll));
  std::swap(lastEnd, stepEnd);
  isRunning = true;
  CLEAVE_CUDA(*driver, eventRecord(stepEnd.get(), streams[0].handle.get()));
  return Status();
}

/// Call by call, or as a graph.
Status CudaDevice::launchStep(const std::function<Status()> &enqueueAll) {
  if (observer) {
    CLEAVE_CUDA(*driver,
                eventRecord(timeOrigin.get(), streams[0].handle.get()));
    CLEAVE_CUDA(*driver, eventSynchronize(timeOrigin.get()));
    originNs = getMonotonicNs();
    return enqueueStep(enqueueAll);
  }
  // The first time all is done that cannot be captured, such as loading code.
  if (!std::exchange(hasRun, true) || !canBeCaptured())
    return enqueueStep(enqueueAll);
  if (!graph)
    CLEAVE_RETURN_IF_ERROR(captureStep(enqueueAll));
  CLEAVE_CUDA(*driver, graphLaunch(graph.get(), streams[0].handle.get()));
  bool isDone = false;
  CLEAVE_RETURN_IF_ERROR(poll(bringer.done, isDone));
  bringer.isEventLate |= isDone && !hasReturned();
  return Status();
}

bool CudaDevice::canBeCaptured() const {
  return std::ranges::all_of(streams, [](const Stream &stream) {
    return !stream.communicator || stream.communicator->canBeCaptured();
  });
}

Status CudaDevice::enqueueStep(const std::function<Status()> &enqueueAll) {
  void *origin = streams[0].handle.get();
  isRecorded.assign(isRecorded.size(), false);
  bringer.isDone = false;
  CLEAVE_CUDA(*driver,
              eventRecordWithFlags(stepBegin.get(), origin, recordFlags));
  CLEAVE_CUDA(*driver,
              copyHostToDeviceAsync(bringer.number.getAddress(), bringer.sent,
                                    sizeof(*bringer.sent), origin));
  CLEAVE_RETURN_IF_ERROR(fork());
  CLEAVE_RETURN_IF_ERROR(enqueueAll());
  CLEAVE_RETURN_IF_ERROR(join());
  if (!bringer.isDone)
    CLEAVE_RETURN_IF_ERROR(bring());
  CLEAVE_CUDA(*driver, streamWaitEvent(origin, bringer.end.get(), 0));
  return Status();
}

Status CudaDevice::beginUpdate() {
  isRecorded.assign(isRecorded.size(), false);
  CLEAVE_RETURN_IF_ERROR(join());
  CLEAVE_RETURN_IF_ERROR(bring());
  return fork();
}

/// What stream 0 has behind it, while it goes on.
Status CudaDevice::bring() {
  void *stream = bringer.stream.get();
  CLEAVE_CUDA(*driver,
              eventRecord(bringer.begin.get(), streams[0].handle.get()));
  CLEAVE_CUDA(*driver, streamWaitEvent(stream, bringer.begin.get(), 0));
  for (const Brought &each : bringer.scalars)
    CLEAVE_CUDA(*driver, copyDeviceToHostAsync(each.place,
                                               arena.getAddress() + each.offset,
                                               each.bytes, stream));
  CLEAVE_CUDA(*driver, copyDeviceToHostAsync(
                           bringer.returned, bringer.number.getAddress(),
                           sizeof(*bringer.returned), stream));
  CLEAVE_CUDA(*driver,
              eventRecordWithFlags(bringer.done.get(), stream, recordFlags));
  CLEAVE_CUDA(*driver, eventRecord(bringer.end.get(), stream));
  bringer.isDone = true;
  return Status();
}

Status CudaDevice::captureStep(const std::function<Status()> &enqueueAll) {
  void *origin = streams[0].handle.get();
  CLEAVE_CUDA(*driver, streamBeginCapture(origin, captureThreadLocal));
  recordFlags = eventRecordExternal;
  Status status = enqueueStep(enqueueAll);
  recordFlags = eventRecordDefault;
  void *captured = nullptr;
  int ended = driver->api.streamEndCapture(origin, &captured);
  Handle owned(captured, driver->api.graphDestroy);
  CLEAVE_RETURN_IF_ERROR(status);
  CLEAVE_RETURN_IF_ERROR(
      driver->check(ended, "streamEndCapture", __FILE__, __LINE__));
  void *executable = nullptr;
  CLEAVE_CUDA(*driver, graphInstantiate(&executable, captured, 0));
  graph = Handle(executable, driver->api.graphExecDestroy);
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

/// Whether an event is done. A rank that waits for others looks whether one of
/// them, or what connects them, has failed.
Status CudaDevice::poll(const Handle &event, bool &isDone) {
  int state = driver->api.eventQuery(event.get());
  isDone = state != errorNotReady;
  if (isDone)
    return driver->check(state, "eventQuery", __FILE__, __LINE__);
  if (!streams[0].communicator)
    return Status();
  if (communicator.isAborted())
    return Status::aborted("another rank failed");
  for (Stream &each : streams)
    CLEAVE_RETURN_IF_ERROR(each.communicator->check());
  return Status();
}

static void rest() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

/// Whether this step's number has come back.
bool CudaDevice::hasReturned() const {
  return std::atomic_ref(*bringer.returned).load() == *bringer.sent;
}

Status CudaDevice::waitForBrought() {
  const Handle &end = bringer.isEventLate ? stepEnd : bringer.done;
  for (bool isOver = false;; rest()) {
    bool isDone = false;
    if (hasReturned())
      CLEAVE_RETURN_IF_ERROR(poll(end, isDone));
    if (isDone)
      break;
    if (isOver)
      return Status::error("the GPU has done a step, and not said so");
    CLEAVE_RETURN_IF_ERROR(poll(stepEnd, isOver));
  }
  bringer.isCurrent = true;
  return Status();
}

Status CudaDevice::synchronize() {
  isRunning = false;
  void *stream = streams[0].handle.get();
  if (!streams[0].communicator) {
    CLEAVE_CUDA(*driver, streamSynchronize(stream));
    return Status();
  }
  CLEAVE_CUDA(*driver, eventRecord(streams[0].end.get(), stream));
  for (bool isDone = false;;) {
    CLEAVE_RETURN_IF_ERROR(poll(streams[0].end, isDone));
    if (isDone)
      return Status();
    rest();
  }
}

/// By the device's clock, so that it has what the host takes to see that a
/// step is over, and the device to begin a graph. A step is left out whose
/// begin the driver does not tell before its graph is done.
Status CudaDevice::measureHost() {
  if (*bringer.sent == 1)
    return Status();
  float milliseconds = 0;
  int result = driver->api.eventElapsedTime(&milliseconds, lastEnd.get(),
                                            stepBegin.get());
  if (result == errorNotReady)
    return Status();
  hostSeconds += double(milliseconds) * 1e-3;
  return driver->check(result, "eventElapsedTime", __FILE__, __LINE__);
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
  for (const Brought &each : bringer.scalars)
    if (bringer.isCurrent && each.offset == offset && each.bytes == bytes)
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
  bringer.isCurrent = false;
  CLEAVE_RETURN_IF_ERROR(context->bind());
  CLEAVE_CUDA(*driver, memsetAsync(arena.getAddress() + offset, 0, bytes,
                                   streams[0].handle.get()));
  return Status();
}

/// In stream 0, all steps come behind the copy. The host's memory is free once
/// it is done.
Status CudaDevice::write(uint64_t offset, uint64_t bytes, const Writer &body) {
  bringer.isCurrent = false;
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
  bringer.isCurrent = false;
  CLEAVE_RETURN_IF_ERROR(context->bind());
  CLEAVE_CUDA(*driver,
              copyHostToDeviceAsync(arena.getAddress() + offset, staged.data(),
                                    staged.size(), streams[0].handle.get()));
  return Status();
}
