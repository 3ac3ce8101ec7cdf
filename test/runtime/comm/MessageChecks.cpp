//===- MessageChecks.cpp --------------------------------------------------===//
#include "test/runtime/comm/MessageChecks.h"
#include <vector>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

constexpr int channels = 5, messages = 12;

/// From a few bytes to what no transport keeps for a receiver that is not there
/// yet.
uint64_t getSize(int channel, int number) {
  constexpr uint64_t sizes[] = {4, 1000, 65536, 300'001, 3'000'000};
  return sizes[(channel + number) % 5] + uint64_t(number);
}

std::vector<char> makeMessage(int from, int to, int channel, int number) {
  std::vector<char> bytes(getSize(channel, number));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = char(i * 7 + size_t(from * 101 + to * 31 + channel * 13) +
                    size_t(number));
  return bytes;
}

} // namespace

Status cleave::test::checkMessages(Communicator &communicator) {
  int world = communicator.getWorldSize(), me = communicator.getRank();
  for (int number = 0; number < messages; ++number)
    for (int channel = 0; channel < channels; ++channel)
      for (int to = 0; to < world; ++to) {
        if (to == me)
          continue;
        std::vector<char> message = makeMessage(me, to, channel, number);
        CLEAVE_RETURN_IF_ERROR(
            communicator.send(to, channel, message.data(), message.size()));
        // The buffer is the sender's again.
        message.assign(message.size(), 'x');
      }
  for (int channel = channels; channel-- > 0;)
    for (int from = 0; from < world; ++from)
      for (int number = 0; number < messages; ++number) {
        if (from == me)
          continue;
        std::vector<char> expected = makeMessage(from, me, channel, number);
        std::vector<char> actual(expected.size());
        CLEAVE_RETURN_IF_ERROR(
            communicator.receive(from, channel, actual.data(), actual.size()));
        if (actual != expected)
          return Status::error("message " + std::to_string(number) +
                               " of channel " + std::to_string(channel) +
                               " from rank " + std::to_string(from) +
                               " is another");
      }
  return {};
}

Status cleave::test::checkRing(Communicator &communicator, int rounds) {
  int world = communicator.getWorldSize(), me = communicator.getRank();
  int next = (me + 1) % world, previous = (me + world - 1) % world;
  // The highest channel: tags go so far.
  constexpr int channel = 32767;
  int64_t value = 0;
  for (int round = 0; round < rounds; ++round) {
    if (me > 0 || round > 0)
      CLEAVE_RETURN_IF_ERROR(
          communicator.receive(previous, channel, &value, sizeof(value)));
    if (value != int64_t(round) * world + me)
      return Status::error("the ring's value is " + std::to_string(value));
    ++value;
    if (me + 1 < world || round + 1 < rounds)
      CLEAVE_RETURN_IF_ERROR(
          communicator.send(next, channel, &value, sizeof(value)));
  }
  return {};
}
