//===- Program.cpp - The orders of all stages of a pipeline, merged -------===//
#include "cleave/Cost/Program.h"
#include <algorithm>
#include <cassert>
#include <limits>

using namespace cleave;

using Orders = std::vector<std::vector<PipelineOp>>;

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

/// Whether passes of two chunks alternate around an op, so that what is in
/// flight before it is the mean of what is two ops earlier and later: never the
/// most, whatever each chunk keeps.
static bool alternates(const std::vector<PipelineOp> &order, size_t at) {
  auto isLike = [&](size_t a, size_t b) {
    return order[a].kind == order[b].kind && order[a].chunk == order[b].chunk;
  };
  return at >= 3 && at + 2 < order.size() && isLike(at, at - 2) &&
         isLike(at + 1, at - 1) && order[at - 3].kind == order[at - 1].kind &&
         order[at + 2].kind == order[at].kind;
}

/// See PipelineProgram::peaks.
static std::vector<std::vector<int32_t>> getInFlight(const Orders &orders,
                                                     int64_t chunks) {
  std::vector<std::vector<int32_t>> all;
  std::vector<int32_t> live;
  for (const std::vector<PipelineOp> &order : orders) {
    Peaks peaks{size_t(chunks)};
    live.assign(size_t(chunks), 0);
    int64_t sum = 0;
    bool grew = false;
    for (size_t i = 0; i != order.size(); ++i) {
      if (order[i].kind == PipelineOpKind::Forward) {
        ++live[size_t(order[i].chunk)];
        ++sum;
        grew = true;
      } else if (order[i].kind != PipelineOpKind::BackwardInput) {
        if (grew && !alternates(order, i))
          peaks.add(live, sum);
        grew = false;
        --live[size_t(order[i].chunk)];
        --sum;
      }
    }
    all.push_back(std::move(peaks.counts));
  }
  return all;
}

namespace {
/// When something is first and last used.
struct Span {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;

  bool meets(Span other) const {
    return first <= other.last && other.first <= last;
  }
};

/// A part of a stage: when it runs, by kind of op, and the places that it has.
struct Part {
  Span forward, input, weight;
  PipelineProgram::Live places, now;

  Span &get(PipelineOpKind kind) {
    return kind == PipelineOpKind::Forward         ? forward
           : kind == PipelineOpKind::BackwardInput ? input
                                                   : weight;
  }
  void run(const PipelineOp &op) {
    bool isForward = op.kind == PipelineOpKind::Forward;
    bool isInput = op.kind == PipelineOpKind::BackwardInput;
    bool isBoth = op.kind == PipelineOpKind::Backward;
    now.read += isForward;
    now.kept += isForward;
    now.between += isInput;
    places.read = std::max(places.read, now.read);
    places.kept = std::max(places.kept, now.kept);
    places.between = std::max(places.between, now.between);
    now.read -= isInput || isBoth;
    now.kept -= !isForward && !isInput;
    now.between -= op.kind == PipelineOpKind::BackwardWeight;
  }
  /// What there is of it meanwhile, if all of what is used from one run to
  /// another is there from the start of the former to the end of the latter.
  PipelineProgram::Live getLive(Span meanwhile) const {
    constexpr int64_t end = std::numeric_limits<int64_t>::max();
    PipelineProgram::Live live;
    auto isLive = [&](int64_t first, int64_t last) {
      return meanwhile.meets({first, last});
    };
    if (isLive(forward.first, input.last))
      live.read = places.read;
    if (isLive(forward.first, weight.last))
      live.kept = places.kept;
    if (isLive(input.first, weight.last))
      live.between = places.between;
    live.gradients = isLive(weight.first, end);
    live.copies = isLive(0, input.last);
    return live;
  }
};
} // namespace

/// Keeps the moments that no other covers.
static void addMoment(std::vector<PipelineProgram::Moment> &moments,
                      PipelineProgram::Moment moment) {
  auto covers = [](const PipelineProgram::Moment &a,
                   const PipelineProgram::Moment &b) {
    return a.inBlock >= b.inBlock && a.inLoss >= b.inLoss &&
           std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(),
                      [](auto &a, auto &b) { return a.covers(b); });
  };
  for (const PipelineProgram::Moment &other : moments)
    if (covers(other, moment))
      return;
  std::erase_if(moments, [&](auto &other) { return covers(moment, other); });
  moments.push_back(std::move(moment));
}

/// See PipelineProgram::moments. What a step runs once, for its only
/// micro-batch, frees and makes one thing after the other: there is most before
/// or after a run, with the head's backward pass as one before that of the last
/// chunk, and the embedding's weight gradient one after that of the first. What
/// runs again has all that another run needs for as long as both may come.
static std::vector<PipelineProgram::Moment>
getMoments(const PipelineShape &shape, int64_t stage,
           const std::vector<PipelineOp> &order) {
  // Times are numbers of runs, of which there are three for each op.
  std::vector<Part> parts(size_t(shape.chunks) + 2);
  Part &head = parts[size_t(shape.chunks)];
  Part &embedding = parts[size_t(shape.chunks) + 1];
  int64_t all = shape.getVirtualStages();
  for (size_t i = 0; i != order.size(); ++i) {
    const PipelineOp &op = order[i];
    bool isForward = op.kind == PipelineOpKind::Forward;
    auto add = [&](Part &part, int64_t time) {
      Span &span = part.get(op.kind);
      span.first = std::min(span.first, time);
      span.last = std::max(span.last, time);
      if (op.kind == PipelineOpKind::Backward)
        part.input = part.weight;
      part.run(op);
    };
    int64_t time = 3 * int64_t(i) + 1;
    add(parts[size_t(op.chunk)], time);
    int64_t at = shape.getVirtualStage(stage, op.chunk);
    if (at == all - 1)
      add(head, isForward ? time + 1 : time - 1);
    if (at == 0)
      add(embedding, isForward ? time - 1 : time + 1);
  }
  bool hasHead = head.forward.last >= 0;
  bool hasEmbedding = embedding.forward.last >= 0;
  std::vector<PipelineProgram::Moment> moments;
  auto add = [&](Span meanwhile, bool inBlock, bool inLoss) {
    PipelineProgram::Moment moment{{}, inBlock, inLoss};
    for (const Part &part : parts)
      moment.parts.push_back(part.getLive(meanwhile));
    if (!hasHead)
      moment.parts[size_t(shape.chunks)] = {};
    if (!hasEmbedding)
      moment.parts[size_t(shape.chunks) + 1] = {};
    addMoment(moments, std::move(moment));
  };
  if (shape.microBatches > 1) {
    for (size_t chunk = 0; chunk != size_t(shape.chunks); ++chunk) {
      bool isLast = shape.getVirtualStage(stage, int64_t(chunk)) == all - 1;
      const Part &part = parts[chunk];
      add(part.forward, false, false);
      // Where weight gradients are apart, what the loss leaves is between.
      add(part.input, true, isLast && !shape.splitsBackward());
      add(part.weight, part.input.first == part.weight.first, false);
    }
    return moments;
  }
  // Between two runs there is what is used both before and after.
  for (Part &part : parts)
    for (Span *span : {&part.forward, &part.input, &part.weight})
      if (span->last >= 0)
        *span = {2 * span->first + 1, 2 * span->last + 1};
  auto isBackward = [&](size_t run) {
    return run % 3 == 1 && run / 3 < order.size() &&
           (order[run / 3].kind == PipelineOpKind::Backward ||
            order[run / 3].kind == PipelineOpKind::BackwardInput);
  };
  for (size_t run = 0; run != 3 * order.size(); ++run) {
    int64_t time = 2 * int64_t(run) + 2;
    add({time, time}, isBackward(run) || isBackward(run + 1),
        hasHead && time + 1 == head.input.first);
  }
  return moments;
}

namespace {
/// Merges the orders of stages in rounds, in each of which a stage adds its
/// next op if what it waits for is of earlier rounds. So neighbours are of
/// different stages and wait for nothing near, and a processor computes several
/// at once.
class Merger {
public:
  Merger(const PipelineShape &shape, const Orders &orders) {
    int64_t all = shape.getVirtualStages();
    assert(4 * all <= std::numeric_limits<uint16_t>::max() &&
           "a model has no more than 4,096 blocks");
    // Rows of a micro-batch's results: what comes of the stage itself or of
    // nowhere, so that nothing waits for it; what goes nowhere; those of
    // forward passes; those of backward ones.
    rows = size_t(2 + 2 * all);
    results.assign(rows * size_t(shape.microBatches), unknown);
    for (size_t i = 0; i != results.size(); i += rows)
      results[i] = 0;
    auto getRow = [&](int64_t at, int64_t from, int64_t pass) {
      bool isSent =
          from >= 0 && from < all && shape.getStage(from) != shape.getStage(at);
      return isSent ? uint32_t(2 + pass * all + from) : 0;
    };
    routes.reserve(size_t(4 * all));
    for (int64_t stage = 0; stage != shape.stages; ++stage)
      for (int64_t chunk = 0; chunk != shape.chunks; ++chunk) {
        int64_t at = shape.getVirtualStage(stage, chunk);
        auto getOp = [&](PipelineOpKind kind) {
          return uint16_t(int64_t(kind) * all + at);
        };
        uint32_t forward = uint32_t(2 + at), back = uint32_t(2 + all + at);
        routes.push_back(
            {getOp(PipelineOpKind::Forward), getRow(at, at - 1, 0), forward});
        for (PipelineOpKind kind :
             {PipelineOpKind::Backward, PipelineOpKind::BackwardInput})
          routes.push_back({getOp(kind), getRow(at, at + 1, 1), back});
        routes.push_back({getOp(PipelineOpKind::BackwardWeight), 0, 1});
      }
    steps.reserve(orders.size() * orders[0].size());
    pending.reserve(orders.size());
    for (size_t stage = 0; stage != orders.size(); ++stage) {
      const std::vector<PipelineOp> &order = orders[stage];
      const Route *ways = &routes[4 * stage * size_t(shape.chunks)];
      pending.push_back({order.data(), order.data() + order.size(), ways});
      prepare(pending.back());
    }
  }

  /// Adds a round; false if nothing can be added.
  bool addRound() {
    uint32_t known = uint32_t(steps.size()), added = known;
    uint16_t stage = 0;
    for (Pending &next : pending) {
      uint32_t number = *next.input;
      if (number <= known) {
        ++added;
        steps.push_back({next.op, stage, number ? int32_t(number - added) : 0});
        *next.result = added;
        ++next.at;
        prepare(next);
      }
      ++stage;
    }
    return added != known;
  }
  /// Of a stage's order.
  size_t getLeft(int64_t stage) const {
    return size_t(pending[size_t(stage)].end - pending[size_t(stage)].at);
  }

  std::vector<PipelineProgram::Step> steps;

private:
  /// The op of a kind and chunk of a stage, and the rows of what it waits for
  /// and of its result.
  struct Route {
    uint16_t op;
    uint32_t input, result;
  };
  /// What a stage has left of its order, and of the first of it what it waits
  /// for and its result.
  struct Pending {
    const PipelineOp *at, *end;
    const Route *routes; ///< by chunk and kind
    uint16_t op = 0;
    const uint32_t *input = nullptr;
    uint32_t *result = nullptr;
  };

  void prepare(Pending &next) {
    if (next.at == next.end) {
      next.input = &unknown;
      return;
    }
    const Route &route =
        next.routes[4 * size_t(next.at->chunk) + size_t(next.at->kind)];
    uint32_t *row = &results[size_t(next.at->microBatch) * rows];
    next.op = route.op;
    next.input = row + route.input;
    next.result = row + route.result;
  }

  static constexpr uint32_t unknown = std::numeric_limits<uint32_t>::max();
  size_t rows;
  /// By micro-batch and row: the number of the step whose result it is, from 1;
  /// 0: there from the start.
  std::vector<uint32_t> results;
  std::vector<Route> routes;    ///< by stage, chunk and kind
  std::vector<Pending> pending; ///< of each stage
};
} // namespace

/// Micro-batches after which a pipeline's steps repeat.
static int64_t getPeriod(const PipelineShape &shape) {
  return shape.cyclesChunks() ? shape.stages : 1;
}

/// Micro-batches that fill a pipeline until its rounds repeat, and one period
/// more.
static int64_t getLeast(const PipelineShape &shape) {
  if (shape.cyclesChunks())
    return 2 * shape.stages + 1;
  // The last stage is through what the first had in flight, 3 (p - 1), after
  // two rounds each, in which that goes on.
  if (shape.schedule == Schedule::EagerOneFOneB)
    return 5 * (shape.stages - 1) + 2;
  if (!shape.splitsBackward())
    return shape.stages + 1;
  // ZB-H2 has twice as many in flight; DualPipe's order repeats after 2p.
  bool isLonger = shape.schedule == Schedule::ZeroBubbleH2 ||
                  shape.schedule == Schedule::DualPipeV;
  return (isLonger ? 3 : 2) * shape.stages;
}

int64_t PipelineProgram::getLaidOut(const PipelineShape &shape) {
  int64_t more = shape.microBatches - getLeast(shape);
  return more < 0 ? shape.microBatches
                  : getLeast(shape) + more % getPeriod(shape);
}

/// Ops of a stage that are no different if there are more micro-batches.
static size_t getShared(const PipelineShape &shape,
                        const std::vector<PipelineOp> &order) {
  PipelineShape more = shape;
  more.microBatches += getPeriod(shape);
  std::vector<PipelineOp> longer = getOrder(more, 0);
  return size_t(
      std::mismatch(order.begin(), order.end(), longer.begin()).first -
      order.begin());
}

PipelineProgram PipelineProgram::layOut(const PipelineShape &shape) {
  PipelineProgram program;
  program.microBatches = shape.microBatches;
  Orders orders = getOrders(shape);
  Merger merger(shape, orders);
  auto endPart = [&](bool repeats) {
    size_t first = program.parts.empty() ? 0 : program.parts.back().end;
    program.parts.push_back({first, merger.steps.size(), repeats});
  };
  // Until a stage has `left` ops left, of which the last `added` repeat.
  auto addPeriod = [&](int64_t stage, size_t left, size_t added) {
    while (merger.getLeft(stage) > left + added && merger.addRound())
      ;
    endPart(/*repeats=*/false);
    while (merger.getLeft(stage) > left && merger.addRound())
      ;
    endPart(/*repeats=*/true);
  };
  if (shape.microBatches >= getLeast(shape)) {
    program.period = getPeriod(shape);
    size_t ops = orders[0].size();
    size_t added = ops / size_t(shape.microBatches) * size_t(program.period);
    // The first stage is the first to run out of what repeats.
    size_t left = ops - getShared(shape, orders[0]);
    if (shape.goesForwardFirst())
      added /= 2;
    addPeriod(0, left, added);
    // The way back repeats as well, and the last stage leads it.
    if (shape.goesForwardFirst())
      addPeriod(shape.stages - 1, left - ops / 2, added);
  }
  while (merger.addRound())
    ;
  endPart(/*repeats=*/false);
  program.steps = std::move(merger.steps);
  assert(program.steps.size() == orders.size() * orders[0].size() &&
         "orders do not wait in a circle");
  // A stage begins with the first pass over its first chunk.
  for (size_t i = 0; program.begins.size() != orders.size(); ++i)
    if (program.steps[i].op == program.begins.size())
      program.begins.push_back(i - size_t(-program.steps[i].input));
  int64_t all = shape.getVirtualStages();
  auto getOp = [&](PipelineOpKind kind, int64_t at) {
    return size_t(int64_t(kind) * all + at);
  };
  PipelineOpKind back = shape.splitsBackward() ? PipelineOpKind::BackwardInput
                                               : PipelineOpKind::Backward;
  program.sends.assign(size_t(4 * all), false);
  for (int64_t at = 1; at != all; ++at)
    program.sends[getOp(PipelineOpKind::Forward, at - 1)] =
        program.sends[getOp(back, at)] =
            shape.getStage(at) != shape.getStage(at - 1);
  if (!shape.getAlikeInFlight(0))
    program.peaks = getInFlight(orders, shape.chunks);
  for (int64_t stage = 0; stage != shape.stages; ++stage)
    program.moments.push_back(getMoments(shape, stage, orders[size_t(stage)]));
  return program;
}
