//===- StreamApi.cpp - Streams, events, copies, launches, graphs ----------===//
#include "test/cuda/driver/Process.h"
#include <algorithm>
#include <cstring>

using namespace cleave::simulated;

namespace {

/// A call with a stream or an event among its operands.
class StreamCall : public Call {
public:
  using Call::Call;

  int findStream(void *handle, Stream *&stream) {
    if (int code = check(device))
      return code;
    stream = machine().findStream(handle, device);
    return stream ? success : report(errorInvalidHandle, "no such stream");
  }
  int findEvent(void *handle, Event *&event) {
    if (int code = check(device))
      return code;
    event = machine().events.find(handle);
    return event ? success : report(errorInvalidHandle, "no such event");
  }

  int device = -1;
};

/// A copy from the host, to it, or within a device.
struct CopyCall {
  const char *name;
  Address to, from;
  bool isToHost, isFromHost;
  size_t bytes;
  bool waits; ///< not one of the Async calls
};

/// What is wrong with the operands is told at once, as the driver does.
int checkDeviceSide(StreamCall &call, const CopyCall &copy, Address address,
                    const Stream &stream, const char *side) {
  std::string why;
  if (copy.bytes == 0 || call->find(stream.device, address, copy.bytes, why))
    return success;
  return call.report(errorInvalidValue, std::string(side) + ": " + why);
}

/// From pageable memory, only what comes before the copy to the staging buffer
/// is waited for; the rest may be done any time later, even of a call that is
/// not Async.
int copyMemory(const CopyCall &copy, void *handle) {
  StreamCall call(copy.name);
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  if (copy.waits)
    if (int code = call->refuseWhileCapturing(copy.name))
      return code;
  Side to{Side::Kind::Device, copy.to, {}};
  Side from{Side::Kind::Device, copy.from, {}};
  if (int code = copy.isToHost
                     ? call->findHost(reinterpret_cast<void *>(copy.to),
                                      copy.bytes, copy.name, to.kind)
                     : checkDeviceSide(call, copy, copy.to, *stream,
                                       "the destination"))
    return code;
  if (int code =
          copy.isFromHost
              ? call->findHost(reinterpret_cast<void *>(copy.from), copy.bytes,
                               copy.name, from.kind)
              : checkDeviceSide(call, copy, copy.from, *stream, "the source"))
    return code;
  bool isPageable =
      to.kind == Side::Kind::Pageable || from.kind == Side::Kind::Pageable;
  if (isPageable && stream->capture)
    return call->invalidate(*stream->capture, errorCaptureUnsupported,
                            std::string(copy.name) +
                                ": memory that is not pinned cannot be part "
                                "of a graph");
  bool waits = copy.waits || to.kind == Side::Kind::Pageable;
  if (from.kind == Side::Kind::Pageable) {
    if (copy.waits)
      if (int code = call->waitForStream(call.getLock(), *stream))
        return code;
    auto *bytes = reinterpret_cast<const std::byte *>(copy.from);
    from.kind = Side::Kind::Staged;
    from.staged.assign(bytes, bytes + copy.bytes);
    waits = copy.waits && call->scheduler.drawBit();
  }
  Id id = 0;
  int code = call->enqueue(*stream,
                           std::make_unique<Copy>(copy.name, std::move(to),
                                                  std::move(from), copy.bytes,
                                                  call->pinned),
                           {}, &id);
  if (code != success || !waits)
    return code;
  return call->wait(call.getLock(), {id});
}

Address toAddress(const void *pointer) { return Address(uintptr_t(pointer)); }

} // namespace

CLEAVE_ENTRY int cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
  return copyMemory(
      {"cuMemcpyHtoD", to, toAddress(from), false, true, bytes, true}, nullptr);
}

CLEAVE_ENTRY int cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
  return copyMemory(
      {"cuMemcpyDtoH", toAddress(to), from, true, false, bytes, true}, nullptr);
}

CLEAVE_ENTRY int cuMemcpyHtoDAsync_v2(Address to, const void *from,
                                      size_t bytes, void *stream) {
  return copyMemory(
      {"cuMemcpyHtoDAsync", to, toAddress(from), false, true, bytes, false},
      stream);
}

CLEAVE_ENTRY int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes,
                                      void *stream) {
  return copyMemory(
      {"cuMemcpyDtoHAsync", toAddress(to), from, true, false, bytes, false},
      stream);
}

CLEAVE_ENTRY int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes,
                                      void *stream) {
  return copyMemory({"cuMemcpyDtoDAsync", to, from, false, false, bytes, false},
                    stream);
}

CLEAVE_ENTRY int cuMemsetD8Async(Address address, unsigned char value,
                                 size_t bytes, void *handle) {
  StreamCall call("cuMemsetD8Async");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  CopyCall operand{"cuMemsetD8Async", address, 0, false, false, bytes, false};
  if (int code =
          checkDeviceSide(call, operand, address, *stream, "the destination"))
    return code;
  return call->enqueue(*stream, std::make_unique<Fill>(address, value, bytes));
}

CLEAVE_ENTRY int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY,
                                unsigned gridZ, unsigned blockX,
                                unsigned blockY, unsigned blockZ,
                                unsigned sharedBytes, void *handle,
                                void **parameters, void **extra) {
  StreamCall call("cuLaunchKernel");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  FunctionHandle *found = call->functions.find(function);
  if (!found)
    return call.report(errorInvalidHandle, "no such function");
  if (stream->device != found->device)
    return call.report(errorInvalidHandle,
                       found->name + ": of another device than the stream");
  if (extra)
    return call.report(errorNotSupported,
                       found->name + ": parameters in `extra`");
  uint64_t threads = uint64_t(blockX) * blockY * blockZ;
  if (gridX == 0 || gridY == 0 || gridZ == 0 || gridX > 0x7fffffff ||
      gridY > 0xffff || gridZ > 0xffff || threads == 0 || blockX > 1024 ||
      blockY > 1024 || blockZ > 64 || threads > 1024)
    return call.report(
        errorInvalidValue,
        found->name + ": grid " + std::to_string(gridX) + " x " +
            std::to_string(gridY) + " x " + std::to_string(gridZ) +
            ", blocks of " + std::to_string(blockX) + " x " +
            std::to_string(blockY) + " x " + std::to_string(blockZ));
  if (sharedBytes > found->maxDynamicShared)
    return call.report(errorInvalidValue,
                       found->name + ": " + std::to_string(sharedBytes) +
                           " bytes of dynamic shared memory, expects at most " +
                           std::to_string(found->maxDynamicShared) +
                           ", which cuFuncSetAttribute raises");
  std::vector<std::vector<std::byte>> kept;
  for (size_t size : found->function->getParameterSizes()) {
    if (!parameters || !parameters[kept.size()])
      return call.report(errorInvalidValue, found->name + ": parameter " +
                                                std::to_string(kept.size()) +
                                                " is missing");
    auto *bytes = static_cast<const std::byte *>(parameters[kept.size()]);
    kept.emplace_back(bytes, bytes + size);
  }
  LaunchShape shape{
      {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes};
  return call->enqueue(*stream,
                       std::make_unique<Launch>(found->name, found->function,
                                                shape, std::move(kept)));
}

CLEAVE_ENTRY int cleaveSimulatedEnqueue(void *handle, Work *work) {
  std::unique_ptr<Work> owned(work);
  StreamCall call("cleaveSimulatedEnqueue");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  return call->enqueue(*stream, std::move(owned));
}

CLEAVE_ENTRY int cuStreamCreate(void **stream, unsigned flags) {
  StreamCall call("cuStreamCreate");
  if (int code = call.check(call.device))
    return code;
  if (flags > streamNonBlocking)
    return call.report(errorInvalidValue, "flags " + std::to_string(flags));
  *stream = call->addStream(call.device, flags != streamNonBlocking);
  return success;
}

CLEAVE_ENTRY int cuStreamDestroy_v2(void *stream) {
  StreamCall call("cuStreamDestroy");
  if (int code = call.check(call.device))
    return code;
  return call->removeStream(stream);
}

CLEAVE_ENTRY int cuStreamSynchronize(void *handle) {
  StreamCall call("cuStreamSynchronize");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  return call->waitForStream(call.getLock(), *stream);
}

CLEAVE_ENTRY int cuStreamWaitEvent(void *handle, void *event, unsigned flags) {
  StreamCall call("cuStreamWaitEvent");
  Stream *stream;
  Event *found;
  if (int code = call.findStream(handle, stream))
    return code;
  if (int code = call.findEvent(event, found))
    return code;
  if (flags != 0)
    return call.report(errorInvalidValue, "flags " + std::to_string(flags));
  return call->waitForEvent(*stream, *found);
}

CLEAVE_ENTRY int cuEventCreate(void **event, unsigned flags) {
  StreamCall call("cuEventCreate");
  if (int code = call.check(call.device))
    return code;
  if ((flags & ~3u) != 0)
    return call.report(errorInvalidValue, "flags " + std::to_string(flags));
  auto created = std::make_unique<Event>();
  created->device = call.device;
  created->isTimed = (flags & eventDisableTiming) == 0;
  *event = call->events.add(std::move(created));
  return success;
}

CLEAVE_ENTRY int cuEventDestroy_v2(void *event) {
  StreamCall call("cuEventDestroy");
  if (int code = call.check(call.device))
    return code;
  return call->events.remove(event)
             ? success
             : call.report(errorInvalidHandle, "no such event");
}

static int recordEvent(StreamCall call, void *event, void *handle,
                       unsigned flags) {
  Stream *stream;
  Event *found;
  if (int code = call.findStream(handle, stream))
    return code;
  if (int code = call.findEvent(event, found))
    return code;
  if (flags == eventRecordDefault)
    return call->record(*found, *stream);
  if (flags != eventRecordExternal || !stream->capture)
    return call.report(errorInvalidValue,
                       "flags " + std::to_string(flags) +
                           (stream->capture ? "" : " outside of a capture"));
  return call->captureRecord(event, *stream);
}

CLEAVE_ENTRY int cuEventRecord(void *event, void *handle) {
  return recordEvent(StreamCall("cuEventRecord"), event, handle,
                     eventRecordDefault);
}

CLEAVE_ENTRY int cuEventRecordWithFlags(void *event, void *handle,
                                        unsigned flags) {
  return recordEvent(StreamCall("cuEventRecordWithFlags"), event, handle,
                     flags);
}

/// Whether the host may ask of the event.
static int checkEvent(const StreamCall &call, const Event &event) {
  if (event.capture != 0)
    return call.report(errorCapturedEvent,
                       "the event was last recorded in a capture");
  return success;
}

CLEAVE_ENTRY int cuEventSynchronize(void *event) {
  StreamCall call("cuEventSynchronize");
  Event *found;
  if (int code = call.findEvent(event, found))
    return code;
  if (int code = checkEvent(call, *found))
    return code;
  if (!found->record)
    return success;
  return call->wait(call.getLock(), {found->record->operation});
}

/// Time goes by between two of these.
CLEAVE_ENTRY int cuEventQuery(void *event) {
  StreamCall call("cuEventQuery");
  Event *found;
  if (int code = call.findEvent(event, found))
    return code;
  if (int code = checkEvent(call, *found))
    return code;
  if (!found->record)
    return success;
  return call->query(found->record->operation);
}

/// A time of nothing: a millisecond for each operation of this process between
/// the two.
CLEAVE_ENTRY int cuEventElapsedTime(float *milliseconds, void *start,
                                    void *end) {
  StreamCall call("cuEventElapsedTime");
  Event *first, *second;
  if (int code = call.findEvent(start, first))
    return code;
  if (int code = call.findEvent(end, second))
    return code;
  for (const Event *event : {first, second}) {
    if (int code = checkEvent(call, *event))
      return code;
    if (!event->record || !event->isTimed)
      return call.report(errorInvalidHandle,
                         "an event that was not recorded, or without timing");
    if (!call->scheduler.isDone(event->record->operation))
      return errorNotReady;
  }
  uint64_t from = first->record->finished, to = second->record->finished;
  // Negative where they are in the wrong order; never nothing.
  *milliseconds =
      from <= to ? float(std::max(to, from + 1) - from) : -float(from - to);
  return success;
}

CLEAVE_ENTRY int cuStreamBeginCapture_v2(void *handle, int mode) {
  StreamCall call("cuStreamBeginCapture");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  if (mode < 0 || mode > 2)
    return call.report(errorInvalidValue, "mode " + std::to_string(mode));
  return call->beginCapture(*stream);
}

CLEAVE_ENTRY int cuStreamEndCapture(void *handle, void **graph) {
  StreamCall call("cuStreamEndCapture");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  *graph = nullptr;
  std::unique_ptr<Graph> captured;
  if (int code = call->endCapture(*stream, captured))
    return code;
  *graph = call->graphs.add(std::move(captured));
  return success;
}

CLEAVE_ENTRY int cuGraphInstantiateWithFlags(void **exec, void *graph,
                                             unsigned long long) {
  StreamCall call("cuGraphInstantiate");
  if (int code = call.check(call.device))
    return code;
  Graph *found = call->graphs.find(graph);
  if (!found)
    return call.report(errorInvalidHandle, "no such graph");
  auto instance = std::make_unique<GraphExec>();
  instance->graph = *found;
  *exec = call->graphExecs.add(std::move(instance));
  return success;
}

CLEAVE_ENTRY int cuGraphLaunch(void *exec, void *handle) {
  StreamCall call("cuGraphLaunch");
  Stream *stream;
  if (int code = call.findStream(handle, stream))
    return code;
  GraphExec *found = call->graphExecs.find(exec);
  if (!found)
    return call.report(errorInvalidHandle, "no such graph");
  return call->launchGraph(*found, *stream);
}

CLEAVE_ENTRY int cuGraphExecDestroy(void *exec) {
  StreamCall call("cuGraphExecDestroy");
  if (int code = call.check(call.device))
    return code;
  return call->graphExecs.remove(exec)
             ? success
             : call.report(errorInvalidHandle, "no such graph");
}

CLEAVE_ENTRY int cuGraphDestroy(void *graph) {
  StreamCall call("cuGraphDestroy");
  if (int code = call.check(call.device))
    return code;
  return call->graphs.remove(graph)
             ? success
             : call.report(errorInvalidHandle, "no such graph");
}
