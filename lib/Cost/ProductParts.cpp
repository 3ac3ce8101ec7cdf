//===- ProductParts.cpp - What products in parts hide of a collective -----===//
#include "cleave/Cost/ProductParts.h"
#include <algorithm>

using namespace cleave;

double ProductParts::getExposed() const {
  double parts = double(count), others = (parts - 1) / parts;
  double most = std::max({communication / parts - others * before,
                          communication / parts - others * after,
                          communication - others * (before + after)});
  most += skew;
  return std::max(isBroken ? communication / parts : 0., most - beside);
}
