//===- Orders.cpp - What the stages of a pipeline run, in order -----------===//
#include "cleave/Cost/Orders.h"
#include <algorithm>
#include <deque>

using namespace cleave;

using Order = std::vector<PipelineOp>;

bool PipelineShape::goesForwardFirst() const {
  return schedule == Schedule::GPipe ||
         (cyclesChunks() && microBatches % stages != 0);
}

int64_t PipelineShape::getAlikeInFlight(int64_t stage) const {
  switch (schedule) {
  case Schedule::OneFOneB:
    return std::min(microBatches, stages - stage);
  case Schedule::EagerOneFOneB:
    return std::min(microBatches, 3 * (stages - 1 - stage) + 1);
  case Schedule::ZeroBubbleH1:
    return std::min(microBatches, stages);
  case Schedule::ZeroBubbleH2:
    return std::min(microBatches, 2 * stages - 1);
  default:
    return goesForwardFirst() ? microBatches : 0;
  }
}

std::string cleave::findProblem(const PipelineShape &shape) {
  auto expects = [&](const char *legal) {
    return "schedule " + getName(shape.schedule).str() + " has " + legal +
           " of a stage, got " + std::to_string(shape.chunks);
  };
  switch (shape.schedule) {
  case Schedule::Interleaved:
    return shape.chunks > 1 ? "" : expects("at least 2 virtual stages");
  case Schedule::ZeroBubbleV:
  case Schedule::DualPipeV:
    return shape.chunks == 2 ? "" : expects("2 virtual stages");
  default:
    return shape.chunks == 1 ? "" : expects("1 virtual stage");
  }
}

namespace {
/// Passes of one kind over all chunks: in groups of p micro-batches, all of a
/// group on one chunk, then on the next; forward from the first chunk, backward
/// from the last.
class Passes {
public:
  Passes(const PipelineShape &shape, PipelineOpKind kind)
      : shape(shape), kind(kind) {
    startGroup(0);
  }

  PipelineOp next() {
    int64_t chunk =
        kind == PipelineOpKind::Forward ? done : shape.chunks - 1 - done;
    PipelineOp op{kind, int32_t(chunk), int32_t(at)};
    if (++at == end) {
      at = first;
      if (++done == shape.chunks)
        startGroup(end);
    }
    return op;
  }

private:
  void startGroup(int64_t microBatch) {
    first = at = microBatch;
    end = std::min(first + shape.stages, shape.microBatches);
    done = 0;
  }

  const PipelineShape &shape;
  PipelineOpKind kind;
  int64_t first = 0, end = 0; ///< micro-batches of the group
  int64_t at = 0;             ///< the next one
  int64_t done = 0;           ///< chunks of the group
};
} // namespace

/// GPipe, 1F1B, eager 1F1B and interleaved: `warmup` forward passes, then one
/// backward after each forward, then what is left.
static void addFixedOrder(const PipelineShape &shape, int64_t stage,
                          Order &order) {
  int64_t p = shape.stages, v = shape.chunks;
  int64_t passes = shape.microBatches * v;
  // Of one chunk, all that is in flight but the one whose backward pass is
  // next.
  int64_t warmup = v > 1 ? 2 * (p - 1 - stage) + (v - 1) * p
                         : shape.getAlikeInFlight(stage) - 1;
  if (shape.goesForwardFirst())
    warmup = passes;
  warmup = std::min(warmup, passes);
  Passes forward(shape, PipelineOpKind::Forward),
      backward(shape, PipelineOpKind::Backward);
  order.reserve(size_t(2 * passes));
  for (int64_t i = 0; i != warmup; ++i)
    order.push_back(forward.next());
  for (int64_t i = warmup; i != passes; ++i) {
    order.push_back(forward.next());
    order.push_back(backward.next());
  }
  for (int64_t i = 0; i != warmup; ++i)
    order.push_back(backward.next());
}

/// ZB-H1 and H2: 1F1B with weight gradients `lag` micro-batches behind input
/// gradients, so that a stage keeps as much as the first one does and has work
/// left for when the pipeline drains.
static void addZeroBubbleOrder(const PipelineShape &shape, int64_t stage,
                               Order &order) {
  int64_t p = shape.stages, m = shape.microBatches;
  bool twice = shape.schedule == Schedule::ZeroBubbleH2;
  int64_t warmup = twice ? 2 * (p - stage) - 1 : p - stage;
  int64_t lag = twice ? 2 * stage : stage;
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

/// ZB-V, for at least 2p - 1 micro-batches; of fewer, what belongs to them.
static void addVShapedOrder(const PipelineShape &shape, int64_t stage,
                            Order &order) {
  int64_t p = shape.stages, m = std::max(shape.microBatches, 2 * p - 1);
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

/// DualPipe's V shape, for at least 2p micro-batches; of fewer, what belongs to
/// them. Weight gradients are put off where the pipeline fills and drains, and
/// come in the order of their input gradients.
static void addDualPipeOrder(const PipelineShape &shape, int64_t stage,
                             Order &order) {
  int64_t p = shape.stages, m = std::max(shape.microBatches, 2 * p);
  int64_t after = p - 1 - stage; // stages below this one
  order.reserve(size_t(6 * m));
  int64_t forwards[2] = {}, backwards[2] = {};
  std::deque<PipelineOp> putOff;
  auto add = [&](PipelineOp op) {
    if (op.microBatch < shape.microBatches)
      order.push_back(op);
  };
  auto forward = [&](int32_t chunk) {
    add({PipelineOpKind::Forward, chunk, int32_t(forwards[chunk]++)});
  };
  auto backward = [&](int32_t chunk, bool putsOff = false) {
    auto microBatch = int32_t(backwards[chunk]++);
    add({PipelineOpKind::BackwardInput, chunk, microBatch});
    PipelineOp weight{PipelineOpKind::BackwardWeight, chunk, microBatch};
    if (putsOff)
      putOff.push_back(weight);
    else
      add(weight);
  };
  auto catchUp = [&] {
    if (putOff.empty())
      return;
    add(putOff.front());
    putOff.pop_front();
  };
  for (int64_t i = 0; i != 2 * after; ++i)
    forward(0);
  for (int64_t i = 0; i != stage + 1; ++i) {
    forward(0);
    forward(1);
  }
  for (int64_t i = 0; i != after; ++i) {
    backward(1, /*putsOff=*/true);
    catchUp();
    forward(1);
  }
  for (int64_t i = 0; i != m - 2 * p + stage + 1; ++i) {
    forward(0);
    backward(1);
    forward(1);
    backward(0);
  }
  for (int64_t i = 0; i != after; ++i) {
    backward(1);
    forward(1);
    backward(0);
  }
  bool putsOff = false;
  for (int64_t i = 0; i != stage + 1; ++i) {
    bool isHalf = i == (stage + 1) / 2;
    putsOff |= isHalf && stage % 2 == 1;
    backward(1, putsOff);
    putsOff |= isHalf && stage % 2 == 0;
    backward(0, putsOff);
  }
  for (int64_t i = 0; i != after; ++i) {
    catchUp();
    backward(0, /*putsOff=*/true);
  }
  while (!putOff.empty())
    catchUp();
}

Order cleave::getOrder(const PipelineShape &shape, int64_t stage) {
  Order order;
  switch (shape.schedule) {
  case Schedule::GPipe:
  case Schedule::OneFOneB:
  case Schedule::EagerOneFOneB:
  case Schedule::Interleaved:
    addFixedOrder(shape, stage, order);
    break;
  case Schedule::ZeroBubbleH1:
  case Schedule::ZeroBubbleH2:
    addZeroBubbleOrder(shape, stage, order);
    break;
  case Schedule::ZeroBubbleV:
    addVShapedOrder(shape, stage, order);
    break;
  case Schedule::DualPipeV:
    addDualPipeOrder(shape, stage, order);
    break;
  }
  return order;
}

std::vector<Order> cleave::getOrders(const PipelineShape &shape) {
  std::vector<Order> orders;
  for (int64_t stage = 0; stage != shape.stages; ++stage)
    orders.push_back(getOrder(shape, stage));
  return orders;
}
