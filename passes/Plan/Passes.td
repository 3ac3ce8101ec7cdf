#ifndef CLEAVE_PASSES_PLAN_PASSES_TD
#define CLEAVE_PASSES_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChoosePlanPass : Pass<"cleave-choose-plan", "::mlir::ModuleOp"> {
  let summary = "Choose the mesh, stages, schedule and recomputation of a step";
  let description = [{
    Before: a training step without placements. After: the same, with the attribute
    `dist.plan` on the module: the fastest layout on the cluster, by the planner's
    exact search over all of its axes, of those that the compiler runs and the
    step's micro-batches allow. `cleave-recompute`, `cleave-place-tensors`,
    `cleave-choose-placements` and `cleave-cut-stages` read it where their options
    do not say otherwise.

    What the planner asks of a model is read from the step: layers and modules from
    the provenance of ops, sizes from the names of the states' dims. A module that
    has a plan keeps it.

    Remarks say what was chosen, what it takes, and how far the runners-up are.

    ```mlir
    module {
      func.func @step(%ids: tensor<4x16x128xi32>, ...) {
    // becomes
    module attributes {dist.plan = {dims = {batch = ["dp"], heads = ["tp"], ...},
        mesh = [{name = "dp", size = 4 : i64}, {name = "tp", size = 2 : i64} ],
        micro_batches = 4 : i64, version = 2 : i64, ...} } {
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
           "what --cluster of cleave plan takes: h100-sxm:8, local:N or a "
           "cluster.json">,
    ListOption<"pins", "pin", "std::string",
               "what the layout must be, as --pin of cleave plan: tp=2,pp=1">,
    Option<"headroom", "headroom", "double", "5",
           "% of a device's memory that stays free">,
  ];
}

#endif
