//===- Machine.cpp --------------------------------------------------------===//
#include "test/cuda/driver/Machine.h"
#include "runtime/cpu/Gemm.h"
#include "test/cuda/driver/Codes.h"
#include "test/cuda/driver/Workspace.h"
#include <algorithm>
#include <cstdio>

using namespace cleave::simulated;
namespace cpu = cleave::cpu;

Machine::Machine(std::string &error)
    : scheduler([this](Id id, const Lane &lane, const Work &work,
                       Progress &progress) {
        return run(id, lane, work, progress);
      }) {
  error = Options::read(options);
  if (!error.empty())
    return;
  engine = makeEngine(options.engine);
  if (!engine)
    error = "CLEAVE_SIMULATED_ENGINE is \"" + options.engine +
            "\", expects \"twin\" or \"ptx\"";
  if (!options.log.empty()) {
    log.open(options.log, std::ios::app);
    if (!log)
      error = "CLEAVE_SIMULATED_LOG: " + options.log + " cannot be written";
  }
  scheduler.setOptions(options.seed, options.patience);
  pinned.setSeed(options.seed);
  for (int i = 0; i < options.devices && options.hasDevice; ++i) {
    devices.push_back(std::make_unique<Device>(options.memoryBytes));
    Stream &legacy = devices.back()->legacy;
    legacy.device = i;
    legacy.lane = scheduler.addLane(
        "the legacy stream of device " + std::to_string(i), i);
  }
}

int Machine::report(int code, const std::string &message) {
  const char *name = getCodeName(code);
  std::fprintf(stderr, "simulated CUDA: %s: %s\n", name ? name : "error",
               message.c_str());
  return code;
}

void Machine::reportUnreachedFault() const {
  if (options.fault.operation > executed + 1)
    std::fprintf(stderr,
                 "simulated CUDA: a fault was wished of operation %llu, and "
                 "this process executed %llu\n",
                 (unsigned long long)options.fault.operation,
                 (unsigned long long)executed);
}

int Machine::fail(int code, const std::string &message) {
  if (failure == 0) {
    failure = code;
    failureText = message;
    report(code, message);
    scheduler.fail();
  }
  return failure;
}

cleave::cpu::ThreadPool &Machine::getPool() {
  if (!pool) {
    int cores = int(std::thread::hardware_concurrency());
    pool = std::make_unique<cpu::ThreadPool>(
        options.threads > 0 ? options.threads : std::max(1, cores));
  }
  return *pool;
}

namespace {

class MachineExecution final : public Execution {
public:
  MachineExecution(Machine &machine, Id id, const Lane &lane, const Work &work)
      : machine(machine), id(id), lane(lane), work(work) {}

  std::byte *translate(Address address, uint64_t bytes,
                       const char *operand) override {
    static std::byte nothing;
    if (bytes == 0)
      return &nothing;
    std::string why;
    std::byte *place = machine.find(lane.device, address, bytes, why);
    if (!place)
      fail(errorIllegalAddress, std::string(operand) + ": " + why);
    return place;
  }
  std::byte *findAllocation(Address address, Address &begin,
                            uint64_t &bytes) override {
    return machine.devices[size_t(lane.device)]->memory.findAllocation(
        address, begin, bytes);
  }
  void fail(int code, const std::string &message) override {
    if (!failed)
      machine.fail(code, work.getName() + " in " + lane.name + ": " + message);
    failed = true;
  }
  bool hasFailed() const override { return failed; }
  cpu::ThreadPool &getPool() override { return machine.getPool(); }
  void multiply(const cpu::GemmArgs &args) override {
    cpu::ThreadPool &pool = getPool();
    Workspace workspace(cpu::gemmWorkspaceBytes(
        args.m, args.n, args.k, args.transA, args.transB, int64_t(args.typeA),
        int64_t(args.typeB), int64_t(args.typeC), pool.getThreads()));
    cpu::gemm(args, workspace.get(), pool);
  }
  int getDevice() const override { return lane.device; }
  uint64_t getOperation() const override { return id; }

private:
  Machine &machine;
  Id id;
  const Lane &lane;
  const Work &work;
  bool failed = false;
};

} // namespace

bool Machine::run(Id id, const Lane &lane, const Work &work,
                  Progress &progress) {
  MachineExecution execution(*this, id, lane, work);
  bool counts = !work.isMarker();
  if (counts && executed + 1 == options.fault.operation) {
    if (options.fault.code == success) {
      scheduler.hang();
      progress = Progress::Blocked;
      return true;
    }
    execution.fail(options.fault.code, "operation " +
                                           std::to_string(executed + 1) +
                                           " fails as it was wished");
    return false;
  }
  ++reached;
  progress = work.execute(execution);
  if (progress == Progress::Done && counts) {
    ++executed;
    if (log.is_open() && !execution.hasFailed())
      log << std::to_string(executed) + '\t' + lane.name + '\t' +
                 work.getName() + '\n'
          << std::flush;
  }
  return !execution.hasFailed();
}

std::vector<Id> Machine::findLegacyWaits(const Stream &stream) {
  std::vector<Id> waits;
  Stream &legacy = devices[size_t(stream.device)]->legacy;
  if (&stream == &legacy)
    streams.forEach([&](Stream &other) {
      if (other.isBlocking && other.device == stream.device)
        waits.push_back(Scheduler::getLast(*other.lane));
    });
  else if (stream.isBlocking)
    waits.push_back(Scheduler::getLast(*legacy.lane));
  return waits;
}

int Machine::enqueue(Stream &stream, std::unique_ptr<Work> work,
                     const std::vector<Id> &waits, Id *id) {
  if (stream.capture)
    return capture(stream, std::move(work));
  if (&stream == &devices[size_t(stream.device)]->legacy)
    for (auto &entry : captures)
      for (Stream *other : entry.second->streams)
        if (other->isBlocking && other->device == stream.device)
          return invalidate(*entry.second, errorCaptureImplicit,
                            work->getName() +
                                " in the legacy stream would wait for a "
                                "stream that is being captured");
  std::vector<Id> all = findLegacyWaits(stream);
  all.insert(all.end(), waits.begin(), waits.end());
  Id added = scheduler.add(stream.lane, std::move(work), all);
  if (id)
    *id = added;
  return success;
}

int Machine::wait(std::unique_lock<std::mutex> &lock,
                  const std::vector<Id> &targets) {
  int code = end(scheduler.runUntil(lock, targets));
  if (code == success && !targets.empty())
    pinned.showUntil(*std::ranges::max_element(targets));
  return code;
}

int Machine::query(Id target) {
  if (!scheduler.isDone(target))
    if (int code = end(scheduler.runSome(target)))
      return code;
  if (!scheduler.isDone(target)) {
    pinned.showSome();
    return errorNotReady;
  }
  pinned.showUntil(target);
  return success;
}

int Machine::end(Scheduler::Waited waited) {
  switch (waited) {
  case Scheduler::Waited::Done:
    return success;
  case Scheduler::Waited::Failed:
    return failure;
  case Scheduler::Waited::Deadlock:
    break;
  }
  return fail(errorLaunchFailed,
              "deadlock: nothing can go on; where the streams stand:\n" +
                  scheduler.describe());
}

int Machine::waitForStream(std::unique_lock<std::mutex> &lock, Stream &stream) {
  if (stream.capture)
    return invalidate(*stream.capture, errorCaptureUnsupported,
                      "a thread waits for a stream that is being captured");
  // The legacy stream's next operation would wait for all of these.
  std::vector<Id> targets;
  if (&stream == &devices[size_t(stream.device)]->legacy)
    targets = findLegacyWaits(stream);
  targets.push_back(Scheduler::getLast(*stream.lane));
  return wait(lock, targets);
}

int Machine::waitForDevice(std::unique_lock<std::mutex> &lock, int device) {
  return wait(lock, scheduler.getLastOf(device));
}

std::unique_ptr<Work> Machine::makeRecord(std::shared_ptr<Record> record,
                                          void *event) {
  return std::make_unique<Marker>("cuEventRecord", [this, record, event] {
    record->finished = reached;
    if (event)
      show(event, record);
  });
}

int Machine::checkRecord(const Event &event, const Stream &stream) {
  return event.device == stream.device
             ? success
             : report(
                   errorInvalidHandle,
                   "cuEventRecord: event and stream are of different devices");
}

int Machine::record(Event &event, Stream &stream) {
  if (int code = checkRecord(event, stream))
    return code;
  event.record = nullptr;
  event.capture = 0;
  if (stream.capture) {
    if (!stream.capture->isValid)
      return errorCaptureInvalidated;
    event.capture = stream.capture->number;
    event.nodes = stream.frontier;
    return success;
  }
  event.record = std::make_shared<Record>();
  std::unique_ptr<Work> work = makeRecord(event.record);
  return enqueue(stream, std::move(work), {}, &event.record->operation);
}

int Machine::waitForEvent(Stream &stream, Event &event) {
  if (event.capture != 0) {
    auto found = captures.find(event.capture);
    if (found == captures.end())
      return report(errorCapturedEvent,
                    "cuStreamWaitEvent: the event was last recorded in a "
                    "capture that has ended");
    Capture &capture = *found->second;
    if (stream.capture && stream.capture != &capture)
      return invalidate(*stream.capture, errorCaptureIsolation,
                        "cuStreamWaitEvent: the event is of another capture");
    if (&stream == &devices[size_t(stream.device)]->legacy)
      return invalidate(capture, errorCaptureImplicit,
                        "cuStreamWaitEvent: the legacy stream cannot join a "
                        "capture");
    joinCapture(stream, capture);
    for (size_t node : event.nodes)
      if (std::ranges::find(stream.frontier, node) == stream.frontier.end())
        stream.frontier.push_back(node);
    return capture.isValid ? success : errorCaptureInvalidated;
  }
  if (stream.capture) {
    if (!event.record)
      return success;
    return invalidate(*stream.capture, errorCaptureIsolation,
                      "cuStreamWaitEvent: a stream that is being captured "
                      "waits for an event that was recorded outside");
  }
  if (!event.record)
    return success;
  return enqueue(stream, std::make_unique<Marker>("cuStreamWaitEvent"),
                 {event.record->operation});
}

void *Machine::addStream(int device, bool isBlocking) {
  static uint64_t count = 0;
  auto stream = std::make_unique<Stream>();
  stream->device = device;
  stream->isBlocking = isBlocking;
  stream->lane = scheduler.addLane("stream " + std::to_string(++count) +
                                       " of device " + std::to_string(device),
                                   device);
  return streams.add(std::move(stream));
}

int Machine::removeStream(void *handle) {
  Stream *stream = streams.find(handle);
  if (!stream)
    return report(errorInvalidHandle, "cuStreamDestroy: no such stream");
  if (stream->capture)
    return invalidate(*stream->capture, errorCaptureUnsupported,
                      "cuStreamDestroy: the stream is being captured");
  scheduler.closeLane(*stream->lane);
  streams.remove(handle);
  return success;
}

Stream *Machine::findStream(void *handle, int device) {
  return handle ? streams.find(handle) : &devices[size_t(device)]->legacy;
}

std::byte *Machine::find(int device, Address address, uint64_t bytes,
                         std::string &why) const {
  std::byte *place =
      devices[size_t(device)]->memory.translate(address, bytes, why);
  for (size_t i = 0; !place && i < devices.size(); ++i)
    if (int(i) != device && devices[i]->memory.contains(address))
      why += ", but of device " + std::to_string(i) +
             ", whose memory this one cannot reach";
  return place;
}

bool Machine::isDeviceAddress(Address address) const {
  for (const std::unique_ptr<Device> &device : devices)
    if (device->memory.contains(address))
      return true;
  return false;
}

int Machine::findHost(const void *pointer, uint64_t bytes, const char *call,
                      Side::Kind &kind) {
  if (!pointer || isDeviceAddress(uintptr_t(pointer)))
    return report(errorInvalidValue,
                  std::string(call) + ": the host's side is no host memory");
  switch (pinned.find(pointer, bytes)) {
  case PinnedMemory::Place::Outside:
    kind = Side::Kind::Pageable;
    return success;
  case PinnedMemory::Place::Inside:
    kind = Side::Kind::Pinned;
    return success;
  case PinnedMemory::Place::Across:
    break;
  }
  return report(errorInvalidValue,
                std::string(call) + " of " + std::to_string(bytes) +
                    " bytes runs over the end of pinned memory");
}
