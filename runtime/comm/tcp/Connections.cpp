//===- Connections.cpp ----------------------------------------------------===//
#include "runtime/comm/tcp/Connections.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Cpus.h"
#include "runtime/base/Threads.h"
#include "runtime/comm/Communicator.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

using namespace cleave::runtime;
using namespace cleave::runtime::tcp;

/// Until all have heard of a failure, when a process ends.
static constexpr std::chrono::seconds partingTime{5};
/// Ranks that have failed alike tell it one after the other, unless they have
/// heard it.
static constexpr std::chrono::milliseconds turnTime{50};
static constexpr int mostTurns = 20;
/// Reads from one connection before the next one's turn.
static constexpr int readsPerTurn = 64;

Connections::Connections(int rank, int size) : rank(rank) {
  for (int i = 0; i < size; ++i)
    peers.push_back(std::make_unique<Peer>());
}

Connections::~Connections() {
  stopping = true;
  wakeThread();
  if (thread.joinable())
    thread.join();
}

Status Connections::start() {
  allowSockets(int(peers.size()));
  wakeup = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup)
    return Status::error("the tcp transport cannot make a descriptor: " +
                         std::string(std::strerror(errno)));
  return startWithoutSignals(
      "the tcp transport",
      [this] {
        expectShortWork();
        Status ended = catchExceptions([this] {
          run();
          return Status();
        });
        if (!ended.ok()) {
          std::lock_guard<std::mutex> lock(mutex);
          fail(ended);
        }
      },
      thread);
}

void Connections::add(int number, Socket socket) {
  Peer &peer = *peers[size_t(number)];
  std::lock_guard<std::mutex> lock(peer.mutex);
  peer.socket = std::move(socket);
  peer.isConnected = true;
  wakeThread();
}

//===----------------------------------------------------------------------===//
// Sending
//===----------------------------------------------------------------------===//

void Connections::wakeThread() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t size = ::write(wakeup.get(), &one, sizeof(one));
}

/// What the connection does not take now, the thread sends.
void Connections::post(Peer &peer, Header header, const void *data) {
  if (!peer.socket)
    return; // lost: whoever waits for it hears of that
  const char *parts[] = {reinterpret_cast<const char *>(&header),
                         static_cast<const char *>(data)};
  uint64_t sizes[] = {sizeof(header), header.bytes};
  while (peer.unsent.empty() && sizes[0] + sizes[1] > 0) {
    iovec vectors[2];
    for (int i = 0; i < 2; ++i)
      vectors[i] = {const_cast<char *>(parts[i]), size_t(sizes[i])};
    msghdr message = {};
    message.msg_iov = vectors;
    message.msg_iovlen = 2;
    ssize_t sent = ::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      break;
    for (int i = 0; i < 2; ++i) {
      uint64_t done = std::min(sizes[i], uint64_t(sent));
      parts[i] += done;
      sizes[i] -= done;
      sent -= ssize_t(done);
    }
  }
  if (sizes[0] + sizes[1] == 0)
    return;
  std::vector<char> &rest = peer.unsent.emplace_back();
  rest.reserve(size_t(sizes[0] + sizes[1]));
  for (int i = 0; i < 2; ++i)
    rest.insert(rest.end(), parts[i], parts[i] + sizes[i]);
  wakeThread();
}

void Connections::push(Peer &peer) {
  while (!peer.unsent.empty()) {
    const std::vector<char> &first = peer.unsent.front();
    ssize_t sent = ::send(peer.socket.get(), first.data() + peer.sentOfFirst,
                          first.size() - peer.sentOfFirst, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      return; // full; or at its end, which is read
    peer.sentOfFirst += size_t(sent);
    if (peer.sentOfFirst == first.size()) {
      peer.unsent.pop_front();
      peer.sentOfFirst = 0;
    }
  }
}

Status Connections::send(int to, int channel, const void *data,
                         uint64_t bytes) {
  if (aborted)
    return getFailure();
  if (to == rank) {
    Mailbox::Message message = mailbox.getSpare(rank, channel);
    const char *begin = static_cast<const char *>(data);
    message.assign(begin, begin + bytes);
    mailbox.put(rank, channel, std::move(message));
    return {};
  }
  Peer &peer = *peers[size_t(to)];
  std::lock_guard<std::mutex> lock(peer.mutex);
  post(peer, {Header::Message, channel, bytes}, data);
  return {};
}

//===----------------------------------------------------------------------===//
// Receiving
//===----------------------------------------------------------------------===//

Status Connections::receive(int from, int channel, Mailbox::Message &message,
                            Clock::time_point deadline) {
  auto mustStop = [&] { return aborted || Clock::now() >= deadline; };
  if (mailbox.take(from, channel, message, mustStop))
    return {};
  if (aborted)
    return getFailure();
  return Status::error("nothing came from rank " + std::to_string(from));
}

/// False where nothing more can be read now.
bool Connections::readMore(int from, void *data, uint64_t bytes) {
  Peer &peer = *peers[size_t(from)];
  ssize_t got;
  do
    got = ::recv(peer.socket.get(), static_cast<char *>(data) + peer.received,
                 bytes - peer.received, 0);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return false;
  if (got <= 0) {
    lose(from, got < 0 ? std::strerror(errno) : "");
    return false;
  }
  peer.received += uint64_t(got);
  return true;
}

void Connections::read(int from) {
  Peer &peer = *peers[size_t(from)];
  for (int i = 0; i < readsPerTurn; ++i) {
    if (!peer.isInBody) {
      if (!readMore(from, &peer.header, sizeof(peer.header)))
        return;
      if (peer.received < sizeof(peer.header))
        continue;
      if (peer.header.kind < Header::Message ||
          peer.header.kind > Header::Abort)
        return lose(from, "what came is of no run of this program");
      peer.body = mailbox.getSpare(from, peer.header.channel);
      peer.body.resize(peer.header.bytes);
      peer.isInBody = true;
      peer.received = 0;
    }
    if (peer.received < peer.body.size() &&
        !readMore(from, peer.body.data(), peer.body.size()))
      return;
    if (peer.received == peer.body.size()) {
      peer.isInBody = false;
      peer.received = 0;
      take(from);
    }
  }
}

/// A frame is whole.
void Connections::take(int from) {
  Peer &peer = *peers[size_t(from)];
  if (peer.header.kind == Header::Message)
    return mailbox.put(from, peer.header.channel, std::move(peer.body));
  if (peer.header.kind == Header::Abort) {
    std::unique_lock<std::mutex> lock(mutex);
    if (!isAnnounced)
      announce(std::move(lock), {peer.body.begin(), peer.body.end()});
  }
  peer.isDone = true;
}

void Connections::lose(int from, const std::string &why) {
  Peer &peer = *peers[size_t(from)];
  {
    std::lock_guard<std::mutex> lock(peer.mutex);
    peer.socket.close();
    peer.unsent.clear();
  }
  if (peer.isDone.exchange(true))
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (!loss.empty())
    return;
  loss = "lost the connection to rank " + std::to_string(from) +
         (why.empty() ? "" : " (" + why + ")") +
         ": its process has ended without a word, or its host or network is "
         "gone";
  lostAt = Clock::now();
}

/// Stops this rank, whose abort() then tells the others. Under the lock.
void Connections::fail(const Status &cause) {
  if (aborted)
    return;
  failure = cause;
  aborted = true;
  mailbox.wake();
}

void Connections::run() {
  while (!stopping) {
    std::vector<pollfd> polls{{wakeup.get(), POLLIN, 0}};
    std::vector<int> ranks{rank};
    for (int i = 0; i < int(peers.size()); ++i) {
      std::lock_guard<std::mutex> lock(peers[size_t(i)]->mutex);
      const Peer &peer = *peers[size_t(i)];
      if (!peer.socket)
        continue;
      polls.push_back({peer.socket.get(), POLLIN, 0});
      if (!peer.unsent.empty())
        polls.back().events |= POLLOUT;
      ranks.push_back(i);
    }
    constexpr int lookEvery = 500; // ms; at a loss
    ::poll(polls.data(), polls.size(), lookEvery);
    uint64_t wakes;
    [[maybe_unused]] ssize_t size = ::read(wakeup.get(), &wakes, sizeof(wakes));
    for (size_t i = 1; i < polls.size(); ++i) {
      if (polls[i].revents & POLLOUT) {
        Peer &peer = *peers[size_t(ranks[i])];
        std::lock_guard<std::mutex> lock(peer.mutex);
        push(peer);
      }
      if (polls[i].revents & ~POLLOUT)
        read(ranks[i]);
    }
    std::lock_guard<std::mutex> lock(mutex);
    // Until then whoever waits does so, that the watchdog sees them wait.
    if (!loss.empty() && Clock::now() - lostAt >= watchdogsTurn)
      fail(Status::error(loss));
  }
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

Status Connections::getFailure() const {
  std::lock_guard<std::mutex> lock(mutex);
  return failure;
}

/// Tells all others, once. With the lock of what has failed.
void Connections::announce(std::unique_lock<std::mutex> lock,
                           const std::string &cause) {
  isAnnounced = true;
  failure = Status::aborted(cause);
  aborted = true;
  lock.unlock();
  change.notify_all();
  mailbox.wake();
  for (auto &peer : peers) {
    std::lock_guard<std::mutex> sending(peer->mutex);
    post(*peer, {Header::Abort, 0, cause.size()}, cause.data());
  }
}

Status Connections::abort(const Status &cause) {
  std::unique_lock<std::mutex> lock(mutex);
  auto turn = std::min(rank, mostTurns) * turnTime;
  if (change.wait_for(lock, turn, [&] { return isAnnounced; }))
    return {};
  const Status &said = cause.getCode() == StatusCode::Failed ? cause : failure;
  std::string text = "rank " + std::to_string(rank) + ": " + said.message();
  Status result = said.ok() ? Status() : Status::error(text);
  announce(std::move(lock), text);
  return result;
}

void Connections::close() {
  if (!aborted)
    for (auto &peer : peers) {
      std::lock_guard<std::mutex> lock(peer->mutex);
      post(*peer, {Header::Goodbye, 0, 0}, nullptr);
    }
  auto isOver = [](Peer &peer) {
    std::lock_guard<std::mutex> lock(peer.mutex);
    return !peer.isConnected || (peer.isDone && peer.unsent.empty());
  };
  auto begin = Clock::now();
  while (!std::all_of(peers.begin(), peers.end(),
                      [&](auto &peer) { return isOver(*peer); })) {
    if (!aborted)
      begin = Clock::now();
    else if (Clock::now() - begin >= partingTime)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
