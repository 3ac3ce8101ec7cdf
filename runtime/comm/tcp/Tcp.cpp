//===- Tcp.cpp ------------------------------------------------------------===//
#include "runtime/comm/tcp/Tcp.h"
#include "runtime/base/Log.h"
#include "runtime/comm/SegmentedCommunicator.h"
#include "runtime/comm/tcp/Join.h"
#include <cstring>

using namespace cleave::runtime;
using namespace cleave::runtime::tcp;

namespace {

/// Of the channels below 0, which no program has: join() uses the first.
constexpr int firstCollectives = -2;

/// A collective sends every piece to who needs it, as a message. Two ranks make
/// those of one stream in the same order, whatever the groups: else they would
/// wait for each other. So the stream's number is enough of a channel.
class TcpCommunicator : public SegmentedCommunicator {
public:
  TcpCommunicator(Connections &connections, const Mesh &mesh, int rank,
                  int stream = 0)
      : SegmentedCommunicator(mesh, rank, segmentBytes),
        connections(connections), channel(firstCollectives - stream) {}

  Status getGroup(std::span<const uint8_t> axes, const Group *&group) override;
  Status send(int to, int number, const void *data, uint64_t bytes) override {
    return connections.send(to, number, data, bytes);
  }
  bool isAborted() const override { return connections.isAborted(); }

private:
  Status doFork(int stream, std::unique_ptr<Communicator> &forked) override {
    forked = std::make_unique<TcpCommunicator>(connections, getMesh(),
                                               getRank(), stream);
    return {};
  }
  void doAbort(const Status &cause) override {
    if (Status said = connections.abort(cause); !said.ok())
      logError(said.message());
  }
  Status gather(const Group &group, const char *mine, char *out,
                const Pieces &pieces) override;
  Status exchange(const Group &group, const char *in, const Pieces &sent,
                  char *out, const Pieces &received) override;
  Status doBarrier(const Group &group) override;
  Status doBroadcast(const Group &world, void *data, size_t bytes,
                     int root) override;
  Status doReceive(int from, int number, void *data, uint64_t bytes) override;

  Status receivePiece(int from, void *out, uint64_t bytes);

  Connections &connections;
  int channel; ///< of collectives
  std::map<AxisList, std::unique_ptr<Group>> groups;
};

} // namespace

Status TcpCommunicator::getGroup(std::span<const uint8_t> axes,
                                 const Group *&group) {
  AxisList key(axes.begin(), axes.end());
  std::unique_ptr<Group> &entry = groups[key];
  if (!entry)
    entry = std::make_unique<Group>(getMesh().getGroup(getRank(), axes),
                                    getMesh().getShardIndex(getRank(), axes));
  group = entry.get();
  return {};
}

Status TcpCommunicator::receivePiece(int from, void *out, uint64_t bytes) {
  Mailbox::Message message;
  CLEAVE_RETURN_IF_ERROR(connections.receive(from, channel, message));
  if (message.size() != bytes)
    return Status::error(
        "ranks " + std::to_string(getRank()) + " and " + std::to_string(from) +
        " call different collectives, or of different sizes, on one group");
  if (bytes > 0)
    std::memcpy(out, message.data(), bytes);
  connections.recycle(from, channel, std::move(message));
  return {};
}

Status TcpCommunicator::exchange(const Group &group, const char *in,
                                 const Pieces &sent, char *out,
                                 const Pieces &received) {
  // Each begins with the one behind it, so that not all send to one.
  int n = group.getSize(), me = group.getIndex();
  for (int step = 1; step < n; ++step) {
    int to = (me + step) % n;
    CLEAVE_RETURN_IF_ERROR(connections.send(group.getRanks()[to], channel,
                                            in + sent.offsets[to],
                                            uint64_t(sent.counts[to])));
  }
  const char *own = in + sent.offsets[me];
  if (own != out + received.offsets[me])
    std::copy(own, own + sent.counts[me], out + received.offsets[me]);
  for (int step = 1; step < n; ++step) {
    int from = (me + n - step) % n;
    CLEAVE_RETURN_IF_ERROR(receivePiece(group.getRanks()[from],
                                        out + received.offsets[from],
                                        uint64_t(received.counts[from])));
  }
  return {};
}

/// Every rank sends the same to all others.
Status TcpCommunicator::gather(const Group &group, const char *mine, char *out,
                               const Pieces &pieces) {
  Pieces sent;
  sent.offsets.assign(pieces.offsets.size(), 0);
  sent.counts.assign(pieces.counts.size(), pieces.counts[group.getIndex()]);
  return exchange(group, mine, sent, out, pieces);
}

Status TcpCommunicator::doBarrier(const Group &group) {
  return gather(group, nullptr, nullptr, Pieces::makeEven(group.getSize(), 0));
}

Status TcpCommunicator::doBroadcast(const Group &world, void *data,
                                    size_t bytes, int root) {
  if (getRank() != root)
    return receivePiece(root, data, bytes);
  for (int to : world.getRanks())
    if (to != root)
      CLEAVE_RETURN_IF_ERROR(connections.send(to, channel, data, bytes));
  return {};
}

Status TcpCommunicator::doReceive(int from, int number, void *data,
                                  uint64_t bytes) {
  Mailbox::Message message;
  CLEAVE_RETURN_IF_ERROR(connections.receive(from, number, message));
  if (message.size() != bytes)
    return describeWrongSize(from, number, message.size(), bytes);
  std::memcpy(data, message.data(), bytes);
  connections.recycle(from, number, std::move(message));
  return {};
}

Status TcpWorld::start(std::unique_ptr<ProcessWorld> &world) {
  Place place;
  CLEAVE_RETURN_IF_ERROR(readPlace(place));
  auto made = std::make_unique<TcpWorld>();
  made->rank = place.rank;
  made->size = place.size;
  made->connections = std::make_unique<Connections>(place.rank, place.size);
  CLEAVE_RETURN_IF_ERROR(join(place, *made->connections));
  world = std::move(made);
  return {};
}

TcpWorld::~TcpWorld() {
  if (connections)
    connections->close();
}

std::unique_ptr<Communicator> TcpWorld::makeCommunicator(const Mesh &mesh) {
  return std::make_unique<TcpCommunicator>(*connections, mesh, rank);
}
