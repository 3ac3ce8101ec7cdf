//===- Socket.cpp ---------------------------------------------------------===//
#include "runtime/base/Socket.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace cleave::runtime;

static Status makeError() { return Status::error(std::strerror(errno)); }

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

SocketAddress::SocketAddress(const sockaddr &address)
    : size(address.sa_family == AF_INET ? sizeof(sockaddr_in)
                                        : sizeof(sockaddr_in6)) {
  std::memcpy(&storage, &address, size);
}

Status SocketAddress::resolve(const std::string &host, int port,
                              std::vector<SocketAddress> &addresses) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  int error =
      ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == EAI_SYSTEM)
    return makeError();
  if (error != 0)
    return Status::error(::gai_strerror(error));
  addresses.clear();
  for (addrinfo *each = found; each; each = each->ai_next)
    if (each->ai_family == AF_INET || each->ai_family == AF_INET6)
      addresses.push_back(SocketAddress(*each->ai_addr));
  ::freeaddrinfo(found);
  return addresses.empty() ? Status::error("it has no address") : Status();
}

/// An IPv4 address in the form of IPv6's, as a socket of both has it, is one of
/// IPv4.
void SocketAddress::simplify() {
  sockaddr_in6 mapped;
  std::memcpy(&mapped, &storage, sizeof(mapped));
  if (mapped.sin6_family != AF_INET6 ||
      !IN6_IS_ADDR_V4MAPPED(&mapped.sin6_addr))
    return;
  sockaddr_in plain = {};
  plain.sin_family = AF_INET;
  plain.sin_port = mapped.sin6_port;
  std::memcpy(&plain.sin_addr, &mapped.sin6_addr.s6_addr[12], 4);
  storage = {};
  size = sizeof(plain);
  std::memcpy(&storage, &plain, sizeof(plain));
}

SocketAddress SocketAddress::getOwn(const Socket &socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address.storage),
                &address.size);
  address.simplify();
  return address;
}

SocketAddress SocketAddress::getPeer(const Socket &socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  ::getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address.storage),
                &address.size);
  address.simplify();
  return address;
}

int SocketAddress::getPort() const {
  // At the same place in both.
  sockaddr_in address;
  std::memcpy(&address, &storage, sizeof(address));
  return ntohs(address.sin_port);
}

std::string SocketAddress::getHost() const {
  char host[NI_MAXHOST] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr *>(&storage), size, host,
                    sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  return host;
}

bool SocketAddress::isLoopback() const {
  if (storage.ss_family == AF_INET) {
    sockaddr_in address;
    std::memcpy(&address, &storage, sizeof(address));
    return ntohl(address.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  sockaddr_in6 address;
  std::memcpy(&address, &storage, sizeof(address));
  return storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

std::string SocketAddress::describe() const {
  return getHost() + " port " + std::to_string(getPort());
}

static Socket makeSocket(int family) {
  Socket socket(
      ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int one = 1, zero = 0;
  if (!socket)
    return socket;
  // A run that ended a moment ago does not keep the port.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (family == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
  return socket;
}

/// A message is on its way when it is sent, and a host that is gone is found in
/// two minutes.
static void configure(const Socket &socket) {
  auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

Status cleave::runtime::listenAt(const SocketAddress &address, Socket &socket) {
  Socket made = makeSocket(address.storage.ss_family);
  if (!made ||
      ::bind(made.get(), reinterpret_cast<const sockaddr *>(&address.storage),
             address.size) != 0 ||
      ::listen(made.get(), SOMAXCONN) != 0)
    return makeError();
  socket = std::move(made);
  return {};
}

/// At the first of these hosts where that is possible: a system may have no
/// IPv6, or no IPv4.
static Status listenAtFirst(std::initializer_list<const char *> hosts, int port,
                            Socket &socket) {
  Status status;
  for (const char *host : hosts) {
    std::vector<SocketAddress> addresses;
    status = SocketAddress::resolve(host, port, addresses);
    if (!status.ok())
      continue;
    status = listenAt(addresses.front(), socket);
    if (status.ok() || errno == EADDRINUSE)
      break;
  }
  return status;
}

Status cleave::runtime::listenOnLoopback(Socket &socket) {
  return listenAtFirst({"127.0.0.1", "::1"}, 0, socket);
}

Status cleave::runtime::listenEverywhere(int port, Socket &socket) {
  // The first has both kinds.
  return listenAtFirst({"::", "0.0.0.0"}, port, socket);
}

Socket cleave::runtime::acceptFrom(const Socket &listener) {
  Socket socket(::accept4(listener.get(), nullptr, nullptr,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket)
    configure(socket);
  return socket;
}

Status cleave::runtime::connectTo(const SocketAddress &address,
                                  int milliseconds, Socket &socket) {
  Socket made = makeSocket(address.storage.ss_family);
  if (!made)
    return makeError();
  if (::connect(made.get(),
                reinterpret_cast<const sockaddr *>(&address.storage),
                address.size) != 0) {
    int error = errno;
    socklen_t size = sizeof(error);
    if (error == EINPROGRESS) {
      if (waitFor(made, POLLOUT, milliseconds))
        ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      else
        error = ETIMEDOUT;
    }
    errno = error;
    if (error != 0)
      return makeError();
  }
  // Where nobody listens at a port that the system also gives to who connects,
  // a socket may get it, and reach itself.
  if (SocketAddress::getOwn(made).describe() ==
      SocketAddress::getPeer(made).describe())
    return Status::error(std::strerror(ECONNREFUSED));
  configure(made);
  socket = std::move(made);
  return {};
}

bool cleave::runtime::waitFor(const Socket &socket, short events,
                              int milliseconds) {
  pollfd poll = {socket.get(), events, 0};
  int ready;
  while ((ready = ::poll(&poll, 1, milliseconds)) < 0 && errno == EINTR)
    continue;
  return ready > 0;
}

void cleave::runtime::allowSockets(int count) {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  constexpr rlim_t other = 1024; // files, libraries, pipes
  limit.rlim_cur =
      std::min(limit.rlim_max, std::max(limit.rlim_cur, rlim_t(count) + other));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}
