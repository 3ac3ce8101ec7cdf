//===- AgreementTest.cpp - Ranks that were started differently ------------===//
#include "runtime/comm/World.h"
#include <gtest/gtest.h>

using namespace cleave::runtime;

namespace {

using Items = std::vector<AgreementItem>;

/// What ranks with these items say; every rank must hear of a difference.
std::string agree(const std::vector<Items> &items) {
  int size = int(items.size());
  std::vector<Status> heard(items.size());
  Status status =
      runRanks(Mesh({size}), {Backend::Local, 1, {}}, [&](Communicator &comm) {
        size_t rank = size_t(comm.getRank());
        heard[rank] = agreeOnItems(comm, items[rank]);
        // A call after it, which a rank that heard of nothing would wait in.
        if (heard[rank].ok()) {
          const Group *world;
          CLEAVE_RETURN_IF_ERROR(comm.getWorldGroup(world));
          CLEAVE_RETURN_IF_ERROR(comm.barrier(*world));
        }
        return heard[rank];
      });
  for (size_t rank = 0; rank < items.size(); ++rank)
    EXPECT_EQ(heard[rank].ok(), status.ok()) << rank;
  return status.message();
}

TEST(Agreement, IsSilentWhereAllAreAlike) {
  for (size_t ranks : {1, 2, 3, 8}) {
    EXPECT_EQ(agree(std::vector<Items>(ranks)), "");
    EXPECT_EQ(agree(std::vector<Items>(
                  ranks, {{"--seed", "1"}, {"--lr", std::string(9999, 'x')}})),
              "");
  }
}

TEST(Agreement, NamesWhatDiffersAndOnWhichRank) {
  const std::string start = "the ranks were not started alike: ";
  Items one = {{"--lr", "0.5"}, {"--seed", "1"}},
        two = {{"--lr", "0.5"}, {"--seed", "2"}};
  EXPECT_EQ(agree({one, two}),
            start + "--seed is \"2\" on rank 1, but \"1\" on rank 0");
  for (size_t odd = 1; odd < 8; ++odd) {
    std::vector<Items> items(8, one);
    items[odd] = two;
    EXPECT_EQ(agree(items), start + "--seed is \"2\" on rank " +
                                std::to_string(odd) + ", but \"1\" on rank 0");
  }
  // Where rank 0 is the odd one, the others are named together.
  EXPECT_EQ(agree({two, one, one, one}),
            start + "--seed is \"1\" on ranks 1 to 3, but \"2\" on rank 0");
  EXPECT_EQ(agree({one, two, one, two, two, one, two}),
            start + "--seed is \"2\" on ranks 1, 3, 4 and 6, but \"1\" on rank "
                    "0");
  EXPECT_EQ(agree({one, two, {{"--lr", "0.5"}, {"--seed", "3"}}}),
            start + "--seed is \"2\" on rank 1, but \"1\" on rank 0; 1 more "
                    "of them in another way");
}

TEST(Agreement, NamesWhatOneRankLacks) {
  const std::string start = "the ranks were not started alike: ";
  Items with = {{"a", "1"}, {"b", "2"}}, without = {{"a", "1"}};
  EXPECT_EQ(agree({with, without}),
            start + "b is not known on rank 1, and \"2\" on rank 0");
  EXPECT_EQ(agree({without, with}),
            start + "b is \"2\" on rank 1, and not known on rank 0");
  EXPECT_EQ(agree({with, {{"b", "2"}, {"a", "1"}}}),
            start + "the order of what they have is another on rank 1");
  // A value cannot pass for a part of another.
  EXPECT_NE(agree({{{"a", "bc"}}, {{"ab", "c"}}}), "");
}

TEST(Agreement, SaysThreeDifferencesAndCountsTheOthers) {
  Items one, two;
  for (const char *what : {"a", "b", "c", "d", "e"}) {
    one.push_back({what, "1"});
    two.push_back({what, "2\n"});
  }
  EXPECT_EQ(agree({one, two}),
            "the ranks were not started alike: "
            "a is \"2\\x0a\" on rank 1, but \"1\" on rank 0; "
            "b is \"2\\x0a\" on rank 1, but \"1\" on rank 0; "
            "c is \"2\\x0a\" on rank 1, but \"1\" on rank 0; and 2 more");
}

} // namespace
