//===- Pipeline.cpp - Orders and seconds of pipeline schedules ------------===//
#include "cleave/Cost/Pipeline.h"
#include <algorithm>
#include <cassert>
#include <numeric>

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

namespace {
/// Vectors of counts, of which none exceeds another in all numbers.
class Peaks {
public:
  explicit Peaks(size_t width) : width(width) {}

  void add(const std::vector<int32_t> &live, int64_t sum) {
    // They come back, in the same order.
    for (size_t i = 0, at = hit; i != sums.size(); ++i) {
      if (covers(&counts[at * width], sums[at], live.data(), sum)) {
        hit = at;
        return;
      }
      at = at + 1 < sums.size() ? at + 1 : 0;
    }
    for (size_t i = 0; sum > least && i != sums.size();)
      if (covers(live.data(), sum, &counts[i * width], sums[i])) {
        auto from = counts.begin() + long(i * width);
        counts.erase(from, from + long(width));
        sums.erase(sums.begin() + long(i));
      } else {
        ++i;
      }
    least = std::min(least, sum);
    hit = sums.size();
    counts.insert(counts.end(), live.begin(), live.end());
    sums.push_back(sum);
  }

  std::vector<int32_t> counts;

private:
  bool covers(const int32_t *a, int64_t sumOfA, const int32_t *b,
              int64_t sumOfB) const {
    if (sumOfA < sumOfB)
      return false;
    bool isEqual = sumOfA == sumOfB; // then all numbers are, or none covers
    for (size_t i = 0; i != width; ++i)
      if (isEqual ? a[i] != b[i] : a[i] < b[i])
        return false;
    return true;
  }

  size_t width, hit = 0;
  int64_t least = std::numeric_limits<int64_t>::max(); ///< of the sums
  std::vector<int64_t> sums;
};
} // namespace

/// Numbers of micro-batches in flight, by stage; see PipelineModel::Program.
static std::vector<std::vector<int32_t>> getInFlight(const Orders &orders,
                                                     int64_t chunks) {
  std::vector<std::vector<int32_t>> all;
  for (const std::vector<PipelineOp> &order : orders) {
    Peaks peaks{size_t(chunks)};
    std::vector<int32_t> live(size_t(chunks), 0);
    int64_t sum = 0;
    bool grew = false;
    for (const PipelineOp &op : order) {
      if (op.kind == PipelineOpKind::Forward) {
        ++live[size_t(op.chunk)];
        ++sum;
        grew = true;
      } else if (op.kind != PipelineOpKind::BackwardInput) {
        if (grew)
          peaks.add(live, sum);
        grew = false;
        --live[size_t(op.chunk)];
        --sum;
      }
    }
    all.push_back(std::move(peaks.counts));
  }
  return all;
}

namespace {
/// Merges the orders of stages into one, in which an op comes after all that it
/// waits for. Neighbours are of different stages and wait for nothing near, so
/// that a processor computes several at once.
class Merger {
public:
  using Step = PipelineModel::Step;

  Merger(const PipelineShape &shape, int64_t microBatches,
         std::vector<Step> &steps)
      : stages(size_t(shape.stages)), all(size_t(shape.getVirtualStages())),
        rows(2 * (all + 1)), steps(steps), next(stages, 0) {
    for (int64_t chunk = 0; chunk != shape.chunks; ++chunk)
      for (int64_t stage = 0; stage != shape.stages; ++stage)
        virtualStages.push_back(shape.getVirtualStage(stage, chunk));
    turns.assign(all + 1, false);
    for (size_t at = 1; at != all; ++at)
      turns[at] =
          shape.getStage(int64_t(at)) == shape.getStage(int64_t(at - 1));
    results.assign(rows * size_t(microBatches), unknown);
    for (size_t i = 0; i != size_t(microBatches); ++i)
      results[i * rows] = results[(i + 1) * rows - 1] = 0;
  }

  /// Adds what follows of these orders, of each stage no more than `limits`
  /// ops in all; of a stage one op in turn, if what it waits for is known.
  void add(const Orders &orders, llvm::ArrayRef<size_t> limits) {
    size_t before;
    do {
      before = steps.size();
      for (size_t stage = 0; stage != stages; ++stage)
        if (next[stage] != limits[stage] &&
            tryAdd(orders[stage][next[stage]], stage, before))
          ++next[stage];
    } while (steps.size() != before);
  }

private:
  /// Only if what it waits for is among the first `known` steps.
  bool tryAdd(const PipelineOp &op, size_t stage, size_t known) {
    size_t at = size_t(virtualStages[size_t(op.chunk) * stages + stage]);
    Step step{int32_t(size_t(op.kind) * all + at), 0};
    if (op.kind != PipelineOpKind::BackwardWeight) {
      bool isForward = op.kind == PipelineOpKind::Forward;
      // Rows of what virtual stages wait for: forward, then backward.
      size_t row = isForward ? at : all + 1 + at + 1;
      step.input = results[size_t(op.microBatch) * rows + row];
      if (size_t(uint32_t(step.input)) > known)
        return false;
      // What the stage did itself has come without a message.
      if (turns[isForward ? at : at + 1])
        step.input = 0;
      row = isForward ? row + 1 : row - 1;
      results[size_t(op.microBatch) * rows + row] = int32_t(steps.size() + 1);
    }
    steps.push_back(step);
    return true;
  }

  static constexpr int32_t unknown = -1;
  size_t stages, all, rows; ///< rows: of a micro-batch in `results`
  std::vector<Step> &steps;
  std::vector<size_t> next;           ///< op of each stage
  std::vector<int64_t> virtualStages; ///< by chunk and stage
  /// Whether a virtual stage is on the stage of the one before it.
  std::vector<char> turns;
  /// The number of the step whose result it is, from 1; 0: nothing to wait for.
  std::vector<int32_t> results;
};
} // namespace

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

/// Micro-batches in flight at most of each chunk of a stage, if they peak
/// together; otherwise 0.
static int64_t getAlikeInFlight(const PipelineShape &shape, int64_t stage) {
  int64_t p = shape.stages, m = shape.microBatches;
  if (shape.schedule == Schedule::OneFOneB)
    return std::min(m, p - stage);
  bool forwardFirst =
      shape.schedule == Schedule::GPipe ||
      (shape.schedule == Schedule::Interleaved && shape.chunks > 1 && m % p);
  return forwardFirst ? m : 0;
}

const PipelineModel::Program &PipelineModel::get(const PipelineShape &shape) {
  if (last && shape == lastShape)
    return *last;
  auto [few, many] = getSample(shape);
  bool isOne = shape.microBatches != few && shape.microBatches <= many;
  if (isOne)
    few = many = shape.microBatches;
  auto [at, isNew] = programs.try_emplace(
      {shape.schedule, shape.stages, shape.chunks, few, many});
  Program &result = at->second;
  last = &result;
  lastShape = shape;
  if (!isNew)
    return result;

  result.few = few;
  result.many = many;
  auto getOrdersOf = [&](int64_t microBatches, std::vector<size_t> &sizes) {
    PipelineShape sample = shape;
    sample.microBatches = microBatches;
    Orders orders = getOrders(sample);
    for (const std::vector<PipelineOp> &order : orders)
      sizes.push_back(order.size());
    return orders;
  };
  std::vector<size_t> sizes, fewSizes;
  Orders orders = getOrdersOf(many, sizes);
  size_t total = std::accumulate(sizes.begin(), sizes.end(), size_t(0));
  result.steps.reserve(total);
  bool peaksApart = !getAlikeInFlight(shape, 0);
  if (peaksApart && isOne)
    result.peaks = getInFlight(orders, shape.chunks);
  Merger merger(shape, many, result.steps);
  if (!isOne) {
    Orders fewer = getOrdersOf(few, fewSizes);
    // More micro-batches keep no more.
    if (peaksApart)
      result.peaks = getInFlight(fewer, shape.chunks);
    std::vector<size_t> shared;
    for (size_t stage = 0; stage != orders.size(); ++stage)
      shared.push_back(
          size_t(std::mismatch(fewer[stage].begin(), fewer[stage].end(),
                               orders[stage].begin())
                     .first -
                 fewer[stage].begin()));
    merger.add(orders, shared);
    result.shared = result.steps.size();
    Merger(merger).add(fewer, fewSizes);
    result.fewEnd = result.steps.size();
  }
  merger.add(orders, sizes);
  if (isOne)
    result.shared = result.fewEnd = result.steps.size();
  assert((isOne
              ? result.steps.size()
              : result.steps.size() - result.fewEnd + result.shared) == total &&
         "orders do not wait in a circle");
  // A stage begins with the first pass over its first chunk.
  for (size_t i = 0; result.begins.size() != orders.size(); ++i)
    if (result.steps[i].op == int32_t(result.begins.size()))
      result.begins.push_back(result.steps[i].input);
  return result;
}

/// Plays steps from `first` up to `last`. `arrival`, from 1, is when a step's
/// result is where it is needed; the first of it is the start of all.
template <bool takesTurns>
void PipelineModel::play(const Program &program, size_t first, size_t last,
                         double send) {
  const Step *steps = program.steps.data();
  const OpCost *costs = opCosts.data();
  double *free = freeAt.data(), *link = linkFreeAt.data();
  double *arrivals = arrival.data();
  for (size_t i = first; i != last; ++i) {
    const OpCost &cost = costs[steps[i].op];
    double end =
        std::max(free[cost.stage], arrivals[steps[i].input]) + cost.seconds;
    free[cost.stage] = end;
    // Nothing waits for what is not sent.
    if (takesTurns && cost.sends) {
      end = std::max(end, link[cost.stage]);
      link[cost.stage] = end + send;
    }
    arrivals[i + 1] = end + send;
  }
}

void PipelineModel::setCosts(const PipelineShape &shape,
                             llvm::ArrayRef<StageTimes> times, double send) {
  size_t all = times.size();
  opCosts.resize(4 * all);
  takesTurns = false;
  for (size_t at = 0; at != all; ++at) {
    int32_t stage = int32_t(shape.getStage(int64_t(at)));
    auto isElsewhere = [&](size_t to) {
      return to < all && shape.getStage(int64_t(to)) != stage;
    };
    bool ahead = isElsewhere(at + 1), back = isElsewhere(at - 1);
    const StageTimes &time = times[at];
    opCosts[at] = {time.forward, stage, ahead};
    opCosts[all + at] = {time.getBackward(), stage, back};
    opCosts[2 * all + at] = {time.backwardInput, stage, back};
    opCosts[3 * all + at] = {time.backwardWeight, stage, false};
    // No message waits for the one before it if its op takes longer than that.
    double shortest =
        shape.splitsBackward() ? time.backwardInput : time.getBackward();
    takesTurns |= (ahead && time.forward < send) || (back && shortest < send);
  }
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
  const Program &program = get(shape);
  setCosts(shape, times, send);
  freeAt.assign(size_t(p), 0);
  linkFreeAt.assign(size_t(p), 0);
  arrival.resize(program.steps.size() + 1);
  arrival[0] = 0;
  auto playSteps = [&](size_t first, size_t last) {
    if (takesTurns)
      play<true>(program, first, last, send);
    else
      play<false>(program, first, last, send);
  };
  auto getLongest = [&](const std::vector<double> &last) {
    double longest = 0;
    for (size_t i = 0; i != last.size(); ++i)
      longest =
          std::max(longest, last[i] - (shape.splitsBackward() ? starts[i] : 0));
    return longest;
  };
  playSteps(0, program.shared);
  fewEnds = freeAt;
  sharedLinks = linkFreeAt;
  playSteps(program.shared, program.fewEnd);
  if (m > program.few) {
    std::swap(fewEnds, freeAt);
    linkFreeAt = sharedLinks;
    playSteps(program.fewEnd, program.steps.size());
  }
  starts.resize(size_t(p));
  for (size_t stage = 0; stage != size_t(p); ++stage)
    starts[stage] = arrival[size_t(program.begins[stage])];
  ends = freeAt;
  double seconds = getLongest(ends);
  if (m == program.few)
    return seconds;
  // Once it has settled, a pipeline is no faster than its slowest stage; uneven
  // ones may take longer to settle than the samples are.
  std::vector<double> own(size_t(p), 0.);
  for (size_t v = 0; v != times.size(); ++v)
    own[size_t(shape.getStage(int64_t(v)))] += times[v].getTotal();
  double slowest = *std::max_element(own.begin(), own.end());
  auto extrapolate = [&](double from, double to) {
    double each = (to - from) / double(program.many - program.few);
    return to + double(m - program.many) * std::max(each, slowest);
  };
  for (size_t i = 0; i != ends.size(); ++i)
    ends[i] = extrapolate(fewEnds[i], ends[i]);
  return extrapolate(getLongest(fewEnds), seconds);
}

void PipelineModel::getPeaks(const PipelineShape &shape,
                             llvm::ArrayRef<double> activations,
                             llvm::MutableArrayRef<double> peaks) {
  size_t width = size_t(shape.chunks);
  for (size_t i = 0; i != peaks.size(); ++i) {
    int64_t stage = int64_t(i);
    auto getKept = [&](size_t chunk) {
      return activations[size_t(shape.getVirtualStage(stage, int64_t(chunk)))];
    };
    peaks[i] = 0;
    if (int64_t count = getAlikeInFlight(shape, stage)) {
      for (size_t chunk = 0; chunk != width; ++chunk)
        peaks[i] += double(count) * getKept(chunk);
      continue;
    }
    const std::vector<int32_t> &counts = get(shape).peaks[i];
    for (size_t at = 0; at != counts.size(); at += width) {
      double sum = 0;
      for (size_t chunk = 0; chunk != width; ++chunk)
        sum += double(counts[at + chunk]) * getKept(chunk);
      peaks[i] = std::max(peaks[i], sum);
    }
  }
}
