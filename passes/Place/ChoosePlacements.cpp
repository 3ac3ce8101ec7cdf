//===- ChoosePlacements.cpp - Placements by cost --------------------------===//
//
// A function's tensors and ops become a graph of sharding rules and seconds;
// lib finds the cheapest strategy of each op; types and reshards are written
// back.
//
//===----------------------------------------------------------------------===//
#include "cleave/AutoShard/Choose.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Reshard/Price.h"
#include "dialects/dist/Placements.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Place/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {
#define GEN_PASS_DEF_CHOOSEPLACEMENTSPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// Reads `dp=2,tp=4`.
static llvm::Expected<Mesh> parseMesh(StringRef text) {
  SmallVector<MeshAxis> axes;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, size] = part.split('=');
    MeshAxis axis{name.trim().str(), 0};
    if (size.trim().getAsInteger(10, axis.size))
      return llvm::createStringError("mesh \"" + text +
                                     "\": expects axes like dp=2,tp=4");
    axes.push_back(axis);
  }
  Mesh mesh(axes);
  if (llvm::Error error = mesh.verify())
    return llvm::createStringError("mesh \"" + text +
                                   "\": " + llvm::toString(std::move(error)));
  return mesh;
}

/// The attribute by which a person pins an argument, a result of a function, a
/// state, or the first result of an op.
static constexpr llvm::StringLiteral pinName = "dist.pin";

namespace {
/// Seconds of an op on the shards of a strategy: of its products, or of moving
/// its tensors through memory, whichever takes longer.
class OpPricer {
public:
  OpPricer(const Mesh &mesh, const Device &device)
      : mesh(mesh), device(device) {}

  /// Fails if the device has no constants for the op's type.
  FailureOr<double> price(xf::ShardingRuleOpInterface op,
                          const ShardingRule &rule, const Strategy &strategy) {
    auto cost = dyn_cast<xf::CostOpInterface>(*op);
    double flops = cost ? cost.getFlops().executed : 0;
    double bytes = cost ? cost.getBytes() : xf::getTensorBytes(op);
    double seconds =
        getStreamTime(device, bytes * getLocalShare(op, strategy.placements));
    if (flops == 0)
      return seconds;
    DType dtype = llvm::any_of(op->getOperandTypes(),
                               [](Type type) {
                                 return getElementTypeOrSelf(type).isBF16();
                               })
                      ? DType::BF16
                      : DType::F32;
    const MatrixUnit &unit = device.getMatrix(dtype);
    if (unit.peak == 0)
      return op->emitOpError("has products in ")
             << cleave::getName(dtype) << ", for which " << device.name
             << " has no constants";
    double products = getProductSeconds(rule, strategy.axes, dtype);
    if (products == 0)
      products = flops / getWays(strategy.axes) / (unit.peak * unit.efficiency);
    return std::max(seconds, products);
  }

private:
  double getWays(const FactorAxes &axes) const {
    double ways = 1;
    for (const AxisList &list : axes)
      ways *= double(mesh.getSize(list));
    return ways;
  }

  double getLocalShare(Operation *op, const RulePlacements &placements) const {
    double all = 0, local = 0;
    auto add = [&](ValueRange values, ArrayRef<Placement> placed) {
      for (auto [value, placement] : llvm::zip_equal(values, placed)) {
        auto type = cast<RankedTensorType>(value.getType());
        double bytes = type.getElementTypeBitWidth() / 8.;
        all += bytes * double(type.getNumElements());
        for (int64_t size : placement.getLocalShape(mesh, type.getShape()))
          bytes *= double(size);
        local += bytes;
      }
    };
    add(op->getOperands(), placements.operands);
    add(op->getResults(), placements.results);
    return all > 0 ? local / all : 1;
  }

  /// Of a rule that is one product, or a batch of them: rows are what only the
  /// first operand has, columns what only the second has. 0 of any other.
  double getProductSeconds(const ShardingRule &rule, const FactorAxes &axes,
                           DType dtype) const {
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
    return batch * getMatmulTime(device, dtype, rows, columns, depth);
  }

  const Mesh &mesh;
  const Device &device;
};

/// A straight-line function.
class FunctionPlacer {
public:
  FunctionPlacer(func::FuncOp function, FlatSymbolRefAttr meshName,
                 const Mesh &mesh, const Machine &machine, size_t mostStates)
      : function(function), meshName(meshName), mesh(mesh), machine(machine),
        mostStates(mostStates), b(function.getContext()) {
    problem.mesh = mesh;
  }

  LogicalResult run() {
    if (failed(addTensors()))
      return failure();
    for (Operation &op : function.getBody().front())
      if (failed(addOp(op)))
        return failure();
    NetworkPricer price(mesh, machine);
    llvm::Expected<ShardingChoice> choice =
        chooseShardings(problem, price, mostStates);
    if (!choice)
      return function.emitError(llvm::toString(choice.takeError()));
    report(*choice);
    write(*choice);
    return success();
  }

private:
  LogicalResult addTensors();
  LogicalResult addOp(Operation &op);
  LogicalResult addRuled(xf::ShardingRuleOpInterface op);
  LogicalResult addEnd(Operation &op);
  void report(const ShardingChoice &choice);
  void write(const ShardingChoice &choice);
  void setPlacement(Value value, const Placement &placement) {
    value.setType(getPlaced(value, placement));
  }
  RankedTensorType getPlaced(Value value, const Placement &placement) {
    return dist::withPlacement(
        cast<RankedTensorType>(value.getType()),
        dist::getPlacementAttr(meshName, mesh, placement));
  }
  void moveOperands(Operation &op, ArrayRef<Placement> needs);

  /// The placement that a pin asks for, if there is one; fails if it is none of
  /// the tensor on this mesh.
  FailureOr<std::optional<Placement>> readPin(Operation *op, Attribute pin,
                                              Type type) const {
    if (!pin)
      return std::optional<Placement>();
    auto on = dyn_cast<dist::OnAttr>(pin);
    if (!on)
      return op->emitOpError("expects a #dist.on as ") << pinName;
    Type placed = dist::withPlacement(cast<RankedTensorType>(type), on);
    if (failed(dist::verifyPlaced(op, placed, meshName.getValue(), mesh)))
      return failure();
    return std::optional(dist::getPlacement(on, mesh));
  }
  /// An input is where its pin has it, or may be anywhere.
  size_t addInput(Value value, const std::optional<Placement> &pin) {
    if (pin)
      return addTensor(value, {*pin});
    auto type = cast<RankedTensorType>(value.getType());
    return addTensor(value, getWholePlacements(mesh, type.getShape()));
  }
  /// `allowed`: of an input.
  size_t addTensor(Value value, std::vector<Placement> allowed = {}) {
    auto type = cast<RankedTensorType>(value.getType());
    PlacedTensor tensor;
    tensor.shape.assign(type.getShape().begin(), type.getShape().end());
    tensor.elementBytes = type.getElementTypeBitWidth() / 8;
    tensor.allowed = std::move(allowed);
    problem.tensors.push_back(std::move(tensor));
    numbers[value] = problem.tensors.size() - 1;
    return problem.tensors.size() - 1;
  }

  func::FuncOp function;
  FlatSymbolRefAttr meshName;
  const Mesh &mesh;
  const Machine &machine;
  size_t mostStates;
  OpBuilder b;
  ShardingProblem problem;
  llvm::DenseMap<Value, size_t> numbers;      ///< of tensors
  llvm::DenseMap<Operation *, size_t> states; ///< the tensors of states
  SmallVector<Operation *> ops;               ///< of the problem's ops
  llvm::DenseMap<std::pair<Value, Type>, Value> reshards;
};
} // namespace

LogicalResult FunctionPlacer::addTensors() {
  for (BlockArgument argument : function.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()))
      return function.emitError("expects arguments that are tensors");
    auto pin =
        readPin(function, function.getArgAttr(argument.getArgNumber(), pinName),
                argument.getType());
    if (failed(pin))
      return failure();
    addInput(argument, *pin);
    function.removeArgAttr(argument.getArgNumber(), pinName);
  }
  return success();
}

LogicalResult FunctionPlacer::addOp(Operation &op) {
  if (auto get = dyn_cast<xf::GetOp>(op)) {
    // A state is in one place, however often it is read.
    auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
        get, get.getStateAttr());
    auto [at, isNew] = states.try_emplace(state, 0);
    if (isNew) {
      auto pin = readPin(state, state->getAttr(pinName), get.getType());
      if (failed(pin))
        return failure();
      at->second = addInput(get.getResult(), *pin);
      state->removeAttr(pinName);
    }
    numbers[get.getResult()] = at->second;
    return success();
  }
  if (op.hasTrait<OpTrait::IsTerminator>())
    return addEnd(op);
  if (op.getNumRegions() > 0)
    return op.emitOpError("has a region: expects a function without any");
  if (auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op))
    return addRuled(ruled);
  return op.emitOpError("has no sharding rule");
}

/// What a function returns is no partial sum.
LogicalResult FunctionPlacer::addEnd(Operation &op) {
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    auto pin = readPin(function, function.getResultAttr(number, pinName),
                       value.getType());
    if (failed(pin))
      return failure();
    function.removeResultAttr(number, b.getStringAttr(pinName));
    PlacedOp end;
    end.operands = {numbers.lookup(value)};
    std::vector<Placement> wanted = getWholePlacements(
        mesh, cast<RankedTensorType>(value.getType()).getShape());
    if (*pin)
      wanted = {**pin};
    for (Placement &placement : wanted) {
      Strategy strategy;
      strategy.placements.operands.push_back(std::move(placement));
      end.strategies.push_back(std::move(strategy));
      end.seconds.push_back(0);
    }
    problem.ops.push_back(std::move(end));
    ops.push_back(&op);
  }
  return success();
}

LogicalResult FunctionPlacer::addRuled(xf::ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  PlacedOp placed;
  for (Value operand : op->getOperands())
    placed.operands.push_back(numbers.lookup(operand));
  for (Value result : op->getResults())
    placed.results.push_back(addTensor(result));
  auto pin = readPin(op, op->getAttr(pinName), op->getResult(0).getType());
  if (failed(pin))
    return failure();
  op->removeAttr(pinName);
  OpPricer pricer(mesh, machine.device);
  for (Strategy &strategy : getStrategies(mesh, rule)) {
    if (*pin && !(**pin == strategy.placements.results[0]))
      continue;
    FailureOr<double> seconds = pricer.price(op, rule, strategy);
    if (failed(seconds))
      return failure();
    placed.strategies.push_back(std::move(strategy));
    placed.seconds.push_back(*seconds);
  }
  if (placed.strategies.empty())
    return op.emitOpError("cannot be split so that its result is where ")
           << pinName << " has it";
  problem.ops.push_back(std::move(placed));
  ops.push_back(op);
  return success();
}

void FunctionPlacer::report(const ShardingChoice &choice) {
  double computes = 0;
  for (auto [op, placed, number] :
       llvm::zip_equal(ops, problem.ops, choice.strategies)) {
    const Strategy &strategy = placed.strategies[number];
    computes += placed.seconds[number];
    auto ruled = dyn_cast<xf::ShardingRuleOpInterface>(op);
    if (!ruled)
      continue;
    ShardingRule rule = ruled.getShardingRule();
    std::string splits;
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, strategy.axes))
      if (!axes.empty())
        splits += (splits.empty() ? "splits " : ", ") + factor.name +
                  " along " + mesh.toString(axes);
    emitRemark(op->getLoc())
        << (splits.empty() ? "splits nothing" : splits) << "; "
        << llvm::formatv("{0:F2} us", placed.seconds[number] * 1e6).str();
  }
  auto remark = emitRemark(function.getLoc());
  remark << llvm::formatv("{0:F2} us, {1:F2} of them in reshards; ",
                          choice.seconds * 1e6,
                          (choice.seconds - computes) * 1e6)
                .str();
  if (choice.bound == choice.seconds)
    remark << "no choice takes less";
  else
    remark << "no choice takes less than "
           << llvm::formatv("{0:F2} us", choice.bound * 1e6).str();
}

void FunctionPlacer::moveOperands(Operation &op, ArrayRef<Placement> needs) {
  for (auto [operand, need] : llvm::zip_equal(op.getOpOperands(), needs)) {
    Value value = operand.get();
    Type type = getPlaced(value, need);
    if (type == value.getType())
      continue;
    Value &moved = reshards[{value, type}];
    if (!moved) {
      b.setInsertionPoint(&op);
      auto reshard = dist::ReshardOp::create(b, value.getLoc(), type, value);
      xf::copyProvenance(&op, reshard);
      moved = reshard;
    }
    operand.set(moved);
  }
}

void FunctionPlacer::write(const ShardingChoice &choice) {
  for (auto [state, tensor] : states) {
    auto op = cast<xf::StateOp>(state);
    op.setType(dist::withPlacement(
        op.getTensorType(),
        dist::getPlacementAttr(meshName, mesh, choice.placements[tensor])));
  }
  for (auto [value, tensor] : numbers)
    setPlacement(value, choice.placements[tensor]);
  SmallVector<Placement> ends;
  for (auto [op, placed, number] :
       llvm::zip_equal(ops, problem.ops, choice.strategies)) {
    const RulePlacements &placements = placed.strategies[number].placements;
    if (op->hasTrait<OpTrait::IsTerminator>())
      ends.push_back(placements.operands[0]);
    else
      moveOperands(*op, placements.operands);
  }
  Operation *end = function.getBody().front().getTerminator();
  moveOperands(*end, ends);
  function.setFunctionType(b.getFunctionType(
      function.getBody().front().getArgumentTypes(), end->getOperandTypes()));
}

namespace {
class ChoosePlacements
    : public cleave::impl::ChoosePlacementsPassBase<ChoosePlacements> {
public:
  using ChoosePlacementsPassBase::ChoosePlacementsPassBase;

  void runOnOperation() override {
    auto fail = [&](llvm::Error error) {
      getOperation().emitError(llvm::toString(std::move(error)));
      signalPassFailure();
    };
    llvm::Expected<Cluster> where = parseCluster(cluster);
    if (!where)
      return fail(where.takeError());
    std::string note;
    llvm::Expected<Machine> machine = getMachine(*where, note);
    if (!machine)
      return fail(machine.takeError());
    dist::MeshOp op = dist::lookupMesh(getOperation());
    if (!op) {
      llvm::Expected<Mesh> parsed = parseMesh(meshText);
      if (!parsed)
        return fail(parsed.takeError());
      op = addMesh(*parsed);
    } else if (!meshText.empty()) {
      return fail(llvm::createStringError(
          "the module has a dist.mesh: expects no option mesh"));
    }
    Mesh mesh = op.getMesh();
    if (mesh.getNumRanks() > machine->devices)
      return fail(llvm::createStringError(llvm::formatv(
          "mesh {0} has {1} ranks, cluster {2} has {3}", mesh.toString(),
          mesh.getNumRanks(), cluster, machine->devices)));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(FunctionPlacer(function, FlatSymbolRefAttr::get(op), mesh,
                                *machine, size_t(mostStates))
                     .run()))
        return signalPassFailure();
  }

private:
  dist::MeshOp addMesh(const Mesh &mesh) {
    OpBuilder b(getOperation().getBodyRegion());
    SmallVector<Attribute> axes;
    for (const MeshAxis &axis : mesh.getAxes())
      axes.push_back(dist::AxisAttr::get(b.getContext(), axis.name, axis.size));
    return dist::MeshOp::create(b, getOperation().getLoc(), "mesh",
                                b.getArrayAttr(axes));
  }
};
} // namespace
