//===- Optimizers.cpp - What each optimizer keeps and is told -------------===//
#include "passes/Grad/Optimizers.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using llvm::StringRef;
using xf::InitKind;
using xf::StateRole;

/// Nesterov's momentum, orthogonalized by five steps with Jordan's
/// coefficients. The root of the mean square of an element is then about 0.2,
/// as it is of AdamW's steps, so that both may have one learning rate and one
/// decay: an orthogonal matrix has 1 / max(rows, columns) for that mean (Liu et
/// al., "Muon is Scalable for LLM Training", 2025, arXiv:2502.16982).
static Value buildMuonDirection(OpBuilder &b, Location loc,
                                const UpdateSite &site) {
  auto f64 = [&](double value) { return b.getF64FloatAttr(value); };
  xf::StateOp parameter = site.parameter;
  RankedTensorType type = parameter.getTensorType();
  Value momentum =
      xf::NesterovOp::create(b, loc, type, site.olds[1], site.grad, site.clip,
                             f64(site.getHyperparameter("momentum")));
  int64_t leading = *parameter.getRows();
  Value orthogonal = xf::OrthogonalizeOp::create(
      b, loc, type, momentum, b.getI64IntegerAttr(leading),
      b.getI64IntegerAttr(5), f64(3.4445), f64(-4.7750), f64(2.0315),
      f64(1e-7));
  int64_t rows = llvm::product_of(type.getShape().take_front(leading));
  int64_t columns = type.getNumElements() / rows;
  double scale = 0.2 * std::sqrt(double(std::max(rows, columns)));
  return xf::ScaleOp::create(b, loc, type, orthogonal, f64(scale));
}

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
      {"muon",
       {{"/muon", StateRole::Moment1, InitKind::Zeros}},
       {{"momentum", 0.95}},
       buildMuonDirection,
       "adamw"},
  };
  return optimizers;
}

std::optional<double> Optimizer::getStandard(StringRef hyperparameter) const {
  for (const Hyperparameter &each : hyperparameters)
    if (each.name == hyperparameter)
      return each.standard;
  return others.empty() ? std::nullopt
                        : findOptimizer(others)->getStandard(hyperparameter);
}

const Optimizer &Optimizer::getFor(xf::StateOp parameter) const {
  return others.empty() || parameter.getRows() ? *this : *findOptimizer(others);
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
