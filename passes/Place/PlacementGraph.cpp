//===- PlacementGraph.cpp - A function as a problem of placements ---------===//
#include "passes/Place/PlacementGraph.h"
#include "cleave/Cost/Kernels.h"
#include "dialects/xf/Provenance.h"
#include "passes/Place/Addends.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;

/// The attribute by which a person pins an argument, a result of a function, a
/// state, or the first result of an op.
static constexpr llvm::StringLiteral pinName = "dist.pin";

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static xf::StateOp getState(xf::GetOp op) {
  return SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(op,
                                                           op.getStateAttr());
}

/// What the dims of inputs of micro-batches are, the batch first.
static constexpr llvm::StringLiteral tokenDims[] = {"batch", "sequence"};

PlacementGraph::PlacementGraph(func::FuncOp function,
                               FlatSymbolRefAttr meshName, const Mesh &mesh,
                               const Machine &machine, const Profile &profile,
                               CollectivePricer price)
    : function(function), meshName(meshName), mesh(mesh), machine(machine),
      profile(profile), price(price),
      device(std::make_shared<const Device>(machine.device)),
      b(function.getContext()) {
  problem.mesh = mesh;
  problem.moveSeconds = getMoveSeconds(machine.device, profile);
}

PlacementGraph::When PlacementGraph::getWhen(Operation *op) const {
  if (op->getParentOp() == function)
    return When::Once;
  return xf::getPhase(op) == xf::Phase::Backward ? When::Backward
                                                 : When::Forward;
}

PlacementGraph::When PlacementGraph::getWhen(Value value) const {
  if (Operation *op = value.getDefiningOp())
    return getWhen(op);
  return value.getParentBlock()->getParentOp() == function ? When::Once
                                                           : When::Forward;
}

//===----------------------------------------------------------------------===//
// From the function to the problem
//===----------------------------------------------------------------------===//

LogicalResult PlacementGraph::build() {
  for (auto op : function.getOps<xf::AccumulateOp>()) {
    if (accumulate)
      return op.emitOpError("is the second one: expects a function with one");
    accumulate = op;
  }
  moveAddends(function);
  splitSums();
  if (failed(addStates()) || failed(addArguments()))
    return failure();
  for (Operation &op : function.getBody().front())
    if (failed(addOp(op)))
      return failure();
  markOptimizer();
  auto rules = llvm::to_vector(llvm::make_second_range(strategies));
  if (std::optional<Axis> idle = findIdleAxis(mesh, rules))
    return function.emitError("axis \"")
           << mesh.getName(*idle) << "\" of the mesh has "
           << mesh.getSize(*idle)
           << " ranks: expects a divisor of a dim that an op may split";
  return success();
}

/// What only the optimizer reads is moved for it.
void PlacementGraph::markOptimizer() {
  auto mark = [&](bool isForOptimizer) {
    for (auto [site, op] : llvm::zip_equal(sites, problem.ops)) {
      bool isOptimizer = site.op && getWhen(site.op) == When::Once &&
                         xf::getPhase(site.op) == xf::Phase::Optimizer;
      if (isOptimizer == isForOptimizer)
        for (size_t tensor : op.operands)
          problem.tensors[tensor].isForOptimizer = isForOptimizer;
    }
  };
  mark(true);
  mark(false);
}

/// Of what an op adds, what has the sum's type: not a bias.
static SmallVector<Value> getTerms(xf::AdditionOpInterface op) {
  Type type = op->getResult(0).getType();
  return llvm::filter_to_vector(
      op->getOperands(), [&](Value each) { return each.getType() == type; });
}

static bool isNumber(Value value) { return getShape(value).empty(); }

void PlacementGraph::splitSums() {
  SmallVector<xf::AdditionOpInterface> sums;
  function.walk([&](xf::AdditionOpInterface op) {
    if (getTerms(op).size() > 2 && !isNumber(op->getResult(0)))
      sums.push_back(op);
  });
  // The last two first: of the layers of a model, decided from the last to the
  // first, each then adds its own. Biases are added at last, since they are
  // whole where the products that gave them away are partial sums.
  for (xf::AdditionOpInterface op : sums) {
    SmallVector<Value> left = getTerms(op), biases;
    llvm::copy_if(op->getOperands(), std::back_inserter(biases),
                  [&](Value each) { return !llvm::is_contained(left, each); });
    b.setInsertionPoint(op);
    // Tensors that are read and written: by the sum, and by its parts.
    double count = double(left.size());
    shares[op] = (count + 1) / (3 * (count - 1));
    while (left.size() > 2) {
      Value last[] = {left.end()[-2], left.end()[-1]};
      Operation *part = b.clone(*op);
      part->removeAttr(pinName); // the sum's
      cast<xf::AdditionOpInterface>(part).getAddendsMutable().assign(last);
      left.pop_back_n(2);
      left.push_back(part->getResult(0));
      parts.push_back(part);
      shares[part] = shares[op];
    }
    left.append(biases);
    op.getAddendsMutable().assign(left);
  }
}

/// State that the function sets is in the place of what it is set to.
LogicalResult PlacementGraph::addStates() {
  for (auto set : function.getOps<xf::SetOp>()) {
    auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
        set, set.getStateAttr());
    if (!updates.try_emplace(state, set.getValue()).second)
      return set.emitOpError("is the second one of its state");
    auto pin = readPin(state, state->getAttr(pinName), state.getType());
    if (failed(pin))
      return failure();
    state->removeAttr(pinName);
    size_t tensor = getTensor(set.getValue(), When::Once);
    states[state] = tensor;
    known[tensor].pinned = *pin;
    known[tensor].isState = true;
    problem.tensors[tensor].copies = 1;
  }
  return success();
}

LogicalResult PlacementGraph::addArguments() {
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return function.emitError("expects arguments that are tensors");
    unsigned number = argument.getArgNumber();
    auto pin = readPin(function, function.getArgAttr(number, pinName), type);
    if (failed(pin))
      return failure();
    function.removeArgAttr(number, pinName);
    if (!accumulate) {
      addTensor(argument, When::Once, getAllowed(argument, *pin));
      continue;
    }
    // Tokens: [micro-batches, batch, ...], of which the batch may be split.
    if (type.getRank() < 2 ||
        type.getDimSize(0) != int64_t(accumulate.getCount()))
      return function.emitError("expects arguments whose dim 0 is the number "
                                "of micro-batches");
    ArrayRef<int64_t> shape = type.getShape().drop_front();
    if (tokens && !llvm::equal(problem.tensors[*tokens].shape, shape))
      return function.emitError("expects arguments of one shape");
    std::vector<Placement> allowed;
    for (Placement &placement : getWholePlacements(mesh, shape))
      if (llvm::all_of(llvm::drop_begin(placement.dims),
                       [](const AxisList &axes) { return axes.empty(); }))
        allowed.push_back(std::move(placement));
    if (*pin) {
      Placement one = **pin;
      one.dims.erase(one.dims.begin());
      if (!llvm::is_contained(allowed, one))
        return function.emitError("expects pins of arguments that split the "
                                  "batch alone");
      allowed = {one};
    }
    if (tokens && *pin) {
      // One argument's pin is all arguments'.
      std::vector<Placement> &home = problem.tensors[*tokens].allowed;
      if (!llvm::is_contained(home, allowed[0]))
        return function.emitError(
            "expects pins of arguments that split the batch alike");
      home = allowed;
    }
    if (!tokens) {
      for (unsigned dim = 0;
           dim != std::min(shape.size(), std::size(tokenDims)); ++dim)
        nameDim(tokenDims[dim]);
      problem.sampleDims = unsigned(problem.dims.size());
      tokens = addTensor(argument, When::Once, std::move(allowed));
      problem.tensors[*tokens].shape.assign(shape.begin(), shape.end());
    }
    numbers[see(argument, When::Once)] = *tokens;
    SmallVector<uint32_t, 4> &names = dims[argument];
    names.push_back(0);
    for (unsigned dim = 0; dim != shape.size(); ++dim)
      names.push_back(dim < std::size(tokenDims) ? nameDim(tokenDims[dim]) : 0);
  }
  return success();
}

uint32_t PlacementGraph::nameDim(StringRef name) {
  constexpr size_t mostNames = 32;
  auto at = llvm::find(problem.dims, name);
  size_t number = size_t(at - problem.dims.begin());
  if (name.empty() || number == mostNames)
    return 0;
  if (at == problem.dims.end())
    problem.dims.push_back(name.str());
  return uint32_t(1) << number;
}

LogicalResult PlacementGraph::addOp(Operation &op) {
  if (op.hasAttr(pinName) && !isa<xf::ShardingRuleOpInterface>(op))
    return op.emitOpError("takes no ")
           << pinName << ": expects it on an op with a sharding rule, a state, "
           << "an argument or a result of the function";
  if (auto get = dyn_cast<xf::GetOp>(op))
    return addGet(get);
  if (isa<xf::SetOp>(op))
    return success();
  if (auto each = dyn_cast<xf::AccumulateOp>(op))
    return addAccumulate(each);
  if (isa<xf::OutputOp>(op)) {
    // Whoever reads an output joins its shards and adds its parts: a number may
    // be anything.
    if (isNumber(op.getOperand(0)))
      return success();
    addEnd(&op, 0, getSumPlacements(mesh, getShape(op.getOperand(0))));
    return success();
  }
  if (op.hasTrait<OpTrait::IsTerminator>())
    return addReturn(op);
  if (op.getNumRegions() > 0)
    return op.emitOpError("has a region, which nothing is known of");
  if (auto sum = dyn_cast<xf::AdditionOpInterface>(op);
      sum && getTerms(sum).size() > 2 && isNumber(sum->getResult(0)))
    return addSum(sum), success();
  if (auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op))
    return addRuled(ruled);
  if (op.hasAttr(dist::replicateName))
    return addReplicated(op);
  return op.emitOpError("has no sharding rule; with the attribute ")
         << dist::replicateName << " every rank does it whole";
}

LogicalResult PlacementGraph::addReplicated(Operation &op) {
  When when = getWhen(&op);
  PlacedOp placed;
  Strategy whole;
  auto add = [&](ValueRange values, auto &tensors, auto &placements) {
    for (Value value : values) {
      tensors.push_back(getTensor(value, when));
      placements.push_back(
          Placement::getReplicated(unsigned(getShape(value).size())));
    }
  };
  for (Type type : llvm::concat<Type>(SmallVector<Type>(op.getOperandTypes()),
                                      SmallVector<Type>(op.getResultTypes())))
    if (!isa<RankedTensorType>(type))
      return op.emitOpError("expects nothing but tensors");
  add(op.getOperands(), placed.operands, whole.placements.operands);
  add(op.getResults(), placed.results, whole.placements.results);
  double times = when == When::Once ? 1 : double(accumulate.getCount());
  placed.seconds = {times * getWholeSeconds(machine.device, &op)};
  placed.strategies = {std::move(whole)};
  double at = getAt(placed, when);
  for (size_t tensor : placed.results)
    known[tensor].at = at;
  addToProblem({Site::Replicated, &op, 0, {}}, std::move(placed), at);
  return success();
}

/// A state is in one place, however often it is read.
LogicalResult PlacementGraph::addGet(xf::GetOp op) {
  xf::StateOp state = getState(op);
  auto [at, isNew] = states.try_emplace(state, 0);
  if (isNew) {
    auto pin = readPin(state, state->getAttr(pinName), op.getType());
    if (failed(pin))
      return failure();
    state->removeAttr(pinName);
    // Constants of a step are small, and read in every micro-batch.
    std::optional<Placement> home = *pin;
    if (accumulate && !home)
      home = Placement::getReplicated(unsigned(getShape(op).size()));
    at->second = addTensor(op, When::Once, getAllowed(op, home));
  }
  numbers[see(op, When::Once)] = at->second;
  SmallVector<uint32_t, 4> &names = dims[op];
  names.assign(getShape(op).size(), 0);
  if (std::optional<ArrayAttr> given = state.getDims())
    for (auto [name, dim] :
         llvm::zip_equal(names, given->getAsValueRange<StringAttr>()))
      name = nameDim(dim);
  return success();
}

/// What a function returns is no partial sum.
LogicalResult PlacementGraph::addReturn(Operation &op) {
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    auto pin = readPin(function, function.getResultAttr(number, pinName),
                       value.getType());
    if (failed(pin))
      return failure();
    function.removeResultAttr(number, b.getStringAttr(pinName));
    addEnd(&op, unsigned(number), getAllowed(value, *pin));
  }
  return success();
}

LogicalResult PlacementGraph::addAccumulate(xf::AccumulateOp op) {
  Block &body = op.getBody().front();
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), op.getInputs())) {
    if (!isStacked(input))
      return op.emitOpError("expects arguments of the function as inputs");
    numbers[see(argument, When::Forward)] = *tokens;
    SmallVector<uint32_t, 4> names(dims.lookup(input));
    names.erase(names.begin());
    dims[argument] = std::move(names);
  }
  nameGradients(op);
  for (Operation &each : body.without_terminator())
    if (failed(addOp(each)))
      return failure();
  addYields(op);
  return success();
}

/// A gradient's dims are its parameter's, which only its update says of those
/// that no operand has: the vocabulary's, of an embedding's.
void PlacementGraph::nameGradients(xf::AccumulateOp op) {
  Operation *yield = op.getBody().front().getTerminator();
  for (auto [value, result] :
       llvm::zip_equal(yield->getOperands(), op.getResults()))
    for (Operation *user : result.getUsers()) {
      auto update = dyn_cast<xf::OptimizerOpInterface>(user);
      if (!update || update.getGradient() != result)
        continue;
      SmallVector<uint32_t, 4> names = dims.lookup(update.getParameter());
      if (auto sum = value.getDefiningOp<xf::AdditionOpInterface>())
        for (Value part : sum->getOperands())
          if (getShape(part) == getShape(value))
            dims[part] = names;
      dims[value] = std::move(names);
    }
}

/// What a micro-batch adds to is in one place from the first to the last.
void PlacementGraph::addYields(xf::AccumulateOp op) {
  Operation *yield = op.getBody().front().getTerminator();
  for (auto [number, value, result] :
       llvm::enumerate(yield->getOperands(), op.getResults())) {
    size_t tensor = getTensor(value, getWhen(value));
    size_t sum = addTensor(result, When::Once);
    problem.tensors[sum].copies = 1;
    dims[result] = SmallVector<uint32_t, 4>(dims.lookup(value));
    addSame({Site::Yielded, yield, unsigned(number), {}}, tensor, sum,
            getSumPlacements(mesh, getShape(value)),
            known[tensor].at.value_or(next));
    known[sum].at = known[tensor].at;
  }
}

/// Leaves the operands where they are, whatever that is; counts one reduction
/// along all axes.
void PlacementGraph::addSum(xf::AdditionOpInterface op) {
  PlacedOp sum;
  sum.results = {getTensor(op->getResult(0), getWhen(op))};
  PlacedTensor number{{}, 4, {}};
  Placement partial;
  for (Axis axis = 0; axis != mesh.getNumAxes(); ++axis)
    partial.partial.push_back(axis);
  ByStepKind seconds = getReshardSeconds(mesh, number, partial, Placement(),
                                         price, MoveSeconds())
                           .value_or(ByStepKind());
  sum.seconds = {getSum(seconds)};
  Strategy everywhere;
  everywhere.placements.results = {Placement()};
  sum.strategies = {std::move(everywhere)};
  addToProblem({Site::Summed, op, 0, {}}, std::move(sum), -1);
}

void PlacementGraph::addEnd(Operation *op, unsigned operand,
                            ArrayRef<Placement> allowed) {
  Value value = op->getOperand(operand);
  size_t tensor = getTensor(value, getWhen(op));
  addSame({Site::End, op, operand, {}}, tensor, {}, allowed,
          known[tensor].at.value_or(next));
}

/// See PlacedOp::rowsOf.
static uint32_t findRows(const ShardingRule &rule) {
  uint32_t rows = 0;
  const TensorFactors &made = rule.results[0];
  for (auto [i, operand] : llvm::enumerate(rule.operands)) {
    size_t depth = std::min(made.size(), operand.size());
    if (i >= 32 || depth < 2)
      continue;
    // What has no factor is whole for the op.
    if (llvm::all_of(llvm::seq(depth - 1), [&, &operand = operand](size_t dim) {
          return !made[dim].empty() && made[dim] == operand[dim];
        }))
      rows |= uint32_t(1) << i;
  }
  return rows;
}

StrategyList PlacementGraph::getShared(const ShardingRule &rule) {
  auto known = llvm::find_if(
      strategies, [&](const auto &each) { return each.first == rule; });
  if (known != strategies.end())
    return known->second;
  return strategies.emplace_back(rule, getStrategies(mesh, rule)).second;
}

bool PlacementGraph::mayKeep(Operation *op, const PlacedOp &placed,
                             const Strategy &strategy) const {
  for (auto [tensor, placement] :
       llvm::zip_equal(placed.results, strategy.placements.results)) {
    const Known &result = known[tensor];
    if (result.pinned && !(*result.pinned == placement))
      return false;
    if (result.isState && placement.isPartial())
      return false;
  }
  return llvm::all_of(
      llvm::zip_equal(op->getOperands(), strategy.placements.operands),
      [&](auto operand) {
        auto [value, placement] = operand;
        return !isStacked(value) || placement.dims[0].empty();
      });
}

Strategy PlacementGraph::unstack(Operation *op, Strategy strategy) const {
  for (auto [operand, placement] :
       llvm::zip_equal(op->getOperands(), strategy.placements.operands))
    if (isStacked(operand))
      placement.dims.erase(placement.dims.begin());
  return strategy;
}

/// See PlacedOp::getLonger; the problem may outlive what the graph refers to.
std::function<double(const Strategy &, int64_t)>
PlacementGraph::makeLonger(Operation *op, const ShardingRule &rule) const {
  struct Product {
    Mesh mesh;
    ShardingRule rule;
    DType dtype;
    double rate;
  };
  auto product = std::make_shared<const Product>(
      Product{mesh, rule, getProductType(op), profile.matrixRate});
  return [product, device = device](const Strategy &strategy, int64_t parts) {
    auto get = [&](int64_t count) {
      return getProductSeconds(product->mesh, *device, product->rule,
                               strategy.axes, product->dtype, count);
    };
    return std::max(0., get(parts) - get(1)) / product->rate;
  };
}

LogicalResult PlacementGraph::addRuled(xf::ShardingRuleOpInterface op) {
  When when = getWhen(op);
  PlacedOp placed;
  for (Value operand : op->getOperands())
    placed.operands.push_back(getTensor(operand, when));
  for (Value result : op->getResults())
    placed.results.push_back(getTensor(result, when));
  auto pin = readPin(op, op->getAttr(pinName), op->getResult(0).getType());
  if (failed(pin))
    return failure();
  op->removeAttr(pinName);
  if (*pin)
    known[placed.results[0]].pinned = *pin;

  ShardingRule rule = op.getShardingRule();
  OpPricer pricer(mesh, machine.device, profile);
  double times = when == When::Once ? 1 : double(accumulate.getCount());
  if (auto share = shares.find(op); share != shares.end())
    times *= share->second;
  StrategyList all = getShared(rule);
  SmallVector<const Strategy *> kept;
  for (const Strategy &strategy : all) {
    if (!mayKeep(op, placed, strategy))
      continue;
    FailureOr<double> seconds = pricer.price(op, rule, strategy);
    if (failed(seconds))
      return failure();
    kept.push_back(&strategy);
    placed.seconds.push_back(*seconds * times);
  }
  bool hasStacked = llvm::any_of(
      op->getOperands(), [&](Value operand) { return isStacked(operand); });
  if (hasStacked || kept.size() < all.size()) {
    std::vector<Strategy> some;
    for (const Strategy *strategy : kept)
      some.push_back(unstack(op, *strategy));
    placed.strategies = StrategyList(std::move(some));
  } else {
    placed.strategies = all;
  }
  if (placed.strategies.empty())
    return op.emitOpError("cannot be split so that its result is where ")
           << pinName << " has it";
  auto cost = dyn_cast<xf::CostOpInterface>(*op);
  bool isAttention = cost && cost.getAttention();
  // Attention's kernels take no part of their rows.
  placed.rowsOf = isAttention ? 0 : findRows(rule);
  placed.isProduct = cost && cost.getFlops().executed > 0 && !isAttention;
  if (placed.isProduct)
    placed.getLonger = makeLonger(op, rule);
  placed.dims = nameFactors(op, rule);
  for (const FactorInfo &factor : rule.factors)
    placed.factors.push_back(factor.name);
  double at = getAt(placed, when);
  if (when == When::Forward)
    for (auto [value, tensor] :
         llvm::zip_equal(op->getOperands(), placed.operands)) {
      if (Known &operand = known[tensor]; !operand.isForward) {
        operand.at = at;
        operand.isForward = true;
      }
      // Of a table that is read at both ends, the later.
      if (auto other = numbers.find(see(value, When::Backward));
          other != numbers.end())
        known[other->second].at = at;
    }
  for (size_t tensor : placed.results)
    if (!known[tensor].isForward)
      known[tensor].at = at;
  addToProblem({Site::Ruled, op, 0, {}}, std::move(placed), at);
  return success();
}

/// Forward ops are decided from the last to the first, others with the forward
/// op whose tensors they read; a sum of gradients with its first part.
double PlacementGraph::getAt(const PlacedOp &op, When when) {
  if (when == When::Forward || !accumulate)
    return next++;
  std::optional<double> forward, others;
  for (size_t tensor : op.operands) {
    const Known &operand = known[tensor];
    // What is everywhere belongs to no layer.
    if (!operand.at || !problem.tensors[tensor].allowed.empty())
      continue;
    if (operand.isForward)
      forward = std::max(forward.value_or(*operand.at), *operand.at);
    else
      others = std::min(others.value_or(*operand.at), *operand.at);
  }
  return forward ? *forward : others ? *others : next++;
}

SmallVector<uint32_t, 8>
PlacementGraph::nameFactors(xf::ShardingRuleOpInterface op,
                            const ShardingRule &rule) {
  SmallVector<uint32_t, 8> own(rule.factors.size(), 0);
  for (auto [value, tensor] :
       llvm::zip_equal(op->getOperands(), rule.operands)) {
    auto known = dims.find(value);
    if (known == dims.end())
      continue;
    for (auto [dim, name] : llvm::zip_equal(tensor, known->second))
      if (!dim.empty())
        own[dim.front()] |= name;
  }
  for (auto [value, tensor] : llvm::zip_equal(op->getResults(), rule.results)) {
    if (auto known = dims.find(value); known != dims.end())
      for (auto [dim, name] : llvm::zip(tensor, known->second))
        if (!dim.empty() && own[dim.front()] == 0)
          own[dim.front()] = name;
    SmallVector<uint32_t, 4> names;
    for (const DimFactors &dim : tensor)
      names.push_back(dim.empty() ? 0 : own[dim.front()]);
    dims[value] = std::move(names);
  }
  return own;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::vector<Placement>
PlacementGraph::getAllowed(Value value,
                           const std::optional<Placement> &pin) const {
  if (pin)
    return {*pin};
  return getWholePlacements(mesh, getShape(value));
}

size_t PlacementGraph::addTensor(Value value, When when,
                                 std::vector<Placement> allowed) {
  PlacedTensor tensor = getPlacedTensor(value);
  tensor.allowed = std::move(allowed);
  if (when != When::Once)
    tensor.moves = double(accumulate.getCount());
  problem.tensors.push_back(std::move(tensor));
  known.emplace_back();
  numbers[see(value, when)] = problem.tensors.size() - 1;
  return problem.tensors.size() - 1;
}

size_t PlacementGraph::getTensor(Value value, When when) {
  if (auto at = numbers.find(see(value, when)); at != numbers.end())
    return at->second;
  When native = getWhen(value);
  if (native == when)
    return addTensor(value, when);
  // What no step changes is everywhere.
  if (auto at = numbers.find(see(value, native));
      at != numbers.end() && !problem.tensors[at->second].allowed.empty())
    return numbers[see(value, when)] = at->second;
  if (native == When::Once)
    addHeld(value);
  else
    addKept(value, when);
  return numbers.lookup(see(value, when));
}

/// Where the micro-batches find what is outside of them.
void PlacementGraph::addHeld(Value value) {
  size_t tensor = getTensor(value, When::Once);
  llvm::SmallVector<size_t, 2> results;
  for (When when : {When::Forward, When::Backward})
    if (llvm::any_of(value.getUsers(),
                     [&](Operation *user) { return getWhen(user) == when; })) {
      results.push_back(addTensor(value, when));
      known[results.back()] = {next, /*isForward=*/true, std::nullopt};
    }
  // What is read as it is kept takes no further memory.
  PlacedTensor &held = problem.tensors[tensor];
  if (held.copies > 0)
    held.movedTo = 1;
  else
    problem.tensors[results[0]].copies = 1;
  anchor(value, next);
  addSame({Site::Held, nullptr, 0, value}, tensor, results,
          getWholePlacements(mesh, getShape(value)), next);
}

/// Where the backward pass finds what the forward pass has made.
void PlacementGraph::addKept(Value value, When when) {
  size_t tensor = getTensor(value, getWhen(value));
  size_t kept = addTensor(value, when);
  problem.tensors[kept].copies = 1;
  known[kept] = {known[tensor].at, /*isForward=*/true, std::nullopt};
  addSame({Site::Kept, nullptr, 0, value}, tensor, kept,
          getWholePlacements(mesh, getShape(value)),
          known[tensor].at.value_or(next));
}

void PlacementGraph::anchor(Value value, double at) {
  Known &own = known[getTensor(value, When::Once)];
  if (own.isForward)
    return;
  own.at = at;
  own.isForward = true;
  Operation *op = value.getDefiningOp();
  for (auto [number, site] : llvm::enumerate(sites))
    if (op && site.op == op && site.kind == Site::Ruled) {
      problem.ops[number].at = at;
      for (Value operand : op->getOperands())
        anchor(operand, at);
    }
}

void PlacementGraph::addSame(Site site, size_t operand,
                             ArrayRef<size_t> results,
                             ArrayRef<Placement> placements, double at) {
  PlacedOp op;
  op.operands = {operand};
  op.results.assign(results.begin(), results.end());
  Value value = site.value ? site.value : site.op->getOperand(site.operand);
  // Its factors are the dims of what it is about.
  op.dims.assign(problem.tensors[operand].shape.size(), 0);
  if (auto names = dims.find(value); names != dims.end() && !isStacked(value))
    op.dims.assign(names->second.begin(), names->second.end());
  std::vector<Strategy> strategies;
  for (const Placement &placement : placements) {
    Strategy strategy;
    strategy.axes.assign(placement.dims.begin(), placement.dims.end());
    strategy.placements.operands = {placement};
    strategy.placements.results.assign(results.size(), placement);
    strategies.push_back(std::move(strategy));
    op.seconds.push_back(0);
  }
  op.strategies = std::move(strategies);
  addToProblem(site, std::move(op), at);
}

int64_t PlacementGraph::findLayer(const Site &site) const {
  if (site.kind == Site::Held) {
    // That of the first op that reads it.
    int64_t first = -1;
    for (Operation *user : site.value.getUsers())
      if (int64_t layer = xf::getLayer(user);
          layer >= 0 && (first < 0 || layer < first))
        first = layer;
    return first;
  }
  if (site.computes() && getWhen(site.op) == When::Once) {
    // An update is of its gradient's.
    int64_t last = xf::getLayer(site.op);
    for (Value operand : site.op->getOperands())
      if (auto at = layers.find(operand); at != layers.end())
        last = std::max(last, at->second);
    return last;
  }
  if (site.computes() || site.kind == Site::Summed)
    return xf::getLayer(site.op);
  Operation *made =
      (site.value ? site.value : site.op->getOperand(site.operand))
          .getDefiningOp();
  return made ? xf::getLayer(made) : -1;
}

Keeps PlacementGraph::getKeeps(const Site &site, bool isNumber) const {
  if (isNumber)
    return Keeps::None;
  switch (site.kind) {
  case Site::Held:
    return Keeps::Parameters;
  case Site::Kept:
    return Keeps::Activations;
  case Site::Yielded:
    return Keeps::Gradients;
  case Site::Ruled:
  case Site::Replicated:
    return accumulate && getWhen(site.op) == When::Once ? Keeps::Optimizer
                                                        : Keeps::None;
  case Site::End:
  case Site::Summed:
    return Keeps::None;
  }
  llvm_unreachable("unknown kind");
}

void PlacementGraph::addToProblem(Site site, PlacedOp op, double at) {
  Operation *source = site.op ? site.op : site.value.getDefiningOp();
  // What ends is called as what made it.
  if (site.kind == Site::Yielded || site.kind == Site::End)
    if (Operation *made = site.op->getOperand(site.operand).getDefiningOp())
      source = made;
  op.name = source->getName().getStringRef().str();
  if (auto name = dyn_cast<NameLoc>(source->getLoc())) {
    op.label = name.getName().str();
    op.name += " (" + op.label + ")";
  }
  op.layer = findLayer(site);
  if (accumulate) {
    When when = site.op ? getWhen(site.op) : getWhen(site.value);
    op.phase = when == When::Once      ? "step"
               : when == When::Forward ? "forward"
                                       : "backward";
  }
  if (site.kind == Site::Yielded)
    layers[accumulate.getResult(site.operand)] = op.layer;
  else if (site.computes())
    for (Value result : site.op->getResults())
      layers[result] = op.layer;
  bool isNumber =
      !op.operands.empty() && problem.tensors[op.operands[0]].shape.empty();
  op.keeps = getKeeps(site, isNumber);
  op.at = at;
  problem.ops.push_back(std::move(op));
  sites.push_back(site);
}

FailureOr<std::optional<Placement>>
PlacementGraph::readPin(Operation *op, Attribute pin, Type type) const {
  if (!pin)
    return std::optional<Placement>();
  auto on = dyn_cast<dist::OnAttr>(pin);
  if (!on)
    return op->emitOpError("expects a #dist.on as ") << pinName;
  Type placed = dist::withPlacement(cast<RankedTensorType>(type), on);
  if (failed(dist::verifyPlaced(op, placed, meshName.getValue(), mesh)))
    return failure();
  return std::optional(dropSingleRankAxes(mesh, dist::getPlacement(on, mesh)));
}
