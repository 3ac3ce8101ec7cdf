//===- Communicator.cpp - What does not depend on the backend -------------===//
#include "runtime/comm/Communicator.h"
#include <cstring>
#include <numeric>
#include <thread>

using namespace cleave::runtime;

/// A group of one: everything is a copy.
static Status copy(const void *in, void *out, uint64_t bytes) {
  if (in != out && bytes > 0)
    std::memcpy(out, in, bytes);
  return {};
}

/// The axes on which a group's ranks differ, a bit each.
static uint64_t getAxes(const Mesh &mesh, std::span<const int> ranks) {
  uint64_t axes = 0;
  for (size_t axis = 0; axis < mesh.getSizes().size(); ++axis)
    // Of the last rank all coordinates on the group's axes are the highest.
    if (mesh.getCoordinate(ranks.front(), int(axis)) !=
        mesh.getCoordinate(ranks.back(), int(axis)))
      axes |= uint64_t(1) << axis;
  return axes;
}

Communicator::Meeting::Meeting(Communicator &communicator, CollectiveCall call,
                               std::span<const int> ranks)
    : position(communicator.position) {
  if (!position)
    return;
  uint64_t axes = getAxes(communicator.mesh, ranks);
  position->enterCollective(call, axes, ++communicator.meetings[axes]);
}

Communicator::Meeting::Meeting(Communicator &communicator, int from)
    : position(communicator.position) {
  if (position)
    position->enterCollective(CollectiveCall::Recv, uint64_t(from), 1);
}

Status Communicator::fork(int stream, std::unique_ptr<Communicator> &forked) {
  CLEAVE_RETURN_IF_ERROR(doFork(stream, forked));
  forked->listener = listener;
  return {};
}

void Communicator::abort(const Status &cause) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  bool hasOthers = getProcessRanks().count < getWorldSize();
  auto turn = listener ? listener->getTurn() : watchdogsTurn;
  while (cause.isConsequence() && hasOthers && !isAborted() &&
         Clock::now() - begin < turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (listener)
    listener->onAbort();
  doAbort(cause);
}

Status Communicator::getWorldGroup(const Group *&group) {
  if (!world) {
    AxisList axes(mesh.getSizes().size());
    std::iota(axes.begin(), axes.end(), uint8_t(0));
    CLEAVE_RETURN_IF_ERROR(getGroup(axes, world));
  }
  group = world;
  return {};
}

Status Communicator::allReduce(const Group &group, const void *in, void *out,
                               uint64_t elements, ElementType type,
                               Reduction reduction) {
  if (group.getSize() == 1)
    return copy(in, out, elements * getElementBytes(type));
  Meeting meeting(*this, CollectiveCall::AllReduce, group.getRanks());
  return doAllReduce(group, in, out, elements, type, reduction);
}

Status Communicator::allGather(const Group &group, const void *in, void *out,
                               uint64_t outer, uint64_t innerBytes) {
  if (group.getSize() == 1)
    return copy(in, out, outer * innerBytes);
  Meeting meeting(*this, CollectiveCall::AllGather, group.getRanks());
  return doAllGather(group, in, out, {outer, innerBytes});
}

Status Communicator::reduceScatter(const Group &group, const void *in,
                                   void *out, uint64_t outer, uint64_t inner,
                                   ElementType type, Reduction reduction) {
  Parts input{outer, inner * getElementBytes(type)};
  if (group.getSize() == 1)
    return copy(in, out, input.getBytes());
  Meeting meeting(*this, CollectiveCall::ReduceScatter, group.getRanks());
  return doReduceScatter(group, in, out, input, type, reduction);
}

Status Communicator::allToAll(const Group &group, const void *in, void *out,
                              const AllToAllShape &shape) {
  if (group.getSize() == 1)
    return copy(in, out, shape.getInput().getBytes());
  Meeting meeting(*this, CollectiveCall::AllToAll, group.getRanks());
  return doAllToAll(group, in, out, shape.getInput(), shape.getOutput());
}

Status Communicator::runTogether(const Group &group,
                                 std::span<const Collective> collectives) {
  if (group.getSize() == 1) {
    for (const Collective &each : collectives)
      CLEAVE_RETURN_IF_ERROR(
          copy(each.in, each.out, each.getParts().getBytes()));
    return {};
  }
  Meeting meeting(*this, collectives.front().call, group.getRanks());
  return doTogether(group, collectives);
}

Status Communicator::doTogether(const Group &group,
                                std::span<const Collective> collectives) {
  for (const Collective &each : collectives)
    switch (each.call) {
    case CollectiveCall::AllReduce:
      CLEAVE_RETURN_IF_ERROR(doAllReduce(group, each.in, each.out,
                                         each.outer * each.inner, each.type,
                                         each.reduction));
      break;
    case CollectiveCall::AllGather:
      CLEAVE_RETURN_IF_ERROR(
          doAllGather(group, each.in, each.out, each.getParts()));
      break;
    case CollectiveCall::ReduceScatter:
      CLEAVE_RETURN_IF_ERROR(doReduceScatter(group, each.in, each.out,
                                             each.getParts(), each.type,
                                             each.reduction));
      break;
    default:
      return Status::error("what is no AllReduce, AllGather or ReduceScatter "
                           "cannot be in a bucket");
    }
  return {};
}

Status Communicator::receive(int from, int channel, void *data,
                             uint64_t bytes) {
  Meeting meeting(*this, from);
  return doReceive(from, channel, data, bytes);
}

Status Communicator::describeWrongSize(int from, int channel, uint64_t bytes,
                                       uint64_t expected) {
  return Status::error("the message of rank " + std::to_string(from) +
                       " on channel " + std::to_string(channel) + " has " +
                       std::to_string(bytes) + " bytes, expects " +
                       std::to_string(expected));
}

Status Communicator::barrier(const Group &group) {
  if (group.getSize() == 1)
    return {};
  Meeting meeting(*this, CollectiveCall::Barrier, group.getRanks());
  return doBarrier(group);
}

Status Communicator::broadcast(void *data, size_t bytes, int root) {
  const Group *everyone;
  CLEAVE_RETURN_IF_ERROR(getWorldGroup(everyone));
  if (everyone->getSize() == 1 || bytes == 0)
    return {};
  Meeting meeting(*this, CollectiveCall::Broadcast, everyone->getRanks());
  return doBroadcast(*everyone, data, bytes, root);
}

Status Communicator::broadcast(std::string &text, int root) {
  uint64_t size = text.size();
  CLEAVE_RETURN_IF_ERROR(broadcast(&size, sizeof(size), root));
  std::string received = getRank() == root ? text : std::string(size, '\0');
  CLEAVE_RETURN_IF_ERROR(broadcast(received.data(), size, root));
  text = std::move(received);
  return {};
}

Status Communicator::gatherDoubles(std::span<const double> mine,
                                   std::vector<double> &all) {
  const Group *everyone;
  CLEAVE_RETURN_IF_ERROR(getWorldGroup(everyone));
  std::vector<double> result(mine.size() * everyone->getSize());
  if (!result.empty())
    CLEAVE_RETURN_IF_ERROR(allGather(*everyone, mine.data(), result.data(), 1,
                                     mine.size() * sizeof(double)));
  all = std::move(result);
  return {};
}

Status Communicator::share(const Status &mine, Status &failure) {
  std::vector<double> codes;
  double code = mine.ok() ? 0 : 1;
  CLEAVE_RETURN_IF_ERROR(gatherDoubles({&code, 1}, codes));
  int first = 0;
  while (first < int(codes.size()) && codes[first] == 0)
    ++first;
  if (first == int(codes.size())) {
    failure = {};
    return {};
  }
  std::string message = mine.message();
  CLEAVE_RETURN_IF_ERROR(broadcast(message, first));
  // The same message from every rank is not about one of them.
  code = !mine.ok() && mine.message() == message ? 1 : 0;
  CLEAVE_RETURN_IF_ERROR(gatherDoubles({&code, 1}, codes));
  if (std::accumulate(codes.begin(), codes.end(), 0.0) < double(codes.size()))
    message = "rank " + std::to_string(first) + ": " + message;
  failure = Status::error(message);
  return {};
}

Status Communicator::agree(const Status &mine) {
  Status first;
  CLEAVE_RETURN_IF_ERROR(share(mine, first));
  if (first.ok())
    return {};
  agreedFailure = first;
  return getRank() == 0 ? first : Status::aborted(first.message());
}
