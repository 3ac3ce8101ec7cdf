//===- Socket.h - TCP sockets ---------------------------------------------===//
//
// Of IPv4 and IPv6 alike. All sockets here are not inherited and do not block:
// who has to wait says for how long, with waitFor().
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_SOCKET_H
#define CLEAVE_RUNTIME_BASE_SOCKET_H

#include "runtime/base/Status.h"
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// A descriptor that is closed with its owner.
class Socket {
public:
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  ~Socket() { close(); }
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }

  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  void close();

private:
  int fd = -1;
};

/// A host and a port, as numbers.
class SocketAddress {
public:
  /// Of IPv4 or IPv6.
  explicit SocketAddress(const sockaddr &address);
  /// All addresses of a host: its name, or a number like 10.0.0.1 or fe80::1.
  /// The error has the system's reason only.
  static Status resolve(const std::string &host, int port,
                        std::vector<SocketAddress> &addresses);
  /// Of the socket's own end, and of the other one.
  static SocketAddress getOwn(const Socket &socket);
  static SocketAddress getPeer(const Socket &socket);

  int getPort() const;
  /// Without the port.
  std::string getHost() const;
  bool isLoopback() const;
  /// For a person: `10.0.0.1 port 29500`.
  std::string describe() const;

private:
  SocketAddress() = default;
  friend Status listenAt(const SocketAddress &address, Socket &socket);
  friend Status connectTo(const SocketAddress &address, int milliseconds,
                          Socket &socket);
  void simplify();

  sockaddr_storage storage = {};
  socklen_t size = 0;
};

/// Takes connections at that address; port 0 is one that is free.
Status listenAt(const SocketAddress &address, Socket &socket);
/// Likewise at the address of this machine that only itself can reach.
Status listenOnLoopback(Socket &socket);
/// Likewise at all addresses of this machine.
Status listenEverywhere(int port, Socket &socket);

/// A connection that somebody waits for, if there is one: else none, and not an
/// error.
Socket acceptFrom(const Socket &listener);

/// Small messages are sent at once.
Status connectTo(const SocketAddress &address, int milliseconds,
                 Socket &socket);

/// Whether the socket is ready for `events` (of poll) within that time.
bool waitFor(const Socket &socket, short events, int milliseconds);

/// Lets this process have so many sockets beside what it has, as far as the
/// system allows.
void allowSockets(int count);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_SOCKET_H
