//===- RunStep.cpp - A training step of any stage, in f64 -----------------===//
#include "passes/Interpret/RunStep.h"
#include "dialects/dist/Placements.h"
#include "dialects/dist/Stages.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include <random>

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

namespace {
/// Numbers that a seed and a name decide.
class Random {
public:
  Random(StringRef name, uint64_t seed) {
    // FNV-1a, so that a state's numbers do not depend on the others'.
    uint64_t hash = 0xcbf29ce484222325u + seed;
    for (char c : name)
      hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
    engine.seed(hash);
  }

  /// Away from 0, where some activations have a kink.
  double next() {
    double x = 0.05 + 0.95 * double(engine() >> 11) * 0x1p-53;
    return engine() % 2 ? x : -x;
  }
  int64_t nextInt(int64_t below) { return int64_t(engine() % uint64_t(below)); }

private:
  std::mt19937_64 engine;
};

/// How many ids there are: the rows of the vocabulary without padding.
int64_t countIds(ModuleOp module) {
  std::optional<int64_t> least;
  auto note = [&](int64_t size) {
    least = std::min(least.value_or(size), size);
  };
  for (auto state : module.getOps<xf::StateOp>())
    if (std::optional<ArrayAttr> dims = state.getDims())
      for (auto [dim, size] : llvm::zip(*dims, state.getLogicalShape()))
        if (cast<StringAttr>(dim).getValue() == "vocab")
          note(size);
  if (!least)
    module.walk([&](xf::ShardIndexOpInterface op) {
      auto [value, dim] = op.getShardedDim();
      note(cast<RankedTensorType>(value.getType()).getDimSize(dim));
    });
  return least.value_or(1);
}
} // namespace

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Whether values of the step are parts of what all ranks hold.
static bool isLocalized(ModuleOp module) {
  if (!dist::lookupMesh(module))
    return false;
  auto isPlaced = [](Type type) { return bool(dist::getPlacementAttr(type)); };
  WalkResult result = module.walk([&](Operation *op) {
    return llvm::any_of(op->getResultTypes(), isPlaced)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

/// What ranks run in a step: one function or program, or one for each pipeline
/// stage of the mesh. None if the module has neither.
static SmallVector<Operation *> findSteps(ModuleOp module) {
  auto programs = module.getOps<exec::ProgramOp>();
  if (llvm::hasSingleElement(programs))
    return {*programs.begin()};
  if (auto step = module.lookupSymbol<func::FuncOp>("step");
      step && programs.empty())
    return {step};
  auto find = [&](int64_t stage) -> Operation * {
    std::string name = dist::getStageName(stage);
    if (programs.empty())
      return module.lookupSymbol<func::FuncOp>(name);
    return module.lookupSymbol<exec::ProgramOp>(name);
  };
  dist::MeshOp mesh = dist::lookupMesh(module);
  SmallVector<Operation *> steps;
  while (Operation *stage = find(int64_t(steps.size())))
    steps.push_back(stage);
  bool hasAll = mesh && int64_t(steps.size()) == mesh.getNumStages();
  return hasAll ? steps : SmallVector<Operation *>();
}

StepRunner::StepRunner(ModuleOp module)
    : module(module), steps(findSteps(module)), local(isLocalized(module)) {
  dist::MeshOp mesh = dist::lookupMesh(module);
  std::optional<Axis> axis;
  if (local && mesh.getStageAxis())
    axis = mesh.getMesh().getAxisIndex(*mesh.getStageAxis());
  exchange = std::make_unique<StageExchange>(int64_t(steps.size()));
  tooManyRanks = local && mesh.getMesh().getNumRanks() > maxElements;
  if (!axis || tooManyRanks || int64_t(steps.size()) != mesh.getNumStages()) {
    stages.emplace_back(local && !tooManyRanks ? mesh.getMesh() : Mesh());
    return;
  }
  for (size_t stage = 0; stage < steps.size(); ++stage)
    stages.emplace_back(mesh.getMesh(), *axis, int64_t(stage), *exchange);
}

StepRunner::Share StepRunner::getShare(Type type) const {
  Share share{cast<RankedTensorType>(type), std::nullopt};
  dist::OnAttr attr = dist::getPlacementAttr(type);
  if (local && attr)
    share.placement = dist::getPlacement(attr, getMesh());
  return share;
}

Array StepRunner::split(const Array &whole, const Share &share,
                        int64_t rank) const {
  return share.placement
             ? cleave::split(whole, *share.placement, getMesh(), rank)
             : whole;
}

Array StepRunner::join(llvm::function_ref<const Array &(int64_t)> part,
                       const Share &share) const {
  if (!share.placement)
    return part(0);
  SmallVector<const Array *> parts;
  for (int64_t rank = 0; rank < getMesh().getNumRanks(); ++rank)
    parts.push_back(&part(rank));
  return cleave::join(parts, share.type.getShape(), *share.placement,
                      getMesh());
}

/// A type that an attribute names is one that the mesh has. Stages of a
/// pipeline have no value together.
LogicalResult StepRunner::checkPlaced(Operation *op, Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitOpError("expects a tensor, got ") << type;
  if (failed(dist::verifyPlacedIfAny(op, type)))
    return failure();
  dist::OnAttr attr = dist::getPlacementAttr(type);
  if (stages.size() == 1 || !attr)
    return success();
  dist::MeshOp mesh = dist::lookupMesh(module);
  Axis axis = *getMesh().getAxisIndex(*mesh.getStageAxis());
  Placement placement = dist::getPlacement(attr, getMesh());
  if (!placement.isCopiedAlong(axis))
    return op->emitOpError("expects a value that stages have whole, got ")
           << type;
  return success();
}

LogicalResult StepRunner::noteData(Operation *op, unsigned i, Type type) {
  if (failed(checkPlaced(op, type)))
    return failure();
  if (data[i] && data[i] != type)
    return op->emitOpError("expects the data of other stages, ")
           << data[i] << ", got " << type;
  data[i] = type;
  return success();
}

/// Finds the global types of ids and targets.
LogicalResult StepRunner::findData() {
  for (Operation *step : steps) {
    if (auto program = dyn_cast<exec::ProgramOp>(step)) {
      for (auto buffer : program.getOps<exec::BufferOp>()) {
        auto name = buffer->getAttrOfType<StringAttr>("data");
        if (!name)
          continue;
        auto global = buffer->getAttrOfType<TypeAttr>("global");
        if (!global)
          return buffer.emitOpError("expects the global type of its data");
        if (failed(noteData(buffer, name == "ids" ? 0 : 1, global.getValue())))
          return failure();
      }
      continue;
    }
    auto function = cast<func::FuncOp>(step);
    if (function.getNumArguments() != 2)
      return function.emitOpError("expects as arguments ids and targets");
    for (unsigned i = 0; i < 2; ++i) {
      auto global = function.getArgAttrOfType<TypeAttr>(i, "dist.global");
      Type type = global ? global.getValue() : function.getArgumentTypes()[i];
      if (failed(noteData(function, i, type)))
        return failure();
    }
  }
  return success();
}

/// What is asked of a module before it runs.
LogicalResult StepRunner::prepare() {
  if (steps.empty())
    return module.emitError(
        "expects a function named \"step\" of ids and targets, or an "
        "exec.program, or one of them for each stage of the mesh, \"stage_0\" "
        "and so on");
  if (steps.size() != stages.size())
    return steps.front()->emitOpError(
        "expects local types in the stages of a pipeline");
  return failed(findData()) ? failure() : checkSizes();
}

FailureOr<StepInputs> StepRunner::makeCheckInputs() {
  FailureOr<StepInputs> inputs = makeInputs(/*steps=*/3);
  if (succeeded(inputs))
    inputs->badStep = 1;
  return inputs;
}

FailureOr<StepInputs> StepRunner::makeInputs(int64_t steps) {
  if (failed(prepare()))
    return failure();
  StepInputs inputs;
  for (auto state : module.getOps<xf::StateOp>()) {
    if (state.getOf())
      continue;
    std::string name = state.getSymName().str();
    Random random(name, 0);
    Array &array = inputs.states[name] =
        Array::zeros(state.getTensorType().getShape());
    for (double &x : array.data) {
      x = 0.7 * random.next();
      // Second moments are sums of squares.
      if (state.getRole() == xf::StateRole::Moment2)
        x *= x;
    }
  }
  int64_t ids = countIds(module);
  for (int64_t n = 0; n < steps; ++n) {
    std::array<Array, 2> &tokens = inputs.data.emplace_back();
    for (unsigned i = 0; i < 2; ++i) {
      Random random(i == 0 ? "ids" : "targets", uint64_t(n));
      if (data[i])
        tokens[i] = Array::zeros(cast<RankedTensorType>(data[i]).getShape());
      for (double &x : tokens[i].data)
        x = i == 1 && random.nextInt(4) == 0 ? -100
                                             : double(random.nextInt(ids));
    }
  }
  return inputs;
}

/// A real model would take all memory and hours.
LogicalResult StepRunner::checkSizes() {
  if (tooManyRanks)
    return module.emitError("has a mesh of more than ")
           << maxElements << " ranks, too many to interpret";
  int64_t left = maxElements / getMesh().getNumRanks();
  auto takeOnce = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    std::optional<int64_t> count =
        tensor ? countElements(tensor.getShape()) : std::optional<int64_t>(0);
    left -= count.value_or(left + 1);
    return left >= 0;
  };
  // A step's values are on the ranks of one stage, data and states on all.
  auto take = [&](Type type) {
    return llvm::all_of(stages, [&](auto &) { return takeOnce(type); });
  };
  for (Type type : data)
    if (type && !take(type))
      return steps.front()->emitOpError("has data of ")
             << type << ", too large to interpret";
  WalkResult result = module.walk([&](Operation *op) {
    bool fits = llvm::all_of(op->getResultTypes(), takeOnce);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        fits = fits && llvm::all_of(block.getArgumentTypes(), takeOnce);
    if (auto state = dyn_cast<xf::StateOp>(op))
      fits = fits && take(state.getTensorType());
    if (auto buffer = dyn_cast<exec::BufferOp>(op)) {
      int64_t end = buffer.getOffset().value_or(0);
      fits = fits && countElements({end}) &&
             countElements({int64_t(buffer.getBytes())}) &&
             (left -= int64_t(buffer.getBytes())) >= 0;
    }
    if (fits)
      return WalkResult::advance();
    op->emitOpError("is of a step too large to interpret: expects at most ")
        << maxElements << " elements on all ranks; a small model of the same "
        << "structure will do";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult StepRunner::runStage(int64_t stage,
                                   const std::array<Array, 2> &values) {
  SimulatedRanks &ranks = stages[size_t(stage)];
  Operation *step = steps[size_t(stage)];
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].values.clear();
    ranks[rank].data.clear();
    for (unsigned i = 0; i < 2; ++i)
      ranks[rank].data.push_back(
          data[i] ? split(values[i], getShare(data[i]), rank) : Array());
  }
  auto function = dyn_cast<func::FuncOp>(step);
  if (!function)
    return ranks.run(*step);
  for (int64_t rank = 0; rank < ranks.size(); ++rank)
    for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
      Array &value = ranks.make(argument, rank);
      if (value.shape != ranks[rank].data[i].shape)
        return step->emitOpError("expects as argument ")
               << i << " a part of " << data[i] << ", got "
               << argument.getType();
      value = ranks[rank].data[i];
    }
  return ranks.run(function.getBody().front());
}

/// Gives each rank its part of the states.
LogicalResult StepRunner::splitStates(const StepInputs &inputs) {
  for (auto state : module.getOps<xf::StateOp>()) {
    auto it = inputs.states.find(state.getValueName().str());
    if (it == inputs.states.end() ||
        it->second.shape != state.getTensorType().getShape().vec())
      return state.emitOpError("is not a state of the step that it is "
                               "compared with");
    if (failed(checkPlaced(state, state.getTensorType())))
      return failure();
    Share share = getShare(state.getTensorType());
    for (SimulatedRanks &ranks : stages)
      for (int64_t rank = 0; rank < ranks.size(); ++rank)
        ranks[rank].states[state.getSymName().str()] =
            split(it->second, share, rank);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Puts together what a step left. Of a value that several stages have each one
/// is compared with the first.
class StepRunner::Collector {
public:
  Collector(StepRunner &runner, std::string *disagreement)
      : runner(runner), disagreement(disagreement) {}

  LogicalResult addStates(const StepInputs &inputs) {
    // One that no stage has keeps its value.
    for (auto state : runner.module.getOps<xf::StateOp>()) {
      std::string name = state.getValueName().str();
      results.states[name] = inputs.states.at(name);
    }
    for (size_t stage = 0; stage < runner.stages.size(); ++stage) {
      llvm::StringSet<> held;
      runner.steps[stage]->walk([&](Operation *op) {
        if (auto get = dyn_cast<xf::GetOp>(op))
          held.insert(get.getState());
        else if (auto set = dyn_cast<xf::SetOp>(op))
          held.insert(set.getState());
        else if (auto buffer = dyn_cast<exec::BufferOp>(op);
                 buffer && buffer.getState())
          held.insert(*buffer.getState());
      });
      for (auto state : runner.module.getOps<xf::StateOp>())
        if (held.contains(state.getSymName()) &&
            failed(state.getOf()
                       ? checkCopy(stage, state)
                       : add(stage, state, "state", state.getSymName(),
                             runner.getShare(state.getTensorType()))))
          return failure();
    }
    return success();
  }

  LogicalResult addOutputs() {
    for (size_t stage = 0; stage < runner.stages.size(); ++stage) {
      WalkResult walk = runner.steps[stage]->walk([&](Operation *op) {
        if (auto output = dyn_cast<exec::OutputOp>(op))
          return WalkResult(
              addOutput(stage, op, output.getName(), output.getType()));
        if (auto output = dyn_cast<xf::OutputOp>(op))
          return WalkResult(addOutput(stage, output));
        return WalkResult::advance();
      });
      if (walk.wasInterrupted())
        return failure();
    }
    return success();
  }

  StepResults results;

private:
  LogicalResult addOutput(size_t stage, xf::OutputOp output) {
    auto global = output->getAttrOfType<TypeAttr>("global");
    Type type = global ? global.getValue() : output.getValue().getType();
    if (failed(runner.checkPlaced(output, type)))
      return failure();
    if (auto loop = output->getParentOfType<xf::AccumulateOp>())
      type =
          dist::withLeadingDim(cast<RankedTensorType>(type), loop.getCount());
    return addOutput(stage, output, output.getName(), type);
  }

  /// An output, whose share the op itself has not checked yet.
  LogicalResult addOutput(size_t stage, Operation *op, StringRef name,
                          Type type) {
    if (failed(runner.checkPlaced(op, type)))
      return failure();
    Share share = runner.getShare(type);
    SmallVector<int64_t, 4> shape(share.type.getShape());
    if (share.placement)
      shape = share.placement->getLocalShape(runner.getMesh(), shape);
    SimulatedRanks &ranks = runner.stages[stage];
    for (int64_t rank = 0; rank < ranks.size(); ++rank) {
      auto it = ranks[rank].outputs.find(name.str());
      if (it == ranks[rank].outputs.end() ||
          ArrayRef<int64_t>(it->second.shape) != ArrayRef<int64_t>(shape))
        return op->emitOpError("expects an output that is a part of ") << type;
    }
    return add(stage, op, "output", name, share);
  }

  /// What the ranks of a stage have of a value, put together.
  Array join(size_t stage, bool isState, StringRef name, const Share &share) {
    return runner.join(
        [&](int64_t rank) -> const Array & {
          auto &all = runner.stages[stage][rank];
          return (isState ? all.states : all.outputs).at(name.str());
        },
        share);
  }

  /// Whether a step has left the parameter's value in its copy.
  LogicalResult checkCopy(size_t stage, xf::StateOp copy) {
    Share share = runner.getShare(copy.getTensorType());
    return expectEqual(
        copy,
        ("copy \"" + copy.getSymName() + "\" differs from its parameter").str(),
        join(stage, /*isState=*/true, copy.getSymName(), share),
        join(stage, /*isState=*/true, *copy.getOf(), share));
  }

  /// What differs goes into `disagreement`, or is an error where there is none.
  LogicalResult expectEqual(Operation *op, std::string text, const Array &array,
                            const Array &expected) {
    if (array.shape != expected.shape) {
      text += ": it has another shape";
    } else if (auto i = findDifference(array, expected, tolerance)) {
      llvm::raw_string_ostream(text)
          << ": element " << *i << " is "
          << llvm::format("%.9g and %.9g", expected.data[size_t(*i)],
                          array.data[size_t(*i)]);
    } else {
      return success();
    }
    if (!disagreement)
      return op->emitError(text);
    if (disagreement->empty())
      *disagreement = text;
    return success();
  }

  LogicalResult add(size_t stage, Operation *op, StringRef kind, StringRef name,
                    const Share &share) {
    bool isState = kind == "state";
    Array array = join(stage, isState, name, share);
    Array &result = (isState ? results.states : results.outputs)[name.str()];
    auto [it, isFirst] =
        firstStages.try_emplace((kind + " \"" + name + "\"").str(), stage);
    // An op may be one of several in a stage: the last one counts.
    if (isFirst || it->second == stage) {
      result = std::move(array);
      return success();
    }
    std::string text = it->first + " differs between stages " +
                       std::to_string(it->second) + " and " +
                       std::to_string(stage);
    return expectEqual(op, text, array, result);
  }

  static constexpr double tolerance = 1e-9;
  StepRunner &runner;
  std::string *disagreement;
  std::map<std::string, size_t> firstStages; ///< that have it, by kind and name
};

FailureOr<StepResults> StepRunner::run(const StepInputs &inputs,
                                       std::string *disagreement) {
  if (failed(prepare()) || failed(splitStates(inputs)))
    return failure();
  for (SimulatedRanks &ranks : stages)
    ranks.totalSteps = int64_t(inputs.data.size());
  for (auto [number, values] : llvm::enumerate(inputs.data)) {
    bool isBad = inputs.badStep == number;
    for (SimulatedRanks &ranks : stages) {
      ranks.step = int64_t(number);
      ranks.limit = isBad ? 0 : std::numeric_limits<float>::max();
    }
    if (failed(exchange->run(
            [&](int64_t stage) { return runStage(stage, values); })))
      return failure();
  }
  Collector collector(*this, disagreement);
  if (failed(collector.addStates(inputs)) || failed(collector.addOutputs()))
    return failure();
  return std::move(collector.results);
}
