//===- MpiTest.cpp - Ranks as processes under mpirun ----------------------===//
#include "test/runtime/comm/CountWords.h"
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

using namespace cleave::test;

namespace {

struct Result {
  int exitCode;
  std::string output;
};

/// Runs ProcessRanks on `ranks` processes; the system ends it if it hangs.
Result runRanks(int ranks, const std::string &arguments,
                const std::string &environment = "") {
  std::string command = environment +
                        " timeout 120 " CLEAVE_MPIRUN
                        " --allow-run-as-root --oversubscribe --bind-to none"
                        " -np " +
                        std::to_string(ranks) +
                        " " CLEAVE_PROCESS_RANKS " mpi " + arguments + " 2>&1";
  Result result{-1, ""};
  FILE *pipe = ::popen(command.c_str(), "r");
  if (!pipe)
    return result;
  char buffer[4096];
  while (size_t got = std::fread(buffer, 1, sizeof(buffer), pipe))
    result.output.append(buffer, got);
  int status = ::pclose(pipe);
  result.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

constexpr int timedOut = 124; // of timeout(1)

TEST(Mpi, EveryCollectiveAndTheBitsOfLocalRanks) {
  for (int ranks : {3, 4}) {
    Result result = runRanks(ranks, std::to_string(ranks) + " collectives");
    EXPECT_EQ(result.exitCode, 0) << result.output;
    EXPECT_EQ(count(result.output, "collectives checked"), 1) << result.output;
    std::printf("%d ranks: %s", ranks, result.output.c_str());
  }
}

TEST(Mpi, MessagesOfManyChannels) {
  for (int ranks : {2, 4}) {
    Result result = runRanks(ranks, std::to_string(ranks) + " messages");
    EXPECT_EQ(result.exitCode, 0) << result.output;
    EXPECT_EQ(count(result.output, "messages checked"), 1) << result.output;
  }
}

TEST(Mpi, StreamsDoNotMeetEachOther) {
  Result result = runRanks(3, "3 streams");
  EXPECT_EQ(result.exitCode, 0) << result.output;
  EXPECT_EQ(count(result.output, "streams checked"), 1) << result.output;
}

/// Who waits for all, and who waits for a message.
TEST(Mpi, OneRanksFailureStopsAll) {
  for (auto [mode, failing] : {std::pair("4 fail ", 0),
                               {"4 fail ", 3},
                               {"4 lose ", 0},
                               {"4 lose ", 3}}) {
    Result result = runRanks(4, mode + std::to_string(failing));
    EXPECT_NE(result.exitCode, 0);
    EXPECT_NE(result.exitCode, timedOut) << result.output;
    EXPECT_EQ(count(result.output, "error: rank " + std::to_string(failing) +
                                       ": disk on fire"),
              1)
        << result.output;
    EXPECT_EQ(count(result.output, "error: "), 1) << result.output;
  }
}

TEST(Mpi, AgreedFailuresAreSaidOnce) {
  Result result = runRanks(4, "4 agree");
  EXPECT_NE(result.exitCode, 0);
  EXPECT_NE(result.exitCode, timedOut);
  EXPECT_EQ(count(result.output, "error: data.bin: does not exist"), 1)
      << result.output;
}

TEST(Mpi, WrongWorldSizeNamesBothNumbers) {
  Result result = runRanks(3, "4 none");
  EXPECT_NE(result.exitCode, 0);
  EXPECT_EQ(count(result.output, "error: the launcher started 3 ranks, but "
                                 "the program was compiled for 4"),
            1)
      << result.output;
  result = runRanks(4, "4 none");
  EXPECT_EQ(result.exitCode, 0) << result.output;
}

} // namespace
