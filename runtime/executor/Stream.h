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
#ifndef CLEAVE_RUNTIME_EXECUTOR_STREAM_H
#define CLEAVE_RUNTIME_EXECUTOR_STREAM_H

#include "runtime/abi/Kernel.h"
#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/executor/Link.h"
#include "runtime/executor/Schedule.h"
#include "runtime/program/Program.h"
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

/// An instruction, resolved for this rank.
struct BoundInstruction {
  const program::Instruction *instruction;
  size_t index; ///< in the rank's stage
  program::Opcode opcode;
  std::span<const program::Operand> operands;
  const Group *group = nullptr; ///< collectives; of its stream's communicator
  int peer = 0, channel = 0;    ///< messages: the other rank
  int64_t shardIndex = 0;       ///< on the group's axes
  uint64_t shardCount = 1;
  /// How many begin together with it, itself included, which are those behind
  /// it; 0: it begins with one before it.
  size_t bucket = 1;
  double linkSeconds = 0; ///< that these take at least; see Link.h
  size_t linkAxis = 0;
  CleaveKernelFn kernel = nullptr;
  int64_t range = 0, grain = 0; ///< rows, or columns, of a launch
  Schedule schedule;
};

/// What an instruction's execution depends on beside its rank.
struct RunContext {
  uint32_t run = 0;
  uint64_t microBatch = 0;
  bool isFirst = true;
  int64_t step = 0, updates = 0;
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

  Status execute(const BoundInstruction &bound, const RunContext &context);

  Communicator &getCommunicator() { return communicator; }
  /// Highest end of an operand that was used so far.
  uint64_t getHighWater() const { return highWater; }

private:
  void launch(const BoundInstruction &bound);
  void gemm(const BoundInstruction &bound);
  void attention(const BoundInstruction &bound);
  void attentionGrad(const BoundInstruction &bound);
  void embedding(const BoundInstruction &bound);
  void embeddingGrad(const BoundInstruction &bound);
  void slice(const BoundInstruction &bound);
  void schedule(const BoundInstruction &bound);
  Status collective(const BoundInstruction &first);
  Status dispatch(const BoundInstruction &bound);

  /// Operand i of the current micro-batch.
  std::byte *get(const BoundInstruction &bound, size_t i);
  template <typename T>
  T *getAs(const BoundInstruction &bound, size_t i) {
    return reinterpret_cast<T *>(get(bound, i));
  }
  std::byte *arena;
  Communicator &communicator;
  cpu::ThreadPool &pool;
  LinkClock &links;            ///< of the rank
  std::vector<void *> buffers; ///< of the current launch
  uint64_t highWater = 0;
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
    const BoundInstruction *bound;
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

#endif // CLEAVE_RUNTIME_EXECUTOR_STREAM_H
