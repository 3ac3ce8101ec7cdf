//===- JudgeTest.cpp - Who is at fault, and how it is said ----------------===//
#include "runtime/watch/Judge.h"
#include "runtime/watch/Report.h"
#include "runtime/watch/Tracker.h"
#include "test/runtime/train/ToyStages.h"
#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::runtime;

namespace {

constexpr WatchLimits limits{10, 300, 600, 0.6};
constexpr uint64_t overDp = 1, overTp = 2;

/// A rank's position, made as a rank makes it.
struct Walk {
  RankPosition position;

  Walk(int64_t step, uint32_t instruction, uint32_t pass = 0) {
    position.beginStep(0);
    position.endStep();
    position.beginStep(step);
    position.setInstruction(pass, instruction);
  }
  Walk &meet(uint64_t axes, CollectiveCall call = CollectiveCall::AllReduce) {
    position.enterCollective(call, axes, 1);
    return *this;
  }
  RankView view(double unchanged, double idle = 0, double silent = 0) const {
    return {position.read(), unchanged, idle, silent, std::nullopt};
  }
};

Walk at(int64_t step, uint32_t instruction, uint32_t pass = 0) {
  return Walk(step, instruction, pass);
}

/// Ranks of dp 2 x tp 2: dp's groups are {0, 2}, {1, 3}; tp's {0, 1}, {2, 3}.
const Mesh mesh({2, 2});

void expectVerdict(const std::vector<RankView> &views, Fault fault,
                   const std::vector<int> &culprits,
                   const std::vector<int> &waiters, int nearest) {
  std::optional<Verdict> verdict = judge(views, mesh, limits);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(int(verdict->fault), int(fault));
  EXPECT_EQ(verdict->culprits, culprits);
  EXPECT_EQ(verdict->waiters, waiters);
  EXPECT_EQ(verdict->nearest, nearest);
}

TEST(Judge, BlamesWhoDoesNotComeAndNotWhoWaits) {
  // Rank 2 computes for ever. Rank 0 waits for it; rank 1 for rank 0.
  std::vector<RankView> views{
      at(7, 4).meet(overDp).view(9.9), at(7, 5).meet(overTp).view(9.8),
      at(7, 3).view(10.1), at(7, 5).meet(overTp).view(9.8)};
  expectVerdict(views, Fault::Stuck, {2}, {0, 3}, 0);
  // All have stood still for long, the culprit for a little less.
  for (RankView &view : views)
    view.unchanged = 30;
  views[2].unchanged = 9;
  EXPECT_FALSE(judge(views, mesh, limits));
}

TEST(Judge, LetsRanksTakeTheirTimeWhereTheyMay) {
  for (Phase phase : {Phase::Starting, Phase::Loading, Phase::Joining,
                      Phase::FirstStep, Phase::Saving, Phase::Finishing}) {
    double most = phase == Phase::Joining ? limits.joining : limits.patient;
    RankPosition saving;
    saving.setPhase(phase);
    // Of one world: rank 0 does something for itself, the others wait.
    std::vector<RankView> views(4, at(7, 4).meet(overDp | overTp).view(500));
    views[0] = {saving.read(), most - 1, 0, 0, std::nullopt};
    EXPECT_FALSE(judge(views, mesh, limits)) << int(phase);
    views[0].unchanged = most;
    expectVerdict(views, Fault::Stuck, {0}, {1, 2, 3}, 1);
    // But its process must say that it is alive.
    views[0].unchanged = most - 1;
    views[0].silent = 10;
    expectVerdict(views, Fault::Silent, {0}, {1, 2, 3}, 1);
  }
}

TEST(Judge, DoesNotBlameARankThatMoves) {
  std::vector<RankView> views(4, at(7, 4).meet(overDp | overTp).view(1000));
  views[3] = at(7, 3).view(9.9);
  EXPECT_FALSE(judge(views, mesh, limits));
}

TEST(Judge, BlamesTheSilent) {
  std::vector<RankView> views(4, at(7, 4).meet(overDp).view(9));
  views[1].silent = views[1].unchanged = 10;
  expectVerdict(views, Fault::Silent, {1}, {3}, 3);
  views[3].silent = views[3].unchanged = 11;
  expectVerdict(views, Fault::Silent, {1, 3}, {}, -1);
}

TEST(Judge, WaitsForABitBeforeItNamesTheDead) {
  std::vector<RankView> views(4, at(7, 4).meet(overDp).view(0.1));
  views[1].lost = 0.5;
  EXPECT_FALSE(judge(views, mesh, limits));
  views[1].lost = 0.6;
  expectVerdict(views, Fault::Lost, {1}, {3}, 3);
  // A launcher ends all once one has failed: no reason for a second message.
  views[2].position.setPhase(Phase::Left);
  EXPECT_FALSE(judge(views, mesh, limits));
  views[1].lost = 10;
  expectVerdict(views, Fault::Lost, {1}, {3}, 3);
}

TEST(Judge, KnowsWhoIsStoppedInsideOfACollective) {
  std::vector<RankView> views(4, at(7, 4).meet(overDp).view(10));
  views[3].idle = 10;
  // Ranks 0 and 2 are through, and wait for 1 and 3.
  views[0] = views[2] = at(7, 5).meet(overTp).view(10);
  expectVerdict(views, Fault::Idle, {3}, {1, 2}, 1);
  // The same where the others could go on without it.
  views[1] = at(8, 4).meet(overDp).view(10);
  expectVerdict(views, Fault::Idle, {3}, {1, 2}, 2);
}

TEST(Judge, BlamesNobodyAloneWhereAllAreThere) {
  std::vector<RankView> views(4, at(7, 4).meet(overDp).view(10));
  expectVerdict(views, Fault::Unfinished, {0, 2}, {}, -1);
  // A transport that sleeps while it waits says nothing.
  for (RankView &view : views)
    view.idle = 10;
  expectVerdict(views, Fault::Unfinished, {0, 2}, {}, -1);
  // Rank 2 was stopped for a while: it may take its time again.
  views[2].unchanged = views[0].unchanged = 3;
  views[1].unchanged = 9;
  EXPECT_FALSE(judge(views, mesh, limits));
}

TEST(Judge, FindsTheCollectiveThatARankLeftOut) {
  // Rank 2 made no AllReduce over dp in instruction 4; it waits for all. The
  // others wait for rank 2, or for who does.
  Walk skipper = at(7, PositionRecord::noInstruction);
  skipper.meet(overDp | overTp, CollectiveCall::Barrier);
  std::vector<RankView> views{at(7, 4).meet(overDp).view(10),
                              at(7, 5).meet(overTp).view(10), skipper.view(10),
                              at(8, 1).meet(overTp).view(10)};
  expectVerdict(views, Fault::Absent, {2}, {0, 3}, 0);
}

TEST(Judge, TellsMicroBatchesApart) {
  // The same instruction, but a pass later: rank 1 is not where rank 0 is.
  std::vector<RankView> views{
      at(7, 4, 0).meet(overTp).view(10), at(7, 4, 1).meet(overTp).view(10),
      at(7, 4, 1).meet(overTp).view(1), at(7, 4, 1).meet(overTp).view(1)};
  expectVerdict(views, Fault::Absent, {1}, {0}, 0);
}

TEST(Judge, BlamesWhoHasLeftOnlyIfOthersWaitForIt) {
  std::vector<RankView> views(4, at(7, 4).meet(overDp).view(10));
  views[2].position.setPhase(Phase::Left);
  views[2].position.meeting = 0;
  expectVerdict(views, Fault::Absent, {2}, {0}, 0);
  // All have, one after the other.
  for (RankView &view : views) {
    view.position.setPhase(Phase::Left);
    view.position.meeting = 0;
    view.silent = 1000;
  }
  EXPECT_FALSE(judge(views, mesh, limits));
}

/// Two stages on the mesh pp x dp: ranks 0 and 1 are of the first.
constexpr int stageAxis = 0;

Walk receive(int64_t step, uint32_t instruction, int from) {
  return at(step, instruction).meet(uint64_t(from), CollectiveCall::Recv);
}

TEST(Judge, KnowsThatMessagesComeFromRanksThatWork) {
  // Rank 0 computes for ever; rank 2 waits for its message, rank 3 for rank 2.
  std::vector<RankView> views{at(7, 4).view(10), receive(7, 9, 3).view(9),
                              receive(7, 0, 0).view(9),
                              at(7, 5).meet(overTp).view(9)};
  std::optional<Verdict> verdict = judge(views, mesh, limits, stageAxis);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(int(verdict->fault), int(Fault::Stuck));
  EXPECT_EQ(verdict->culprits, std::vector<int>{0});
  EXPECT_EQ(verdict->waiters, std::vector<int>{2});
  // While it moves, nobody is blamed, however long the others wait.
  for (RankView &view : views)
    view.unchanged = 1000;
  views[0].unchanged = 1;
  EXPECT_FALSE(judge(views, mesh, limits, stageAxis));
}

TEST(Judge, KnowsWhoIsStoppedWhileItWaitsForAMessage) {
  // Rank 2 is stopped, its message is there; rank 0 waits for what follows,
  // rank 1 and 3 for their neighbours.
  std::vector<RankView> views{
      receive(7, 9, 2).view(10), at(7, 12).meet(overTp).view(10),
      receive(7, 3, 0).view(10, 10), at(7, 5).meet(overTp).view(10)};
  std::optional<Verdict> verdict = judge(views, mesh, limits, stageAxis);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(int(verdict->fault), int(Fault::Idle));
  EXPECT_EQ(verdict->culprits, std::vector<int>{2});
  EXPECT_EQ(verdict->waiters, (std::vector<int>{0, 3}));
  // All sleep while they wait: nothing can be said.
  for (RankView &view : views)
    view.idle = 10;
  EXPECT_FALSE(judge(views, mesh, limits, stageAxis));
}

TEST(Judge, RanksOfDifferentStagesMeetInDifferentInstructions) {
  // All wait for rank 3, whose thread is stopped in the same collective.
  std::vector<RankView> views(4, at(7, 20).meet(overDp | overTp).view(10));
  views[2] = at(7, 31).meet(overDp | overTp).view(10);
  views[3] = at(7, 31).meet(overDp | overTp).view(10, 10);
  std::optional<Verdict> verdict = judge(views, mesh, limits, stageAxis);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(int(verdict->fault), int(Fault::Idle));
  EXPECT_EQ(verdict->culprits, std::vector<int>{3});
  // A rank of another stage that waits elsewhere is not blamed; one that is a
  // step further is.
  views[3] = receive(7, 2, 1).view(10);
  EXPECT_FALSE(judge(views, mesh, limits, stageAxis));
  views[3] = at(8, 2).meet(overTp).view(10);
  verdict = judge(views, mesh, limits, stageAxis);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(int(verdict->fault), int(Fault::Absent));
  EXPECT_EQ(verdict->culprits, std::vector<int>{3});
}

TEST(Judge, BlamesWhoHasLeftWithoutSending) {
  std::vector<RankView> views(4, at(7, 4).meet(overTp).view(10));
  views[0] = receive(7, 3, 2).view(10);
  views[2].position.setPhase(Phase::Left);
  views[2].position.meeting = 0;
  std::optional<Verdict> verdict = judge(views, mesh, limits, stageAxis);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(int(verdict->fault), int(Fault::Absent));
  EXPECT_EQ(verdict->culprits, std::vector<int>{2});
}

/// What every message of a rank that hangs in an instruction ends in.
static const std::string advice = "; what was only slow needs a larger "
                                  "--watchdog, and a run with --save goes "
                                  "on by --resume";

TEST(Report, NamesTheStageAndWhoIsWaitedFor) {
  Program program;
  ASSERT_TRUE(test::makeToyStages(2, 1, 2).load(program).ok());
  // On dp x tp x pp rank 1 is of the second stage; run 2 of its is of the
  // second micro-batch.
  std::vector<RankView> views(4, at(7, 4, 1).view(1));
  views[0] = at(7, 3, 2).view(12.34);
  views[1] = at(7, 2, 2).meet(0, CollectiveCall::Recv).view(10);
  std::optional<Verdict> verdict =
      judge(views, program.getMesh(), limits, program->stage_axis());
  ASSERT_TRUE(verdict);
  EXPECT_EQ(describeVerdict(program, views, *verdict),
            "watchdog: rank 0 hangs for 12.3 s in step 7, micro-batch 1, "
            "stage 0, instruction 3 (Embedding \"test Embedding\"); rank 1 "
            "waits for it in step 7, micro-batch 1, stage 1, instruction 2 "
            "(Recv \"test Recv\") from rank 0" +
                advice);
}

TEST(Report, NamesRankInstructionCollectiveAndGroup) {
  Program program;
  ASSERT_TRUE(test::makeToyProgram(2, 2, 2).load(program).ok());
  // Run 2 is that of the second micro-batch.
  std::vector<RankView> views(4, at(7, 4, 2).meet(overTp).view(10));
  views[2] = at(7, 3, 2).view(12.34);
  std::optional<Verdict> verdict = judge(views, program.getMesh(), limits);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(describeVerdict(program, views, *verdict),
            "watchdog: rank 2 hangs for 12.3 s in step 7, micro-batch 1, "
            "instruction 3 (AllReduce \"test AllReduce\"); rank 3 waits for it "
            "in step 7, micro-batch 1, instruction 4 (Launch \"test Launch\") "
            "over tp of ranks 2 and 3" +
                advice);
  // Of many ranks, the first few.
  Program wide;
  ASSERT_TRUE(test::makeToyProgram(8, 16).load(wide).ok());
  views.assign(128, at(7, 4).meet(overDp | overTp).view(10));
  verdict = judge(views, wide.getMesh(), limits);
  ASSERT_TRUE(verdict);
  std::string text = describeVerdict(wide, views, *verdict);
  EXPECT_NE(text.find("ranks 0, 1, 2, 3, 4, 5, 6 and 121 more are all in"),
            std::string::npos)
      << text;
}

TEST(Tracker, TakesAPauseForAPause) {
  Tracker tracker(2, 2, 0);
  PositionRecord waiting = at(7, 4).meet(overDp).position.read();
  // Both wait and work; rank 1's process is stopped from 3 to 8.
  for (double now = 0; now <= 8; now += 0.5) {
    tracker.hear(0, waiting, uint64_t(now * 10), now);
    if (now <= 3 || now >= 8)
      tracker.hear(1, waiting, uint64_t(now * 10), now);
    if (now == 7.5) {
      EXPECT_EQ(tracker.getViews(now)[1].silent, 4.5);
      // It was not seen to stand still for longer than it was heard.
      EXPECT_EQ(tracker.getViews(now)[1].unchanged, 3);
    }
  }
  std::vector<RankView> views = tracker.getViews(8);
  EXPECT_EQ(views[0].unchanged, 8);
  EXPECT_EQ(views[1].unchanged, 0);
  EXPECT_EQ(views[1].silent, 0);
  // Its thread alone is stopped from 9 to 13.
  for (double now = 8; now <= 13; now += 0.5)
    tracker.hear(1, waiting, now < 9 || now > 12.5 ? uint64_t(now * 10) : 85,
                 now);
  EXPECT_EQ(tracker.getViews(13)[1].unchanged, 0);
  EXPECT_EQ(tracker.getViews(13)[1].idle, 0);
  // The watcher itself was.
  tracker.forgive(20);
  EXPECT_EQ(tracker.getViews(21)[0].silent, 1);
  EXPECT_EQ(tracker.getViews(21)[0].unchanged, 0);
}

TEST(Tracker, DoesNotHoldAPauseAgainstWhoWaitedBefore) {
  // A rank waits for 5 s, goes on for a moment, and is stopped for 5 s.
  PositionRecord before = at(7, 4).meet(overDp).position.read(),
                 after = at(7, 5).position.read();
  for (bool isShared : {false, true}) {
    Tracker tracker(1, 2, 0);
    for (double now = 0; now <= 10; now += 0.5) {
      if (now <= 5)
        tracker.hear(0, before, uint64_t(now * 10), now);
      else if (isShared)
        tracker.see(0, after, now);
      EXPECT_LE(tracker.getViews(now)[0].unchanged, 5) << now;
    }
    EXPECT_EQ(tracker.getViews(10)[0].unchanged, isShared ? 0 : 5);
    EXPECT_EQ(tracker.getViews(10)[0].silent, 5);
    tracker.hear(0, after, 60, 10);
    EXPECT_EQ(tracker.getViews(10)[0].unchanged, 0);
  }
}

TEST(Tracker, IsPatientWithWhoHasNotSpoken) {
  Tracker tracker(2, 2, 0);
  EXPECT_EQ(tracker.getViews(100)[1].silent, 0);
  EXPECT_EQ(tracker.getViews(100)[1].unchanged, 100);
  EXPECT_EQ(int(tracker.getViews(100)[1].position.getPhase()),
            int(Phase::Starting));
}

TEST(Tracker, LearnsTheMedianOfTheSteps) {
  Tracker tracker(1, 100, 0);
  double now = 0;
  auto end = [&](int64_t step, double seconds) {
    now += seconds;
    tracker.hear(0, at(step, 0).position.read(), 0, now);
  };
  end(0, 50); // loading
  EXPECT_EQ(tracker.getStepSeconds(), 0);
  end(1, 40); // the first step, which counts until there is another
  EXPECT_EQ(tracker.getStepSeconds(), 40);
  end(2, 3);
  EXPECT_EQ(tracker.getStepSeconds(), 3);
  end(6, 8); // four at once
  end(7, 30);
  EXPECT_EQ(tracker.getStepSeconds(), 3);
  for (int64_t step = 8; step < 40; ++step)
    end(step, step % 3 == 0 ? 100 : 0.5);
  EXPECT_EQ(tracker.getStepSeconds(), 0.5);
}

} // namespace
