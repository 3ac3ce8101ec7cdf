#ifndef CLEAVE_PASSES_PIPELINE_PASSES_TD
#define CLEAVE_PASSES_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def CutStagesPass : Pass<"cleave-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cut the step into those of the stages of a pipeline";
  let description = [{
    Before: `@step` with local types, on a mesh with an axis of stages; without one
    the pass changes nothing. After: a function `@stage_N` for each stage, what its
    ranks do in a step.

    The layers are cut into virtual stages, one after the other; a rank's stage has
    one of them or, under schedules that say so, several. An op of a layer is on the
    layer's virtual stage, and what belongs to no layer where its operands are. A
    value that another stage uses is sent to it, once for each micro-batch. The body
    of the micro-batch is cut into segments (forward, backward; or forward, backward
    to inputs, backward to weights), which run in the order of the schedule.

    After the micro-batches each stage updates its own parameters. A sum of numbers
    of several stages, as the norm of the gradients is, becomes an all_reduce over
    the stages. Where two stages use one parameter (tied embeddings), both have it:
    they exchange their gradients, so that both make the same update.

    ```mlir
    func.func @stage_0(%ids, %targets) {
      %loss, %dw = xf.accumulate 2 (%ids, %targets) ... segments ["forward", "backward"] order [...] {
        %h = xf.linear %x, %w {xf.segment = 0 : i64}
        dist.send %h to 1 channel 0 {xf.segment = 0 : i64}
        %dh = dist.recv from 1 channel 1 {xf.segment = 1 : i64}
        ...
    ```
  }];
  let dependentDialects = ["::cleave::xf::XfDialect",
                           "::cleave::dist::DistDialect"];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "what a stage runs when: gpipe, 1f1b, 1f1b-eager, interleaved, "
           "zb-h1, zb-h2, zb-v, dualpipe-v; of a module with a dist.plan this "
           "and the next two are the plan's">,
    Option<"virtualStages", "virtual-stages", "int64_t", "1",
           "virtual stages of a stage">,
    ListOption<"layers", "layers", "int64_t",
               "layers of each virtual stage, in the model's order; none: as "
               "even as can be">,
  ];
  let statistics = [
    Statistic<"numMessages", "num-messages", "channels between stages">,
  ];
}

def VerifyStagesPass : Pass<"cleave-verify-stages", "::mlir::ModuleOp"> {
  let summary = "Check that the stages of a pipeline find each other";
  let description = [{
    Before and after: a function `@stage_N` for each stage of the mesh; a module
    without an axis of stages has nothing to check. Each channel has one send and
    one receive, of one type, on the stages that they name. The stages are then run
    without their arithmetic: a send does not wait, a receive waits for its message,
    a collective over the axis of stages for all of them. Messages of a channel
    arrive in the order of micro-batches in which they are taken, none is left, and
    every stage comes to its end; else the ops that wait are named.
  }];
}

#endif
