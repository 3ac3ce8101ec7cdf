//===- Capture.cpp - Streams that are captured, and replays ---------------===//
#include "test/cuda/driver/Codes.h"
#include "test/cuda/driver/Machine.h"

using namespace cleave::simulated;

int Machine::invalidate(Capture &capture, int code,
                        const std::string &message) {
  capture.isValid = false;
  return report(code, message);
}

int Machine::refuseWhileCapturing(const char *call) {
  for (auto &entry : captures)
    if (entry.second->thread == std::this_thread::get_id())
      return invalidate(*entry.second, errorCaptureUnsupported,
                        std::string(call) +
                            " by a thread that captures a stream");
  return success;
}

void Machine::joinCapture(Stream &stream, Capture &capture) {
  if (stream.capture)
    return;
  stream.capture = &capture;
  stream.captureLane = capture.streams.size();
  stream.frontier.clear();
  capture.streams.push_back(&stream);
  capture.graph.lanes.push_back({stream.lane->name, stream.device});
}

int Machine::capture(Stream &stream, std::shared_ptr<const Work> work) {
  Capture &capture = *stream.capture;
  if (!capture.isValid)
    return errorCaptureInvalidated;
  size_t node = capture.graph.nodes.size();
  capture.graph.nodes.push_back(
      {std::move(work), stream.frontier, stream.captureLane});
  stream.frontier = {node};
  return success;
}

int Machine::captureRecord(void *event, Stream &stream) {
  if (int code = checkRecord(*events.find(event), stream))
    return code;
  if (int code = capture(stream, nullptr))
    return code;
  stream.capture->graph.nodes.back().event = event;
  return success;
}

int Machine::beginCapture(Stream &stream) {
  if (&stream == &devices[size_t(stream.device)]->legacy)
    return report(errorCaptureUnsupported,
                  "cuStreamBeginCapture: the legacy stream cannot be captured");
  if (stream.capture)
    return invalidate(*stream.capture, errorInvalidValue,
                      "cuStreamBeginCapture: the stream is being captured");
  auto capture = std::make_unique<Capture>();
  capture->number = ++lastCapture;
  capture->origin = &stream;
  capture->thread = std::this_thread::get_id();
  joinCapture(stream, *capture);
  captures.emplace(lastCapture, std::move(capture));
  return success;
}

/// The capture ends in any case but that of a wrong stream or thread.
int Machine::endCapture(Stream &stream, std::unique_ptr<Graph> &graph) {
  if (!stream.capture)
    return report(errorInvalidValue,
                  "cuStreamEndCapture: the stream is not being captured");
  Capture &capture = *stream.capture;
  if (capture.origin != &stream)
    return invalidate(capture, errorCaptureUnmatched,
                      "cuStreamEndCapture: the capture began in another "
                      "stream");
  if (capture.thread != std::this_thread::get_id())
    return invalidate(capture, errorCaptureWrongThread,
                      "cuStreamEndCapture: the capture began in another "
                      "thread");
  int code = capture.isValid ? success : errorCaptureInvalidated;
  for (Stream *other : capture.streams)
    if (code == success &&
        !capture.graph.isReached(stream.frontier, other->frontier))
      code = report(errorCaptureUnjoined,
                    "cuStreamEndCapture: " + stream.lane->name +
                        " does not wait for what was captured of " +
                        other->lane->name);
  if (code == success)
    graph = std::make_unique<Graph>(std::move(capture.graph));
  for (Stream *other : capture.streams) {
    other->capture = nullptr;
    other->frontier.clear();
  }
  captures.erase(capture.number);
  return code;
}

void Machine::show(void *event, const std::shared_ptr<Record> &record) {
  Event *found = events.find(event);
  if (found && (!found->record || found->record->operation < record->operation))
    found->record = record;
}

/// Its operations come behind what the stream has, and what the stream gets
/// next comes behind all of them. CUDA does not say from when on the host sees
/// that the graph records an event: from the launch, when the graph comes to
/// it, or when it is done, by the seed. Until then the event is as it was.
int Machine::launchGraph(GraphExec &exec, Stream &stream) {
  if (stream.capture)
    return invalidate(*stream.capture, errorCaptureUnsupported,
                      "cuGraphLaunch: the stream is being captured");
  for (const Graph::Node &node : exec.graph.nodes)
    if (node.event && !events.find(node.event))
      return report(errorInvalidValue,
                    "cuGraphLaunch: it records an event that was destroyed");
  Id begin = 0;
  int code = enqueue(stream, std::make_unique<Marker>("the start of a graph"),
                     {exec.lastLaunch}, &begin);
  if (code != success)
    return code;
  std::vector<std::shared_ptr<Lane>> lanes;
  std::string prefix = "graph launch " + std::to_string(++graphLaunches) + ": ";
  for (const Graph::Part &part : exec.graph.lanes)
    lanes.push_back(scheduler.addLane(prefix + part.name, part.device));
  std::vector<Id> ids;
  std::vector<std::pair<void *, std::shared_ptr<Record>>> records;
  bool isSeenAtOnce = options.seed % 3 == 0;
  bool isSeenInside = options.seed % 3 == 1;
  for (const Graph::Node &node : exec.graph.nodes) {
    std::vector<Id> waits = {begin};
    for (size_t earlier : node.waits)
      waits.push_back(ids[earlier]);
    if (!node.event) {
      ids.push_back(scheduler.add(lanes[node.lane], node.work, waits));
      continue;
    }
    auto record = std::make_shared<Record>();
    ids.push_back(scheduler.add(
        lanes[node.lane],
        makeRecord(record, isSeenInside ? node.event : nullptr), waits));
    record->operation = ids.back();
    records.emplace_back(node.event, record);
    if (isSeenAtOnce)
      show(node.event, record);
  }
  for (const std::shared_ptr<Lane> &lane : lanes)
    scheduler.closeLane(*lane);
  auto showAll = [this, records] {
    for (const auto &[event, record] : records)
      show(event, record);
  };
  return enqueue(stream,
                 std::make_unique<Marker>("the end of a graph", showAll), ids,
                 &exec.lastLaunch);
}
