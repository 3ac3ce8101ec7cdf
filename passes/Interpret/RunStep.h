//===- RunStep.h - A training step of any stage, in f64 -------------------===//
#ifndef CLEAVE_PASSES_INTERPRET_RUNSTEP_H
#define CLEAVE_PASSES_INTERPRET_RUNSTEP_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Interpret/SimulatedRanks.h"
#include <memory>
#include <optional>

namespace cleave {

/// What steps begin with, as all ranks together hold it.
struct StepInputs {
  std::map<std::string, Array> states;
  /// Ids and targets of each step.
  std::vector<std::array<Array, 2>> data;
  /// A step with limits that no loss is below, which is to change nothing.
  std::optional<size_t> badStep;
};

/// What steps leave behind, as all ranks together hold it.
struct StepResults {
  std::map<std::string, Array> states;
  /// Outputs by name, the last step's.
  std::map<std::string, Array> outputs;
};

/// Runs the step of a module as it is after any of the stages: `@step` with
/// global types on one rank, `@step` with local types or an `exec.program` on
/// the ranks of the module's mesh, or such a function or program for each stage
/// of a pipeline, `@stage_0`, `@stage_1` and so on, each on the ranks of its
/// own.
class StepRunner {
public:
  explicit StepRunner(mlir::ModuleOp module);

  /// Random inputs for `steps` steps, the same after every stage: every state
  /// of any role, and tokens of which one target in four is ignored.
  llvm::FailureOr<StepInputs> makeInputs(int64_t steps);
  /// Those by which stages are compared: three steps, of which the second is
  /// bad. A change that undoes itself when it is made twice is seen by the odd
  /// number.
  llvm::FailureOr<StepInputs> makeCheckInputs();

  /// Fails, with an error, on a module without a step, and where an op does.
  ///
  /// Pipeline stages that have one state or output must agree on it, to 1e-9 of
  /// its largest element. Where they do not, that is an error, or, if
  /// `disagreement` is given, said there; the first stage's is the result.
  llvm::FailureOr<StepResults> run(const StepInputs &inputs,
                                   std::string *disagreement = nullptr);

  /// The ranks, by pipeline stage.
  llvm::MutableArrayRef<SimulatedRanks> getStages() { return stages; }
  /// The function or program that each of them runs.
  llvm::ArrayRef<mlir::Operation *> getSteps() const { return steps; }

  /// Whether a value is what one rank holds, not what all do.
  bool isLocal() const { return local; }

private:
  /// The shape of all ranks' part, and its placement; none where types are
  /// global.
  struct Share {
    mlir::RankedTensorType type;
    std::optional<Placement> placement;
  };
  const Mesh &getMesh() const { return stages.front().getMesh(); }
  Share getShare(mlir::Type type) const;
  Array split(const Array &whole, const Share &share, int64_t rank) const;
  Array join(llvm::function_ref<const Array &(int64_t)> part,
             const Share &share) const;

  llvm::LogicalResult prepare();
  llvm::LogicalResult findData();
  llvm::LogicalResult noteData(mlir::Operation *op, unsigned i,
                               mlir::Type type);
  llvm::LogicalResult checkPlaced(mlir::Operation *op, mlir::Type type) const;
  llvm::LogicalResult checkSizes();
  llvm::LogicalResult splitStates(const StepInputs &inputs);
  llvm::LogicalResult runStage(int64_t stage,
                               const std::array<Array, 2> &values);

  /// What a step left, as it is put together.
  class Collector;

  mlir::ModuleOp module;
  llvm::SmallVector<mlir::Operation *> steps; ///< func.func or exec.program
  bool local = false;
  bool tooManyRanks = false;      ///< in the mesh, to have their values
  std::array<mlir::Type, 2> data; ///< of ids and targets
  std::unique_ptr<StageExchange> exchange;
  std::vector<SimulatedRanks> stages;
};

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_RUNSTEP_H
