//===- Activations.cpp - The pointwise functions and their slopes ---------===//
#include "passes/Interpret/Activations.h"
#include "passes/Interpret/Dual.h"
#include <cmath>

using namespace cleave;
using namespace cleave::xf;

std::pair<double, double> cleave::activate(ActivationKind kind, double at) {
  Dual x{at, 1};
  auto gelu = [&](double factor) {
    Dual inner = Dual(factor) * (x + Dual(0.044715) * x * x * x);
    return Dual(0.5) * x * (Dual(1) + tanh(inner));
  };
  Dual y;
  switch (kind) {
  case ActivationKind::GeluErf:
    y = Dual(0.5) * x * (Dual(1) + erf(x / Dual(std::sqrt(2.0))));
    break;
  case ActivationKind::GeluTanh:
    y = gelu(std::sqrt(2 / M_PI));
    break;
  case ActivationKind::GeluFast:
    y = gelu(0.7978845608);
    break;
  case ActivationKind::Silu:
    y = x / (Dual(1) + exp(Dual(0) - x));
    break;
  case ActivationKind::QuickGelu:
    y = x / (Dual(1) + exp(Dual(-1.702) * x));
    break;
  case ActivationKind::Relu:
    y = at > 0 ? x : Dual(0);
    break;
  case ActivationKind::Relu2:
    y = at > 0 ? x * x : Dual(0);
    break;
  }
  return {y.value, y.slope};
}
