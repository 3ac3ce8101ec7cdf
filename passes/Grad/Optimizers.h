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

/// An optimizer is the op of its name, which has OptimizerOpInterface and, as
/// all of them, an attribute `decay`.
struct Optimizer {
  llvm::StringLiteral name;
  llvm::SmallVector<OptimizerState, 2> states;
  llvm::SmallVector<Hyperparameter, 3> hyperparameters;

  /// Of a hyperparameter, if the optimizer has it.
  std::optional<double> getStandard(llvm::StringRef hyperparameter) const;
};

llvm::ArrayRef<Optimizer> getOptimizers();

/// Null if there is none of that name.
const Optimizer *findOptimizer(llvm::StringRef name);

/// The names of those that have a hyperparameter (empty: of all), with commas.
std::string listOptimizers(llvm::StringRef hyperparameter = "");

} // namespace cleave

#endif // CLEAVE_PASSES_GRAD_OPTIMIZERS_H
