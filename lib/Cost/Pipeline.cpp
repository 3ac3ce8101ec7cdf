//===- Pipeline.cpp - Orders and seconds of pipeline schedules ------------===//
#include "cleave/Cost/Pipeline.h"
#include <algorithm>
#include <cassert>

using namespace cleave;

using Orders = std::vector<std::vector<PipelineOp>>;

int64_t PipelineShape::getVirtualStage(int64_t stage, int64_t chunk) const {
  if (schedule == Schedule::ZeroBubbleV && chunk % 2 == 1)
    return (chunk + 1) * stages - 1 - stage;
  return chunk * stages + stage;
}

int64_t PipelineShape::getStage(int64_t virtualStage) const {
  int64_t stage = virtualStage % stages;
  bool back =
      schedule == Schedule::ZeroBubbleV && virtualStage / stages % 2 == 1;
  return back ? stages - 1 - stage : stage;
}

//===----------------------------------------------------------------------===//
// Orders
//===----------------------------------------------------------------------===//

/// GPipe, 1F1B and interleaved: `warmup` forward passes, then one backward
/// after each forward, then what is left. Virtual stages take micro-batches in
/// groups of p: all of a group on one chunk, then on the next.
static Orders getFixedOrders(const PipelineShape &shape) {
  int64_t p = shape.stages, v = shape.chunks, m = shape.microBatches;
  std::vector<PipelineOp> forward, backward;
  for (int64_t first = 0; first < m; first += p)
    for (int64_t chunk = 0; chunk != v; ++chunk)
      for (int64_t i = first; i != std::min(first + p, m); ++i) {
        forward.push_back(
            {PipelineOpKind::Forward, int32_t(chunk), int32_t(i)});
        backward.push_back(
            {PipelineOpKind::Backward, int32_t(v - 1 - chunk), int32_t(i)});
      }
  Orders orders;
  for (int64_t stage = 0; stage != p; ++stage) {
    int64_t warmup = p - 1 - stage;
    if (v > 1)
      warmup = 2 * warmup + (v - 1) * p;
    // A last group of fewer than p leaves the alternation too early; then all
    // forward passes come first.
    if (shape.schedule == Schedule::GPipe || (v > 1 && m % p != 0))
      warmup = m * v;
    warmup = std::min(warmup, m * v);
    std::vector<PipelineOp> &order = orders.emplace_back();
    order.reserve(size_t(2 * m * v));
    order.insert(order.end(), forward.begin(), forward.begin() + warmup);
    for (int64_t i = warmup; i != m * v; ++i) {
      order.push_back(forward[size_t(i)]);
      order.push_back(backward[size_t(i - warmup)]);
    }
    order.insert(order.end(), backward.end() - warmup, backward.end());
  }
  return orders;
}

/// ZB-H1 and H2: 1F1B with weight gradients `lag` micro-batches behind input
/// gradients, so that a stage keeps as much as the first one does and has work
/// left for when the pipeline drains.
static Orders getZeroBubbleOrders(const PipelineShape &shape) {
  int64_t p = shape.stages, m = shape.microBatches;
  bool twice = shape.schedule == Schedule::ZeroBubbleH2;
  Orders orders;
  for (int64_t stage = 0; stage != p; ++stage) {
    int64_t warmup = twice ? 2 * (p - stage) - 1 : p - stage;
    int64_t lag = twice ? 2 * stage : stage;
    std::vector<PipelineOp> &order = orders.emplace_back();
    order.reserve(size_t(3 * m));
    auto add = [&](PipelineOpKind kind, int64_t microBatch) {
      if (microBatch >= 0 && microBatch < m)
        order.push_back({kind, 0, int32_t(microBatch)});
    };
    for (int64_t i = 0; i != warmup; ++i)
      add(PipelineOpKind::Forward, i);
    for (int64_t i = 0; i != m + lag; ++i) {
      add(PipelineOpKind::BackwardInput, i);
      add(PipelineOpKind::BackwardWeight, i - lag);
      add(PipelineOpKind::Forward, i + warmup);
    }
  }
  return orders;
}

/// ZB-V, for at least 2p - 1 micro-batches; of fewer, what belongs to them.
static Orders getVShapedOrders(const PipelineShape &shape) {
  int64_t p = shape.stages, m = std::max(shape.microBatches, 2 * p - 1);
  Orders orders;
  for (int64_t stage = 0; stage != p; ++stage) {
    std::vector<PipelineOp> &order = orders.emplace_back();
    order.reserve(size_t(6 * m));
    int64_t counts[4][2] = {}; // by kind and chunk
    auto count = [&](PipelineOpKind kind, int32_t chunk) -> int64_t & {
      return counts[size_t(kind)][chunk];
    };
    auto add = [&](PipelineOpKind kind, int32_t chunk) {
      int64_t microBatch = count(kind, chunk)++;
      if (microBatch < shape.microBatches)
        order.push_back({kind, chunk, int32_t(microBatch)});
    };
    const PipelineOpKind forward = PipelineOpKind::Forward,
                         input = PipelineOpKind::BackwardInput,
                         weight = PipelineOpKind::BackwardWeight;
    for (int64_t i = 0; i != 2 * (p - stage) - 1; ++i)
      add(forward, 0);
    for (int64_t i = 0; i != stage; ++i) {
      add(forward, 1);
      add(forward, 0);
    }
    for (int64_t i = 0; i != p - stage; ++i) {
      add(forward, 1);
      add(input, 1);
      add(weight, 1);
    }
    while (count(forward, 1) < m) {
      if (count(forward, 0) < m)
        add(forward, 0);
      add(input, 0);
      add(weight, 0);
      add(forward, 1);
      add(input, 1);
      add(weight, 1);
    }
    for (int64_t i = 0; i != stage; ++i) {
      add(input, 0);
      add(input, 1);
    }
    for (int64_t i = 0; i != p - stage; ++i) {
      add(input, 0);
      add(weight, 0);
    }
    while (count(weight, 1) < count(input, 1))
      add(weight, 1);
    while (count(weight, 0) < count(input, 0))
      add(weight, 0);
  }
  return orders;
}

Orders cleave::getOrders(const PipelineShape &shape) {
  switch (shape.schedule) {
  case Schedule::GPipe:
  case Schedule::OneFOneB:
  case Schedule::Interleaved:
    return getFixedOrders(shape);
  case Schedule::ZeroBubbleH1:
  case Schedule::ZeroBubbleH2:
    return getZeroBubbleOrders(shape);
  case Schedule::ZeroBubbleV:
    return getVShapedOrders(shape);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

/// Keeps only vectors, of `width` numbers each, that no other one exceeds in
/// all numbers.
static void addPeak(std::vector<int32_t> &peaks,
                    const std::vector<int32_t> &live) {
  size_t width = live.size();
  auto covers = [&](const int32_t *a, const int32_t *b) {
    for (size_t i = 0; i != width; ++i)
      if (a[i] < b[i])
        return false;
    return true;
  };
  for (size_t i = 0; i < peaks.size(); i += width)
    if (covers(&peaks[i], live.data()))
      return;
  for (size_t i = 0; i < peaks.size();)
    if (covers(live.data(), &peaks[i]))
      peaks.erase(peaks.begin() + long(i), peaks.begin() + long(i + width));
    else
      i += width;
  peaks.insert(peaks.end(), live.begin(), live.end());
}

const PipelineModel::Compiled &PipelineModel::get(const PipelineShape &shape) {
  auto [at, isNew] = compiled.try_emplace(
      {shape.schedule, shape.stages, shape.chunks, shape.microBatches});
  Compiled &result = at->second;
  if (!isNew)
    return result;
  Orders orders = getOrders(shape);
  int64_t all = shape.getVirtualStages(), m = shape.microBatches;
  result.peaks.resize(orders.size());
  size_t total = 0;
  for (size_t stage = 0; stage != orders.size(); ++stage) {
    total += orders[stage].size();
    std::vector<int32_t> live(size_t(shape.chunks), 0);
    bool grew = false;
    for (const PipelineOp &op : orders[stage]) {
      if (op.kind == PipelineOpKind::Forward) {
        ++live[size_t(op.chunk)];
        grew = true;
      } else if (op.kind != PipelineOpKind::BackwardInput) {
        if (grew)
          addPeak(result.peaks[stage], live);
        grew = false;
        --live[size_t(op.chunk)];
      }
    }
  }

  // Merge the orders: a stage runs on until its next op waits for another's.
  std::vector<int32_t> forwardAt(size_t(all * m), -1), backwardAt(forwardAt);
  std::vector<size_t> next(orders.size(), 0);
  result.steps.reserve(total);
  while (result.steps.size() != total) {
    [[maybe_unused]] size_t before = result.steps.size();
    for (size_t stage = 0; stage != orders.size(); ++stage)
      for (; next[stage] != orders[stage].size(); ++next[stage]) {
        const PipelineOp &op = orders[stage][next[stage]];
        int64_t virtualStage = shape.getVirtualStage(int64_t(stage), op.chunk);
        size_t slot = size_t(virtualStage * m + op.microBatch);
        Step step{uint16_t(stage), uint8_t(op.kind), 0, int32_t(virtualStage),
                  -1};
        bool isForward = op.kind == PipelineOpKind::Forward;
        bool isWeight = op.kind == PipelineOpKind::BackwardWeight;
        int64_t from = isForward ? virtualStage - 1 : virtualStage + 1;
        int64_t to = isForward ? virtualStage + 1 : virtualStage - 1;
        if (!isWeight && from >= 0 && from < all) {
          const std::vector<int32_t> &inputs =
              isForward ? forwardAt : backwardAt;
          step.input = inputs[size_t(from * m + op.microBatch)];
          if (step.input < 0)
            break;
        } else if (!isForward && forwardAt[slot] < 0) {
          break;
        }
        step.sends = !isWeight && to >= 0 && to < all &&
                     shape.getStage(to) != int64_t(stage);
        if (!isWeight)
          (isForward ? forwardAt : backwardAt)[slot] =
              int32_t(result.steps.size());
        result.steps.push_back(step);
      }
    assert(result.steps.size() != before && "orders do not wait in a circle");
  }
  return result;
}

double PipelineModel::evaluate(const PipelineShape &shape,
                               llvm::ArrayRef<StageTimes> times, double send,
                               std::vector<double> &starts,
                               std::vector<double> &ends) {
  const Compiled &program = get(shape);
  size_t p = size_t(shape.stages);
  arrival.resize(program.steps.size());
  freeAt.assign(p, 0);
  linkFreeAt.assign(p, 0);
  starts.assign(p, -1);
  const Step *steps = program.steps.data();
  for (size_t i = 0, size = program.steps.size(); i != size; ++i) {
    const Step &step = steps[i];
    const StageTimes &time = times[size_t(step.virtualStage)];
    double seconds = step.kind == 0   ? time.forward
                     : step.kind == 1 ? time.getBackward()
                     : step.kind == 2 ? time.backwardInput
                                      : time.backwardWeight;
    double start = freeAt[step.stage];
    if (step.input >= 0)
      start = std::max(start, arrival[size_t(step.input)]);
    if (starts[step.stage] < 0)
      starts[step.stage] = start;
    double end = start + seconds;
    freeAt[step.stage] = end;
    if (step.sends) {
      end = std::max(end, linkFreeAt[step.stage]) + send;
      linkFreeAt[step.stage] = end;
    }
    arrival[i] = end;
  }
  ends = freeAt;
  if (!shape.splitsBackward())
    return *std::max_element(ends.begin(), ends.end());
  double longest = 0;
  for (size_t i = 0; i != p; ++i)
    longest = std::max(longest, ends[i] - starts[i]);
  return longest;
}

/// Two numbers of micro-batches, as far from whole groups of p as m is, between
/// which a step grows as it does from there on. Interleaved stages that differ
/// take longest to settle.
static std::pair<int64_t, int64_t> getSample(const PipelineShape &shape) {
  int64_t p = shape.stages;
  int64_t groups = shape.chunks > 1 && !shape.splitsBackward() ? 4 : 2;
  int64_t few =
      p * std::max<int64_t>(groups, (16 + p - 1) / p) + shape.microBatches % p;
  return {few, few + p * std::max<int64_t>(groups / 2, (8 + p - 1) / p)};
}

double PipelineModel::getSeconds(const PipelineShape &shape,
                                 llvm::ArrayRef<StageTimes> times, double send,
                                 std::vector<double> &starts,
                                 std::vector<double> &ends) {
  int64_t p = shape.stages, m = shape.microBatches;
  if (p == 1) {
    double sum = 0;
    for (const StageTimes &time : times)
      sum += time.getTotal();
    starts.assign(1, 0);
    ends.assign(1, sum * double(m));
    return ends[0];
  }
  auto [few, many] = getSample(shape);
  if (m <= many)
    return evaluate(shape, times, send, starts, ends);
  PipelineShape small = shape, large = shape;
  small.microBatches = few;
  large.microBatches = many;
  std::vector<double> smallEnds;
  double first = evaluate(small, times, send, starts, smallEnds);
  double second = evaluate(large, times, send, starts, ends);
  // Once it has settled, a pipeline is no faster than its slowest stage; uneven
  // ones may take longer to settle than the samples are.
  std::vector<double> own(size_t(p), 0.);
  for (size_t v = 0; v != times.size(); ++v)
    own[size_t(shape.getStage(int64_t(v)))] += times[v].getTotal();
  double slowest = *std::max_element(own.begin(), own.end());
  auto extrapolate = [&](double from, double to) {
    double each = (to - from) / double(many - few);
    return to + double(m - many) * std::max(each, slowest);
  };
  for (size_t i = 0; i != ends.size(); ++i)
    ends[i] = extrapolate(smallEnds[i], ends[i]);
  return extrapolate(first, second);
}

const PipelineModel::Compiled *
PipelineModel::getForPeaks(const PipelineShape &shape) {
  if (shape.schedule == Schedule::GPipe || shape.schedule == Schedule::OneFOneB)
    return nullptr;
  // More micro-batches keep no more, unless all forward passes come first.
  PipelineShape known = shape;
  if (shape.schedule != Schedule::Interleaved ||
      shape.microBatches % shape.stages == 0)
    known.microBatches = std::min(known.microBatches, getSample(shape).second);
  return &get(known);
}

double PipelineModel::getPeak(const Compiled *program,
                              const PipelineShape &shape, int64_t stage,
                              llvm::ArrayRef<double> activations) const {
  int64_t m = shape.microBatches, p = shape.stages;
  if (shape.schedule == Schedule::GPipe)
    return double(m) * activations[size_t(stage)];
  if (shape.schedule == Schedule::OneFOneB)
    return double(std::min(m, p - stage)) * activations[size_t(stage)];
  const std::vector<int32_t> &peaks = program->peaks[size_t(stage)];
  double most = 0;
  size_t width = size_t(shape.chunks);
  for (size_t i = 0; i != peaks.size(); i += width) {
    double sum = 0;
    for (size_t chunk = 0; chunk != width; ++chunk)
      sum += double(peaks[i + chunk]) *
             activations[size_t(shape.getVirtualStage(stage, int64_t(chunk)))];
    most = std::max(most, sum);
  }
  return most;
}

void PipelineModel::getPeaks(const PipelineShape &shape,
                             llvm::ArrayRef<double> activations,
                             llvm::MutableArrayRef<double> peaks) {
  const Compiled *program = getForPeaks(shape);
  for (size_t stage = 0; stage != peaks.size(); ++stage)
    peaks[stage] = getPeak(program, shape, int64_t(stage), activations);
}
