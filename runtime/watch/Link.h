//===- Link.h - What watchdogs of different processes tell each other -----===//
//
// Beside the communicator, whose calls belong to the rank's own thread: rank 0
// listens on a TCP port, every other process keeps one connection to it. Frames
// have one size. A connection counts once its first frame has shown the run's
// token, which only the run's own processes know.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_WATCH_LINK_H
#define CLEAVE_RUNTIME_WATCH_LINK_H

#include "runtime/base/Position.h"
#include "runtime/base/Socket.h"
#include "runtime/base/Status.h"
#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace cleave::runtime {

using LinkToken = std::array<uint8_t, 16>;

/// What is sent.
struct LinkFrame {
  enum Kind : uint32_t {
    Hello = 0x636c7601, ///< the first of a connection, and its answer
    Report,             ///< where the sender is
    Goodbye,            ///< the sender's work has ended: nothing follows
    End,                ///< the sender has said why: all end
  };
  uint32_t kind = 0;
  int32_t rank = 0;
  LinkToken token = {};
  PositionRecord position;
  uint64_t busyNs = 0; ///< CPU time of the rank's thread
};
static_assert(sizeof(LinkFrame) == 64);

/// What is heard; lost: the connection ended without a Goodbye.
struct LinkEvent {
  LinkFrame frame;
  bool isLost = false;
};

class Link {
public:
  Link() = default;
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  /// Rank 0: takes connections, of this host only or of all. `address` is what
  /// the others need, as text: a port, and hosts behind blanks.
  Status listen(bool onlyThisHost, int worldSize, const LinkToken &token,
                std::string &address);
  /// Other ranks: finds rank 0.
  Status connect(const std::string &address, int rank, const LinkToken &token);

  /// Sends to all that are connected; what does not fit is dropped, for a
  /// reader that is stopped. Goodbye and End are the last.
  void send(LinkFrame::Kind kind, const PositionRecord &position,
            uint64_t busyNs);

  /// Waits until there is something to receive, `wakeFd` can be read, or the
  /// time is up.
  void wait(int milliseconds, int wakeFd);
  /// All that was sent to this so far. Does not wait.
  std::vector<LinkEvent> receive();

private:
  struct Peer {
    explicit Peer(Socket socket) : socket(std::move(socket)) {}

    Socket socket;
    int rank = -1; ///< not known before its Hello
    bool hasLeft = false;
    std::string received, unsent;
    std::chrono::steady_clock::time_point since =
        std::chrono::steady_clock::now();
  };
  size_t countStrangers() const;
  void accept();
  void read(Peer &peer, std::vector<LinkEvent> &events);
  void take(Peer &peer, const LinkFrame &frame, std::vector<LinkEvent> &events);
  void write(Peer &peer, const LinkFrame &frame);
  void close(Peer &peer, std::vector<LinkEvent> &events);
  Status tryConnect(const std::string &host, int port);

  Socket listener;
  int ownRank = 0, worldSize = 0;
  LinkToken token = {};
  std::vector<Peer> peers;
};

/// From the system's source of random bytes.
Status makeToken(LinkToken &token);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_LINK_H
