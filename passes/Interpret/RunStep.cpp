//===- RunStep.cpp - A training step of any stage, in f64 -----------------===//
#include "passes/Interpret/RunStep.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
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

static Mesh getMesh(ModuleOp module) {
  dist::MeshOp mesh = dist::lookupMesh(module);
  return mesh ? mesh.getMesh() : Mesh();
}

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

StepRunner::StepRunner(ModuleOp module)
    : ranks(isLocalized(module) ? getMesh(module) : Mesh()), module(module),
      local(isLocalized(module)) {}

StepRunner::Share StepRunner::getShare(Type type) const {
  Share share{cast<RankedTensorType>(type), std::nullopt};
  dist::OnAttr attr = dist::getPlacementAttr(type);
  if (local && attr)
    share.placement = dist::getPlacement(attr, ranks.getMesh());
  return share;
}

Array StepRunner::split(const Array &whole, const Share &share,
                        int64_t rank) const {
  return share.placement
             ? cleave::split(whole, *share.placement, ranks.getMesh(), rank)
             : whole;
}

Array StepRunner::join(llvm::function_ref<const Array &(int64_t)> part,
                       const Share &share) const {
  if (!share.placement)
    return part(0);
  SmallVector<const Array *> parts;
  for (int64_t rank = 0; rank < ranks.size(); ++rank)
    parts.push_back(&part(rank));
  return cleave::join(parts, share.type.getShape(), *share.placement,
                      ranks.getMesh());
}

/// A type that an attribute names is one that the mesh has.
static LogicalResult checkGlobal(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitOpError("expects a tensor, got ") << type;
  return dist::verifyPlacedIfAny(op, type);
}

/// Finds the step, and the global types of its ids and targets.
LogicalResult StepRunner::findData() {
  auto programs = module.getOps<exec::ProgramOp>();
  if (!programs.empty()) {
    step = *programs.begin();
    for (auto buffer : (*programs.begin()).getOps<exec::BufferOp>())
      if (auto name = buffer->getAttrOfType<StringAttr>("data")) {
        auto global = buffer->getAttrOfType<TypeAttr>("global");
        if (!global || failed(checkGlobal(buffer, global.getValue())))
          return buffer.emitOpError("expects the global type of its data");
        data[name.getValue() == "ids" ? 0 : 1] = global.getValue();
      }
    return success();
  }
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function || function.getNumArguments() != 2)
    return module.emitError("expects a function named \"step\" of ids and "
                            "targets, or an exec.program");
  step = function;
  for (unsigned i = 0; i < 2; ++i) {
    auto global = function.getArgAttrOfType<TypeAttr>(i, "dist.global");
    data[i] = global ? global.getValue() : function.getArgumentTypes()[i];
    if (failed(checkGlobal(function, data[i])))
      return failure();
  }
  return success();
}

FailureOr<StepInputs> StepRunner::makeInputs(int64_t steps) {
  if (failed(findData()) || failed(checkSizes()))
    return failure();
  StepInputs inputs;
  for (auto state : module.getOps<xf::StateOp>()) {
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
  int64_t left = maxElements / ranks.size();
  auto take = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    std::optional<int64_t> count =
        tensor ? countElements(tensor.getShape()) : std::optional<int64_t>(0);
    left -= count.value_or(left + 1);
    return left >= 0;
  };
  for (Type type : data)
    if (type && !take(type))
      return step->emitOpError("has data of ") << type
                                               << ", too large to "
                                                  "interpret";
  WalkResult result = module.walk([&](Operation *op) {
    bool fits = llvm::all_of(op->getResultTypes(), take);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        fits = fits && llvm::all_of(block.getArgumentTypes(), take);
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

LogicalResult StepRunner::runOnce(const std::array<Array, 2> &values) {
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

FailureOr<StepResults> StepRunner::run(const StepInputs &inputs) {
  if (failed(findData()) || failed(checkSizes()))
    return failure();
  auto states = module.getOps<xf::StateOp>();
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].states.clear();
    for (auto state : states) {
      auto it = inputs.states.find(state.getSymName().str());
      if (it == inputs.states.end() ||
          it->second.shape != state.getTensorType().getShape().vec())
        return state.emitOpError("is not a state of the step that it is "
                                 "compared with");
      ranks[rank].states[it->first] =
          split(it->second, getShare(state.getTensorType()), rank);
    }
  }
  ranks.totalSteps = int64_t(inputs.data.size());
  for (ranks.step = 0; ranks.step < ranks.totalSteps; ++ranks.step)
    if (failed(runOnce(inputs.data[size_t(ranks.step)])))
      return failure();

  StepResults results;
  for (auto state : states) {
    std::string name = state.getSymName().str();
    results.states[name] = join(
        [&](int64_t rank) -> const Array & {
          return ranks[rank].states.at(name);
        },
        getShare(state.getTensorType()));
  }
  // Outputs, whose shares the op itself has not checked yet.
  auto note = [&](Operation *op, StringRef name, Type type) -> WalkResult {
    if (failed(checkGlobal(op, type)))
      return WalkResult::interrupt();
    Share share = getShare(type);
    SmallVector<int64_t, 4> shape(share.type.getShape());
    if (share.placement)
      shape = share.placement->getLocalShape(ranks.getMesh(), shape);
    for (int64_t rank = 0; rank < ranks.size(); ++rank) {
      auto it = ranks[rank].outputs.find(name.str());
      if (it == ranks[rank].outputs.end() ||
          ArrayRef<int64_t>(it->second.shape) != ArrayRef<int64_t>(shape)) {
        op->emitOpError("expects an output that is a part of ") << type;
        return WalkResult::interrupt();
      }
    }
    results.outputs[name.str()] = join(
        [&](int64_t rank) -> const Array & {
          return ranks[rank].outputs.at(name.str());
        },
        share);
    return WalkResult::advance();
  };
  WalkResult walk = module.walk([&](exec::OutputOp output) {
    return note(output, output.getName(), output.getType());
  });
  if (walk.wasInterrupted())
    return failure();
  walk = module.walk([&](xf::OutputOp output) {
    auto global = output->getAttrOfType<TypeAttr>("global");
    Type type = global ? global.getValue() : output.getValue().getType();
    if (failed(checkGlobal(output, type)))
      return WalkResult::interrupt();
    if (auto loop = output->getParentOfType<xf::AccumulateOp>())
      type =
          dist::withLeadingDim(cast<RankedTensorType>(type), loop.getCount());
    return note(output, output.getName(), type);
  });
  if (walk.wasInterrupted())
    return failure();
  return results;
}
