//===- PlanAttr.h - A plan as an attribute of a module --------------------===//
//
// `dist.plan`, a dictionary of the keys of plan.json (docs/formats.md), which
// the passes that come after the choice of a plan read, and a person can edit:
//
//   module attributes {dist.plan = {
//     mesh = [{name = "dp", size = 2 : i64}, {name = "tp", size = 2 : i64}],
//     micro_batches = 4 : i64, dims = {batch = ["dp"], heads = ["tp"], ...},
//     keep = {optimizer = ["dp"], ...}, version = 2 : i64}} {
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_DIALECTS_DIST_PLANATTR_H
#define CLEAVE_DIALECTS_DIST_PLANATTR_H

#include "cleave/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::dist {

constexpr llvm::StringLiteral planName = "dist.plan";

void setPlan(mlir::ModuleOp module, const Plan &plan);

/// Nothing if the module has none; an error says which key is wrong, and what
/// is legal.
llvm::Expected<std::optional<Plan>> getPlan(mlir::ModuleOp module);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_PLANATTR_H
