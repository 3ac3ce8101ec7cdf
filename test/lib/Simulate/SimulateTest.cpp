//===- SimulateTest.cpp - Schedules: bubbles, order, memory ---------------===//
#include "cleave/Simulate/Simulate.h"
#include "cleave/Cost/CostModel.h"
#include "test/lib/Cost/Llama8B.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"
#include <random>
#include <set>

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
  for (Schedule schedule :
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::EagerOneFOneB})
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
  // Three more for each stage that follows.
  Simulation eager = simulate(makeStep(Schedule::EagerOneFOneB, 4, 1, 16));
  EXPECT_EQ(eager.peaks, (std::vector<double>{10, 7, 4, 1}));
  Simulation few = simulate(makeStep(Schedule::OneFOneB, 4, 1, 2));
  EXPECT_EQ(few.peaks, (std::vector<double>{2, 2, 2, 1}));
  Simulation all = simulate(makeStep(Schedule::GPipe, 4, 1, 16));
  EXPECT_EQ(all.peaks, (std::vector<double>{16, 16, 16, 16}));
  // Of chunks, 2 (p - i - 1) + (v - 1) p + 1.
  Simulation chunks = simulate(makeStep(Schedule::Interleaved, 4, 2, 16));
  EXPECT_EQ(chunks.peaks, (std::vector<double>{11, 9, 7, 5}));
}

/// Stages that send as long as they compute, those in the middle both ways:
/// eager 1F1B hides it all but while the pipeline fills and drains.
TEST(Simulate, EagerHidesMessages) {
  const int64_t m = 40;
  for (int64_t p : {2, 4, 8}) {
    auto getStep = [&](Schedule schedule) {
      PipelineStep step = makeStep(schedule, p, 1, m);
      step.send = p == 2 ? 3 : 1.5;
      return simulate(step).step;
    };
    double wayDownAndUp = 3 * double(p) + (p == 2 ? 6 : 3) * double(p - 1);
    EXPECT_NEAR(getStep(Schedule::EagerOneFOneB), wayDownAndUp + 3 * (m - 1),
                1.5 * double(p));
    EXPECT_GT(getStep(Schedule::OneFOneB), 1.5 * 3 * m);
  }
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
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::EagerOneFOneB,
        Schedule::Interleaved, Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2,
        Schedule::ZeroBubbleV, Schedule::DualPipeV})
    for (int64_t p : {1, 2, 3, 5})
      for (int64_t m : {1, 2, 5, 9}) {
        bool chunked = schedule == Schedule::Interleaved || isVShaped(schedule);
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
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::EagerOneFOneB,
        Schedule::Interleaved, Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2,
        Schedule::ZeroBubbleV, Schedule::DualPipeV})
    for (int64_t p : {2, 3, 4, 6, 8, 13, 16})
      for (int64_t m : {1, 2, 3, 4, 7, 8, 16, 24, 32, 48, 63, 128, 200})
        for (double spread : {0., 0.3, 1.}) {
          bool chunked =
              schedule == Schedule::Interleaved || isVShaped(schedule);
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
          std::vector<double> peaks(static_cast<size_t>(p));
          model.getPeaks(step.shape, step.activations, peaks);
          for (size_t stage = 0; stage != peaks.size(); ++stage)
            EXPECT_NEAR(peaks[stage] / simulation.peaks[stage], 1, 0.02)
                << getName(schedule).str() << " p " << p << " m " << m
                << " stage " << stage;
        }
  EXPECT_GE(cases, 800);
  RecordProperty("worst", std::to_string(worst));
}

/// Up to three times as many micro-batches as stages nothing is extrapolated,
/// and what is laid out for fewer repeats itself.
TEST(Simulate, RecurrenceRepeats) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(0, 1);
  PipelineModel model;
  for (Schedule schedule :
       {Schedule::GPipe, Schedule::OneFOneB, Schedule::EagerOneFOneB,
        Schedule::Interleaved, Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2,
        Schedule::ZeroBubbleV, Schedule::DualPipeV})
    for (int64_t p = 2; p != 18; ++p)
      for (int64_t m = 1; m <= std::max<int64_t>(3 * p, 24); ++m) {
        int64_t chunks = isVShaped(schedule)                 ? 2
                         : schedule == Schedule::Interleaved ? 2 + m % 2
                                                             : 1;
        PipelineStep step = makeStep(schedule, p, chunks, m);
        for (size_t i = 0; i != step.times.size(); ++i) {
          step.times[i] = {unit(random), unit(random), unit(random)};
          step.activations[i] = unit(random);
        }
        step.send = 0.5 * unit(random);
        Simulation simulation = simulate(step);
        std::vector<double> starts, ends, peaks(static_cast<size_t>(p));
        double seconds =
            model.getSeconds(step.shape, step.times, step.send, starts, ends);
        model.getPeaks(step.shape, step.activations, peaks);
        EXPECT_NEAR(seconds / simulation.step, 1, 1e-12)
            << getName(schedule).str() << " p " << p << " m " << m;
        for (size_t stage = 0; stage != peaks.size(); ++stage) {
          EXPECT_NEAR(ends[stage] / simulation.ends[stage], 1, 1e-12)
              << getName(schedule).str() << " p " << p << " m " << m
              << " stage " << stage;
          EXPECT_NEAR(peaks[stage] / simulation.peaks[stage], 1, 1e-12)
              << getName(schedule).str() << " p " << p << " m " << m
              << " stage " << stage;
        }
      }
}

/// A stage that is longer than the others fills the pipeline slowly, and many
/// micro-batches are extrapolated.
TEST(Simulate, RecurrenceAgreesOverManyMicroBatches) {
  std::mt19937 random(1);
  auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  PipelineModel model;
  for (Schedule schedule :
       {Schedule::OneFOneB, Schedule::EagerOneFOneB, Schedule::ZeroBubbleH1,
        Schedule::ZeroBubbleH2, Schedule::ZeroBubbleV, Schedule::DualPipeV})
    for (int64_t p : {2, 4, 8})
      for (int round = 0; round != 40; ++round) {
        int64_t chunks = isVShaped(schedule) ? 2 : 1;
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
          fast = std::max(fast,
                          ends[i] - (step.shape.endsAlone() ? starts[i] : 0));
        double slowest =
            *std::max_element(simulation.busy.begin(), simulation.busy.end());
        EXPECT_GE(fast, slowest * (1 - 1e-9))
            << getName(schedule).str() << " " << p << " " << longer;
        EXPECT_NEAR(fast, simulation.step, 0.02 * simulation.step)
            << getName(schedule).str() << " " << p << " " << longer;
      }
}

/// Of a stage's order, by chunk: what is first and last used when, and the most
/// micro-batches that wait between two kinds of ops.
struct Waiting {
  PipelineOpKind from, to; ///< the last of the latter frees
  double bytes;            ///< of a micro-batch

  /// Bytes of an arena while `meanwhile` runs, of the chunk.
  double getBytes(const std::vector<PipelineOp> &order, int32_t chunk,
                  size_t first, size_t last, bool isOnce) const {
    size_t begin = order.size(), end = 0;
    std::set<int32_t> waiting;
    size_t most = 0;
    for (size_t i = 0; i != order.size(); ++i) {
      if (order[i].chunk != chunk)
        continue;
      if (order[i].kind == from) {
        begin = std::min(begin, i);
        waiting.insert(order[i].microBatch);
        most = std::max(most, waiting.size());
      }
      if (order[i].kind == to) {
        end = i;
        waiting.erase(order[i].microBatch);
      }
    }
    // What runs once frees what it reads.
    bool isThere =
        isOnce ? begin <= first && first < end : begin <= last && first <= end;
    return isThere ? double(most) * bytes : 0;
  }
};

/// What an arena has of passes' results: places for the most micro-batches that
/// ever wait, while any of a segment's runs may need them; of one micro-batch,
/// what is used before and after.
TEST(Simulate, MomentsOfAnArena) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(0.1, 1);
  PipelineModel model;
  for (int64_t p : {1, 2, 3, 4, 8})
    for (int64_t m : {1, 2, 3, 7, 8, 20, 100})
      for (Schedule schedule : {Schedule::GPipe, Schedule::OneFOneB,
                                Schedule::EagerOneFOneB, Schedule::Interleaved,
                                Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2,
                                Schedule::ZeroBubbleV, Schedule::DualPipeV}) {
        int64_t chunks = isVShaped(schedule)                 ? 2
                         : schedule == Schedule::Interleaved ? 3
                                                             : 1;
        PipelineShape shape = makeStep(schedule, p, chunks, m).shape;
        PipelineOpKind input = shape.splitsBackward()
                                   ? PipelineOpKind::BackwardInput
                                   : PipelineOpKind::Backward;
        PipelineOpKind weight = shape.splitsBackward()
                                    ? PipelineOpKind::BackwardWeight
                                    : PipelineOpKind::Backward;
        Waiting read{PipelineOpKind::Forward, input, unit(random)};
        Waiting kept{PipelineOpKind::Forward, weight, unit(random)};
        Waiting between{input, weight,
                        shape.splitsBackward() ? unit(random) : 0};
        for (int64_t stage = 0; stage != p; ++stage) {
          SCOPED_TRACE(getName(schedule).str() + " p " + std::to_string(p) +
                       " m " + std::to_string(m) + " stage " +
                       std::to_string(stage));
          std::vector<PipelineOp> order = getOrder(shape, stage);
          double expected = 0;
          for (size_t i = 0; i != order.size(); ++i) {
            auto isLike = [&](const PipelineOp &op) {
              return op.kind == order[i].kind && op.chunk == order[i].chunk;
            };
            auto first = llvm::find_if(order, isLike) - order.begin();
            size_t last = i;
            double bytes = 0;
            for (int32_t chunk = 0; chunk != chunks; ++chunk)
              for (const Waiting &each : {read, kept, between})
                bytes +=
                    each.getBytes(order, chunk, size_t(first), last, m == 1);
            expected = std::max(expected, bytes);
          }
          double most = 0;
          for (const PipelineProgram::Moment &moment :
               model.getMoments(shape, stage)) {
            double bytes = 0;
            for (size_t chunk = 0; chunk != size_t(chunks); ++chunk) {
              const PipelineProgram::Live &live = moment.parts[chunk];
              bytes += live.read * read.bytes + live.kept * kept.bytes +
                       live.between * between.bytes;
            }
            most = std::max(most, bytes);
          }
          EXPECT_NEAR(most, expected, 1e-9);
        }
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
  // An allocator's peak is one moment's; an arena has places for all.
  profile.allocatorGaps = 0.05;
  CostModel costs(model, *machine, {4096, 128, DType::BF16}, profile);
  for (auto [schedule, chunks] : {std::pair(Schedule::GPipe, 1),
                                  {Schedule::OneFOneB, 1},
                                  {Schedule::EagerOneFOneB, 1},
                                  {Schedule::Interleaved, 3},
                                  {Schedule::ZeroBubbleH1, 1},
                                  {Schedule::ZeroBubbleH2, 1},
                                  {Schedule::ZeroBubbleV, 2},
                                  {Schedule::DualPipeV, 2}})
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

//===----------------------------------------------------------------------===//
// Traces, by the rules of Chrome's "Trace Event Format" and Perfetto's importer
//===----------------------------------------------------------------------===//

namespace {
using TraceEvents = std::vector<llvm::json::Object>;

/// A time of a trace, whole nanoseconds.
int64_t getTime(const llvm::json::Object &event, llvm::StringRef key) {
  std::optional<double> micros = event.getNumber(key);
  EXPECT_TRUE(micros);
  return std::llround(micros.value_or(0) * 1000);
}

TraceEvents parseTrace(const PipelineStep &step, const Simulation &simulation) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printTrace(os, step, simulation);
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  TraceEvents events;
  if (!root) {
    ADD_FAILURE() << llvm::toString(root.takeError());
    return events;
  }
  for (llvm::json::Value &event : *root->getAsObject()->getArray("traceEvents"))
    events.push_back(std::move(*event.getAsObject()));
  return events;
}

TraceEvents getPhase(const TraceEvents &events, llvm::StringRef phase) {
  TraceEvents found;
  llvm::copy_if(events, std::back_inserter(found), [&](const auto &event) {
    return event.getString("ph") == phase;
  });
  return found;
}

/// Steps whose seconds are no whole nanoseconds.
std::vector<PipelineStep> makeTraced() {
  std::vector<PipelineStep> steps;
  for (auto [schedule, chunks] : {std::pair(Schedule::GPipe, 1),
                                  {Schedule::OneFOneB, 1},
                                  {Schedule::EagerOneFOneB, 1},
                                  {Schedule::Interleaved, 3},
                                  {Schedule::ZeroBubbleH2, 1},
                                  {Schedule::ZeroBubbleV, 2},
                                  {Schedule::DualPipeV, 2}})
    for (int64_t p : {1, 3, 11})
      for (double send : {0., 0.037 / 3}) {
        PipelineStep step =
            makeStep(schedule, p, chunks, 2 * p, {1. / 3, 0.1 / 7, 2. / 9});
        step.send = send;
        step.data.assign(size_t(p), 1. / 11);
        step.optimizer = 1. / 13;
        steps.push_back(step);
      }
  return steps;
}
} // namespace

TEST(Trace, HasEveryEventOnce) {
  for (const PipelineStep &step : makeTraced()) {
    Simulation simulation = simulate(step);
    TraceEvents events = parseTrace(step, simulation);
    int64_t p = step.shape.stages, m = step.shape.microBatches;
    int64_t virtuals = step.shape.getVirtualStages();
    int64_t ops = virtuals * m * (step.shape.splitsBackward() ? 3 : 2);
    int64_t crossings = 0;
    for (int64_t i = 1; i < virtuals; ++i)
      crossings += step.shape.getStage(i) != step.shape.getStage(i - 1);
    int64_t messages = 2 * crossings * m;
    int64_t sends = step.send > 0 ? messages : 0;
    // A name and a place in the order for each stage and its three streams.
    EXPECT_EQ(int64_t(getPhase(events, "M").size()), 8 * p);
    EXPECT_EQ(int64_t(getPhase(events, "X").size()), ops + sends + 2 * p);
    EXPECT_EQ(int64_t(getPhase(events, "s").size()), messages);
    EXPECT_EQ(int64_t(getPhase(events, "t").size()), sends);
    EXPECT_EQ(int64_t(getPhase(events, "f").size()), messages);
    int64_t last = 0;
    double end = 0;
    for (const llvm::json::Object &slice : getPhase(events, "X"))
      last = std::max(last, getTime(slice, "ts") + getTime(slice, "dur"));
    for (const SimulatedEvent &event : simulation.events)
      end = std::max(end, event.end);
    EXPECT_EQ(last, std::llround(end * 1e9));
  }
}

TEST(Trace, SlicesOfAThreadNeverOverlap) {
  for (const PipelineStep &step : makeTraced()) {
    TraceEvents events = parseTrace(step, simulate(step));
    std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> threads;
    std::map<int64_t, int64_t> processOf;
    for (const llvm::json::Object &event : events) {
      int64_t pid = event.getInteger("pid").value_or(0);
      int64_t tid = event.getInteger("tid").value_or(0);
      EXPECT_GT(pid, 0);
      EXPECT_GT(tid, 0);
      EXPECT_TRUE(event.getString("name"));
      // Perfetto takes a thread's number to be of one process only.
      EXPECT_EQ(processOf.try_emplace(tid, pid).first->second, pid);
      if (event.getString("ph") != "X")
        continue;
      EXPECT_GE(getTime(event, "ts"), 0);
      EXPECT_GE(getTime(event, "dur"), 0);
      threads[tid].emplace_back(getTime(event, "ts"),
                                getTime(event, "ts") + getTime(event, "dur"));
    }
    for (auto &[tid, slices] : threads) {
      llvm::sort(slices);
      for (size_t i = 1; i < slices.size(); ++i)
        EXPECT_LE(slices[i - 1].second, slices[i].first) << tid;
    }
  }
}

TEST(Trace, ArrowsGoFromSliceToSlice) {
  for (const PipelineStep &step : makeTraced()) {
    TraceEvents events = parseTrace(step, simulate(step));
    std::map<std::pair<int64_t, int64_t>, const llvm::json::Object *> slices;
    TraceEvents all = getPhase(events, "X");
    for (const llvm::json::Object &slice : all)
      slices[{*slice.getInteger("tid"), getTime(slice, "ts")}] = &slice;
    std::map<int64_t, std::vector<const llvm::json::Object *>> arrows;
    for (llvm::StringRef phase : {"s", "t", "f"})
      for (const llvm::json::Object &end : getPhase(events, phase)) {
        auto at = slices.find({*end.getInteger("tid"), getTime(end, "ts")});
        ASSERT_TRUE(at != slices.end()) << phase.str();
        arrows[*end.getInteger("id")].push_back(at->second);
      }
    for (const auto &[id, path] : arrows) {
      ASSERT_EQ(path.size(), step.send > 0 ? 3u : 2u);
      for (size_t i = 1; i != path.size(); ++i) {
        EXPECT_LE(getTime(*path[i - 1], "ts") + getTime(*path[i - 1], "dur"),
                  getTime(*path[i], "ts"));
        EXPECT_EQ(*path[i - 1]->getObject("args")->getInteger("micro-batch"),
                  *path[i]->getObject("args")->getInteger("micro-batch"));
      }
      EXPECT_EQ(
          std::abs(
              *path.front()->getObject("args")->getInteger("virtual stage") -
              *path.back()->getObject("args")->getInteger("virtual stage")),
          1);
      EXPECT_NE(*path.front()->getInteger("pid"),
                *path.back()->getInteger("pid"));
    }
  }
}

/// The counter's most is what the simulator says, and nothing is left.
TEST(Trace, CountsActivations) {
  for (PipelineStep step : makeTraced()) {
    for (size_t i = 0; i != step.activations.size(); ++i)
      step.activations[i] = 1000 + 10 * double(i);
    Simulation simulation = simulate(step);
    std::map<int64_t, int64_t> most, last;
    for (const llvm::json::Object &count :
         getPhase(parseTrace(step, simulation), "C")) {
      int64_t pid = *count.getInteger("pid");
      last[pid] = *count.getObject("args")->getInteger("bytes");
      most[pid] = std::max(most[pid], last[pid]);
    }
    ASSERT_EQ(most.size(), simulation.peaks.size());
    size_t stage = 0;
    for (auto [pid, bytes] : most) {
      EXPECT_EQ(double(bytes), simulation.peaks[stage++]);
      EXPECT_EQ(last[pid], 0);
    }
  }
}
