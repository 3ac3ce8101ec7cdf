//===- Optimizers.cpp - What each optimizer keeps and is told -------------===//
#include "passes/Grad/Optimizers.h"
#include "llvm/ADT/StringExtras.h"

using namespace cleave;
using llvm::StringRef;
using xf::InitKind;
using xf::StateRole;

llvm::ArrayRef<Optimizer> cleave::getOptimizers() {
  static const Optimizer optimizers[] = {
      {"adamw",
       {{"/moment1", StateRole::Moment1, InitKind::Zeros},
        {"/moment2", StateRole::Moment2, InitKind::Zeros}},
       {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}},
      {"sgd",
       {{"/momentum", StateRole::Moment1, InitKind::Zeros}},
       {{"momentum", 0.9}}},
      {"lion",
       {{"/lion", StateRole::Moment1, InitKind::Zeros}},
       {{"beta1", 0.9}, {"beta2", 0.99}}},
  };
  return optimizers;
}

std::optional<double> Optimizer::getStandard(StringRef hyperparameter) const {
  for (const Hyperparameter &each : hyperparameters)
    if (each.name == hyperparameter)
      return each.standard;
  return std::nullopt;
}

const Optimizer *cleave::findOptimizer(StringRef name) {
  for (const Optimizer &each : getOptimizers())
    if (each.name == name)
      return &each;
  return nullptr;
}

std::string cleave::listOptimizers(StringRef hyperparameter) {
  llvm::SmallVector<StringRef> names;
  for (const Optimizer &each : getOptimizers())
    if (hyperparameter.empty() || each.getStandard(hyperparameter))
      names.push_back(each.name);
  return llvm::join(names, ", ");
}
