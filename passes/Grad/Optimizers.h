//===- Optimizers.h - What each optimizer keeps and is told ---------------===//
#ifndef CLEAVE_PASSES_GRAD_OPTIMIZERS_H
#define CLEAVE_PASSES_GRAD_OPTIMIZERS_H

#include "dialects/xf/Xf.h"
#include <optional>

namespace cleave {

/// A state of each parameter, of its shape. Its name is the parameter's with
/// the suffix: two optimizers have one in common only if it means the same to
/// both, so that no checkpoint of one is taken for the other's.
struct OptimizerState {
  llvm::StringLiteral suffix;
  xf::StateRole role;
  xf::InitKind init;
};

/// A number by the name of the op's attribute, which is the flag's and the
/// recipe's too, and its value where nobody says another.
struct Hyperparameter {
  llvm::StringLiteral name;
  double standard;
};

/// Where an update is built.
struct UpdateSite {
  xf::StateOp parameter;
  llvm::ArrayRef<mlir::Value> olds; ///< the parameter, then its states
  mlir::Value grad, clip;
  llvm::function_ref<double(llvm::StringRef)> getHyperparameter;
};

/// An optimizer is the op of its name, which has OptimizerOpInterface and, as
/// all of them, an attribute `decay`.
struct Optimizer {
  llvm::StringLiteral name;
  llvm::SmallVector<OptimizerState, 2> states;
  /// Of its op.
  llvm::SmallVector<Hyperparameter, 3> hyperparameters;
  /// Builds what the op reads as its last operand and does not follow element
  /// by element; null: it reads no such thing.
  mlir::Value (*buildDirection)(mlir::OpBuilder &, mlir::Location,
                                const UpdateSite &) = nullptr;
  /// Of one that is for matrices: the optimizer of all other parameters.
  llvm::StringLiteral others = "";

  /// Of a hyperparameter, if the optimizer has it, or that of the others.
  std::optional<double> getStandard(llvm::StringRef hyperparameter) const;
  /// What updates the parameter: this one, or that of the others.
  const Optimizer &getFor(xf::StateOp parameter) const;
};

llvm::ArrayRef<Optimizer> getOptimizers();

/// Null if there is none of that name.
const Optimizer *findOptimizer(llvm::StringRef name);

/// The names of those that have a hyperparameter (empty: of all), with commas.
std::string listOptimizers(llvm::StringRef hyperparameter = "");

} // namespace cleave

#endif // CLEAVE_PASSES_GRAD_OPTIMIZERS_H
