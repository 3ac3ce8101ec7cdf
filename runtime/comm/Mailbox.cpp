//===- Mailbox.cpp --------------------------------------------------------===//
#include "runtime/comm/Mailbox.h"

using namespace cleave::runtime;

Mailbox::Message Mailbox::getSpare(int from, int channel) {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<Message> &spare = channels[{from, channel}].spare;
  if (spare.empty())
    return {};
  Message message = std::move(spare.back());
  spare.pop_back();
  return message;
}

void Mailbox::put(int from, int channel, Message message) {
  std::lock_guard<std::mutex> lock(mutex);
  channels[{from, channel}].messages.push_back(std::move(message));
  arrival.notify_all();
}

void Mailbox::recycle(int from, int channel, Message message) {
  std::lock_guard<std::mutex> lock(mutex);
  channels[{from, channel}].spare.push_back(std::move(message));
}

void Mailbox::wake() {
  // Not between a receiver's look at what stops it and its sleep.
  std::lock_guard<std::mutex> lock(mutex);
  arrival.notify_all();
}
