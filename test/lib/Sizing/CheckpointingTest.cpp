//===- CheckpointingTest.cpp - Intervals and shares against simulation ----===//
#include "cleave/Sizing/Checkpointing.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>
#include <vector>

using namespace cleave;

namespace {

/// One piece of work and its save, until both are done: where the time went.
struct Segment {
  double work = 0, saves = 0, lost = 0, restarts = 0, failures = 0, time = 0;
};

/// Plays a run event by event: no formula for what is lost, only a clock and
/// the time of the next failure.
class Simulation {
public:
  Simulation(const FailureModel &model, uint64_t seed)
      : model(model), random(seed) {
    draw();
  }

  /// Segments, until there were so many events.
  std::vector<Segment> run(double interval, int64_t events) {
    std::vector<Segment> segments;
    while (numEvents < events)
      segments.push_back(runSegment(interval));
    return segments;
  }

private:
  Segment runSegment(double interval) {
    Segment segment;
    double begin = clock;
    int64_t failuresBefore = numFailures;
    for (;;) {
      double start = clock;
      if (advance(interval) && advance(model.checkpoint))
        break;
      segment.lost += clock - start;
      start = clock;
      while (!advance(model.restart)) {
      }
      segment.restarts += clock - start;
    }
    segment.work = interval;
    segment.saves = model.checkpoint;
    segment.failures = double(numFailures - failuresBefore);
    segment.time = clock - begin;
    return segment;
  }

  void draw() {
    // In (0, 1), and the same from every standard library.
    double uniform = (double(random() >> 11) + 0.5) / 9007199254740992.0;
    failure = clock - model.mtbf * std::log(uniform);
  }

  /// Lets `seconds` pass; or, as false, what there is until a failure.
  bool advance(double seconds) {
    ++numEvents;
    if (clock + seconds <= failure) {
      clock += seconds;
      return true;
    }
    clock = failure;
    ++numFailures;
    draw();
    return false;
  }

  FailureModel model;
  std::mt19937_64 random;
  double clock = 0, failure = 0;
  int64_t numEvents = 0, numFailures = 0;
};

/// Expects the share `value` of the time to be that of the segments, within its
/// 99.9 % interval. Segments are independent, so the error of the ratio of sums
/// r is that of the mean of (part - r time), over the mean time.
void expectShare(double value, const std::vector<Segment> &segments,
                 double Segment::*part, const char *what) {
  double n = double(segments.size()), sum = 0, time = 0, squares = 0;
  for (const Segment &segment : segments) {
    sum += segment.*part;
    time += segment.time;
  }
  double ratio = sum / time;
  for (const Segment &segment : segments) {
    double off = segment.*part - ratio * segment.time;
    squares += off * off;
  }
  double half = 3.29 * std::sqrt(squares / (n * (n - 1))) / (time / n);
  // Narrow enough to tell a formula from its neighbours.
  EXPECT_LE(half, 0.04 * ratio) << what;
  EXPECT_NEAR(value, ratio, half + 1e-12) << what;
}

const FailureModel models[] = {
    {10986, 20, 300},  // 16,384 devices of 50,000 h
    {25200, 20, 0},    // no restart to speak of
    {1800, 60, 600},   // 100,000 devices: restarts fail as well
    {3600, 400, 30},   // checkpoints dear
    {1000, 900, 500}}; // hardly any progress

TEST(CheckpointingTest, SharesAreThoseOfASimulation) {
  for (const FailureModel &model : models)
    for (double factor : {0.3, 1.0, 3.0}) {
      SCOPED_TRACE(testing::Message()
                   << "MTBF " << model.mtbf << ", times " << factor);
      double interval = getDalyInterval(model) * factor;
      std::vector<Segment> segments =
          Simulation(model, 1).run(interval, 2'000'000);
      TimeShares shares = getTimeShares(model, interval);
      expectShare(shares.goodput, segments, &Segment::work, "goodput");
      expectShare(shares.checkpoint, segments, &Segment::saves, "checkpoint");
      expectShare(shares.rework, segments, &Segment::lost, "rework");
      expectShare(shares.restart, segments, &Segment::restarts, "restart");
      // Failures are wall time / MTBF, those while restarting included.
      expectShare(1 / model.mtbf, segments, &Segment::failures, "failures");
    }
}

TEST(CheckpointingTest, SharesAddUp) {
  for (const FailureModel &model : models)
    for (double interval : {1e-3, 1.0, 100.0, 1e4, 1e9}) {
      TimeShares shares = getTimeShares(model, interval);
      EXPECT_NEAR(shares.goodput + shares.checkpoint + shares.rework +
                      shares.restart,
                  1, 1e-12);
      for (double share :
           {shares.goodput, shares.checkpoint, shares.rework, shares.restart}) {
        EXPECT_GE(share, 0);
        EXPECT_LE(share, 1);
      }
    }
}

TEST(CheckpointingTest, YoungByHand) {
  // sqrt(2 x 20 x 25200) = sqrt(1,008,000)
  EXPECT_NEAR(getYoungInterval({25200, 20, 0}), 1003.992, 1e-3);
  EXPECT_DOUBLE_EQ(getYoungInterval({3200, 1, 500}), 80);
}

TEST(CheckpointingTest, DalyByHand) {
  // C / 2M = 1/100: 2M C = 1e4, 100 (1 + 0.1 / 3 + 0.01 / 9) - 10
  EXPECT_NEAR(getDalyInterval({500, 10, 0}), 93.444444, 1e-6);
  // From C = 2M on the MTBF itself.
  EXPECT_DOUBLE_EQ(getDalyInterval({500, 1000, 0}), 500);
  EXPECT_DOUBLE_EQ(getDalyInterval({500, 5000, 0}), 500);
}

/// The interval of the highest goodput, out of very many.
double searchInterval(const FailureModel &model) {
  double best = 0, bestGoodput = 0;
  for (double interval = 1; interval < 1e6; interval *= 1.0005) {
    // Written out, not by the library: tau / (M e^(R/M) (e^((tau+C)/M) - 1)).
    double time = model.mtbf * std::exp(model.restart / model.mtbf) *
                  (std::exp((interval + model.checkpoint) / model.mtbf) - 1);
    if (interval / time > bestGoodput) {
      bestGoodput = interval / time;
      best = interval;
    }
  }
  return best;
}

TEST(CheckpointingTest, DalyIsTheBestIntervalAndYoungIsNear) {
  for (const FailureModel &model : models) {
    double best = searchInterval(model);
    double atBest = getTimeShares(model, best).goodput;
    double atDaly = getTimeShares(model, getDalyInterval(model)).goodput;
    double atYoung = getTimeShares(model, getYoungInterval(model)).goodput;
    EXPECT_LE(atDaly, atBest * (1 + 1e-6));
    EXPECT_LE(atYoung, atBest * (1 + 1e-6));
    // Both are expansions for C << M, Daly's to higher order.
    bool isCheap = model.checkpoint < model.mtbf / 5;
    EXPECT_NEAR(getDalyInterval(model) / best, 1, isCheap ? 0.005 : 0.02);
    EXPECT_NEAR(atDaly / atBest, 1, isCheap ? 1e-5 : 2e-4);
    EXPECT_NEAR(atYoung / atBest, 1, isCheap ? 0.02 : 0.15);
    EXPECT_GE(atDaly, atYoung);
  }
}

TEST(CheckpointingTest, WasteToFirstOrder) {
  // Rare failures: C/T + (T/2 + R)/M, with C = 1 s, M = 1e6 s, R = 60 s.
  FailureModel model = {1e6, 1, 60};
  double interval = getYoungInterval(model);
  double waste = 1 / interval + (interval / 2 + 60) / 1e6;
  EXPECT_NEAR((1 - getTimeShares(model, interval).goodput) / waste, 1, 2e-3);
}

} // namespace
