//===- RunStep.h - A training step of any stage, in f64 -------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_RUNSTEP_H
#define CLEAVE_PASSES_INTERPRET_RUNSTEP_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Interpret/SimulatedRanks.h"

namespace cleave {

/// What steps begin with, as all ranks together hold it.
struct StepInputs {
  std::map<std::string, Array> states;
  /// Ids and targets of each step.
  std::vector<std::array<Array, 2>> data;
};

/// What steps leave behind, as all ranks together hold it.
struct StepResults {
  std::map<std::string, Array> states;
  /// Outputs by name, the last step's.
  std::map<std::string, Array> outputs;
};

/// Runs the step of a module as it is after any of the stages: `@step` with
/// global types on one rank, `@step` with local types or an `exec.program` on
/// the ranks of the module's mesh.
class StepRunner {
public:
  explicit StepRunner(mlir::ModuleOp module);

  /// Random inputs for `steps` steps, the same after every stage: every state
  /// of any role, and tokens of which one target in four is ignored.
  llvm::FailureOr<StepInputs> makeInputs(int64_t steps);

  /// Fails, with an error, on a module without a step, and where an op does.
  llvm::FailureOr<StepResults> run(const StepInputs &inputs);

  /// Whether a value is what one rank holds, not what all do.
  bool isLocal() const { return local; }

  SimulatedRanks ranks;

private:
  /// The shape of all ranks' part, and its placement; none where types are
  /// global.
  struct Share {
    mlir::RankedTensorType type;
    std::optional<Placement> placement;
  };
  Share getShare(mlir::Type type) const;
  Array split(const Array &whole, const Share &share, int64_t rank) const;
  Array join(llvm::function_ref<const Array &(int64_t)> part,
             const Share &share) const;
  llvm::LogicalResult findData();
  llvm::LogicalResult checkSizes();
  llvm::LogicalResult runOnce(const std::array<Array, 2> &values);

  mlir::ModuleOp module;
  mlir::Operation *step = nullptr; ///< func.func or exec.program
  bool local = false;
  std::array<mlir::Type, 2> data; ///< of ids and targets
};

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_RUNSTEP_H
