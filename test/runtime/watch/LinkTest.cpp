//===- LinkTest.cpp - Watchdogs of several processes ----------------------===//
#include "runtime/watch/Link.h"
#include "runtime/watch/SharedPositions.h"
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

#define ASSERT_OK(expression)                                                  \
  do {                                                                         \
    ::cleave::runtime::Status status_ = (expression);                          \
    ASSERT_TRUE(status_.ok()) << status_.message();                            \
  } while (false)

/// A hub that answers while the others connect.
class Hub {
public:
  Hub() {
    EXPECT_TRUE(makeToken(token).ok());
    Status status = link.listen(true, 4, token, address);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Status connect(Link &other, int rank, const LinkToken &shown) {
    std::atomic<bool> done{false};
    Status status;
    std::thread thread([&] {
      status = other.connect(address, rank, shown);
      done = true;
    });
    while (!done)
      collect(10);
    thread.join();
    return status;
  }
  /// Adds what is heard within a time.
  void collect(int milliseconds) {
    link.wait(milliseconds, -1);
    for (const LinkEvent &event : link.receive())
      events.push_back(event);
  }
  /// Until there are so many events.
  bool expectEvents(size_t count) {
    for (int i = 0; i < 200 && events.size() < count; ++i)
      collect(10);
    return events.size() == count;
  }
  int getPort() const { return std::stoi(address); }

  Link link;
  LinkToken token;
  std::string address;
  std::vector<LinkEvent> events;
};

TEST(Link, CarriesPositionsBothWays) {
  Hub hub;
  Link one;
  ASSERT_OK(hub.connect(one, 1, hub.token));
  RankPosition position;
  position.beginStep(7);
  position.setInstruction(2, 5);
  one.send(LinkFrame::Report, position.read(), 123);
  ASSERT_TRUE(hub.expectEvents(2)); // the Hello counts
  EXPECT_EQ(hub.events[1].frame.rank, 1);
  EXPECT_EQ(hub.events[1].frame.position, position.read());
  EXPECT_EQ(hub.events[1].frame.busyNs, 123u);
  hub.link.send(LinkFrame::Report, position.read(), 5);
  one.wait(2000, -1);
  std::vector<LinkEvent> heard = one.receive();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].frame.rank, 0);
  EXPECT_EQ(heard[0].frame.position, position.read());
}

TEST(Link, TellsAnEndFromAGoodbye) {
  Hub hub;
  {
    Link one, two;
    ASSERT_OK(hub.connect(one, 1, hub.token));
    ASSERT_OK(hub.connect(two, 2, hub.token));
    two.send(LinkFrame::Goodbye, {}, 0);
  }
  ASSERT_TRUE(hub.expectEvents(4));
  int lost = 0;
  for (const LinkEvent &event : hub.events)
    if (event.isLost) {
      EXPECT_EQ(event.frame.rank, 1);
      ++lost;
    }
  EXPECT_EQ(lost, 1);
}

TEST(Link, HearsOnlyWhoKnowsTheToken) {
  Hub hub;
  LinkToken wrong = hub.token;
  wrong[3] ^= 1;
  Link stranger;
  Status status = hub.connect(stranger, 1, wrong);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cannot reach rank 0"), std::string::npos)
      << status.message();
  EXPECT_TRUE(hub.events.empty());
  // Nor a rank that there is not.
  Link beyond;
  EXPECT_FALSE(hub.connect(beyond, 4, hub.token).ok());
  // Nor who says anything else; a real rank gets through beside hundreds.
  std::vector<int> sockets;
  for (int i = 0; i < 300; ++i) {
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_port = htons(uint16_t(hub.getPort()));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(
        ::connect(fd, reinterpret_cast<sockaddr *>(&where), sizeof(where)), 0);
    std::string noise(i % 2 ? 64 : 13, char(i));
    ASSERT_EQ(::write(fd, noise.data(), noise.size()), ssize_t(noise.size()));
    if (i % 4 == 0)
      sockets.push_back(fd);
    else
      ::close(fd);
    hub.collect(0);
  }
  for (int fd : sockets)
    ::close(fd);
  Link one;
  ASSERT_OK(hub.connect(one, 1, hub.token));
  ASSERT_TRUE(hub.expectEvents(1));
  EXPECT_EQ(hub.events[0].frame.rank, 1);
}

TEST(Link, DoesNotWaitForAReaderThatIsStopped) {
  Hub hub;
  Link one;
  ASSERT_OK(hub.connect(one, 1, hub.token));
  PositionRecord position;
  for (int64_t i = 0; i < 200'000; ++i) { // 12.8 MB that nobody reads
    position.step = i;
    one.send(LinkFrame::Report, position, 0);
  }
  // What arrives is whole frames in order.
  int64_t last = -1;
  hub.collect(100);
  for (int i = 0; i < 100; ++i)
    hub.collect(1);
  for (const LinkEvent &event : hub.events) {
    EXPECT_FALSE(event.isLost);
    EXPECT_GE(event.frame.position.step, last);
    last = event.frame.position.step;
  }
  EXPECT_GT(last, 1000);
  size_t before = hub.events.size();
  one.send(LinkFrame::Report, position, 77);
  one.send(LinkFrame::Report, position, 78);
  for (int i = 0; i < 200 && hub.events.back().frame.busyNs != 78; ++i)
    hub.collect(10);
  EXPECT_GT(hub.events.size(), before);
  EXPECT_EQ(hub.events.back().frame.busyNs, 78u);
}

TEST(SharedPositions, AreTheSameMemory) {
  SharedPositions mine, theirs;
  std::string path;
  ASSERT_OK(mine.create(3, path));
  ASSERT_OK(theirs.open(path, 3));
  EXPECT_EQ(mine[2].read(), PositionRecord());
  theirs[2].beginStep(5);
  theirs[2].setInstruction(1, 4);
  EXPECT_EQ(mine[2].read().step, 5);
  EXPECT_EQ(mine[2].read().getInstruction(), 4u);
  EXPECT_TRUE(theirs.claimVoice());
  EXPECT_FALSE(mine.claimVoice());
  SharedPositions others;
  EXPECT_FALSE(others.open(path, 300).ok());
  EXPECT_FALSE(others.open("/nowhere", 3).ok());
}

} // namespace
