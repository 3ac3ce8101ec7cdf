//===- Comm.cpp -----------------------------------------------------------===//
#include "test/cuda/nccl/Comm.h"

using namespace cleave::simulated;

std::atomic<uint64_t> &cleave::simulated::getProgress() {
  static std::atomic<uint64_t> progress{1};
  return progress;
}

Comm::Comm(std::unique_ptr<Board> taken, const Settings &settings)
    : board(std::move(taken)), settings(settings),
      isOfOneProcess(board->isOfOneProcess()), sent(size_t(getSize())),
      received(size_t(getSize())) {
  // Ranks differ, and so do a rank's communicators.
  static std::atomic<uint64_t> count{0};
  std::seed_seq seed{settings.seed, uint64_t(getRank()), ++count};
  random.seed(seed);
}

std::string Comm::describe() const {
  return "rank " + std::to_string(getRank()) + " of " +
         std::to_string(getSize()) + " in communicator " + board->getName();
}

void Comm::setError(int result, const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  if (error != ncclSuccess)
    return;
  error = result;
  errorText = text;
}

int Comm::getAsyncError(std::string &text) {
  constexpr double lookSeconds = 0.005;
  std::lock_guard<std::mutex> lock(mutex);
  if (error != ncclSuccess) {
    text = errorText;
    return error;
  }
  if (int posted = board->getError(text); posted != ncclSuccess)
    return posted;
  bool looks = getSeconds() - lastLook > lookSeconds;
  if (looks)
    lastLook = getSeconds();
  for (int other = 0; other < getSize(); ++other) {
    std::string peer = describe() + ": rank " + std::to_string(other);
    Presence presence = board->getSlot(other).presence.load();
    if (presence == Presence::Aborted) {
      text = peer + " has aborted";
      return ncclRemoteError;
    }
    if (looks && presence == Presence::Here && !board->isAlive(other) &&
        board->getSlot(other).presence.load() == Presence::Here)
      deadPeer = other;
  }
  if (deadPeer < 0)
    return ncclSuccess;
  text = describe() + ": the process of rank " + std::to_string(deadPeer) +
         " has ended";
  return ncclRemoteError;
}

void Comm::abort() {
  isAborted.store(true);
  board->getMine().presence.store(Presence::Aborted);
  ++getProgress();
}
