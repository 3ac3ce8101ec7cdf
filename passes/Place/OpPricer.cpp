//===- OpPricer.cpp - Seconds of an op on the shards of a strategy --------===//
#include "passes/Place/OpPricer.h"
#include "cleave/Cost/Kernels.h"
#include "dialects/dist/Dist.h"
#include "dialects/xf/Origins.h"
#include "dialects/xf/Parameters.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace cleave;

PlacedTensor cleave::getPlacedTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  PlacedTensor tensor;
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  tensor.elementBytes = type.getElementTypeBitWidth() / 8;
  return tensor;
}

MoveSeconds cleave::getMoveSeconds(const Device &device,
                                   const Profile &profile) {
  return {2 * getStreamTime(device, 1), profile.rankSkew};
}

double cleave::getWholeSeconds(const Device &device, Operation *op) {
  return getStreamTime(device, xf::getTensorBytes(op));
}

/// Of the whole tensor.
static double getWholeBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return double(type.getNumElements()) * type.getElementTypeBitWidth() / 8;
}

static double getExecutedFlops(Operation *op) {
  auto cost = dyn_cast<xf::CostOpInterface>(op);
  return cost ? cost.getFlops().executed : 0;
}

/// Whether an op takes each element of one tensor to one of the same type: it
/// is done in the kernel of an op beside it that is no product.
static bool isUnary(Operation *op, const ShardingRule &rule) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         op->getOperand(0).getType() == op->getResult(0).getType() &&
         rule.operands == rule.results && getExecutedFlops(op) == 0;
}

static bool mayHaveUnary(Operation *beside, Operation *op) {
  return beside && beside->getBlock() == op->getBlock() &&
         isa<xf::ShardingRuleOpInterface>(beside) &&
         getExecutedFlops(beside) == 0;
}

/// Of a unary op, whether that is its only reader, moved or not, which then
/// reads what the unary op would have read.
static bool isOfReader(Operation *op) {
  Value value = op->getResult(0);
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (!isa<dist::ReshardOp>(user))
      return mayHaveUnary(user, op);
    value = user->getResult(0);
  }
  return false;
}

/// Or what has made its operand, which then only writes more.
static bool isOfMaker(Operation *op) {
  return mayHaveUnary(xf::getUnmoved(op->getOperand(0)).getDefiningOp(), op);
}

/// Whether micro-batches add up what an op makes, or a sum of that and more.
static bool isYielded(Operation *op) {
  if (op->getNumResults() != 1 || !op->hasOneUse() ||
      !isa<xf::AccumulateOp>(op->getParentOp()))
    return false;
  Operation *user = *op->getUsers().begin();
  return user->hasTrait<OpTrait::IsTerminator>() ||
         (isa<xf::AdditionOpInterface>(user) && isYielded(user));
}

DType cleave::getProductType(Operation *op) {
  return llvm::any_of(
             op->getOperandTypes(),
             [](Type type) { return getElementTypeOrSelf(type).isBF16(); })
             ? DType::BF16
             : DType::F32;
}

FailureOr<double> OpPricer::price(xf::ShardingRuleOpInterface op,
                                  const ShardingRule &rule,
                                  const Strategy &strategy) const {
  bool isUnary = ::isUnary(op, rule);
  if (isUnary && isOfReader(op))
    return 0.;
  // Each addend of a gradient that micro-batches add up is added to the sum.
  if (isa<xf::AdditionOpInterface>(*op) && isYielded(op))
    return 0.;
  auto cost = dyn_cast<xf::CostOpInterface>(*op);
  double flops = getExecutedFlops(op);
  double bytes = cost ? cost.getBytes() : xf::getTensorBytes(op);
  // So does an update, which has the parameter at hand that is rounded.
  auto cast = dyn_cast<CastOpInterface>(*op);
  if ((isUnary && isOfMaker(op)) || (cast && xf::getRoundedParameter(cast)))
    bytes -= getWholeBytes(op->getOperand(0));
  double seconds =
      getStreamTime(device, bytes * getLocalShare(op, strategy.placements));
  if (flops == 0)
    return seconds;
  DType dtype = getProductType(op);
  const MatrixUnit &unit = device.getMatrix(dtype);
  if (unit.peak == 0)
    return op->emitOpError("has products in ")
           << cleave::getName(dtype) << ", for which " << device.name
           << " has no constants";
  double products = 0;
  auto unitOf = device.attention.find(profile.attention);
  if (std::optional<AttentionWork> work = cost.getAttention();
      work && unitOf != device.attention.end())
    // Sequences are not split, so heads and samples are.
    products =
        getAttentionTime(device, profile.attention, dtype, work->direction,
                         work->heads / getWays(strategy.axes), work->rows,
                         work->pairs, work->headDim, work->valueDim);
  else
    products = getProductSeconds(mesh, device, rule, strategy.axes, dtype) /
               profile.matrixRate;
  if (products == 0)
    products = flops / getWays(strategy.axes) / (unit.peak * unit.efficiency);
  products = addSums(device, getSumBytes(op, strategy), products);
  return std::max(seconds, products);
}

double OpPricer::getSumBytes(Operation *op, const Strategy &strategy) const {
  if (!isYielded(op))
    return 0;
  return 2 * getPlacedTensor(op->getResult(0))
                 .getBytes(mesh, strategy.placements.results[0]);
}

double OpPricer::getWays(const FactorAxes &axes) const {
  double ways = 1;
  for (const AxisList &list : axes)
    ways *= double(mesh.getSize(list));
  return ways;
}

double OpPricer::getLocalShare(Operation *op,
                               const RulePlacements &placements) const {
  // Of a table a rank touches rows for the tokens that it has.
  auto cost = dyn_cast<xf::CostOpInterface>(op);
  Value lookedUp = cost ? cost.getLookedUp() : Value();
  double all = 0, local = 0;
  auto add = [&](ValueRange values, ArrayRef<Placement> placed) {
    for (auto [value, placement] : llvm::zip_equal(values, placed)) {
      if (value == lookedUp)
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      double bytes = type.getElementTypeBitWidth() / 8.;
      all += getWholeBytes(value);
      for (int64_t size : placement.getLocalShape(mesh, type.getShape()))
        bytes *= double(size);
      local += bytes;
    }
  };
  add(op->getOperands(), placements.operands);
  add(op->getResults(), placements.results);
  return all > 0 ? local / all : 1;
}

double cleave::getProductSeconds(const Mesh &mesh, const Device &device,
                                 const ShardingRule &rule,
                                 const FactorAxes &axes, DType dtype,
                                 int64_t parts) {
  if (rule.operands.size() < 2 || rule.results.size() != 1 ||
      rule.operands.size() - rule.addends.size() != 2)
    return 0;
  auto has = [](const TensorFactors &tensor, Factor factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) {
      return llvm::is_contained(dim, factor);
    });
  };
  double rows = 1, columns = 1, depth = 1, batch = 1;
  for (auto [factor, info] : llvm::enumerate(rule.factors)) {
    double size = double(info.size) / double(mesh.getSize(axes[factor]));
    bool a = has(rule.operands[0], factor), b = has(rule.operands[1], factor),
         c = has(rule.results[0], factor);
    if (!c && !(a && b))
      return 0;
    (!c ? depth : a && b ? batch : a ? rows : columns) *= size;
  }
  return batch * double(parts) *
         getMatmulTime(device, dtype, rows / double(parts), columns, depth);
}
