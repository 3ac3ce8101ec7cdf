//===- MpiCommunicator.cpp ------------------------------------------------===//
#include "runtime/comm/MpiCommunicator.h"
#include "runtime/base/Log.h"
#include <algorithm>
#include <climits>
#include <cstring>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

/// Scratch of one segment over all ranks of the group.
constexpr uint64_t segmentBytes = uint64_t(16) << 20;
/// What one call of MPI sends of a message; counts are ints.
constexpr uint64_t messageBytes = uint64_t(1) << 30;
/// Up to here one round of messages beats two.
constexpr uint64_t smallBytes = uint64_t(16) << 10;

/// Bytes [begin, end) of a part, between a buffer and contiguous scratch.
enum class Direction { Pack, Unpack };
template <Direction direction, typename Buffer, typename Scratch>
void movePart(Buffer *buffer, Parts shape, uint64_t part, uint64_t parts,
              uint64_t begin, uint64_t end, Scratch *scratch) {
  while (begin < end) {
    uint64_t block = begin / shape.blockBytes;
    uint64_t inside = begin - block * shape.blockBytes;
    uint64_t count = std::min(shape.blockBytes - inside, end - begin);
    uint64_t at = (block * parts + part) * shape.blockBytes + inside;
    if constexpr (direction == Direction::Pack)
      std::memcpy(scratch, buffer + at, count);
    else
      std::memcpy(buffer + at, scratch, count);
    scratch += count;
    begin += count;
  }
}

/// Bytes of a part that one segment carries: whole cache lines.
uint64_t getPartSegment(uint64_t parts) {
  return std::max<uint64_t>(segmentBytes / parts / 64 * 64, 64);
}

} // namespace

struct MpiCommunicator::MpiGroup : Group {
  using Group::Group;
  MPI_Comm comm = nullptr;
};

MpiCommunicator::MpiCommunicator(const MpiApi &api, const Mesh &mesh, int rank)
    : Communicator(mesh, rank), api(api) {}

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
Status MpiCommunicator::fork(int, std::unique_ptr<Communicator> &forked) {
  if (!api.allowsThreads)
    return Status::error("this MPI does not let several threads of a process "
                         "call it (MPI_THREAD_MULTIPLE): run with --serial");
  forked = std::make_unique<MpiCommunicator>(api, getMesh(), getRank());
  return {};
}

void MpiCommunicator::abort(const Status &cause) {
  // Ranks that fail alike at the same time: the first message, then the end.
  ::usleep(useconds_t(std::min(getRank(), 20)) * 50'000);
  if (cause.getCode() == StatusCode::Failed)
    logError("rank " + std::to_string(getRank()) + ": " + cause.message());
  api.MPI_Abort(api.world, 1);
}

Status MpiCommunicator::allReduceSmall(const Group &group, const void *in,
                                       void *out, uint64_t elements,
                                       ElementType type, Reduction reduction) {
  uint64_t bytes = elements * getElementBytes(type);
  char *all = resize(receiveScratch, bytes * group.getSize());
  CLEAVE_MPI(api, MPI_Allgather, in, int(bytes), api.byte, all, int(bytes),
             api.byte, static_cast<const MpiGroup &>(group).comm);
  std::vector<const void *> inputs;
  for (int i = 0; i < group.getSize(); ++i)
    inputs.push_back(all + i * bytes);
  reduceInOrder(inputs, {&out, 1}, elements, type, reduction);
  return {};
}

Status MpiCommunicator::allReduceSegment(const Group &group, const char *in,
                                         char *out, uint64_t elements,
                                         ElementType type,
                                         Reduction reduction) {
  MPI_Comm comm = static_cast<const MpiGroup &>(group).comm;
  int n = group.getSize();
  uint64_t element = getElementBytes(type);
  std::vector<int> counts(n), offsets(n);
  for (int i = 0; i < n; ++i) {
    Range chunk = getReduceChunk(elements, i, n);
    counts[i] = int((chunk.end - chunk.begin) * element);
    offsets[i] = int(chunk.begin * element);
  }
  int mine = counts[group.getIndex()];
  std::vector<int> received(n, mine), places(n);
  for (int i = 0; i < n; ++i)
    places[i] = i * mine;
  char *all = resize(receiveScratch, uint64_t(n) * mine);
  CLEAVE_MPI(api, MPI_Alltoallv, in, counts.data(), offsets.data(), api.byte,
             all, received.data(), places.data(), api.byte, comm);
  std::vector<const void *> inputs;
  for (int i = 0; i < n; ++i)
    inputs.push_back(all + places[i]);
  void *result = out + offsets[group.getIndex()];
  reduceInOrder(inputs, {&result, 1}, mine / element, type, reduction);
  CLEAVE_MPI(api, MPI_Allgatherv, MPI_IN_PLACE, 0, api.byte, out, counts.data(),
             offsets.data(), api.byte, comm);
  return {};
}

Status MpiCommunicator::doAllReduce(const Group &group, const void *in,
                                    void *out, uint64_t elements,
                                    ElementType type, Reduction reduction) {
  uint64_t element = getElementBytes(type);
  if (elements * element <= smallBytes)
    return allReduceSmall(group, in, out, elements, type, reduction);
  uint64_t step = segmentBytes / element;
  for (uint64_t begin = 0; begin < elements; begin += step)
    CLEAVE_RETURN_IF_ERROR(
        allReduceSegment(group, static_cast<const char *>(in) + begin * element,
                         static_cast<char *>(out) + begin * element,
                         std::min(step, elements - begin), type, reduction));
  return {};
}

Status MpiCommunicator::doAllGather(const Group &group, const void *in,
                                    void *out, Parts output) {
  MPI_Comm comm = static_cast<const MpiGroup &>(group).comm;
  uint64_t n = group.getSize(), bytes = output.getBytes();
  if (output.blocks == 1 && bytes <= INT_MAX / n) {
    CLEAVE_MPI(api, MPI_Allgather, in, int(bytes), api.byte, out, int(bytes),
               api.byte, comm);
    return {};
  }
  uint64_t step = getPartSegment(n);
  char *all = resize(receiveScratch, n * std::min(step, bytes));
  for (uint64_t begin = 0; begin < bytes; begin += step) {
    uint64_t count = std::min(step, bytes - begin);
    CLEAVE_MPI(api, MPI_Allgather, static_cast<const char *>(in) + begin,
               int(count), api.byte, all, int(count), api.byte, comm);
    for (uint64_t part = 0; part < n; ++part)
      movePart<Direction::Unpack>(static_cast<char *>(out), output, part, n,
                                  begin, begin + count, all + part * count);
  }
  return {};
}

Status MpiCommunicator::doReduceScatter(const Group &group, const void *in,
                                        void *out, Parts input,
                                        ElementType type, Reduction reduction) {
  MPI_Comm comm = static_cast<const MpiGroup &>(group).comm;
  uint64_t n = group.getSize(), bytes = input.getBytes();
  uint64_t step = getPartSegment(n);
  char *send = resize(sendScratch, n * std::min(step, bytes));
  char *all = resize(receiveScratch, n * std::min(step, bytes));
  std::vector<const void *> inputs(n);
  for (uint64_t begin = 0; begin < bytes; begin += step) {
    uint64_t count = std::min(step, bytes - begin);
    for (uint64_t part = 0; part < n; ++part)
      movePart<Direction::Pack>(static_cast<const char *>(in), input, part, n,
                                begin, begin + count, send + part * count);
    CLEAVE_MPI(api, MPI_Alltoall, send, int(count), api.byte, all, int(count),
               api.byte, comm);
    for (uint64_t part = 0; part < n; ++part)
      inputs[part] = all + part * count;
    void *result = static_cast<char *>(out) + begin;
    reduceInOrder(inputs, {&result, 1}, count / getElementBytes(type), type,
                  reduction);
  }
  return {};
}

Status MpiCommunicator::doAllToAll(const Group &group, const void *in,
                                   void *out, Parts input, Parts output) {
  MPI_Comm comm = static_cast<const MpiGroup &>(group).comm;
  uint64_t n = group.getSize(), bytes = input.getBytes();
  uint64_t step = getPartSegment(n);
  char *send = resize(sendScratch, n * std::min(step, bytes));
  char *all = resize(receiveScratch, n * std::min(step, bytes));
  for (uint64_t begin = 0; begin < bytes; begin += step) {
    uint64_t count = std::min(step, bytes - begin);
    for (uint64_t part = 0; part < n; ++part)
      movePart<Direction::Pack>(static_cast<const char *>(in), input, part, n,
                                begin, begin + count, send + part * count);
    CLEAVE_MPI(api, MPI_Alltoall, send, int(count), api.byte, all, int(count),
               api.byte, comm);
    for (uint64_t part = 0; part < n; ++part)
      movePart<Direction::Unpack>(static_cast<char *>(out), output, part, n,
                                  begin, begin + count, all + part * count);
  }
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
