//===- StageExchange.h - What stages of a pipeline give each other --------===//
#ifndef CLEAVE_PASSES_INTERPRET_STAGEEXCHANGE_H
#define CLEAVE_PASSES_INTERPRET_STAGEEXCHANGE_H

#include "mlir/IR/Operation.h"
#include "passes/Interpret/Array.h"
#include "passes/Interpret/Memory.h"
#include <deque>
#include <functional>
#include <map>
#include <semaphore>
#include <string>

namespace cleave {

/// What the ranks of a stage send to the same ranks of another one.
struct Message {
  mlir::Operation *sender = nullptr;
  int64_t microBatch = 0;
  /// By rank: a value, or the bytes of a buffer.
  std::vector<Array> values;
  std::vector<Memory> bytes;
};

/// Lets the stages of a pipeline run a step, each what is its own, and meet.
///
/// They take turns: a stage runs until it must wait for another one, or ends;
/// then the lowest-numbered one that can go on does. So a step runs the same
/// each time. Each stage has a thread, that it may wait from anywhere, but
/// exactly one of them runs, and nothing that they share needs a lock.
class StageExchange {
public:
  explicit StageExchange(int64_t stages);

  /// Calls `runStage(s)` for each stage. Fails if one of them does, which stops
  /// all. It is an error if stages wait for what never comes, or if messages
  /// are left.
  llvm::LogicalResult
  run(llvm::function_ref<llvm::LogicalResult(int64_t)> runStage);

  // What the stage calls whose turn it is, numbered `stage`.

  void send(int64_t stage, int64_t to, int64_t channel, Message message);

  /// Waits for the next message over a channel, which must be of `microBatch`.
  llvm::FailureOr<Message> receive(int64_t stage, mlir::Operation *op,
                                   int64_t from, int64_t channel,
                                   int64_t microBatch);

  /// What one stage gives to a collective that all have.
  struct Part {
    mlir::Operation *op = nullptr; ///< null as long as it is not there
    std::vector<Array> inputs;     ///< by rank of the stage
  };
  /// Waits for the parts of all stages, and gives them by stage: the n-th
  /// meeting of one is the n-th of all. All come with the same op.
  llvm::FailureOr<llvm::ArrayRef<Part>> meet(int64_t stage, mlir::Operation *op,
                                             std::vector<Array> inputs);

private:
  struct Stage {
    std::binary_semaphore turn{0};
    bool hasEnded = false;
    /// Of one that waits: where, for what, and whether that is there.
    mlir::Operation *op = nullptr;
    std::string what;
    std::function<bool()> canGoOn;
    size_t meetings = 0; ///< that it came to
  };

  llvm::LogicalResult wait(int64_t stage, mlir::Operation *op, llvm::Twine what,
                           std::function<bool()> canGoOn);
  void handOver();
  void reportWaiting();
  llvm::LogicalResult checkAllTaken();

  std::deque<Stage> stages;
  bool isStopped = false;
  /// By the stage that sends, the one that receives, and channel.
  std::map<std::array<int64_t, 3>, std::deque<Message>> channels;
  std::deque<std::vector<Part>> meetings; ///< each by stage
};

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_STAGEEXCHANGE_H
