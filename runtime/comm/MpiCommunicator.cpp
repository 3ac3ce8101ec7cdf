//===- MpiCommunicator.cpp ------------------------------------------------===//
#include "runtime/comm/MpiCommunicator.h"
#include "runtime/base/Log.h"
#include <algorithm>
#include <climits>
#include <unistd.h>

using namespace cleave::runtime;

/// What one call of MPI sends of a message; counts are ints.
static constexpr uint64_t messageBytes = uint64_t(1) << 30;

struct MpiCommunicator::MpiGroup : Group {
  using Group::Group;
  MPI_Comm comm = nullptr;
};

MpiCommunicator::MpiCommunicator(const MpiApi &api, const Mesh &mesh, int rank)
    : SegmentedCommunicator(mesh, rank, INT_MAX), api(api) {}

MpiCommunicator::~MpiCommunicator() {
  // All that a step sends is received in it: this does not wait for long.
  for (Outgoing &message : outgoing)
    for (MPI_Request &request : message.requests)
      api.MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (auto &[axes, group] : groups)
    if (group->comm)
      api.MPI_Comm_free(&group->comm);
}

Status MpiCommunicator::getGroup(std::span<const uint8_t> axes,
                                 const Group *&group) {
  AxisList key(axes.begin(), axes.end());
  auto found = groups.find(key);
  if (found == groups.end()) {
    auto made =
        std::make_unique<MpiGroup>(getMesh().getGroup(getRank(), axes),
                                   getMesh().getShardIndex(getRank(), axes));
    if (made->getSize() > 1) {
      // Of all ranks, whatever the axes.
      const int all[] = {0, getWorldSize() - 1};
      Meeting meeting(*this, CollectiveCall::MakeGroup, all);
      CLEAVE_MPI(api, MPI_Comm_split, api.world, made->getRanks().front(),
                 made->getIndex(), &made->comm);
      CLEAVE_MPI(api, MPI_Comm_set_errhandler, made->comm, api.errorsReturn);
    }
    found = groups.emplace(std::move(key), std::move(made)).first;
  }
  group = found->second.get();
  return {};
}

/// Each has communicators of MPI's own, so that calls of several threads do not
/// meet each other's.
Status MpiCommunicator::doFork(int, std::unique_ptr<Communicator> &forked) {
  if (!api.allowsThreads)
    return Status::error("this MPI does not let several threads of a process "
                         "call it (MPI_THREAD_MULTIPLE): run with --serial");
  forked = std::make_unique<MpiCommunicator>(api, getMesh(), getRank());
  return {};
}

void MpiCommunicator::doAbort(const Status &cause) {
  // Ranks that fail alike at the same time: the first message, then the end.
  ::usleep(useconds_t(std::min(getRank(), 20)) * 50'000);
  if (cause.getCode() == StatusCode::Failed)
    logError("rank " + std::to_string(getRank()) + ": " + cause.message());
  api.MPI_Abort(api.world, 1);
}

Status MpiCommunicator::gather(const Group &group, const char *mine, char *out,
                               const Pieces &pieces) {
  MPI_Comm comm = static_cast<const MpiGroup &>(group).comm;
  int bytes = pieces.counts[group.getIndex()];
  const void *from = mine;
  if (mine == out + pieces.offsets[group.getIndex()])
    from = MPI_IN_PLACE;
  if (pieces.areEven)
    CLEAVE_MPI(api, MPI_Allgather, from, bytes, api.byte, out, bytes, api.byte,
               comm);
  else
    CLEAVE_MPI(api, MPI_Allgatherv, from, bytes, api.byte, out,
               pieces.counts.data(), pieces.offsets.data(), api.byte, comm);
  return {};
}

Status MpiCommunicator::exchange(const Group &group, const char *in,
                                 const Pieces &sent, char *out,
                                 const Pieces &received) {
  MPI_Comm comm = static_cast<const MpiGroup &>(group).comm;
  if (sent.areEven && received.areEven)
    CLEAVE_MPI(api, MPI_Alltoall, in, sent.counts[0], api.byte, out,
               received.counts[0], api.byte, comm);
  else
    CLEAVE_MPI(api, MPI_Alltoallv, in, sent.counts.data(), sent.offsets.data(),
               api.byte, out, received.counts.data(), received.offsets.data(),
               api.byte, comm);
  return {};
}

Status MpiCommunicator::doBarrier(const Group &group) {
  CLEAVE_MPI(api, MPI_Barrier, static_cast<const MpiGroup &>(group).comm);
  return {};
}

Status MpiCommunicator::doBroadcast(const Group &world, void *data,
                                    size_t bytes, int root) {
  MPI_Comm comm = static_cast<const MpiGroup &>(world).comm;
  for (size_t begin = 0; begin < bytes; begin += segmentBytes)
    CLEAVE_MPI(api, MPI_Bcast, static_cast<char *>(data) + begin,
               int(std::min<size_t>(segmentBytes, bytes - begin)), api.byte,
               root, comm);
  return {};
}

Status MpiCommunicator::reclaim(Outgoing &message) {
  while (!message.requests.empty()) {
    int isDone = 0;
    CLEAVE_MPI(api, MPI_Test, &message.requests.back(), &isDone,
               MPI_STATUS_IGNORE);
    if (!isDone)
      return {};
    message.requests.pop_back();
  }
  return {};
}

Status MpiCommunicator::send(int to, int channel, const void *data,
                             uint64_t bytes) {
  Outgoing *message = nullptr;
  for (Outgoing &other : outgoing) {
    CLEAVE_RETURN_IF_ERROR(reclaim(other));
    bool isBetter = !message || (message->data.capacity() < bytes &&
                                 other.data.capacity() >= bytes);
    if (other.requests.empty() && isBetter)
      message = &other;
  }
  if (!message)
    message = &outgoing.emplace_back();
  const char *begin = static_cast<const char *>(data);
  message->data.assign(begin, begin + bytes);
  // Messages between two ranks with one tag arrive in their order (MPI-4.1,
  // section 3.5), so the parts of a large one do.
  for (uint64_t done = 0; done < bytes; done += messageBytes) {
    message->requests.emplace_back();
    CLEAVE_MPI(api, MPI_Isend, message->data.data() + done,
               int(std::min(messageBytes, bytes - done)), api.byte, to, channel,
               api.messages, &message->requests.back());
  }
  return {};
}

Status MpiCommunicator::doReceive(int from, int channel, void *data,
                                  uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += messageBytes) {
    int expected = int(std::min(messageBytes, bytes - done)), count = 0;
    MPI_Status status;
    CLEAVE_MPI(api, MPI_Recv, static_cast<char *>(data) + done, expected,
               api.byte, from, channel, api.messages, &status);
    CLEAVE_MPI(api, MPI_Get_count, &status, api.byte, &count);
    if (count != expected)
      return describeWrongSize(from, channel, done + uint64_t(count), bytes);
  }
  return {};
}
