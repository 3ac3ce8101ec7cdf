//===- Local.cpp ----------------------------------------------------------===//
#include "runtime/comm/Local.h"
#include "runtime/base/Cpus.h"
#include "runtime/base/Crc32c.h"
#include "runtime/comm/Barrier.h"
#include <algorithm>
#include <array>
#include <cstring>

using namespace cleave::runtime;

namespace {

/// What a rank brings to a collective.
struct alignas(64) Slot {
  const void *in = nullptr;
  void *out = nullptr;
  /// What it was asked to do; all ranks of a group must have been asked the
  /// same: kind, and the sizes that matter.
  std::array<uint64_t, 5> request = {};
};

enum RequestKind : uint64_t {
  RequestAllReduce,
  RequestAllGather,
  RequestReduceScatter,
  RequestAllToAll,
  RequestTogether,
  RequestBarrier,
  RequestBroadcast,
};

/// Waiting this long for a peer that has a core of its own beats a futex's
/// system calls: a few microseconds.
constexpr int spinsWithOwnCore = 2000;

} // namespace

/// One group's meeting place.
struct cleave::runtime::LocalGroupState {
  LocalGroupState(int size, int spins)
      : slots(size), arrival(size, spins), departure(size, spins) {}

  std::vector<Slot> slots;
  Barrier arrival, departure;
};

namespace {

class LocalGroup : public Group {
public:
  LocalGroup(std::vector<int> ranks, int index, LocalGroupState *state)
      : Group(std::move(ranks), index), state(state) {}
  LocalGroupState *state;
};

} // namespace

namespace cleave::runtime {

class LocalCommunicator : public Communicator {
public:
  LocalCommunicator(LocalWorld &local, int rank, int stream = 0)
      : Communicator(local.getMesh(), rank), local(local), stream(stream) {}

  Status getGroup(std::span<const uint8_t> axes, const Group *&group) override;
  bool isAborted() const override {
    return local.aborted.load(std::memory_order_relaxed);
  }
  RankRange getProcessRanks() const override { return {0, getWorldSize()}; }
  Status send(int to, int channel, const void *data, uint64_t bytes) override;

private:
  Status doFork(int stream, std::unique_ptr<Communicator> &forked) override {
    forked = std::make_unique<LocalCommunicator>(local, getRank(), stream);
    return {};
  }
  void doAbort(const Status &cause) override { local.abort(getRank(), cause); }
  Status doAllReduce(const Group &group, const void *in, void *out,
                     uint64_t elements, ElementType type,
                     Reduction reduction) override;
  Status doAllGather(const Group &group, const void *in, void *out,
                     Parts output) override;
  Status doReduceScatter(const Group &group, const void *in, void *out,
                         Parts input, ElementType type,
                         Reduction reduction) override;
  Status doAllToAll(const Group &group, const void *in, void *out, Parts input,
                    Parts output) override;
  Status doTogether(const Group &group,
                    std::span<const Collective> collectives) override;
  Status doBarrier(const Group &group) override;
  Status doBroadcast(const Group &world, void *data, size_t bytes,
                     int root) override;
  Status doReceive(int from, int channel, void *data, uint64_t bytes) override;

  /// Meets the other ranks; then `work(slots)` may read what is theirs, until
  /// all have done so.
  template <typename Work>
  Status meet(const Group &group, Slot mine, Work &&work);
  Status describeMismatch(const Group &group, int other) const;

  LocalWorld &local;
  int stream;
  std::map<AxisList, std::unique_ptr<LocalGroup>> groups;
};

} // namespace cleave::runtime

Status LocalCommunicator::getGroup(std::span<const uint8_t> axes,
                                   const Group *&group) {
  AxisList key(axes.begin(), axes.end());
  std::unique_ptr<LocalGroup> &entry = groups[key];
  if (!entry) {
    std::vector<int> ranks = getMesh().getGroup(getRank(), axes);
    LocalGroupState *state =
        local.getGroupState({key, ranks.front(), stream}, int(ranks.size()));
    entry = std::make_unique<LocalGroup>(
        std::move(ranks), getMesh().getShardIndex(getRank(), axes), state);
  }
  group = entry.get();
  return {};
}

template <typename Work>
Status LocalCommunicator::meet(const Group &group, Slot mine, Work &&work) {
  LocalGroupState &state = *static_cast<const LocalGroup &>(group).state;
  state.slots[group.getIndex()] = mine;
  if (!state.arrival.enter(local.aborted))
    return Status::aborted("another rank failed");
  int other = -1;
  for (int i = 0; i < group.getSize() && other < 0; ++i)
    if (state.slots[i].request != mine.request)
      other = i;
  if (other < 0)
    work(std::span<const Slot>(state.slots));
  Status status = other < 0 ? Status() : describeMismatch(group, other);
  state.departure.leave();
  return status;
}

Status LocalCommunicator::describeMismatch(const Group &group,
                                           int other) const {
  return Status::error(
      "ranks " + std::to_string(getRank()) + " and " +
      std::to_string(group.getRanks()[other]) +
      " call different collectives, or of different sizes, on one group");
}

/// Of what the ranks of a collective bring, the part that one of them does.
static void reduceAll(const Group &group, std::span<const Slot> slots,
                      uint64_t elements, ElementType type,
                      Reduction reduction) {
  auto [begin, end] =
      getReduceChunk(elements, group.getIndex(), group.getSize());
  uint64_t offset = begin * getElementBytes(type);
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (const Slot &slot : slots) {
    inputs.push_back(static_cast<const char *>(slot.in) + offset);
    outputs.push_back(static_cast<char *>(slot.out) + offset);
  }
  reduceInOrder(inputs, outputs, end - begin, type, reduction);
}

static void gatherAll(std::span<const Slot> slots, void *out, Parts output) {
  auto *to = static_cast<char *>(out);
  for (uint64_t block = 0; block < output.blocks; ++block)
    for (const Slot &slot : slots) {
      std::memcpy(
          to, static_cast<const char *>(slot.in) + block * output.blockBytes,
          output.blockBytes);
      to += output.blockBytes;
    }
}

static void scatterReduced(const Group &group, std::span<const Slot> slots,
                           void *out, Parts input, ElementType type,
                           Reduction reduction) {
  std::vector<const void *> inputs(slots.size());
  for (uint64_t block = 0; block < input.blocks; ++block) {
    uint64_t from = block * slots.size() + group.getIndex();
    for (size_t i = 0; i < slots.size(); ++i)
      inputs[i] =
          static_cast<const char *>(slots[i].in) + from * input.blockBytes;
    void *to = static_cast<char *>(out) + block * input.blockBytes;
    reduceInOrder(inputs, {&to, 1}, input.blockBytes / getElementBytes(type),
                  type, reduction);
  }
}

Status LocalCommunicator::doAllReduce(const Group &group, const void *in,
                                      void *out, uint64_t elements,
                                      ElementType type, Reduction reduction) {
  Slot mine{in,
            out,
            {RequestAllReduce, elements, uint64_t(type), uint64_t(reduction)}};
  return meet(group, mine, [&](std::span<const Slot> slots) {
    reduceAll(group, slots, elements, type, reduction);
  });
}

Status LocalCommunicator::doAllGather(const Group &group, const void *in,
                                      void *out, Parts output) {
  Slot mine{in, out, {RequestAllGather, output.blocks, output.blockBytes}};
  return meet(group, mine, [&](std::span<const Slot> slots) {
    gatherAll(slots, out, output);
  });
}

Status LocalCommunicator::doReduceScatter(const Group &group, const void *in,
                                          void *out, Parts input,
                                          ElementType type,
                                          Reduction reduction) {
  Slot mine{in,
            out,
            {RequestReduceScatter, input.blocks, input.blockBytes,
             uint64_t(type), uint64_t(reduction)}};
  return meet(group, mine, [&](std::span<const Slot> slots) {
    scatterReduced(group, slots, out, input, type, reduction);
  });
}

/// A number of what the ranks of a bucket must have been asked alike.
static uint64_t getChecksum(std::span<const Collective> collectives) {
  uint32_t checksum = 0;
  for (const Collective &each : collectives) {
    const uint64_t asked[] = {
        checksum,   uint64_t(each.call), each.outer,
        each.inner, uint64_t(each.type), uint64_t(each.reduction)};
    checksum = computeCrc32c(asked, sizeof(asked));
  }
  return checksum;
}

/// One meeting for all: a rank may do another one of them than its peers, since
/// none touches what another one writes.
Status LocalCommunicator::doTogether(const Group &group,
                                     std::span<const Collective> collectives) {
  Slot mine{collectives.data(),
            nullptr,
            {RequestTogether, collectives.size(), getChecksum(collectives)}};
  return meet(group, mine, [&](std::span<const Slot> slots) {
    std::vector<Slot> each(slots.size());
    for (size_t i = 0; i < collectives.size(); ++i) {
      for (size_t rank = 0; rank < slots.size(); ++rank) {
        const auto &peer = static_cast<const Collective *>(slots[rank].in)[i];
        each[rank].in = peer.in;
        each[rank].out = peer.out;
      }
      const Collective &own = collectives[i];
      if (own.call == CollectiveCall::AllReduce)
        reduceAll(group, each, own.outer * own.inner, own.type, own.reduction);
      else if (own.call == CollectiveCall::AllGather)
        gatherAll(each, own.out, own.getParts());
      else
        scatterReduced(group, each, own.out, own.getParts(), own.type,
                       own.reduction);
    }
  });
}

/// Copies part `fromPart` of a buffer to part `toPart` of another; both parts
/// have the same bytes in the same order, cut into blocks differently.
static void copyPart(const char *from, Parts fromShape, uint64_t fromPart,
                     char *to, Parts toShape, uint64_t toPart, uint64_t parts) {
  uint64_t step = std::min(fromShape.blockBytes, toShape.blockBytes);
  auto locate = [&](Parts shape, uint64_t part, uint64_t byte) {
    uint64_t block = byte / shape.blockBytes;
    return (block * parts + part) * shape.blockBytes +
           (byte - block * shape.blockBytes);
  };
  for (uint64_t byte = 0; byte < fromShape.getBytes(); byte += step)
    std::memcpy(to + locate(toShape, toPart, byte),
                from + locate(fromShape, fromPart, byte), step);
}

Status LocalCommunicator::doAllToAll(const Group &group, const void *in,
                                     void *out, Parts input, Parts output) {
  Slot mine{in,
            out,
            {RequestAllToAll, input.blocks, input.blockBytes, output.blocks,
             output.blockBytes}};
  return meet(group, mine, [&](std::span<const Slot> slots) {
    for (size_t peer = 0; peer < slots.size(); ++peer)
      copyPart(static_cast<const char *>(slots[peer].in), input,
               group.getIndex(), static_cast<char *>(out), output, peer,
               slots.size());
  });
}

Status LocalCommunicator::doBarrier(const Group &group) {
  Slot mine{nullptr, nullptr, {RequestBarrier}};
  return meet(group, mine, [](std::span<const Slot>) {});
}

Status LocalCommunicator::doBroadcast(const Group &world, void *data,
                                      size_t bytes, int root) {
  Slot mine{data, nullptr, {RequestBroadcast, bytes, uint64_t(root)}};
  return meet(world, mine, [&](std::span<const Slot> slots) {
    if (world.getIndex() != root)
      std::memcpy(data, slots[root].in, bytes);
  });
}

Status LocalCommunicator::send(int to, int channel, const void *data,
                               uint64_t bytes) {
  Mailbox &mailbox = *local.mailboxes[size_t(to)];
  Mailbox::Message message = mailbox.getSpare(getRank(), channel);
  const char *begin = static_cast<const char *>(data);
  message.assign(begin, begin + bytes);
  mailbox.put(getRank(), channel, std::move(message));
  return {};
}

Status LocalCommunicator::doReceive(int from, int channel, void *data,
                                    uint64_t bytes) {
  Mailbox &mailbox = *local.mailboxes[size_t(getRank())];
  Mailbox::Message message;
  if (!mailbox.take(from, channel, message,
                    [&] { return local.aborted.load(); }))
    return Status::aborted("another rank failed");
  if (message.size() != bytes)
    return describeWrongSize(from, channel, message.size(), bytes);
  std::memcpy(data, message.data(), bytes);
  mailbox.recycle(from, channel, std::move(message));
  return {};
}

LocalWorld::LocalWorld(Mesh mesh, int busyThreads)
    : mesh(std::move(mesh)),
      spins(busyThreads <= getAvailableCpus() ? spinsWithOwnCore : 0) {
  for (int rank = 0; rank < this->mesh.getWorldSize(); ++rank)
    mailboxes.push_back(std::make_unique<Mailbox>());
}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<Communicator> LocalWorld::makeCommunicator(int rank) {
  return std::make_unique<LocalCommunicator>(*this, rank);
}

LocalGroupState *LocalWorld::getGroupState(const GroupKey &key, int size) {
  std::lock_guard<std::mutex> lock(mutex);
  auto &entry = groups[key];
  if (!entry)
    entry = std::make_unique<LocalGroupState>(size, spins);
  return entry.get();
}

void LocalWorld::abort(int rank, const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  // A rank that was stopped, or sees that another one was, is not the cause, if
  // there is a better one.
  if (cause.getCode() != StatusCode::Failed ||
      (cause.isConsequence() && why.getCode() == StatusCode::Failed &&
       !why.isConsequence())) {
    failedRank = rank;
    cause = why;
  }
  aborted.store(true);
  for (auto &[key, group] : groups)
    group->arrival.wake();
  for (auto &mailbox : mailboxes)
    mailbox->wake();
}

Status LocalWorld::getCause(int &rank) const {
  std::lock_guard<std::mutex> lock(mutex);
  rank = failedRank;
  return cause;
}
