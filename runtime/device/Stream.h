//===- Stream.h - Instructions that run one after the other ---------------===//
//
// A rank has a stream for what its own thread executes, number 0, and one with
// a thread of its own for each further stream of the program. The rank's thread
// goes through the runs in their order: instructions of its own stream it
// executes, those of the others it hands over, with what they wait for. So at
// any time all that it has handed over comes earlier in that order, and whoever
// waits, waits for something earlier: nobody for ever.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_STREAM_H
#define CLEAVE_RUNTIME_DEVICE_STREAM_H

#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/device/Device.h"
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace cleave::runtime {

/// What a CPU needs to know of an instruction.
struct CpuInstruction : BoundInstruction {
  const Group *group = nullptr; ///< collectives; of its stream's communicator
  double linkSeconds = 0;       ///< that its bucket takes at least; see Link.h
  size_t linkAxis = 0;
  CleaveKernelFn kernel = nullptr;
  int64_t range = 0, grain = 0; ///< rows, or columns, of a launch
};

/// The `ordinal`-th instruction of a stream, counted from 1 over all steps.
struct StreamPoint {
  size_t stream = 0;
  uint64_t ordinal = 0;
};

/// How far each stream of a rank is. Streams wait here for each other.
class Progress {
public:
  explicit Progress(size_t streams);

  /// Stream `who` waits until the point is reached. Fails, with what went
  /// wrong first, when any stream has failed. `onIdle`, if any, is called now
  /// and then while it waits, with the stream that the wait is for in the end.
  Status wait(size_t who, StreamPoint point,
              const std::function<void(size_t)> &onIdle = {});
  /// The stream's next instruction is done.
  void advance(size_t stream);
  /// Makes all who wait return.
  void fail(const Status &why);
  Status getFailure();

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<uint64_t> done;
  std::vector<size_t> waitsFor; ///< a stream, or itself where it does not wait
  Status failure;
};

/// Executes instructions on one arena, on the thread that calls it.
class Stream {
public:
  Stream(std::byte *arena, Communicator &communicator, cpu::ThreadPool &pool,
         LinkClock &links, size_t buffers)
      : arena(arena), communicator(communicator), pool(pool), links(links),
        buffers(buffers) {}

  Status execute(const CpuInstruction &bound, const RunContext &context);

  Communicator &getCommunicator() { return communicator; }

private:
  void launch(const CpuInstruction &bound);
  void gemm(const CpuInstruction &bound);
  void attention(const CpuInstruction &bound);
  void attentionGrad(const CpuInstruction &bound);
  void embedding(const CpuInstruction &bound);
  void embeddingGrad(const CpuInstruction &bound);
  void slice(const CpuInstruction &bound);
  void schedule(const CpuInstruction &bound);
  Status collective(const CpuInstruction &first);
  Status dispatch(const CpuInstruction &bound);

  /// Operand i of the current micro-batch.
  std::byte *get(const CpuInstruction &bound, size_t i);
  template <typename T>
  T *getAs(const CpuInstruction &bound, size_t i) {
    return reinterpret_cast<T *>(get(bound, i));
  }
  std::byte *arena;
  Communicator &communicator;
  cpu::ThreadPool &pool;
  LinkClock &links;            ///< of the rank
  std::vector<void *> buffers; ///< of the current launch
  RunContext current;
};

/// Sleeps at random before instructions, to show an order that nothing asks
/// for.
class RandomDelays {
public:
  /// `seed` 0: none.
  RandomDelays(uint64_t seed, uint64_t rank, uint64_t stream);
  void sleep();

private:
  bool isOn;
  std::minstd_rand generator;
};

/// A stream with a thread and a communicator of its own. The rank's thread
/// hands it instructions, in their order.
class StreamThread {
public:
  struct Task {
    const CpuInstruction *bound;
    RunContext context;
    std::vector<StreamPoint> waits;
  };
  /// Executes a task on the stream's thread; told by the executor.
  using Body = std::function<Status(Stream &, const Task &)>;

  StreamThread(size_t number, std::byte *arena,
               std::unique_ptr<Communicator> forked, LinkClock &links,
               size_t buffers, Progress &progress, RandomDelays delays,
               Body body);
  ~StreamThread();

  void push(Task task);
  Stream &getStream() { return stream; }
  /// Where its thread is.
  PositionRecord getPosition() const { return position.read(); }

private:
  void work();

  size_t number;
  std::unique_ptr<Communicator> communicator;
  cpu::ThreadPool pool{1};
  RankPosition position;
  Stream stream;
  Progress &progress;
  RandomDelays delays;
  Body body;
  std::mutex mutex;
  std::condition_variable arrival;
  std::deque<Task> tasks;
  bool isStopping = false;
  std::thread thread; ///< last: it uses all of them
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_STREAM_H
