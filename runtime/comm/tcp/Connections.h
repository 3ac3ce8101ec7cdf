//===- Connections.h - Messages between processes over TCP ----------------===//
//
// Each process has one connection to each other one. A thread receives all that
// comes, into the mailbox, and sends what a connection did not take at once: so
// no send waits, and whoever waits for a message is told when none can come.
//
// What is sent are frames: a header, then its bytes.
//
//   Message   for the mailbox, by channel
//   Goodbye   the sender's work has ended: nothing follows
//   Abort     the run has failed, and why; who hears it tells all others, so
//             that it reaches those to whom the first has no connection yet
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_TCP_CONNECTIONS_H
#define CLEAVE_RUNTIME_COMM_TCP_CONNECTIONS_H

#include "runtime/base/Socket.h"
#include "runtime/base/Status.h"
#include "runtime/comm/Mailbox.h"
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cleave::runtime::tcp {

/// Those of one process. All calls may come from any thread.
class Connections {
public:
  using Clock = std::chrono::steady_clock;

  Connections(int rank, int size);
  /// Ends at once; what close() was not called for is lost.
  ~Connections();

  /// Starts the thread.
  Status start();
  /// The connection to rank `peer`, which has none yet.
  void add(int peer, Socket socket);
  bool has(int peer) const { return peers[size_t(peer)]->isConnected; }

  /// `data` is the caller's again at once.
  Status send(int to, int channel, const void *data, uint64_t bytes);
  /// Waits for the oldest message of the channel. Fails when the run has, or
  /// when it is later than `deadline`.
  Status receive(int from, int channel, Mailbox::Message &message,
                 Clock::time_point deadline = Clock::time_point::max());
  void recycle(int from, int channel, Mailbox::Message message) {
    mailbox.recycle(from, channel, std::move(message));
  }

  /// Makes every rank's next call fail as Aborted. Returns what this rank is to
  /// print: the cause, or, where the rank was only stopped, the loss that
  /// stopped it, behind the rank's number; success where another rank does. Of
  /// ranks that fail alike at the same time, one does.
  Status abort(const Status &cause);
  bool isAborted() const { return aborted; }
  /// Success where nothing has failed. Else Aborted, where another rank has
  /// said why; or that a connection was lost, which no rank has said.
  Status getFailure() const;

  /// Says goodbye, and waits until all others have: then nobody's messages are
  /// lost by closing. Where the run has failed, waits a little.
  void close();

private:
  struct Header {
    enum Kind : uint32_t { Message = 0x636c7601, Goodbye, Abort };
    uint32_t kind = 0;
    int32_t channel = 0;
    uint64_t bytes = 0;
  };
  struct Peer {
    std::mutex mutex; ///< of what is sent
    Socket socket;
    std::deque<std::vector<char>> unsent; ///< frames, or the rest of one
    size_t sentOfFirst = 0;
    std::atomic<bool> isConnected{false};
    std::atomic<bool> isDone{false}; ///< nothing of it is waited for any more

    // The thread's alone.
    Header header;
    uint64_t received = 0; ///< of the header, then of the body
    bool isInBody = false;
    Mailbox::Message body;
  };

  void run();
  void read(int from);
  bool readMore(int from, void *data, uint64_t bytes);
  void take(int from);
  void lose(int from, const std::string &why);
  /// Under the peer's lock.
  void push(Peer &peer);
  void post(Peer &peer, Header header, const void *data);
  void fail(const Status &cause);
  void announce(std::unique_lock<std::mutex> lock, const std::string &cause);
  void wakeThread();

  const int rank;
  std::vector<std::unique_ptr<Peer>> peers; ///< by rank
  Mailbox mailbox;
  std::thread thread;
  Socket wakeup; ///< an eventfd
  std::atomic<bool> stopping{false};

  mutable std::mutex mutex; ///< of what follows
  std::condition_variable change;
  std::atomic<bool> aborted{false};
  Status failure;
  bool isAnnounced = false; ///< whether this rank has told the others
  /// The first connection that ended without a word, and when.
  std::string loss;
  Clock::time_point lostAt;
};

} // namespace cleave::runtime::tcp

#endif // CLEAVE_RUNTIME_COMM_TCP_CONNECTIONS_H
