//===- Comm.h - A rank of a communicator ----------------------------------===//
#ifndef CLEAVE_TEST_CUDA_NCCL_COMM_H
#define CLEAVE_TEST_CUDA_NCCL_COMM_H

#include "test/cuda/driver/Work.h"
#include "test/cuda/nccl/Board.h"
#include "test/cuda/nccl/Settings.h"
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace cleave::simulated {

class Operation;

/// What a rank has begun of a collective or message.
struct Begun {
  std::vector<std::byte> input; ///< as it was when the operation began
  uint64_t number = 0;          ///< of a message: between its two ranks
  bool isPosted = false;        ///< or, of a Recv: announced
  bool isDone = false;
};

/// The operation of a communicator that executes: there is one at a time.
struct Active {
  uint64_t operation = 0;   ///< Execution::getOperation
  std::vector<Begun> parts; ///< as the Operation's
  uint64_t collective = 0;  ///< the number of its collectives; 0: has none
  bool isPosted = false, isDone = false; ///< its collectives
  bool isStuck = false;                  ///< failed in flight as it was wished
  int refusals = 0;       ///< times that it is asked in vain, as was drawn
  uint64_t askedAt = 0;   ///< the progress when it was asked last
  double lastSeconds = 0; ///< when it went on last
};

struct Comm {
  Comm(std::unique_ptr<Board> board, const Settings &settings);

  int getRank() const { return board->getRank(); }
  int getSize() const { return board->getSize(); }
  /// "rank 1 of 4 in communicator 17-1"
  std::string describe() const;

  /// What ncclCommGetAsyncError tells; `text` is for a person.
  int getAsyncError(std::string &text);
  /// Of this rank alone.
  void setError(int result, const std::string &text);
  /// Nothing of it goes on, or begins.
  void abort();

  std::unique_ptr<Board> board;
  Settings settings;
  std::atomic<bool> isAborted{false}, isDestroyed{false};
  bool isOfOneProcess = false;

  // Of what executes; under the machine's lock.
  std::optional<Active> active;
  uint64_t begun = 0;       ///< operations
  uint64_t collectives = 0; ///< that have begun
  std::vector<uint64_t> sent, received;
  int device = -1;
  std::mt19937_64 random;

  // Under `mutex`.
  std::mutex mutex;
  std::set<const Operation *> operations; ///< enqueued, or held by a graph
  const Operation *executing = nullptr;
  int error = ncclSuccess;
  std::string errorText;
  double lastLook = 0; ///< when it was looked whether the peers live
  int deadPeer = -1;
};

/// Goes up with all that may end the wait of an operation of this process.
std::atomic<uint64_t> &getProgress();

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_NCCL_COMM_H
