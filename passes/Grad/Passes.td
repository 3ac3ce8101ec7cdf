#ifndef CLEAVE_PASSES_GRAD_PASSES_TD
#define CLEAVE_PASSES_GRAD_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildStepPass : Pass<"cleave-build-step", "::mlir::ModuleOp"> {
  let summary = "Turn the forward function into a whole training step";
  let description = [{
    Before: a function `@forward(ids, targets) -> loss` on one micro-batch, the
    loss being a sum over tokens. After: a function `@step(ids, targets)` on all
    micro-batches, which runs forward and backward in `xf.accumulate`, clips the
    gradients to a global norm, makes the factor by which it clips 0 where the
    step is bad (`xf.guard`), and updates each parameter by the optimizer, which
    leaves all as it is where the factor is 0. Moments are state, in f32 or
    bf16. Every op carries a `phase`: forward, backward or optimizer.

    The loss is the mean over all targets of the step that are not ignored, so
    it does not depend on how the batch is cut.

    ```mlir
    func.func @forward(%ids: tensor<2x8xi32>, %targets: tensor<2x8xi32>)
        -> tensor<f32>
    // becomes
    func.func @step(%ids: tensor<4x2x8xi32>, %targets: tensor<4x2x8xi32>) {
      %w = xf.get @w : tensor<64x64xf32>
      %n = xf.count_tokens %targets : (tensor<4x2x8xi32>) -> tensor<f32>
      %s = xf.reciprocal %n : (tensor<f32>) -> tensor<f32>
      %loss, %dw = xf.accumulate 4 (%ids, %targets) ... {
        // forward, then backward with d loss = %s
      }
      // norm, clip, guard, update
    }
    ```
  }];
  let dependentDialects = ["::cleave::xf::XfDialect"];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "micro-batches in a step">,
    Option<"lr", "lr", "double", "3e-4", "peak learning rate">,
    Option<"minLr", "min-lr", "double", "3e-5",
           "learning rate after the decay; a tenth of the peak, as is usual">,
    Option<"warmupSteps", "warmup-steps", "int64_t", "0",
           "steps of linear warm-up">,
    Option<"decaySteps", "decay-steps", "int64_t", "0",
           "step at which the decay ends; 0: the run's last">,
    Option<"stableSteps", "stable-steps", "int64_t", "0",
           "steps of the peak rate before the decay of wsd">,
    Option<"schedule", "schedule", "std::string", "\"cosine\"",
           "constant, cosine, linear or wsd">,
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"",
           "adamw, sgd, lion or muon">,
    Option<"moments", "moments", "std::string", "\"f32\"",
           "type in which the optimizer's moments are kept between steps, f32 or "
           "bf16; f32, in which none of their changes is too small">,
    Option<"beta1", "beta1", "double", "0.9",
           "of adamw: decay of the first moment; of lion: share of the moment in "
           "the direction of a step">,
    Option<"beta2", "beta2", "double", "0.95",
           "of adamw: decay of the second moment, 0.95 as large models are "
           "trained; of lion: decay of the moment, commonly 0.99">,
    Option<"eps", "eps", "double", "1e-8",
           "of adamw: added to the root of the second moment">,
    Option<"momentum", "momentum", "double", "0.9", "of sgd and muon: decay of the moment">,
    Option<"weightDecay", "weight-decay", "double", "0.1",
           "weight decay of matrices; decoupled, but of sgd added to the gradient">,
    Option<"clip", "clip", "double", "1.0",
           "bound of the global gradient norm; 0: none">,
    Option<"gradients", "gradients", "bool", "false",
           "keep each gradient as an output">,
  ];
}

def VerifyStepPass : Pass<"cleave-verify-step", "::mlir::ModuleOp"> {
  let summary = "Check what the types of a training step cannot say";
  let description = [{
    The contract at the end of this stage, and of Place and Partition, while
    types are global: each parameter and moment is set once, outside of the
    micro-batches, to the new value of its own if an optimizer made it, and a
    constant never; an op of the backward pass has the
    attributes (window, scale, soft cap, offset, kind, ...) and the saved values
    of the forward op that it is a gradient of; a cross-entropy and its gradient
    count the columns that their head has without padding.

    A forward op is found by what it shares with its gradient, across reshards
    and collectives.
  }];
}

#endif
