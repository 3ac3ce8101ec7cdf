//===- OpPricer.h - Seconds of an op on the shards of a strategy ----------===//
#ifndef CLEAVE_PASSES_PLACE_OPPRICER_H
#define CLEAVE_PASSES_PLACE_OPPRICER_H

#include "cleave/AutoShard/Choose.h"
#include "cleave/Cost/Profile.h"
#include "cleave/Hardware/Hardware.h"
#include "dialects/xf/Xf.h"

namespace cleave {

/// A value's tensor, moved once, of which nothing is kept.
PlacedTensor getPlacedTensor(mlir::Value value);

/// A byte that a slice leaves is read and written.
MoveSeconds getMoveSeconds(const Device &device, const Profile &profile);

/// In which an op multiplies.
DType getProductType(mlir::Operation *op);

/// Seconds of a rule that is one product, or a batch of them: rows are what
/// only the first operand has, of which so many parts are made one by one,
/// columns what only the second has. 0 of any other.
double getProductSeconds(const Mesh &mesh, const Device &device,
                         const ShardingRule &rule, const FactorAxes &axes,
                         DType dtype, int64_t parts = 1);

/// Seconds of an op of which nothing is known but that every rank does all of
/// it: of its tensors once through memory.
double getWholeSeconds(const Device &device, mlir::Operation *op);

/// Seconds of an op on the shards of a strategy: of its products or of
/// attention, as the simulator prices the instructions that they become, or of
/// moving its tensors through memory, whichever takes longer.
class OpPricer {
public:
  /// `profile`: what the software that runs it makes of the device.
  OpPricer(const Mesh &mesh, const Device &device, const Profile &profile)
      : mesh(mesh), device(device), profile(profile) {}

  /// Fails if the device has no constants for the op's type.
  mlir::FailureOr<double> price(xf::ShardingRuleOpInterface op,
                                const ShardingRule &rule,
                                const Strategy &strategy) const;

private:
  /// Of a gradient that micro-batches add up: the product that makes it adds to
  /// the sum, which is read and written.
  double getSumBytes(mlir::Operation *op, const Strategy &strategy) const;
  double getWays(const FactorAxes &axes) const;
  double getLocalShare(mlir::Operation *op,
                       const RulePlacements &placements) const;

  const Mesh &mesh;
  const Device &device;
  const Profile &profile;
};

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_OPPRICER_H
