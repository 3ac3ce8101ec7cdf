//===- SimulateTest.cpp - Schedules: bubbles, order, memory ---------------===//
#include "cleave/Simulate/Simulate.h"
#include "cleave/Cost/CostModel.h"
#include "test/lib/Cost/Llama8B.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"
#include <random>

using namespace cleave;

static PipelineStep makeStep(Schedule schedule, int64_t stages, int64_t chunks,
                             int64_t microBatches,
                             StageTimes times = {1, 1, 1}) {
  PipelineStep step;
  step.shape = {schedule, stages, chunks, microBatches};
  step.times.assign(size_t(stages * chunks), times);
  step.activations.assign(size_t(stages * chunks), 1);
  return step;
}

static double getBubble(const PipelineStep &step) {
  Simulation simulation = simulate(step);
  return 1 - simulation.busy[0] / simulation.step;
}

TEST(Simulate, ClassicBubbles) {
  // (p - 1) / (m + p - 1), Huang et al. 2019 and Narayanan et al. 2021.
  for (Schedule schedule : {Schedule::GPipe, Schedule::OneFOneB})
    for (auto [p, m] : {std::pair(4, 4), {8, 32}, {2, 1}, {8, 3}})
      EXPECT_NEAR(getBubble(makeStep(schedule, p, 1, m)),
                  double(p - 1) / double(m + p - 1), 1e-12);
  // Interleaved over v chunks: the bubble's seconds are v times fewer.
  for (auto [p, m, v] : {std::tuple(4, 4, 2), {8, 32, 4}, {2, 8, 3}})
    EXPECT_NEAR(getBubble(makeStep(Schedule::Interleaved, p, v, m)),
                double(p - 1) / double(m * v + p - 1), 1e-12);
}

TEST(Simulate, ZeroBubbles) {
  for (auto [p, m] : {std::pair(4, 8), {4, 12}, {8, 32}, {2, 6}}) {
    // Qi et al. 2024, table 1: (p - 1) (F + B - W) and (p - 1) (F + B - 2 W).
    Simulation h1 = simulate(makeStep(Schedule::ZeroBubbleH1, p, 1, m));
    EXPECT_NEAR(h1.step, 3 * m + (p - 1), 1e-12);
    Simulation h2 = simulate(makeStep(Schedule::ZeroBubbleH2, p, 1, m));
    EXPECT_NEAR(h2.step, 3 * m, 1e-12);
    for (double peak : h1.peaks)
      EXPECT_LE(peak, p);
    for (double peak : h2.peaks)
      EXPECT_LE(peak, 2 * p - 1);
    // V: no bubble with the memory of 1F1B, p of both chunks.
    Simulation v = simulate(makeStep(Schedule::ZeroBubbleV, p, 2, m));
    EXPECT_NEAR(v.step, 6 * m, 0.02 * 6 * m) << p << " " << m;
    for (double peak : v.peaks)
      EXPECT_LE(peak, 2 * p);
  }
}

TEST(Simulate, Peaks) {
  // A stage of 1F1B keeps as many micro-batches as there are stages from it on.
  Simulation fine = simulate(makeStep(Schedule::OneFOneB, 4, 1, 16));
  EXPECT_EQ(fine.peaks, (std::vector<double>{4, 3, 2, 1}));
  Simulation few = simulate(makeStep(Schedule::OneFOneB, 4, 1, 2));
  EXPECT_EQ(few.peaks, (std::vector<double>{2, 2, 2, 1}));
  Simulation all = simulate(makeStep(Schedule::GPipe, 4, 1, 16));
  EXPECT_EQ(all.peaks, (std::vector<double>{16, 16, 16, 16}));
  // Of chunks, 2 (p - i - 1) + (v - 1) p + 1.
  Simulation chunks = simulate(makeStep(Schedule::Interleaved, 4, 2, 16));
  EXPECT_EQ(chunks.peaks, (std::vector<double>{11, 9, 7, 5}));
}

TEST(Simulate, SendsOfTwoStages) {
  // By hand: F0 send F1 B1 send B0, with 1 + 2 s of a stage and 0.5 s a send.
  PipelineStep step = makeStep(Schedule::OneFOneB, 2, 1, 1);
  step.send = 0.5;
  step.data = {0.25, 0};
  step.optimizer = 0.125;
  Simulation simulation = simulate(step);
  EXPECT_DOUBLE_EQ(simulation.ends[1], 1 + 0.5 + 3);
  EXPECT_DOUBLE_EQ(simulation.ends[0], 1 + 0.5 + 3 + 0.5 + 2);
  EXPECT_DOUBLE_EQ(simulation.step, 7 + 0.25 + 0.125);
}

/// Every micro-batch goes through every virtual stage, forward and back, inputs
/// first, and no stream does two things at once.
TEST(Simulate, EventsAreATrainingStep) {
  std::mt19937 random(7);
  for (Schedule schedule :
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved,
        Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2, Schedule::ZeroBubbleV})
    for (int64_t p : {1, 2, 3, 5})
      for (int64_t m : {1, 2, 5, 9}) {
        bool chunked = schedule == Schedule::Interleaved ||
                       schedule == Schedule::ZeroBubbleV;
        PipelineStep step = makeStep(schedule, p, chunked ? 2 : 1, m);
        for (StageTimes &times : step.times)
          times = {1 + double(random() % 5), 1 + double(random() % 5),
                   1 + double(random() % 5)};
        step.send = 0.5;
        Simulation simulation = simulate(step);
        const PipelineShape &shape = step.shape;
        int64_t all = shape.getVirtualStages();
        std::map<std::tuple<bool, int64_t, int64_t>, double> ends;
        std::map<std::pair<int64_t, bool>, double> busyUntil;
        int64_t computed = 0, weights = 0;
        std::vector<SimulatedEvent> events = simulation.events;
        llvm::sort(events, [](const auto &a, const auto &b) {
          return a.start < b.start;
        });
        for (const SimulatedEvent &event : events) {
          bool sends = event.kind == SimulatedEvent::Send;
          if (!sends && event.kind != SimulatedEvent::Compute)
            continue;
          double &until = busyUntil[{event.stage, sends}];
          EXPECT_LE(until, event.start);
          until = event.end;
          if (sends)
            continue;
          ++computed;
          int64_t at = shape.getVirtualStage(event.stage, event.op.chunk);
          bool forward = event.op.kind == PipelineOpKind::Forward;
          if (event.op.kind == PipelineOpKind::BackwardWeight) {
            ++weights;
            EXPECT_LE((ends.at({false, at, event.op.microBatch})), event.start);
            continue;
          }
          int64_t from = forward ? at - 1 : at + 1;
          if (from >= 0 && from < all) {
            double send = shape.getStage(from) == event.stage ? 0 : 0.5;
            EXPECT_LE((ends.at({forward, from, event.op.microBatch})) + send,
                      event.start);
          }
          if (!forward)
            EXPECT_LE((ends.at({true, at, event.op.microBatch})), event.start);
          ends[{forward, at, event.op.microBatch}] = event.end;
        }
        EXPECT_EQ(int64_t(ends.size()), 2 * all * m);
        EXPECT_EQ(weights, shape.splitsBackward() ? all * m : 0);
        EXPECT_EQ(computed, int64_t(ends.size()) + weights);
      }
}

/// The recurrence that prices layouts, on random uneven stages.
TEST(Simulate, RecurrenceAgrees) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  PipelineModel model;
  int64_t cases = 0;
  double worst = 0;
  for (Schedule schedule :
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved,
        Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2, Schedule::ZeroBubbleV})
    for (int64_t p : {2, 3, 4, 6, 8, 13, 16})
      for (int64_t m : {1, 2, 3, 4, 7, 8, 16, 24, 32, 48, 63, 128, 200})
        for (double spread : {0., 0.3, 1.}) {
          bool chunked = schedule == Schedule::Interleaved ||
                         schedule == Schedule::ZeroBubbleV;
          PipelineStep step = makeStep(schedule, p, chunked ? 2 : 1, m);
          if (schedule == Schedule::Interleaved && spread > 0)
            step = makeStep(schedule, p, 3, m);
          for (size_t i = 0; i != step.times.size(); ++i) {
            step.times[i] = {1 + spread * unit(random),
                             1 + spread * unit(random),
                             1 + spread * unit(random)};
            step.activations[i] = 1 + spread * unit(random);
          }
          step.send = 0.3 * spread * unit(random);
          Simulation simulation = simulate(step);
          std::vector<double> starts, ends;
          double seconds =
              model.getSeconds(step.shape, step.times, step.send, starts, ends);
          ++cases;
          worst = std::max(worst, std::abs(seconds / simulation.step - 1));
          EXPECT_NEAR(seconds / simulation.step, 1, 0.02)
              << getName(schedule).str() << " p " << p << " m " << m;
          if (m <= 3 * p)
            EXPECT_NEAR(seconds / simulation.step, 1, 1e-12);
          for (int64_t stage = 0; stage != p; ++stage) {
            std::vector<double> kept;
            for (int64_t chunk = 0; chunk != step.shape.chunks; ++chunk)
              kept.push_back(step.activations[size_t(
                  step.shape.getVirtualStage(stage, chunk))]);
            EXPECT_NEAR(model.getPeak(step.shape, stage, kept) /
                            simulation.peaks[size_t(stage)],
                        1, 0.02)
                << getName(schedule).str() << " p " << p << " m " << m
                << " stage " << stage;
          }
        }
  EXPECT_GE(cases, 800);
  RecordProperty("worst", std::to_string(worst));
}

/// A stage that is longer than the others fills the pipeline slowly, and many
/// micro-batches are extrapolated.
TEST(Simulate, RecurrenceAgreesOverManyMicroBatches) {
  std::mt19937 random(1);
  auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  PipelineModel model;
  for (Schedule schedule : {Schedule::OneFOneB, Schedule::ZeroBubbleH1,
                            Schedule::ZeroBubbleH2, Schedule::ZeroBubbleV})
    for (int64_t p : {2, 4, 8})
      for (int round = 0; round != 40; ++round) {
        int64_t chunks = schedule == Schedule::ZeroBubbleV ? 2 : 1;
        StageTimes times{draw(0.5, 2), draw(0.5, 3), draw(0.2, 2)};
        PipelineStep step = makeStep(schedule, p, chunks, 512, times);
        double longer = draw(1, 1.6);
        step.times.back() = {times.forward * longer,
                             times.backwardInput * longer,
                             times.backwardWeight * longer};
        step.send = draw(0, 0.1);
        Simulation simulation = simulate(step);
        std::vector<double> starts, ends;
        model.getSeconds(step.shape, step.times, step.send, starts, ends);
        double fast = 0;
        for (size_t i = 0; i != ends.size(); ++i)
          fast = std::max(
              fast, ends[i] - (step.shape.splitsBackward() ? starts[i] : 0));
        double slowest =
            *std::max_element(simulation.busy.begin(), simulation.busy.end());
        EXPECT_GE(fast, slowest * (1 - 1e-9))
            << getName(schedule).str() << " " << p << " " << longer;
        EXPECT_NEAR(fast, simulation.step, 0.02 * simulation.step)
            << getName(schedule).str() << " " << p << " " << longer;
      }
}

/// What the cost model says of a layout is what the simulator plays.
TEST(Simulate, PricesAgree) {
  Architecture model = test::makeLlama8B(/*blocks=*/30);
  llvm::Expected<Machine> machine = getMachine("h100-sxm:64");
  ASSERT_TRUE(bool(machine));
  Profile profile;
  profile.attention = machine->device.attention.begin()->first;
  profile.hostPerStep = 0.01;
  CostModel costs(model, *machine, {4096, 128, DType::BF16}, profile);
  for (auto [schedule, chunks] : {std::pair(Schedule::GPipe, 1),
                                  {Schedule::OneFOneB, 1},
                                  {Schedule::Interleaved, 3},
                                  {Schedule::ZeroBubbleH1, 1},
                                  {Schedule::ZeroBubbleH2, 1},
                                  {Schedule::ZeroBubbleV, 2}})
    for (int64_t pp : {2, 4, 8})
      for (int zero : {0, 1, 2, 3}) {
        TrainLayout layout;
        layout.tp = 2;
        layout.pp = pp;
        layout.dp = 32 / pp;
        layout.schedule = schedule;
        layout.virtualStages = chunks;
        layout.zero = zero;
        Estimate estimate = costs.price(layout);
        Simulation simulation = simulate(costs.getPipelineStep(layout));
        EXPECT_NEAR((simulation.step + profile.hostPerStep) / estimate.step, 1,
                    0.02);
        double most = 0;
        for (double peak : simulation.peaks)
          most = std::max(most, peak);
        EXPECT_GE(most, estimate.memory.activations * (1 - 1e-9));
        double sum = estimate.compute + estimate.tensor + estimate.context +
                     estimate.expert + estimate.pipeline + estimate.data +
                     estimate.bubble + estimate.optimizer + estimate.host;
        EXPECT_NEAR(sum / estimate.step, 1, 1e-9);
      }
}

TEST(Simulate, TraceIsJSON) {
  PipelineStep step = makeStep(Schedule::ZeroBubbleV, 3, 2, 4);
  step.send = 0.1;
  step.data = {1, 1, 1};
  std::string text;
  llvm::raw_string_ostream os(text);
  Simulation simulation = simulate(step);
  printTrace(os, simulation);
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  ASSERT_TRUE(bool(root)) << llvm::toString(root.takeError());
  const llvm::json::Array *events =
      root->getAsObject()->getArray("traceEvents");
  ASSERT_TRUE(events);
  // 3 stages of 3 names; 3 ops a micro-batch and virtual stage; 2 sends over
  // each of 4 boundaries between stages; 3 reductions.
  EXPECT_EQ(events->size(), 9u + 3 * 4 * 6 + 2 * 4 * 4 + 3);
  double last = 0;
  for (const llvm::json::Value &event : *events)
    if (event.getAsObject()->getString("ph") == "X")
      last = std::max(last, *event.getAsObject()->getNumber("ts") +
                                *event.getAsObject()->getNumber("dur"));
  double end = 0;
  for (size_t i = 0; i != 3; ++i)
    end = std::max(end, simulation.ends[i] + 1);
  EXPECT_NEAR(last, end * 1e6, 1);
}
