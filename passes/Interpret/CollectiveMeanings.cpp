//===- CollectiveMeanings.cpp - What collectives mean ---------------------===//
//
// Where types have placements a value stands for what all ranks together hold:
// there a reshard or a collective changes nothing.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "passes/Interpret/Collectives.h"
#include "passes/Interpret/Meaning.h"

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// On arrays
//===----------------------------------------------------------------------===//

/// dims [0, dim), dim, dims after it; blocks of the dim are like a dim before
/// it.
static std::array<int64_t, 3> fold(const Array &array, int64_t dim,
                                   int64_t blocks) {
  size_t d = size_t(dim);
  return {array.count(0, d) * blocks, array.shape[d] / blocks,
          array.count(d + 1, array.shape.size())};
}

Array collectives::reduce(ArrayRef<const Array *> parts, bool isMax) {
  Array result = *parts.front();
  for (const Array *part : parts.drop_front())
    for (int64_t i = 0; i < result.size(); ++i) {
      double &to = result.data[i];
      to = isMax ? std::max(to, part->data[i]) : to + part->data[i];
    }
  return result;
}

Array collectives::concatenate(ArrayRef<const Array *> parts, int64_t dim,
                               int64_t blocks) {
  std::vector<int64_t> shape = parts.front()->shape;
  shape[size_t(dim)] *= int64_t(parts.size());
  Array result = Array::zeros(shape);
  auto [outer, size, inner] = fold(*parts.front(), dim, blocks);
  for (auto [p, part] : llvm::enumerate(parts))
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < size * inner; ++i)
        result
            .data[(o * int64_t(parts.size()) + int64_t(p)) * size * inner + i] =
            part->data[o * size * inner + i];
  return result;
}

Array collectives::cut(const Array &whole, int64_t dim, int64_t parts,
                       int64_t index, int64_t blocks) {
  std::vector<int64_t> shape = whole.shape;
  shape[size_t(dim)] /= parts;
  Array result = Array::zeros(shape);
  auto [outer, size, inner] = fold(result, dim, blocks);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < size * inner; ++i)
      result.data[o * size * inner + i] =
          whole.data[(o * parts + index) * size * inner + i];
  return result;
}

//===----------------------------------------------------------------------===//
// On values
//===----------------------------------------------------------------------===//

namespace {
/// `Self::move(op, group)` gives a rank its result.
template <typename Self, typename Op>
struct CollectiveMeaning : JointMeaning<Self, Op> {
  static LogicalResult run(Op op, SimulatedRanks &ranks) {
    std::vector<Array> inputs;
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      inputs.push_back(ranks.get(op.getInput(), rank));
    if (dist::getPlacementAttr(op.getResult().getType())) {
      for (int64_t rank = 0; rank < ranks.size(); ++rank)
        ranks.value(op.getResult(), rank) = std::move(inputs[size_t(rank)]);
      return success();
    }
    auto gathered = ranks.gather(op, op.getAxes(), std::move(inputs));
    if (failed(gathered))
      return failure();
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      ranks.value(op.getResult(), rank) =
          Self::move(op, gathered->getGroup(rank));
    return success();
  }
};

struct AllReduceMeaning
    : CollectiveMeaning<AllReduceMeaning, dist::AllReduceOp> {
  static Array move(dist::AllReduceOp op, const GroupParts &group) {
    return collectives::reduce(group.parts,
                               op.getReduction() == dist::ReductionKind::Max);
  }
};

struct ReduceScatterMeaning
    : CollectiveMeaning<ReduceScatterMeaning, dist::ReduceScatterOp> {
  static Array move(dist::ReduceScatterOp op, const GroupParts &group) {
    Array sum = collectives::reduce(group.parts, op.getReduction() ==
                                                     dist::ReductionKind::Max);
    return collectives::cut(sum, op.getDim(), group.size(), group.index,
                            op.getBlocks());
  }
};

struct AllGatherMeaning
    : CollectiveMeaning<AllGatherMeaning, dist::AllGatherOp> {
  static Array move(dist::AllGatherOp op, const GroupParts &group) {
    return collectives::concatenate(group.parts, op.getDim(), op.getBlocks());
  }
};

struct AllToAllMeaning : CollectiveMeaning<AllToAllMeaning, dist::AllToAllOp> {
  static Array move(dist::AllToAllOp op, const GroupParts &group) {
    Array whole =
        collectives::concatenate(group.parts, op.getDim(), op.getBlocks());
    return collectives::cut(whole, op.getSplitDim(), group.size(), group.index,
                            op.getSplitBlocks());
  }
};

struct SliceMeaning : CollectiveMeaning<SliceMeaning, dist::SliceOp> {
  static Array move(dist::SliceOp op, const GroupParts &group) {
    return collectives::cut(*group.parts[size_t(group.index)], op.getDim(),
                            group.size(), group.index, op.getBlocks());
  }
};

struct ReshardMeaning : Meaning<ReshardMeaning, dist::ReshardOp> {
  static LogicalResult run(dist::ReshardOp op, RankView view) {
    view.make(op.getResult()).data = view.get(op.getInput()).data;
    return success();
  }
};

struct SendMeaning : JointMeaning<SendMeaning, dist::SendOp> {
  static LogicalResult run(dist::SendOp op, SimulatedRanks &ranks) {
    Message message;
    for (int64_t rank = 0; rank < ranks.size(); ++rank)
      message.values.push_back(ranks.get(op.getInput(), rank));
    return ranks.send(op, op.getStage(), op.getChannel(), std::move(message));
  }
};

struct RecvMeaning : JointMeaning<RecvMeaning, dist::RecvOp> {
  static LogicalResult run(dist::RecvOp op, SimulatedRanks &ranks) {
    auto message = ranks.receive(op, op.getStage(), op.getChannel());
    if (failed(message))
      return failure();
    ArrayRef<int64_t> shape = op.getType().getShape();
    for (auto [rank, value] : llvm::enumerate(message->values)) {
      if (ArrayRef<int64_t>(value.shape) != shape) {
        InFlightDiagnostic error = op.emitOpError("receives a value of ")
                                   << value.size() << " elements as "
                                   << op.getType();
        error.attachNote(message->sender->getLoc()) << "which is sent here";
        return error;
      }
      ranks.value(op.getResult(), int64_t(rank)) = std::move(value);
    }
    return success();
  }
};
} // namespace

void cleave::attachCollectiveMeanings(MLIRContext *context) {
  dist::AllReduceOp::attachInterface<AllReduceMeaning>(*context);
  dist::ReduceScatterOp::attachInterface<ReduceScatterMeaning>(*context);
  dist::AllGatherOp::attachInterface<AllGatherMeaning>(*context);
  dist::AllToAllOp::attachInterface<AllToAllMeaning>(*context);
  dist::SliceOp::attachInterface<SliceMeaning>(*context);
  dist::ReshardOp::attachInterface<ReshardMeaning>(*context);
  dist::SendOp::attachInterface<SendMeaning>(*context);
  dist::RecvOp::attachInterface<RecvMeaning>(*context);
}
