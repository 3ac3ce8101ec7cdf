#ifndef CLEAVE_PASSES_RECOMPUTE_PASSES_TD
#define CLEAVE_PASSES_RECOMPUTE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecomputePass : Pass<"cleave-recompute", "::mlir::ModuleOp"> {
  let summary = "Repeat parts of a layer in its backward pass rather than keep their results";
  let description = [{
    Before: a training step whose ops know their layer and module, without
    placements. After: where the backward pass of a layer reads what a named
    module of that layer computed, it reads a copy that is computed just before
    from what is kept: the layer's input, and what the other modules gave. So the
    results of the named modules live no longer than the forward pass needs them.

    A repeated op is one of the backward pass, and says that it is recomputed.
    What it reads of its layer is repeated too, where that is of a named module.

    ```mlir
    %y, %rstd = xf.rms_norm %x, %w
    %z = xf.linear %y, %v
    %dv = xf.linear_weight_grad %y, %dz
    // becomes, with modules=norms
    %y, %rstd = xf.rms_norm %x, %w
    %z = xf.linear %y, %v
    %y1, %rstd1 = xf.rms_norm %x, %w {xf.provenance = #xf.provenance<backward, layer = 0, module = norms, recomputed = true>}
    %dv = xf.linear_weight_grad %y1, %dz
    ```
  }];
  let dependentDialects = ["::cleave::xf::XfDialect"];
  let options = [
    ListOption<"modules", "modules", "std::string",
               "modules of a layer that are repeated, as #xf.provenance names "
               "them; full: all; none: what the module's dist.plan says">,
    Option<"layers", "layers", "int64_t", "0",
           "so many layers of each virtual stage, from its first one on; 0: all">,
    ListOption<"stageLayers", "stage-layers", "int64_t",
               "layers of each virtual stage, in the model's order; none: one "
               "stage has all">,
  ];
  let statistics = [Statistic<"numRepeated", "num-repeated", "ops repeated">];
}

#endif
