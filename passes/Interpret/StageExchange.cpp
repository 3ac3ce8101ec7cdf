//===- StageExchange.cpp - What stages of a pipeline give each other ------===//
#include "passes/Interpret/StageExchange.h"
#include <thread>

using namespace mlir;
using namespace cleave;

StageExchange::StageExchange(int64_t count) {
  for (int64_t stage = 0; stage < count; ++stage)
    stages.emplace_back();
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

LogicalResult
StageExchange::run(llvm::function_ref<LogicalResult(int64_t)> runStage) {
  isStopped = false;
  channels.clear();
  meetings.clear();
  for (Stage &stage : stages) {
    stage.hasEnded = false;
    stage.meetings = 0;
  }
  if (stages.size() == 1)
    return failed(runStage(0)) ? failure() : checkAllTaken();

  std::vector<std::thread> threads;
  for (size_t s = 0; s < stages.size(); ++s)
    threads.emplace_back([this, s, runStage] {
      stages[s].turn.acquire();
      if (!isStopped && failed(runStage(int64_t(s))))
        isStopped = true;
      stages[s].hasEnded = true;
      handOver();
    });
  handOver();
  for (std::thread &thread : threads)
    thread.join();
  return isStopped ? failure() : checkAllTaken();
}

/// Gives the turn to the first stage that can take it. Once a step is stopped
/// each that has not ended does so.
void StageExchange::handOver() {
  bool haveAllEnded = true;
  for (Stage &stage : stages) {
    haveAllEnded &= stage.hasEnded;
    if (stage.hasEnded ||
        (!isStopped && stage.canGoOn != nullptr && !stage.canGoOn()))
      continue;
    stage.canGoOn = nullptr;
    stage.turn.release();
    return;
  }
  if (haveAllEnded)
    return;
  reportWaiting();
  isStopped = true;
  handOver();
}

LogicalResult StageExchange::wait(int64_t stage, Operation *op, Twine what,
                                  std::function<bool()> canGoOn) {
  if (canGoOn())
    return success();
  Stage &own = stages[size_t(stage)];
  own.op = op;
  own.what = what.str();
  own.canGoOn = std::move(canGoOn);
  handOver();
  own.turn.acquire();
  return success(!isStopped);
}

/// Of the stages that wait, none of which can go on, the first has the error.
void StageExchange::reportWaiting() {
  std::optional<InFlightDiagnostic> error;
  for (auto [s, stage] : llvm::enumerate(stages)) {
    if (stage.hasEnded)
      continue;
    if (!error)
      error.emplace(stage.op->emitOpError("waits for ")
                    << stage.what << ", which never comes");
    else
      error->attachNote(stage.op->getLoc())
          << "stage " << s << " waits for " << stage.what << " here";
  }
}

//===----------------------------------------------------------------------===//
// Messages and meetings
//===----------------------------------------------------------------------===//

void StageExchange::send(int64_t stage, int64_t to, int64_t channel,
                         Message message) {
  channels[{stage, to, channel}].push_back(std::move(message));
}

FailureOr<Message> StageExchange::receive(int64_t stage, Operation *op,
                                          int64_t from, int64_t channel,
                                          int64_t microBatch) {
  std::deque<Message> &queue = channels[{from, stage, channel}];
  if (failed(wait(stage, op,
                  "a message of stage " + Twine(from) + " over channel " +
                      Twine(channel),
                  [&queue] { return !queue.empty(); })))
    return failure();
  Message message = std::move(queue.front());
  queue.pop_front();
  if (message.microBatch != microBatch)
    return op->emitOpError("receives for micro-batch ")
           << microBatch << " what stage " << from << " sends for micro-batch "
           << message.microBatch;
  return message;
}

LogicalResult StageExchange::checkAllTaken() {
  for (const auto &[key, queue] : channels)
    if (!queue.empty())
      return queue.front().sender->emitOpError("sends to stage ")
             << key[1] << " over channel " << key[2]
             << " what nothing receives, for micro-batch "
             << queue.front().microBatch;
  return success();
}

FailureOr<ArrayRef<StageExchange::Part>>
StageExchange::meet(int64_t stage, Operation *op, std::vector<Array> inputs) {
  size_t number = stages[size_t(stage)].meetings++;
  if (number == meetings.size())
    meetings.emplace_back(stages.size());
  std::vector<Part> &parts = meetings[number];
  parts[size_t(stage)] = {op, std::move(inputs)};
  if (failed(
          wait(stage, op, "the same collective of each other stage", [&parts] {
            return llvm::all_of(parts,
                                [](const Part &part) { return part.op; });
          })))
    return failure();
  for (auto [s, part] : llvm::enumerate(parts)) {
    bool isSame =
        part.op->getName() == op->getName() &&
        part.op->getPropertiesAsAttribute() == op->getPropertiesAsAttribute();
    for (auto [theirs, ours] :
         llvm::zip(part.inputs, parts[size_t(stage)].inputs))
      isSame &= theirs.shape == ours.shape;
    if (isSame)
      continue;
    InFlightDiagnostic error =
        op->emitOpError("meets another collective of stage ") << s;
    error.attachNote(part.op->getLoc()) << "which is here";
    return error;
  }
  return ArrayRef<Part>(parts);
}
