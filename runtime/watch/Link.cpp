//===- Link.cpp -----------------------------------------------------------===//
#include "runtime/watch/Link.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sstream>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::runtime;

/// Connections that have not shown the token yet, at most, and how long each
/// may take: who has none cannot use up the descriptors.
static constexpr size_t maxStrangers = 64;
static constexpr std::chrono::seconds strangersTime{5};

static Status makeError(const std::string &what) {
  return Status::error("watchdog: " + what + ": " + std::strerror(errno));
}

Status cleave::runtime::makeToken(LinkToken &token) {
  LinkToken result;
  if (::getrandom(result.data(), result.size(), 0) != ssize_t(result.size()))
    return makeError("cannot get random bytes");
  token = result;
  return {};
}

Link::~Link() {
  for (Peer &peer : peers)
    ::close(peer.fd);
  if (listener >= 0)
    ::close(listener);
}

/// IPv4 addresses of this host, the loopback's apart.
static std::string listAddresses() {
  std::string text;
  ifaddrs *all = nullptr;
  if (::getifaddrs(&all) != 0)
    return text;
  for (ifaddrs *entry = all; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET ||
        !(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK))
      continue;
    char host[INET_ADDRSTRLEN];
    auto *address = reinterpret_cast<sockaddr_in *>(entry->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host)))
      text += std::string(" ") + host;
  }
  ::freeifaddrs(all);
  return text;
}

/// A descriptor for each rank, and as many again for all else.
static void allowDescriptors(int ranks) {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur =
      std::min(limit.rlim_max,
               std::max<rlim_t>(limit.rlim_cur, 2 * rlim_t(ranks) + 1024));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status Link::listen(bool onlyThisHost, int ranks, const LinkToken &secret,
                    std::string &address) {
  token = secret;
  worldSize = ranks;
  allowDescriptors(ranks);
  listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0)
    return makeError("cannot make a socket");
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(onlyThisHost ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof(where);
  if (::bind(listener, reinterpret_cast<sockaddr *>(&where), size) != 0 ||
      ::listen(listener, SOMAXCONN) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr *>(&where), &size) != 0)
    return makeError("cannot listen on a port");
  std::string hosts = onlyThisHost ? " 127.0.0.1" : listAddresses();
  if (hosts.empty())
    return Status::error("watchdog: this host has no IPv4 address that others "
                         "can reach; --watchdog 0 does without");
  address = std::to_string(ntohs(where.sin_port)) + hosts;
  return {};
}

static bool waitFor(int fd, short events, int milliseconds) {
  pollfd poll = {fd, events, 0};
  int ready;
  while ((ready = ::poll(&poll, 1, milliseconds)) < 0 && errno == EINTR)
    continue;
  return ready > 0;
}

Status Link::tryConnect(const std::string &host, int port) {
  constexpr int patience = 5000;
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return makeError("cannot make a socket");
  auto fail = [&](const std::string &what) {
    Status status = makeError(what);
    ::close(fd);
    return status;
  };
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_port = htons(uint16_t(port));
  ::inet_pton(AF_INET, host.c_str(), &where.sin_addr);
  if (::connect(fd, reinterpret_cast<sockaddr *>(&where), sizeof(where)) != 0) {
    int error = errno;
    socklen_t size = sizeof(error);
    if (error == EINPROGRESS) {
      if (waitFor(fd, POLLOUT, patience))
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      else
        error = ETIMEDOUT;
    }
    errno = error;
    if (error != 0)
      return fail("cannot reach rank 0");
  }
  int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  Peer peer(fd);
  write(peer, {LinkFrame::Hello, ownRank, token, {}, 0});
  // Another host may have this address, and something else this port.
  LinkFrame answer;
  errno = ETIMEDOUT;
  if (!waitFor(fd, POLLIN, patience) ||
      ::recv(fd, &answer, sizeof(answer), MSG_WAITALL) !=
          ssize_t(sizeof(answer)) ||
      answer.kind != LinkFrame::Hello || answer.token != token)
    return fail("cannot reach rank 0");
  peer.rank = 0;
  peers.push_back(std::move(peer));
  return {};
}

Status Link::connect(const std::string &address, int rank,
                     const LinkToken &secret) {
  token = secret;
  ownRank = rank;
  worldSize = 1; // the only rank that it hears is 0
  std::istringstream words(address);
  int port = 0;
  words >> port;
  Status status = Status::error("watchdog: rank 0 named no address");
  for (std::string host; words >> host;)
    if (status = tryConnect(host, port); status.ok())
      return {};
  return Status::error(status.message() + " at " + address +
                       "; --watchdog 0 does without");
}

void Link::write(Peer &peer, const LinkFrame &frame) {
  auto push = [&] {
    ssize_t sent = ::send(peer.fd, peer.unsent.data(), peer.unsent.size(),
                          MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
      peer.unsent.erase(0, size_t(sent));
  };
  // The rest of a frame goes before the next one.
  if (!peer.unsent.empty())
    push();
  if (!peer.unsent.empty())
    return;
  peer.unsent.assign(reinterpret_cast<const char *>(&frame), sizeof(frame));
  push();
  if (peer.unsent.size() == sizeof(frame))
    peer.unsent.clear(); // nothing of it is on its way
}

void Link::send(LinkFrame::Kind kind, const PositionRecord &position,
                uint64_t busyNs) {
  for (Peer &peer : peers)
    if (peer.rank >= 0)
      write(peer, {kind, ownRank, token, position, busyNs});
}

size_t Link::countStrangers() const {
  return size_t(std::count_if(peers.begin(), peers.end(),
                              [](const Peer &peer) { return peer.rank < 0; }));
}

void Link::accept() {
  for (size_t i = countStrangers(); i < maxStrangers; ++i) {
    int fd =
        ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
      return;
    int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    peers.emplace_back(fd);
  }
}

void Link::close(Peer &peer, std::vector<LinkEvent> &events) {
  ::close(peer.fd);
  peer.fd = -1;
  if (peer.rank < 0 || peer.hasLeft)
    return;
  LinkEvent event;
  event.frame.rank = peer.rank;
  event.isLost = true;
  events.push_back(event);
}

void Link::take(Peer &peer, const LinkFrame &frame,
                std::vector<LinkEvent> &events) {
  if (peer.rank < 0) {
    bool isOurs = frame.kind == LinkFrame::Hello && frame.token == token &&
                  frame.rank >= 0 && frame.rank < worldSize;
    if (!isOurs)
      return close(peer, events);
    peer.rank = frame.rank;
    events.push_back({frame, false});
    return write(peer, {LinkFrame::Hello, ownRank, token, {}, 0});
  }
  if (frame.token != token || frame.rank != peer.rank)
    return close(peer, events);
  peer.hasLeft |=
      frame.kind == LinkFrame::Goodbye || frame.kind == LinkFrame::End;
  events.push_back({frame, false});
}

void Link::read(Peer &peer, std::vector<LinkEvent> &events) {
  char buffer[4096];
  while (peer.fd >= 0) {
    ssize_t count = ::recv(peer.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return;
    if (count <= 0)
      return close(peer, events);
    peer.received.append(buffer, size_t(count));
    size_t used = 0;
    for (; peer.received.size() - used >= sizeof(LinkFrame) && peer.fd >= 0;
         used += sizeof(LinkFrame)) {
      LinkFrame frame;
      std::memcpy(&frame, peer.received.data() + used, sizeof(frame));
      take(peer, frame, events);
    }
    peer.received.erase(0, used);
  }
}

void Link::wait(int milliseconds, int wakeFd) {
  std::vector<pollfd> polls{{wakeFd, POLLIN, 0}};
  if (listener >= 0 && countStrangers() < maxStrangers)
    polls.push_back({listener, POLLIN, 0});
  for (const Peer &peer : peers)
    polls.push_back({peer.fd, POLLIN, 0});
  ::poll(polls.data(), polls.size(), milliseconds);
}

std::vector<LinkEvent> Link::receive() {
  std::vector<LinkEvent> events;
  auto oldest = std::chrono::steady_clock::now() - strangersTime;
  if (listener >= 0)
    accept();
  for (Peer &peer : peers) {
    read(peer, events);
    if (peer.fd >= 0 && peer.rank < 0 && peer.since < oldest)
      close(peer, events);
  }
  std::erase_if(peers, [](const Peer &peer) { return peer.fd < 0; });
  return events;
}
