//===- Mailbox.h - Messages that a rank has not received yet --------------===//
#ifndef CLEAVE_RUNTIME_COMM_MAILBOX_H
#define CLEAVE_RUNTIME_COMM_MAILBOX_H

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace cleave::runtime {

/// Copies of messages, by sender and channel, each channel's in their order.
/// Who sends puts, and who receives takes, from any thread.
class Mailbox {
public:
  using Message = std::vector<char>;

  /// A message that was received, for its memory; empty if there is none.
  Message getSpare(int from, int channel);
  void put(int from, int channel, Message message);

  /// Waits for the oldest message. False when `mustStop()` is true before one
  /// has come: it is asked now and then, and after each wake().
  template <typename MustStop>
  bool take(int from, int channel, Message &message, MustStop &&mustStop) {
    std::unique_lock<std::mutex> lock(mutex);
    std::deque<Message> &messages = channels[{from, channel}].messages;
    // Who waits looks now and then, so that the watchdog sees that it is awake.
    while (messages.empty()) {
      if (mustStop())
        return false;
      arrival.wait_for(lock, lookEvery);
    }
    message = std::move(messages.front());
    messages.pop_front();
    return true;
  }
  /// Keeps the memory of a message that was taken.
  void recycle(int from, int channel, Message message);

  void wake();

private:
  static constexpr std::chrono::milliseconds lookEvery{20};

  struct Channel {
    std::deque<Message> messages; ///< oldest first
    std::vector<Message> spare;
  };

  std::mutex mutex;
  std::condition_variable arrival;
  std::map<std::pair<int, int>, Channel> channels;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MAILBOX_H
