//===- Link.cpp -----------------------------------------------------------===//
#include "runtime/watch/Link.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sstream>
#include <sys/random.h>
#include <sys/socket.h>

using namespace cleave::runtime;

/// Connections that have not shown the token yet, at most, and how long each
/// may take: who has none cannot use up the descriptors.
static constexpr size_t maxStrangers = 64;
static constexpr std::chrono::seconds strangersTime{5};

Status cleave::runtime::makeToken(LinkToken &token) {
  LinkToken result;
  if (::getrandom(result.data(), result.size(), 0) != ssize_t(result.size()))
    return Status::error("watchdog: cannot get random bytes: " +
                         std::string(std::strerror(errno)));
  token = result;
  return {};
}

/// Addresses of this host that others may reach: not the loopback's, and none
/// that has a meaning on one link only.
static std::string listAddresses() {
  std::string text;
  ifaddrs *all = nullptr;
  if (::getifaddrs(&all) != 0)
    return text;
  for (ifaddrs *entry = all; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) ||
        (entry->ifa_flags & IFF_LOOPBACK))
      continue;
    int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
      continue;
    SocketAddress address(*entry->ifa_addr);
    if (std::string host = address.getHost(); host.find('%') == host.npos)
      text += " " + host;
  }
  ::freeifaddrs(all);
  return text;
}

Status Link::listen(bool onlyThisHost, int ranks, const LinkToken &secret,
                    std::string &address) {
  token = secret;
  worldSize = ranks;
  allowSockets(ranks);
  Status status =
      onlyThisHost ? listenOnLoopback(listener) : listenEverywhere(0, listener);
  if (!status.ok())
    return Status::error("watchdog: cannot listen on a port: " +
                         status.message());
  SocketAddress own = SocketAddress::getOwn(listener);
  std::string hosts = onlyThisHost ? " " + own.getHost() : listAddresses();
  if (hosts.empty())
    return Status::error("watchdog: this host has no address that others can "
                         "reach; --watchdog 0 does without");
  address = std::to_string(own.getPort()) + hosts;
  return {};
}

Status Link::tryConnect(const std::string &host, int port) {
  constexpr int patience = 5000;
  std::vector<SocketAddress> addresses;
  CLEAVE_RETURN_IF_ERROR(SocketAddress::resolve(host, port, addresses));
  Socket socket;
  CLEAVE_RETURN_IF_ERROR(connectTo(addresses.front(), patience, socket));
  Peer peer(std::move(socket));
  write(peer, {LinkFrame::Hello, ownRank, token, {}, 0});
  // Another host may have this address, and something else this port.
  LinkFrame answer;
  if (!waitFor(peer.socket, POLLIN, patience) ||
      ::recv(peer.socket.get(), &answer, sizeof(answer), MSG_WAITALL) !=
          ssize_t(sizeof(answer)) ||
      answer.kind != LinkFrame::Hello || answer.token != token)
    return Status::error("no answer");
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
  Status status = Status::error("it has named none");
  for (std::string host; words >> host;)
    if (status = tryConnect(host, port); status.ok())
      return {};
  return Status::error("watchdog: cannot reach rank 0 at port and addresses " +
                       address + " (" + status.message() +
                       "); --watchdog 0 does without");
}

void Link::write(Peer &peer, const LinkFrame &frame) {
  auto push = [&] {
    ssize_t sent = ::send(peer.socket.get(), peer.unsent.data(),
                          peer.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
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
    Socket socket = acceptFrom(listener);
    if (!socket)
      return;
    peers.emplace_back(std::move(socket));
  }
}

void Link::close(Peer &peer, std::vector<LinkEvent> &events) {
  peer.socket.close();
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
  while (peer.socket) {
    ssize_t count =
        ::recv(peer.socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return;
    if (count <= 0)
      return close(peer, events);
    peer.received.append(buffer, size_t(count));
    size_t used = 0;
    for (; peer.received.size() - used >= sizeof(LinkFrame) && peer.socket;
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
  if (listener && countStrangers() < maxStrangers)
    polls.push_back({listener.get(), POLLIN, 0});
  for (const Peer &peer : peers)
    polls.push_back({peer.socket.get(), POLLIN, 0});
  ::poll(polls.data(), polls.size(), milliseconds);
}

std::vector<LinkEvent> Link::receive() {
  std::vector<LinkEvent> events;
  auto oldest = std::chrono::steady_clock::now() - strangersTime;
  if (listener)
    accept();
  for (Peer &peer : peers) {
    read(peer, events);
    if (peer.socket && peer.rank < 0 && peer.since < oldest)
      close(peer, events);
  }
  std::erase_if(peers, [](const Peer &peer) { return !peer.socket; });
  return events;
}
