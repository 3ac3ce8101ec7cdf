//===- BlockShards.cpp - Shards that are pieces of blocks -----------------===//
//
// A collective of a dim can be done in parts as far as parts of it lie one
// behind the other in the whole: samples, of a sequence that is split. Where
// there are few of them, the sequence itself is taken as blocks, and a shard is
// a piece of each:
//
//   whole      |     block 0     |     block 1     |
//   of rank    |  0  |  1  |  2  |  0  |  1  |  2  |
//
// So a part of each shard is a block of the whole. What computes on shards does
// not see it, since loops of an op (the factors of its sharding rule) know
// nothing of the order of their iterations. So shards may stand so wherever
// nothing but ops with such rules and collectives has to do with them: not in
// state, outputs and what a step is given.
//
//===----------------------------------------------------------------------===//
#include "cleave/Streams/Parts.h"
#include "dialects/dist/Placements.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Partition/Passes.h"
#include "llvm/ADT/IntEqClasses.h"
#include <map>
#include <numeric>
#include <set>

namespace cleave {
#define GEN_PASS_DEF_BLOCKSHARDSPASS
#include "passes/Partition/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// A dim of a value.
using ValueDim = std::pair<Value, int64_t>;

class BlockShards : public cleave::impl::BlockShardsPassBase<BlockShards> {
public:
  using BlockShardsPassBase::BlockShardsPassBase;

private:
  void runOnOperation() override;
  void visit(Operation *op);
  void visitRule(xf::ShardingRuleOpInterface op);
  void visitCollective(Operation *op);
  void visitAccumulate(xf::AccumulateOp op);

  Placement getPlacement(Value value) const {
    return dist::getPlacement(dist::getPlacementAttr(value.getType()), mesh);
  }
  bool isSplit(ValueDim dim) const {
    return dist::getPlacementAttr(dim.first.getType()) &&
           !getPlacement(dim.first).dims[size_t(dim.second)].empty();
  }
  unsigned getNumber(ValueDim dim);
  /// The shards of both are in the same order.
  void join(ValueDim one, ValueDim other);
  /// Shards of these are whole pieces, as everybody else thinks.
  void fix(ValueDim dim);
  void fix(ValueRange values);

  Mesh mesh;
  llvm::DenseMap<ValueDim, unsigned> numbers;
  llvm::IntEqClasses classes;
  std::vector<unsigned> fixed;
  /// A shard of a collective that may be pieces of blocks.
  struct Move {
    dist::ShardOpInterface op;
    size_t shard; ///< of those it has
  };
  std::vector<Move> moves;
};
} // namespace

unsigned BlockShards::getNumber(ValueDim dim) {
  auto [it, isNew] = numbers.insert({dim, unsigned(numbers.size())});
  if (isNew)
    classes.grow(unsigned(numbers.size()));
  return it->second;
}

void BlockShards::join(ValueDim one, ValueDim other) {
  if (isSplit(one) && isSplit(other))
    classes.join(getNumber(one), getNumber(other));
}

void BlockShards::fix(ValueDim dim) {
  if (isSplit(dim))
    fixed.push_back(getNumber(dim));
}

void BlockShards::fix(ValueRange values) {
  for (Value value : values)
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        fix({value, dim});
}

//===----------------------------------------------------------------------===//
// Which shards are in one order
//===----------------------------------------------------------------------===//

/// Dims of a factor are in one order. A compound dim has none for each of its
/// factors: it is fixed, and so are dims that have one of them alone, as the
/// heads of keys are where those of queries are groups of them.
void BlockShards::visitRule(xf::ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  auto getFactors = [&](const DimFactors &dim) {
    DimFactors several;
    for (Factor factor : dim)
      if (rule.factors[factor].size > 1)
        several.push_back(factor);
    return several;
  };
  std::set<Factor> compound;
  for (const auto &tensors : {rule.operands, rule.results})
    for (const TensorFactors &tensor : tensors)
      for (const DimFactors &dim : tensor)
        if (DimFactors several = getFactors(dim); several.size() > 1)
          compound.insert(several.begin(), several.end());
  std::map<Factor, ValueDim> first;
  auto visitTensor = [&](Value value, const TensorFactors &tensor) {
    for (auto [dim, factors] : llvm::enumerate(tensor)) {
      ValueDim each(value, int64_t(dim));
      DimFactors several = getFactors(factors);
      if (several.size() != 1 || compound.count(several.front())) {
        fix(each);
        continue;
      }
      auto [it, isNew] = first.insert({several.front(), each});
      if (!isNew)
        join(it->second, each);
    }
  };
  for (auto [value, tensor] : llvm::zip(op->getOperands(), rule.operands))
    visitTensor(value, tensor);
  for (auto [value, tensor] : llvm::zip(op->getResults(), rule.results))
    visitTensor(value, tensor);
}

/// The order of shards stays in all dims but those that a collective splits or
/// makes whole. These may have blocks where nothing of them stays split by
/// other axes.
void BlockShards::visitCollective(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  Placement before = getPlacement(from), after = getPlacement(to);
  auto sharding = dyn_cast<dist::ShardOpInterface>(op);
  SmallVector<dist::Shard, 2> shards;
  if (sharding)
    shards = sharding.getShards();
  for (int64_t dim = 0; dim < int64_t(before.dims.size()); ++dim) {
    ValueDim source(from, dim), target(to, dim);
    auto shard = llvm::find_if(
        shards, [&](const dist::Shard &each) { return each.dim == dim; });
    if (before.dims[size_t(dim)] == after.dims[size_t(dim)]) {
      join(source, target);
    } else if (shard != shards.end() && isSplit(source) != isSplit(target)) {
      getNumber({shard->value, dim});
      moves.push_back({sharding, size_t(shard - shards.begin())});
    } else {
      fix(source);
      fix(target);
    }
  }
}

/// An argument is a slice of an input along its first dim.
void BlockShards::visitAccumulate(xf::AccumulateOp op) {
  Block &body = op.getBody().front();
  auto getRank = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getRank();
  };
  for (auto [input, argument] : llvm::zip(op.getInputs(), body.getArguments()))
    for (int64_t dim = 0; dim < getRank(argument); ++dim)
      join({input, dim + 1}, {argument, dim});
  for (auto [value, result] :
       llvm::zip(body.getTerminator()->getOperands(), op.getResults()))
    for (int64_t dim = 0; dim < getRank(result); ++dim)
      join({value, dim}, {result, dim});
}

void BlockShards::visit(Operation *op) {
  if (auto function = dyn_cast<func::FuncOp>(op))
    return fix(ValueRange(function.getArguments()));
  if (isa<dist::CollectiveOpInterface>(op))
    return visitCollective(op);
  if (auto accumulate = dyn_cast<xf::AccumulateOp>(op))
    return visitAccumulate(accumulate);
  // To one that asks which shard it has, that is one piece.
  if (auto sharded = dyn_cast<xf::ShardIndexOpInterface>(op)) {
    auto [value, dim] = sharded.getShardedDim();
    fix({value, int64_t(dim)});
  }
  if (auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op))
    return visitRule(ruled);
  if (isa<xf::YieldOp>(op))
    return;
  fix(op->getOperands());
  fix(ValueRange(op->getResults()));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void BlockShards::runOnOperation() {
  dist::MeshOp meshOp = dist::lookupMesh(getOperation());
  if (!meshOp || mode == "never")
    return;
  mesh = meshOp.getMesh();
  WalkResult placed = getOperation().walk([&](dist::CollectiveOpInterface op) {
    for (Type type : {op->getOperand(0).getType(), op->getResult(0).getType()})
      if (!dist::getPlacementAttr(type)) {
        op->emitOpError("expects placements of its operand and result");
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  if (placed.wasInterrupted())
    return signalPassFailure();
  getOperation().walk([&](Operation *op) {
    if (op != getOperation())
      visit(op);
  });
  classes.compress();
  std::vector<bool> isFixed(classes.getNumClasses());
  for (unsigned number : fixed)
    isFixed[classes[number]] = true;

  // As many blocks as make for parts of every collective. All shards of a class
  // have the same size.
  std::vector<int64_t> blocks(isFixed.size(), 1);
  auto getClass = [&](const dist::Shard &shard) {
    return classes[numbers[{shard.value, shard.dim}]];
  };
  for (Move move : moves) {
    SmallVector<dist::Shard, 2> shards = move.op.getShards();
    auto [value, dim, _] = shards[move.shard];
    // What only cuts what each rank has needs no parts of its own, and what
    // moves a split from one dim to another has none.
    Value input = move.op->getOperand(0);
    if (shards.size() > 1 ||
        (value != input &&
         getPlacement(input).partial == getPlacement(value).partial))
      continue;
    int64_t &mine = blocks[getClass(shards[move.shard])];
    mine = std::lcm(
        mine, countBlocks(
                  getPlacement(value).getLocalShape(
                      mesh, cast<RankedTensorType>(value.getType()).getShape()),
                  size_t(dim)));
  }
  for (Move move : moves) {
    unsigned number = getClass(move.op.getShards()[move.shard]);
    if (isFixed[number] || blocks[number] == 1)
      continue;
    move.op.setShardBlocks(move.shard, blocks[number]);
    ++numCollectives;
  }
}
