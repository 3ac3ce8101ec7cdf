//===- Join.cpp -----------------------------------------------------------===//
#include "runtime/comm/tcp/Join.h"
#include "runtime/base/RankNames.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sstream>
#include <sys/random.h>
#include <thread>

using namespace cleave::runtime;
using namespace cleave::runtime::tcp;

namespace {

using Clock = Connections::Clock;
using Token = std::array<char, 16>;

/// The channel of what rank 0 tells the others. Programs have none below 0.
constexpr int joinChannel = -1;
/// Between two looks at whether another rank has failed, or two attempts.
constexpr std::chrono::milliseconds lookEvery{100};
/// For one attempt to connect.
constexpr int connectMs = 5000;
/// Connections that have not shown a greeting yet, at most, and how long each
/// may take: who has none cannot use up the descriptors.
constexpr size_t maxStrangers = 64;
constexpr std::chrono::seconds strangersTime{5};
/// A rank waits that much longer than rank 0, which knows who is missing.
constexpr std::chrono::seconds rankZerosTurn{10};

/// What a process says first on a connection that it has made.
struct Greeting {
  std::array<char, 8> magic = {'c', 'l', 'e', 'a', 'v', 'e', 'T', '1'};
  int32_t rank = 0, size = 0;
  int32_t port = 0; ///< where it listens itself
  Token token = {}; ///< zeros, where it has not been told yet
};
static_assert(sizeof(Greeting) == 36);

class Joiner {
public:
  Joiner(const Place &place, Connections &connections)
      : place(place), connections(connections),
        deadline(Clock::now() + std::chrono::seconds(place.seconds)) {}

  Status joinFirst();
  Status joinOther();

private:
  bool isHere() const;
  Status listen(const std::string &host, int port);
  Status connectToFirst(Socket &first);
  Status connectToOthers(const std::string &welcome,
                         const std::string &firstsHost);
  void greet(const Socket &socket);
  template <typename Take>
  Status receive(int from, Take &&take);

  const Place &place;
  Connections &connections;
  Clock::time_point deadline;
  Socket listener;
  Token token = {};
};

/// A connection that has not shown its greeting.
struct Stranger {
  Socket socket;
  Greeting greeting;
  size_t received = 0;
  Clock::time_point since = Clock::now();

  bool isWhole() const { return received == sizeof(greeting); }
};

} // namespace

/// Reads what is there; closes what has ended.
static void readGreeting(Stranger &stranger) {
  ssize_t got =
      ::recv(stranger.socket.get(),
             reinterpret_cast<char *>(&stranger.greeting) + stranger.received,
             sizeof(Greeting) - stranger.received, 0);
  if (got > 0)
    stranger.received += size_t(got);
  else if (got == 0 || (errno != EAGAIN && errno != EINTR))
    stranger.socket.close();
}

/// Whether all ranks are meant to be on this host, by the address that they
/// were given: then nobody from elsewhere can connect.
bool Joiner::isHere() const {
  std::vector<SocketAddress> addresses;
  return SocketAddress::resolve(place.host, place.port, addresses).ok() &&
         addresses.front().isLoopback() &&
         (place.host == "localhost" ||
          place.host == addresses.front().getHost());
}

Status Joiner::listen(const std::string &host, int port) {
  if (!isHere())
    return listenEverywhere(port, listener);
  std::vector<SocketAddress> addresses;
  CLEAVE_RETURN_IF_ERROR(SocketAddress::resolve(host, port, addresses));
  Status status;
  for (const SocketAddress &address : addresses)
    if (status = listenAt(address, listener); status.ok())
      break;
  return status;
}

/// Takes the connections of all ranks from `from` on: `take(greeting, socket)`
/// of each that says it is of this run.
template <typename Take>
Status Joiner::receive(int from, Take &&take) {
  std::vector<Stranger> strangers;
  auto getMissing = [&] {
    std::vector<int> missing;
    for (int rank = from; rank < place.size; ++rank)
      if (!connections.has(rank))
        missing.push_back(rank);
    return missing;
  };
  while (!getMissing().empty()) {
    if (connections.isAborted())
      return connections.getFailure();
    if (Clock::now() >= deadline)
      return Status::error(
          "has waited " + std::to_string(place.seconds) + " s for " +
          nameRanks(getMissing()) + " of " + std::to_string(place.size) +
          " at " + place.describe() +
          ": start every rank with the same MASTER_ADDR, MASTER_PORT and "
          "WORLD_SIZE, where it reaches that address; CLEAVE_JOIN_SECONDS is "
          "how long to wait");
    std::vector<pollfd> polls{{listener.get(), POLLIN, 0}};
    for (const Stranger &stranger : strangers)
      polls.push_back({stranger.socket.get(), POLLIN, 0});
    ::poll(polls.data(), polls.size(), int(lookEvery.count()));
    while (strangers.size() < maxStrangers) {
      Stranger stranger;
      stranger.socket = acceptFrom(listener);
      if (!stranger.socket)
        break;
      strangers.push_back(std::move(stranger));
    }
    for (Stranger &stranger : strangers) {
      readGreeting(stranger);
      const Greeting &greeting = stranger.greeting;
      if (stranger.isWhole()) {
        if (greeting.magic == Greeting().magic && greeting.token == token &&
            greeting.rank >= 0 && greeting.rank < greeting.size)
          CLEAVE_RETURN_IF_ERROR(take(greeting, std::move(stranger.socket)));
        stranger.socket.close();
      } else if (Clock::now() - stranger.since > strangersTime) {
        stranger.socket.close();
      }
    }
    std::erase_if(strangers, [](const Stranger &each) { return !each.socket; });
  }
  return {};
}

Status Joiner::joinFirst() {
  std::vector<SocketAddress> addresses;
  if (Status status = SocketAddress::resolve(place.host, place.port, addresses);
      !status.ok())
    return Status::error("MASTER_ADDR is \"" + place.host +
                         "\", which is no host that this one knows (" +
                         status.message() +
                         "): set it to the name or address of rank 0's host");
  if (Status status = listen(place.host, place.port); !status.ok())
    return Status::error(
        "cannot listen at " + place.describe() + " (" + status.message() +
        "): rank 0 runs on the host MASTER_ADDR; set MASTER_PORT, on all "
        "ranks, to a port that nothing else has there");
  std::vector<std::string> where(size_t(place.size));
  CLEAVE_RETURN_IF_ERROR(
      receive(1, [&](const Greeting &greeting, Socket socket) {
        SocketAddress address = SocketAddress::getPeer(socket);
        if (greeting.size != place.size) {
          if (greeting.rank < place.size && !connections.has(greeting.rank))
            connections.add(greeting.rank, std::move(socket)); // to hear of it
          return Status::error("WORLD_SIZE is " + std::to_string(place.size) +
                               " here, but " + std::to_string(greeting.size) +
                               " on rank " + std::to_string(greeting.rank));
        }
        std::string &entry = where[size_t(greeting.rank)];
        if (greeting.rank == 0 || !entry.empty())
          return Status::error("RANK is " + std::to_string(greeting.rank) +
                               " for two processes; one of them is at " +
                               address.getHost());
        entry = (address.isLoopback() ? "-" : address.getHost()) + " " +
                std::to_string(greeting.port) + "\n";
        connections.add(greeting.rank, std::move(socket));
        return Status();
      }));
  if (::getrandom(token.data(), token.size(), 0) != ssize_t(token.size()))
    return Status::error("cannot get random bytes: " +
                         std::string(std::strerror(errno)));
  std::string welcome(token.begin(), token.end());
  for (const std::string &entry : where)
    welcome += entry;
  for (int rank = 1; rank < place.size; ++rank)
    CLEAVE_RETURN_IF_ERROR(
        connections.send(rank, joinChannel, welcome.data(), welcome.size()));
  return {};
}

/// Rank 0 may be later than this one, and so may the name of its host.
Status Joiner::connectToFirst(Socket &first) {
  while (true) {
    std::vector<SocketAddress> addresses;
    Status status = SocketAddress::resolve(place.host, place.port, addresses);
    for (const SocketAddress &address : addresses)
      if (status = connectTo(address, connectMs, first); status.ok())
        return {};
    if (Clock::now() >= deadline)
      return Status::error(
          "has not reached rank 0 at " + place.describe() + " in " +
          std::to_string(place.seconds) + " s (" + status.message() +
          "): MASTER_ADDR is the host of rank 0, which is started with the "
          "same MASTER_PORT; CLEAVE_JOIN_SECONDS is how long to wait");
    std::this_thread::sleep_for(lookEvery);
  }
}

/// A new connection takes as little at once.
void Joiner::greet(const Socket &socket) {
  Greeting greeting;
  greeting.rank = place.rank;
  greeting.size = place.size;
  greeting.port = SocketAddress::getOwn(listener).getPort();
  greeting.token = token;
  ::send(socket.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL);
}

Status Joiner::connectToOthers(const std::string &welcome,
                               const std::string &firstsHost) {
  std::istringstream lines(welcome);
  for (int rank = 1; rank < place.rank; ++rank) {
    std::string host;
    int port = 0;
    lines >> host >> port;
    if (host == "-")
      host = firstsHost;
    std::vector<SocketAddress> addresses;
    Socket socket;
    Status status = SocketAddress::resolve(host, port, addresses);
    if (status.ok())
      status = connectTo(addresses.front(), connectMs, socket);
    if (!status.ok())
      return Status::error("cannot reach rank " + std::to_string(rank) +
                           " at " + host + " port " + std::to_string(port) +
                           " (" + status.message() +
                           "): all ranks have to reach each other, by any "
                           "port; a firewall or an address of its host that "
                           "is not known elsewhere may be in between");
    greet(socket);
    connections.add(rank, std::move(socket));
  }
  return {};
}

Status Joiner::joinOther() {
  Socket first;
  CLEAVE_RETURN_IF_ERROR(connectToFirst(first));
  std::string firstsHost = SocketAddress::getPeer(first).getHost();
  if (Status status = listen(SocketAddress::getOwn(first).getHost(), 0);
      !status.ok())
    return Status::error("cannot listen on a port: " + status.message());
  greet(first);
  connections.add(0, std::move(first));
  Mailbox::Message answer;
  Status status =
      connections.receive(0, joinChannel, answer, deadline + rankZerosTurn);
  if (status.getCode() == StatusCode::Aborted)
    return status;
  if (!status.ok() || answer.size() < token.size())
    return Status::error(
        "has connected to " + place.describe() +
        ", where rank 0 has not answered" +
        (status.ok() ? "" : " (" + status.message() + ")") +
        ": something else may have that port, or another process this RANK");
  auto rest = answer.begin() + ptrdiff_t(token.size());
  std::copy(answer.begin(), rest, token.begin());
  CLEAVE_RETURN_IF_ERROR(
      connectToOthers(std::string(rest, answer.end()), firstsHost));
  return receive(place.rank + 1, [&](const Greeting &greeting, Socket socket) {
    if (greeting.rank > place.rank && greeting.rank < place.size &&
        !connections.has(greeting.rank))
      connections.add(greeting.rank, std::move(socket));
    return Status();
  });
}

Status tcp::join(const Place &place, Connections &connections) {
  CLEAVE_RETURN_IF_ERROR(connections.start());
  Joiner joiner(place, connections);
  Status status = place.rank == 0 ? joiner.joinFirst() : joiner.joinOther();
  if (status.ok())
    return {};
  Status said = connections.abort(status);
  connections.close();
  return said.ok() ? Status::aborted(status.message()) : said;
}
