//===- CheckMeaning.cpp - Whether passes keep what a step means -----------===//
#include "passes/Interpret/CheckMeaning.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "passes/Interpret/CompareSteps.h"

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

static bool hasStep(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>("step") ||
         module.lookupSymbol<func::FuncOp>("stage_0") ||
         !module.getOps<exec::ProgramOp>().empty();
}

static bool hasForward(ModuleOp module) {
  return bool(module.lookupSymbol<func::FuncOp>("forward"));
}

void MeaningCheck::runBeforePass(Pass *, Operation *op) {
  before = nullptr;
  auto module = dyn_cast<ModuleOp>(op);
  if (!module || result.failed || (!hasStep(module) && !hasForward(module)))
    return;
  numberOps(module);
  before = module.clone();
  fingerPrint.emplace(module);
}

void MeaningCheck::runAfterPass(Pass *pass, Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module || !before)
    return;
  bool isSame = OperationFingerPrint(module) == *fingerPrint;
  if (!isSame && hasStep(module)) {
    // Errors are said at the ops' own locations.
    SmallVector<std::pair<Location, std::string>> errors;
    {
      ScopedDiagnosticHandler handler(
          module.getContext(), [&](Diagnostic &error) {
            errors.emplace_back(withoutNumbers(error.getLocation()),
                                error.str());
            return success();
          });
      result.failed = failed(check(module));
    }
    for (auto &[location, text] : errors)
      emitError(location) << "after '" << pass->getArgument() << "': " << text;
  }
  removeNumbers(module);
  before = nullptr;
}

void MeaningCheck::runAfterPassFailed(Pass *, Operation *op) {
  if (auto module = dyn_cast<ModuleOp>(op); module && before)
    removeNumbers(module);
  before = nullptr;
}

LogicalResult MeaningCheck::check(ModuleOp module) {
  ModuleOp earlier = *before;
  ++result.passes;
  if (!inputs) {
    FailureOr<StepInputs> made =
        StepRunner(hasStep(earlier) ? earlier : module).makeCheckInputs();
    if (failed(made))
      return failure();
    inputs = std::move(*made);
  }
  if (!hasStep(earlier))
    return checkGradients(earlier, module, *inputs);
  return compareSteps(earlier, module, *inputs);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

namespace {
/// The loss of a step, by the forward function alone.
class Loss {
public:
  Loss(ModuleOp module, const StepInputs &inputs)
      : block(module.lookupSymbol<func::FuncOp>("forward").getBody().front()),
        data(inputs.data.front()), states(inputs.states) {
    for (double target : data[1].data)
      tokens += target >= 0;
  }

  /// The mean over the tokens of all micro-batches.
  FailureOr<double> get() const {
    double sum = 0;
    int64_t microBatches = data[0].shape.front();
    for (int64_t n = 0; n < microBatches; ++n) {
      SimulatedRanks ranks;
      ranks[0].states = states;
      for (auto [argument, whole] : llvm::zip(block.getArguments(), data)) {
        Array &slice = ranks.make(argument, 0);
        for (int64_t i = 0; i < slice.size(); ++i)
          slice.data[size_t(i)] = whole.data[size_t(n * slice.size() + i)];
      }
      if (failed(ranks.run(block)))
        return failure();
      sum += ranks.get(block.getTerminator()->getOperand(0), 0).data.front();
    }
    return sum / std::max(tokens, 1.0);
  }

  Array &getState(const std::string &name) { return states.at(name); }

private:
  Block &block;
  const std::array<Array, 2> &data;
  std::map<std::string, Array> states;
  double tokens = 0;
};
} // namespace

/// d loss / d offset at 0, of the loss at x + offset direction: by four points
/// at `h` and twice `h` on both sides.
static FailureOr<double> differentiate(Loss &loss, Array &x,
                                       const Array &direction, double h) {
  const Array at = x;
  double slope = 0;
  for (auto [points, weight] : {std::pair(1.0, 8.0), std::pair(-1.0, -8.0),
                                std::pair(2.0, -1.0), std::pair(-2.0, 1.0)}) {
    for (size_t i = 0; i < x.data.size(); ++i)
      x.data[i] = at.data[i] + points * h * direction.data[i];
    FailureOr<double> value = loss.get();
    if (failed(value))
      return failure();
    slope += weight * *value / (12 * h);
  }
  x = at;
  return slope;
}

LogicalResult cleave::checkGradients(ModuleOp forward, ModuleOp step,
                                     const StepInputs &inputs) {
  StepInputs once = inputs;
  once.data.resize(1);
  // Looking up a padding token sends no gradient though the loss depends on it.
  forward.walk([&](xf::EmbeddingOp lookup) {
    if (std::optional<int64_t> padding = lookup.getPadding())
      for (double &id : once.data.front().front().data)
        if (id == double(*padding))
          id = *padding == 0 ? 1 : double(*padding - 1);
  });
  StepRunner runner(step);
  if (failed(runner.run(once)))
    return failure();
  Loss loss(forward, once);
  WalkResult walk = step.walk([&](xf::OptimizerOpInterface update) {
    auto get = update.getParameter().getDefiningOp<xf::GetOp>();
    if (!get) {
      update.emitOpError("expects to update what xf.get gives");
      return WalkResult::interrupt();
    }
    const Array &grad = runner.getStages().front().get(update.getGradient(), 0);
    Array direction = grad;
    double expected = 0;
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < grad.data.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      direction.data[i] = double(state >> 11) * 0x1p-52 - 1;
      expected += grad.data[i] * direction.data[i];
    }
    // A kink of an activation between the points spoils a quotient; points a
    // hundred times closer seldom have one between them as well, and rounding
    // still costs less than a hundredth of the tolerance.
    double slope = 0;
    for (double h : {1e-5, 1e-7}) {
      FailureOr<double> found = differentiate(
          loss, loss.getState(get.getState().str()), direction, h);
      if (failed(found))
        return WalkResult::interrupt();
      slope = *found;
      if (std::abs(slope - expected) <= 1e-6 * std::max(1.0, std::abs(slope)))
        return WalkResult::advance();
    }
    update.emitOpError("updates ")
        << get.getStateAttr() << " by a gradient of " << expected
        << " along a direction in which the loss rises by " << slope;
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}
