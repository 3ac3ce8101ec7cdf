//===- TcpTest.cpp - Ranks as processes with torchrun's variables ---------===//
#include "runtime/base/Socket.h"
#include "test/runtime/comm/CountWords.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

using Variables = std::map<std::string, std::string>;

struct Result {
  std::vector<int> exitCodes; ///< 128 and the signal's number of one killed
  std::string output;         ///< of all, mixed

  int countFailed() const {
    return int(exitCodes.size() -
               std::count(exitCodes.begin(), exitCodes.end(), 0));
  }
};

/// A port that was free a moment ago.
int findPort() {
  Socket socket;
  EXPECT_TRUE(listenOnLoopback(socket).ok());
  return SocketAddress::getOwn(socket).getPort();
}

/// Starts a rank for each entry, which has its variables beside those of all;
/// one without an entry is not there. The system ends what hangs.
Result start(const std::vector<Variables> &ranks, const Variables &all,
             const std::string &arguments) {
  Result result;
  int pipe[2];
  EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  std::vector<pid_t> processes;
  for (const Variables &own : ranks) {
    std::string command = "env";
    for (const Variables *each : {&all, &own})
      for (const auto &[name, value] : *each)
        command += " " + name + "='" + value + "'";
    command += " timeout 100 " CLEAVE_PROCESS_RANKS " " + arguments;
    pid_t process = ::fork();
    if (process == 0) {
      ::dup2(pipe[1], STDOUT_FILENO);
      ::dup2(pipe[1], STDERR_FILENO);
      ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
      ::_exit(127);
    }
    processes.push_back(process);
  }
  ::close(pipe[1]);
  char buffer[4096];
  for (ssize_t got; (got = ::read(pipe[0], buffer, sizeof(buffer))) > 0;)
    result.output.append(buffer, size_t(got));
  ::close(pipe[0]);
  for (pid_t process : processes) {
    int status = 0;
    ::waitpid(process, &status, 0);
    result.exitCodes.push_back(WIFEXITED(status) ? WEXITSTATUS(status)
                                                 : 128 + WTERMSIG(status));
  }
  return result;
}

/// What all ranks of a run have in common.
Variables makeRun(int size, const std::string &host = "127.0.0.1") {
  return {{"WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", host},
          {"MASTER_PORT", std::to_string(findPort())}};
}

/// Where they meet.
SocketAddress getAddress(const Variables &all) {
  std::vector<SocketAddress> addresses;
  EXPECT_TRUE(SocketAddress::resolve(all.at("MASTER_ADDR"),
                                     std::stoi(all.at("MASTER_PORT")),
                                     addresses)
                  .ok());
  return addresses.at(0);
}

Variables makeRank(int rank) { return {{"RANK", std::to_string(rank)}}; }

std::vector<Variables> makeRanks(int size) {
  std::vector<Variables> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(makeRank(rank));
  return ranks;
}

/// A whole world, whose program is for as many ranks.
Result run(int size, const std::string &mode,
           const std::string &host = "127.0.0.1") {
  return start(makeRanks(size), makeRun(size, host),
               "tcp " + std::to_string(size) + " " + mode);
}

void expectSuccess(const Result &result, const std::string &words) {
  EXPECT_EQ(result.countFailed(), 0) << result.output;
  EXPECT_EQ(count(result.output, words), 1) << result.output;
}

/// All ranks fail, and one says why.
void expectFailure(const Result &result, const std::string &words) {
  for (int code : result.exitCodes)
    EXPECT_EQ(code, 1) << result.output;
  EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  EXPECT_EQ(count(result.output, words), 1) << result.output;
}

TEST(Tcp, EveryCollectiveAndTheBitsOfLocalRanks) {
  for (int ranks : {1, 2, 4, 7}) {
    Result result = run(ranks, "collectives");
    expectSuccess(result, "collectives checked");
    std::printf("%d ranks: %s", ranks, result.output.c_str());
  }
}

TEST(Tcp, MessagesOfManyChannels) {
  for (int ranks : {2, 4, 7})
    expectSuccess(run(ranks, "messages"), "messages checked");
}

TEST(Tcp, StreamsDoNotMeetEachOther) {
  expectSuccess(run(4, "streams"), "streams checked");
}

TEST(Tcp, AllWaysToNameTheHost) {
  for (const char *host : {"localhost", "0.0.0.0"})
    EXPECT_EQ(run(3, "none", host).countFailed(), 0) << host;
  Socket socket;
  std::vector<SocketAddress> addresses;
  ASSERT_TRUE(SocketAddress::resolve("::1", 0, addresses).ok());
  if (Status status = listenAt(addresses.front(), socket); !status.ok())
    GTEST_SKIP() << "no IPv6 here: " << status.message();
  for (const char *host : {"::1", "::"})
    EXPECT_EQ(run(3, "none", host).countFailed(), 0) << host;
}

/// torchrun has MASTER_PORT itself, and says so.
TEST(Tcp, APortThatTorchrunHas) {
  Variables all = makeRun(2);
  Socket torchruns;
  ASSERT_TRUE(listenAt(getAddress(all), torchruns).ok());
  all["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  Result result = start(makeRanks(2), all, "tcp 2 none");
  EXPECT_EQ(result.countFailed(), 0) << result.output;
}

/// Who waits for all, and who waits for a message.
TEST(Tcp, OneRanksFailureStopsAll) {
  for (auto [ranks, failing] : {std::pair(2, 1), {4, 0}, {4, 3}, {7, 5}})
    for (std::string mode : {"fail ", "lose "})
      expectFailure(run(ranks, mode + std::to_string(failing)),
                    "error: rank " + std::to_string(failing) +
                        ": disk on fire");
}

TEST(Tcp, ARankThatEndsWithoutAWordIsNamed) {
  for (auto [ranks, dying] : {std::pair(2, 0), {4, 3}})
    expectFailure(run(ranks, "die " + std::to_string(dying)),
                  ": lost the connection to rank " + std::to_string(dying));
}

TEST(Tcp, AgreedFailuresAreSaidOnce) {
  expectFailure(run(4, "agree"), "error: data.bin: does not exist");
}

TEST(Tcp, DifferentCallsAreNamed) {
  expectFailure(run(4, "differ"), "call different collectives, or of "
                                  "different sizes, on one group");
}

TEST(Tcp, WrongWorldSizeNamesBothNumbers) {
  expectFailure(start(makeRanks(3), makeRun(3), "tcp 4 none"),
                "error: the launcher started 3 ranks, but the program was "
                "compiled for 4");
}

/// Rank 0 names who is missing, and a rank where it has looked for rank 0.
TEST(Tcp, RanksThatDoNotComeAreNamed) {
  Variables all = makeRun(4);
  all["CLEAVE_JOIN_SECONDS"] = "1";
  std::string where = "127.0.0.1 port " + all["MASTER_PORT"];
  expectFailure(start({makeRank(0), makeRank(2)}, all, "tcp 4 none"),
                "error: rank 0: has waited 1 s for ranks 1 and 3 of 4 at " +
                    where);
  expectFailure(start({makeRank(2)}, all, "tcp 4 none"),
                "error: rank 2: has not reached rank 0 at " + where +
                    " in 1 s");
}

/// Another run has the port, and takes no part in this one.
TEST(Tcp, APortThatIsTaken) {
  Variables all = makeRun(2);
  Socket other;
  ASSERT_TRUE(listenAt(getAddress(all), other).ok());
  expectFailure(start({makeRank(0)}, all, "tcp 2 none"),
                "error: rank 0: cannot listen at 127.0.0.1 port " +
                    all["MASTER_PORT"] + " (Address already in use)");
}

/// Who connects and is of no run does not disturb: one says nothing and stays,
/// one leaves, and one speaks another protocol.
TEST(Tcp, StrangersAreIgnored) {
  Variables all = makeRun(2);
  SocketAddress address = getAddress(all);
  Result second;
  std::thread others([&] {
    Socket silent, leaving, foreign;
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!connectTo(address, 1000, silent).ok() &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(connectTo(address, 1000, leaving).ok());
    EXPECT_TRUE(connectTo(address, 1000, foreign).ok());
    std::string words = "GET / HTTP/1.1\r\nHost: of another protocol\r\n\r\n";
    EXPECT_EQ(::send(foreign.get(), words.data(), words.size(), 0),
              ssize_t(words.size()));
    leaving.close();
    second = start({makeRank(1)}, all, "tcp 2 none");
  });
  Result first = start({makeRank(0)}, all, "tcp 2 none");
  others.join();
  EXPECT_EQ(first.countFailed() + second.countFailed(), 0)
      << first.output << second.output;
}

TEST(Tcp, VariablesThatDoNotFit) {
  for (auto [own, words] : std::vector<std::pair<Variables, std::string>>{
           {{{"RANK", "2"}}, "RANK is 2, expects less than WORLD_SIZE"},
           {{{"RANK", "one"}}, "RANK is \"one\", expects a number"},
           {{{"RANK", "0"}, {"WORLD_SIZE", "many"}}, "WORLD_SIZE is \"many\""},
           {{{"RANK", "0"}, {"MASTER_PORT", "70000"}},
            "MASTER_PORT is \"70000\", expects a number of at least 1 and at "
            "most 65534"},
           {{{"RANK", "0"}, {"MASTER_ADDR", ""}},
            "expects the variable "
            "MASTER_ADDR"},
           {{{"RANK", "0"}, {"MASTER_ADDR", "no.such.host.invalid"}},
            "MASTER_ADDR is \"no.such.host.invalid\", which is no host"}})
    expectFailure(start({own}, makeRun(2), "tcp 2 none"), words);
  // Of which only another rank knows.
  expectFailure(start({makeRank(0), {{"RANK", "1"}, {"WORLD_SIZE", "3"}}},
                      makeRun(2), "tcp 2 none"),
                "error: rank 0: WORLD_SIZE is 2 here, but 3 on rank 1");
  Result twice =
      start({makeRank(0), makeRank(1), makeRank(1)}, makeRun(3), "tcp 3 none");
  EXPECT_EQ(twice.countFailed(), 3);
  EXPECT_EQ(count(twice.output,
                  "error: rank 0: RANK is 1 for two processes; one of them is "
                  "at 127.0.0.1"),
            1)
      << twice.output;
}

} // namespace
