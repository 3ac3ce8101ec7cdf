//===- KernelInfo.cpp - What an emitter knows of a kernel -----------------===//
#include "passes/Emit/KernelInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "passes/Emit/ExpandMath.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

static Access getNormalAccess(exec::AccessAttr attr, int64_t rows,
                              int64_t columns) {
  Access access{attr.getType(),      attr.getOffset(),
                attr.getRowDiv(),    attr.getRowMod(),
                attr.getRowStride(), attr.getColStride() == 1 && columns > 1};
  // The quotient r / rowDiv takes this many values.
  int64_t quotients = (rows + access.rowDiv - 1) / access.rowDiv;
  if (access.rowMod >= quotients)
    access.rowMod = 0;
  if (quotients <= 1 || access.rowMod == 1)
    access.rowStride = 0;
  if (access.rowStride == 0) {
    access.rowDiv = 1;
    access.rowMod = 0;
  }
  return access;
}

void KernelInfo::normalizeAccesses() {
  for (Attribute attr : kernel.getInputs())
    inputs.push_back(
        getNormalAccess(cast<exec::AccessAttr>(attr), rows, columns));
  for (Attribute attr : kernel.getOutputs())
    outputs.push_back(
        getNormalAccess(cast<exec::AccessAttr>(attr), rows, columns));
}

/// Turns row mode into flat mode where rows do not matter: one column, or no
/// reduction and every operand either a scalar or stored like the space.
void KernelInfo::flatten() {
  if (mode != exec::KernelMode::Row)
    return;
  Block &body = getBody();
  auto isSpace = [&](const Access &access) {
    return access.column && access.rowDiv == 1 && access.rowMod == 0 &&
           access.rowStride == columns;
  };
  auto isFree = [&](const Access &access) {
    return access.isUniform() || isSpace(access);
  };
  if (columns > 1) {
    if (!body.getOps<exec::RowReduceOp>().empty() ||
        !body.getOps<exec::ColumnOp>().empty() ||
        !llvm::all_of(inputs, isFree) || !llvm::all_of(outputs, isSpace))
      return;
    for (Access &access : inputs)
      if (access.column)
        access = {access.type, access.offset, 1, 0, 1, false};
    for (Access &access : outputs)
      access = {access.type, access.offset, 1, 0, 1, false};
    rangeScale = columns;
    rows *= columns;
    columns = 1;
  } else {
    // The fold of one element is the element.
    for (auto reduce :
         llvm::make_early_inc_range(body.getOps<exec::RowReduceOp>())) {
      reduce.replaceAllUsesWith(reduce.getValue());
      reduce.erase();
    }
  }
  mode = exec::KernelMode::Flat;
}

static void replaceColumnByZero(Block &body) {
  for (auto op : llvm::make_early_inc_range(body.getOps<exec::ColumnOp>())) {
    OpBuilder b(op);
    Value zero =
        arith::ConstantOp::create(b, op.getLoc(), b.getI32IntegerAttr(0));
    op.replaceAllUsesWith(zero);
    op.erase();
  }
}

/// a * b + c in one rounding, wherever the product has no other use. Done here,
/// once, and never by LLVM, so that an element's value does not depend on
/// whether it was computed in a vector loop or in its tail.
static void formMultiplyAdds(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    bool isAdd = isa<arith::AddFOp>(op);
    if (!isAdd && !isa<arith::SubFOp>(op))
      continue;
    OpBuilder b(&op);
    auto getProduct = [](Value value) {
      auto product = value.getDefiningOp<arith::MulFOp>();
      return product && product->hasOneUse() ? product : arith::MulFOp();
    };
    Value lhs = op.getOperand(0), rhs = op.getOperand(1);
    Location loc = op.getLoc();
    Value fused;
    auto product = getProduct(lhs);
    if (product) {
      Value addend = isAdd ? rhs : Value(arith::NegFOp::create(b, loc, rhs));
      fused = math::FmaOp::create(b, loc, product.getLhs(), product.getRhs(),
                                  addend);
    } else if ((product = getProduct(rhs))) {
      Value factor = product.getLhs();
      if (!isAdd)
        factor = arith::NegFOp::create(b, loc, factor);
      fused = math::FmaOp::create(b, loc, factor, product.getRhs(), lhs);
    } else {
      continue;
    }
    op.getResult(0).replaceAllUsesWith(fused);
    op.erase();
    product.erase();
  }
}

/// Divisions per lane become the hardware's of at most 2 units in the last
/// place: the exact one branches to a subroutine. A reciprocal is one
/// instruction where what is not a normal number may be 0.
static void useHardwareDivision(Block &body, const KernelInfo &info) {
  for (auto op : llvm::make_early_inc_range(body.getOps<arith::DivFOp>())) {
    if (!info.isVarying(op.getResult()))
      continue;
    bool isReciprocal = matchPattern(op.getLhs(), m_OneFloat());
    OpBuilder b(op);
    op->replaceAllUsesWith(LLVM::CallIntrinsicOp::create(
        b, op.getLoc(), op.getType(),
        b.getStringAttr(isReciprocal ? "llvm.nvvm.rcp.approx.ftz.f"
                                     : "llvm.nvvm.div.full"),
        op->getOperands().drop_front(isReciprocal)));
    op.erase();
  }
}

FailureOr<KernelInfo> KernelInfo::prepare(exec::KernelOp kernel, bool forCuda,
                                          int64_t maxSavedBytes) {
  KernelInfo info;
  info.kernel = kernel;
  info.mode = kernel.getMode();
  info.rows = kernel.getRows();
  info.columns = kernel.getColumns();
  info.savedBytesLeft = maxSavedBytes;
  info.normalizeAccesses();
  info.flatten();
  if (info.columns == 1)
    replaceColumnByZero(info.getBody());

  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(kernel);
  eliminateCommonSubExpressions(rewriter, dominance, kernel);
  if (failed(expandMath(kernel, forCuda)))
    return failure();
  eliminateCommonSubExpressions(rewriter, dominance, kernel);
  formMultiplyAdds(info.getBody());

  info.findVarying();
  if (forCuda) {
    useHardwareDivision(info.getBody(), info);
    info.findVarying();
  }
  for (auto [value, access] :
       llvm::zip(info.getYield().getValues(), info.outputs)) {
    bool perLane = info.mode == exec::KernelMode::Flat || access.column;
    if (!perLane && info.isVarying(value))
      return kernel.emitOpError("expects an output with colStride 0 not to "
                                "depend on the column");
  }
  info.findPhases();
  if (forCuda)
    info.findFollowers();
  info.findColumnTests();
  return info;
}

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

void KernelInfo::findVarying() {
  varying.clear();
  bool flat = mode == exec::KernelMode::Flat;
  Block &body = getBody();
  for (auto [arg, access] : llvm::zip(body.getArguments(), inputs))
    if (flat ? !access.isUniform() : access.column)
      varying.insert(arg);
  for (Operation &op : body) {
    if (isa<exec::RowReduceOp>(op))
      continue;
    if (isa<exec::ColumnOp>(op) || llvm::any_of(op.getOperands(), [&](Value v) {
          return varying.contains(v);
        }))
      for (Value result : op.getResults())
        varying.insert(result);
  }
}

bool KernelInfo::hasLaneOutputs() const {
  return mode == exec::KernelMode::Flat ||
         llvm::any_of(outputs, [](const Access &a) { return a.column; });
}

unsigned KernelInfo::getLaneCost() const {
  unsigned cost = 0;
  for (const Phase &phase : phases)
    cost += phase.lanes.size() + phase.loads.size();
  return cost;
}

/// Assigns levels and builds the phases.
///
/// 1. level: 0 for inputs, the maximum of the operands for an op, one more
///    than its operand for a row reduction.
/// 2. A reduction whose operand has level p belongs to phase p. All outputs are
///    written in the last phase, so that an output may share its buffer with
///    an input: nothing is read after it.
void KernelInfo::findPhases() {
  Block &body = getBody();
  unsigned last = 0;
  for (Value arg : body.getArguments())
    level[arg] = 0;
  for (Operation &op : body.without_terminator()) {
    unsigned deepest = 0;
    for (Value operand : op.getOperands())
      deepest = std::max(deepest, level.lookup(operand));
    if (isa<exec::RowReduceOp>(op)) {
      last = std::max(last, deepest);
      ++deepest;
    }
    for (Value result : op.getResults())
      level[result] = deepest;
  }
  for (Value value : getYield().getValues())
    if (isVarying(value))
      last = std::max(last, level.lookup(value));

  // One more, without a loop, for scalars that follow the last loop.
  phases.resize(last + 2);
  for (Operation &op : body.without_terminator()) {
    if (auto reduce = dyn_cast<exec::RowReduceOp>(op)) {
      if (isVarying(reduce.getValue()))
        phases[level.lookup(reduce.getValue())].reduces.push_back(reduce);
      else
        phases[level.lookup(reduce.getResult())].scalars.push_back(reduce);
      continue;
    }
    if (op.getNumResults() == 1 && !isVarying(op.getResult(0)))
      phases[level.lookup(op.getResult(0))].scalars.push_back(&op);
  }
  // Lane outputs may yet depend on nothing but scalars of the last level.
  for (auto [value, access] : llvm::zip(getYield().getValues(), outputs))
    if (access.column && !isVarying(value))
      last = std::max(last, level.lookup(value));
  phases.resize(last + 2);
  phases[last].stores = hasLaneOutputs();

  for (unsigned i = 0; i <= last; ++i) {
    SmallVector<Value> roots;
    for (exec::RowReduceOp reduce : phases[i].reduces)
      roots.push_back(reduce.getValue());
    if (phases[i].stores)
      for (Value value : getYield().getValues())
        if (isVarying(value))
          roots.push_back(value);
    fillPhase(i, roots);
  }
}

/// Recomputing at least so many ops is dearer than a store and a load.
static constexpr unsigned minSavedCost = 12;

/// Whether `value` is, or can be, kept when `phase` computes it.
bool KernelInfo::trySave(Phase &phase, Value value) {
  if (llvm::is_contained(phase.saves, value))
    return true;
  int64_t bytes = columns * 4;
  if (bytes > savedBytesLeft)
    return false;
  savedBytesLeft -= bytes;
  phase.saves.push_back(value);
  return true;
}

/// Finds what phase `index` must compute per lane for `roots`.
void KernelInfo::fillPhase(unsigned index, ArrayRef<Value> roots) {
  Phase &phase = phases[index];
  DenseSet<Value> needed, restored;
  SmallVector<Value> work(roots.begin(), roots.end());

  // The first phase that computes a value, if before this one.
  auto findEarlier = [&](Operation *op) -> Phase * {
    for (unsigned i = 0; i < index; ++i)
      if (llvm::is_contained(phases[i].lanes, op))
        return &phases[i];
    return nullptr;
  };
  // Varying ops that `op` stands on, itself included.
  auto getCost = [&](Operation *op) {
    DenseSet<Operation *> seen;
    SmallVector<Operation *> stack{op};
    while (!stack.empty()) {
      Operation *top = stack.pop_back_val();
      if (!seen.insert(top).second)
        continue;
      for (Value operand : top->getOperands())
        if (Operation *def = operand.getDefiningOp(); def && isVarying(operand))
          stack.push_back(def);
    }
    return seen.size();
  };

  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!isVarying(value) || !needed.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op)
      continue;
    if (value.getType().isF32() && getCost(op) >= minSavedCost) {
      Phase *earlier = findEarlier(op);
      if (earlier && trySave(*earlier, value)) {
        restored.insert(value);
        phase.restores.push_back(value);
        continue;
      }
    }
    work.append(op->operand_begin(), op->operand_end());
  }

  for (auto [i, arg] : llvm::enumerate(getBody().getArguments()))
    if (needed.contains(arg))
      phase.loads.push_back(i);
  for (Operation &op : getBody().without_terminator())
    if (op.getNumResults() == 1 && needed.contains(op.getResult(0)) &&
        !restored.contains(op.getResult(0)))
      phase.lanes.push_back(&op);
}

//===----------------------------------------------------------------------===//
// Folds that follow a maximum, comparisons of columns
//===----------------------------------------------------------------------===//

/// The r for which `value` is proportional to 2^(-r max), where that is so for
/// any number in place of the maximum.
///
///     2^(c (u - max))            c
///     a * b                      that of a plus that of b
///     select p, a, b             that of a and b; one of them may be 0
///     what is known before max   0
std::optional<double> KernelInfo::getRate(Value value, exec::RowReduceOp max) {
  auto isEarlier = [&](Value v) {
    return level.lookup(v) < level.lookup(max.getResult());
  };
  if (isEarlier(value))
    return 0;
  Operation *op = value.getDefiningOp();
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op)) {
    if (!isEarlier(select.getCondition()))
      return std::nullopt;
    Value a = select.getTrueValue(), b = select.getFalseValue();
    if (matchPattern(b, m_AnyZeroFloat()))
      return getRate(a, max);
    std::optional<double> rate = getRate(b, max);
    bool isSame = matchPattern(a, m_AnyZeroFloat()) || getRate(a, max) == rate;
    return isSame ? rate : std::nullopt;
  }
  if (auto product = dyn_cast_or_null<arith::MulFOp>(op)) {
    std::optional<double> a = getRate(product.getLhs(), max);
    std::optional<double> b = getRate(product.getRhs(), max);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  auto power = dyn_cast_or_null<LLVM::CallIntrinsicOp>(op);
  if (!power || power.getIntrin() != powerOfTwoIntrinsic)
    return std::nullopt;
  auto exponent = power.getArgs()[0].getDefiningOp<arith::MulFOp>();
  auto difference = exponent ? exponent.getLhs().getDefiningOp<arith::SubFOp>()
                             : arith::SubFOp();
  FloatAttr factor;
  if (!difference || difference.getRhs() != max.getResult() ||
      !isEarlier(difference.getLhs()) ||
      !matchPattern(exponent.getRhs(), m_Constant(&factor)))
    return std::nullopt;
  return factor.getValueAsDouble();
}

void KernelInfo::findFollowers() {
  for (size_t i = 1; i < phases.size(); ++i) {
    Phase &phase = phases[i];
    if (phase.stores || phase.reduces.empty())
      continue;
    for (exec::RowReduceOp max : phases[i - 1].reduces) {
      if (max.getKind() != exec::Reduction::Max)
        continue;
      SmallVector<double> rates;
      for (exec::RowReduceOp sum : phase.reduces)
        if (std::optional<double> rate = getRate(sum.getValue(), max);
            rate && sum.getKind() == exec::Reduction::Sum)
          rates.push_back(*rate);
      if (rates.size() != phase.reduces.size())
        continue;
      phase.followed = max;
      phase.rates = rates;
      break;
    }
  }
}

void KernelInfo::findColumnTests() {
  for (auto op : getBody().getOps<arith::CmpIOp>()) {
    arith::CmpIPredicate predicate = op.getPredicate();
    if (!isVarying(op.getResult()) || isVarying(op.getRhs()) ||
        (predicate != arith::CmpIPredicate::slt &&
         predicate != arith::CmpIPredicate::eq))
      continue;
    Value column = op.getLhs(), shift;
    if (auto sum = column.getDefiningOp<arith::AddIOp>()) {
      bool isLeft = isVarying(sum.getLhs());
      column = isLeft ? sum.getLhs() : sum.getRhs();
      shift = isLeft ? sum.getRhs() : sum.getLhs();
    }
    if (column.getDefiningOp<exec::ColumnOp>() && !(shift && isVarying(shift)))
      columnTests.push_back({op.getResult(),
                             predicate == arith::CmpIPredicate::slt, shift,
                             op.getRhs()});
  }
}
