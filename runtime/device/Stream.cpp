//===- Stream.cpp ---------------------------------------------------------===//
#include "runtime/device/Stream.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Cpus.h"
#include <chrono>
#include <numeric>

using namespace cleave::runtime;
namespace fb = cleave::program;

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

Progress::Progress(size_t streams) : done(streams), waitsFor(streams) {
  std::iota(waitsFor.begin(), waitsFor.end(), size_t(0));
}

Status Progress::wait(size_t who, StreamPoint point,
                      const std::function<void(size_t)> &onIdle) {
  std::unique_lock<std::mutex> lock(mutex);
  waitsFor[who] = point.stream;
  while (done[point.stream] < point.ordinal && failure.ok()) {
    if (!onIdle) {
      changed.wait(lock);
      continue;
    }
    size_t last = point.stream;
    for (size_t i = 0; i < waitsFor.size() && waitsFor[last] != last; ++i)
      last = waitsFor[last];
    onIdle(last);
    // Who waits looks now and then, so that the watchdog sees that it is awake.
    changed.wait_for(lock, std::chrono::milliseconds(20));
  }
  waitsFor[who] = who;
  return done[point.stream] < point.ordinal ? failure : Status();
}

void Progress::advance(size_t stream) {
  std::lock_guard<std::mutex> lock(mutex);
  ++done[stream];
  changed.notify_all();
}

void Progress::fail(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (failure.ok())
    failure = why;
  changed.notify_all();
}

Status Progress::getFailure() {
  std::lock_guard<std::mutex> lock(mutex);
  return failure;
}

//===----------------------------------------------------------------------===//
// Stream
//===----------------------------------------------------------------------===//

Status Stream::execute(const CpuInstruction &bound, const RunContext &context) {
  if (communicator.isAborted())
    return Status::aborted("another rank failed");
  current = context;
  if (bound.linkSeconds == 0)
    return dispatch(bound);
  // A message is there once the link has moved it; of a collective the time
  // that it takes here is a part of the link's.
  LinkClock::Transfer transfer = links.begin(bound.linkAxis, bound.linkSeconds);
  if (isMessage(bound.opcode))
    links.wait(transfer);
  CLEAVE_RETURN_IF_ERROR(dispatch(bound));
  links.wait(transfer);
  return {};
}

//===----------------------------------------------------------------------===//
// RandomDelays
//===----------------------------------------------------------------------===//

RandomDelays::RandomDelays(uint64_t seed, uint64_t rank, uint64_t stream)
    : isOn(seed != 0) {
  std::seed_seq sequence{seed, rank, stream};
  generator.seed(sequence);
}

void RandomDelays::sleep() {
  // One in eight, so that a step of thousands of instructions ends.
  if (isOn && generator() % 8 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(generator() % 500));
}

//===----------------------------------------------------------------------===//
// StreamThread
//===----------------------------------------------------------------------===//

StreamThread::StreamThread(size_t number, std::byte *arena,
                           std::unique_ptr<Communicator> forked,
                           LinkClock &links, size_t buffers, Progress &progress,
                           RandomDelays delays, Body body)
    : number(number), communicator(std::move(forked)),
      stream(arena, *communicator, pool, links, buffers), progress(progress),
      delays(delays), body(std::move(body)) {
  communicator->setPosition(&position);
  thread = std::thread([this] { work(); });
}

StreamThread::~StreamThread() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
    arrival.notify_one();
  }
  thread.join();
}

void StreamThread::push(Task task) {
  std::lock_guard<std::mutex> lock(mutex);
  tasks.push_back(std::move(task));
  arrival.notify_one();
}

void StreamThread::work() {
  expectShortWork();
  for (;;) {
    Task task;
    {
      std::unique_lock<std::mutex> lock(mutex);
      arrival.wait(lock, [&] { return isStopping || !tasks.empty(); });
      if (tasks.empty())
        return;
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    // After a failure what was handed over is dropped.
    if (!progress.getFailure().ok())
      continue;
    position.beginStep(task.context.inputs.step);
    position.setInstruction(task.context.run, uint32_t(task.bound->index));
    Status status = catchExceptions([&]() -> Status {
      for (const StreamPoint &point : task.waits)
        CLEAVE_RETURN_IF_ERROR(progress.wait(number, point));
      delays.sleep();
      return body(stream, task);
    });
    if (status.ok()) {
      progress.advance(number);
      continue;
    }
    // The others of this rank may be in collectives with ranks that wait for
    // this stream: none of them would come back.
    progress.fail(status);
    communicator->abort(status);
  }
}
