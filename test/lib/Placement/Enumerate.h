//===- Enumerate.h - All placements there are -----------------------------===//
#ifndef CLEAVE_TEST_LIB_PLACEMENT_ENUMERATE_H
#define CLEAVE_TEST_LIB_PLACEMENT_ENUMERATE_H

#include "cleave/Placement/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <vector>

namespace cleave {

/// Every non-empty sequence of distinct axes.
inline std::vector<AxisList> getSequences(unsigned numAxes) {
  std::vector<AxisList> sequences, open = {{}};
  while (!open.empty()) {
    AxisList sequence = open.back();
    open.pop_back();
    for (Axis axis = 0; axis < numAxes; ++axis)
      if (!llvm::is_contained(sequence, axis)) {
        AxisList longer = sequence;
        longer.push_back(axis);
        sequences.push_back(longer);
        open.push_back(longer);
      }
  }
  return sequences;
}

/// Every placement that fits the shape: the axes, in every order, dealt out in
/// every way to the dims, the partial axes and nowhere.
inline std::vector<Placement> getPlacements(const Mesh &mesh,
                                            llvm::ArrayRef<int64_t> shape,
                                            Reduction reduction) {
  std::vector<Placement> all = {Placement::getReplicated(shape.size())};
  all[0].reduction = reduction;
  std::vector<AxisList> orders = getSequences(mesh.getNumAxes());
  for (const AxisList &order : orders) {
    // Only the axes in `order` are used; each in one of the dims or partial.
    unsigned places = shape.size() + 1;
    int64_t ways = std::llround(std::pow(places, order.size()));
    for (int64_t way = 0; way < ways; ++way) {
      Placement placement = Placement::getReplicated(shape.size());
      placement.reduction = reduction;
      int64_t rest = way;
      for (Axis axis : order) {
        unsigned place = rest % places;
        rest /= places;
        (place == shape.size() ? placement.partial : placement.dims[place])
            .push_back(axis);
      }
      if (llvm::Error error = placement.verify(mesh, shape))
        llvm::consumeError(std::move(error));
      else if (!llvm::is_contained(all, placement))
        all.push_back(placement);
    }
  }
  return all;
}

} // namespace cleave

#endif // CLEAVE_TEST_LIB_PLACEMENT_ENUMERATE_H
