#ifndef CLEAVE_DIALECTS_XF_BACKWARD_TD
#define CLEAVE_DIALECTS_XF_BACKWARD_TD

include "dialects/xf/XfForward.td"

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

def Xf_EmbeddingGradOp : Xf_TensorOp<"embedding_grad", [Xf_Rule, Xf_Check, Xf_TableBytes, Xf_ShardIndex,
    AccumulatingOpInterface]> {
  let summary = "sum the gradients of the tokens into the rows of a table";
  let description = [{
    ```mlir
    %dt = xf.embedding_grad %ids, %dy
        : (tensor<2x8xi32>, tensor<2x8x64xf32>) -> tensor<100x64xf32>
    ```

    Constraints:
    1. The result has 2 dims; dy has the dims of the ids and its width.
  }];
  let arguments = (ins Xf_Ids:$ids, Xf_Tensor:$dy);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_MaskRowsOp : Xf_TensorOp<"mask_rows", [Xf_Rule, Xf_Cost]> {
  let summary = "x, with zeros in the rows of one id";
  let description = [{
    ```mlir
    %y = xf.mask_rows %x, %ids {id = 0 : i64}
        : (tensor<2x8x64xf32>, tensor<2x8xi32>) -> tensor<2x8x64xf32>
    ```

    Constraints:
    1. x begins with the dims of the ids; the result has x's type.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Ids:$ids, I64Attr:$id);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_LinearWeightGradOp : Xf_TensorOp<"linear_weight_grad", [Xf_Rule, Xf_Check, Xf_Flops,
    AccumulatingOpInterface]> {
  let summary = "dy^T x over the leading dims";
  let description = [{
    The first `leading` dims of x and dy are summed; the result is
    `[outs..., ins...]`, or `[ins..., outs...]` with `inputs_first`.

    ```mlir
    %dw = xf.linear_weight_grad %x, %dy {leading = 2 : i64}
        : (tensor<2x8x64xf32>, tensor<2x8x32xf32>) -> tensor<32x64xf32>
    ```

    Constraints:
    1. x and dy agree in their first `leading` dims.
    2. The result has dy's other dims and x's, or x's and dy's.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$dy, I64Attr:$leading,
                       UnitAttr:$inputs_first);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_ReduceLeadingOp : Xf_TensorOp<"reduce_leading", [Xf_Rule, Xf_Cost,
    AccumulatingOpInterface]> {
  let summary = "sum over leading dims";
  let description = [{
    ```mlir
    %db = xf.reduce_leading %dy : (tensor<2x8x64xf32>) -> tensor<64xf32>
    ```

    Constraints:
    1. The result's shape is the trailing part of x's.
  }];
  let arguments = (ins Xf_Tensor:$x);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_RMSNormGradOp : Xf_TensorOp<"rms_norm_grad", [Xf_Rule, Xf_Check, Xf_Cost]> {
  let summary = "gradient of xf.rms_norm with respect to x";
  let description = [{
    With g = dy (offset + w): `rstd (g - x rstd^2 mean(g x))`.

    ```mlir
    %dx = xf.rms_norm_grad %x, %w, %rstd, %dy
        : (tensor<2x8x64xf32>, tensor<64xf32>, tensor<2x8xf32>,
           tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
    ```

    Constraints:
    1. The weight's shape is the trailing part of x's, that of rstd the rest.
    2. dy has x's shape, the result x's type.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$weight, Xf_F32Tensor:$rstd,
                       Xf_Tensor:$dy,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_LayerNormGradOp : Xf_TensorOp<"layer_norm_grad", [Xf_Rule, Xf_Check, Xf_Cost]> {
  let summary = "gradient of xf.layer_norm with respect to x";
  let description = [{
    With g = dy w and n = (x - mean) rstd: `rstd (g - mean(g) - n mean(g n))`.

    ```mlir
    %dx = xf.layer_norm_grad %x, %w, %mean, %rstd, %dy
        : (tensor<2x8x64xf32>, tensor<64xf32>, tensor<2x8xf32>,
           tensor<2x8xf32>, tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
    ```

    Constraints:
    1. The weight's shape is the trailing part of x's, those of the mean and
       rstd the rest.
    2. dy has x's shape, the result x's type.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$weight, Xf_F32Tensor:$mean,
                       Xf_F32Tensor:$rstd, Xf_Tensor:$dy);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_NormWeightGradOp : Xf_TensorOp<"norm_weight_grad", [Xf_Rule, Xf_Check, Xf_Cost,
    AccumulatingOpInterface]> {
  let summary = "gradient of a norm with respect to its weight";
  let description = [{
    `sum over rows of dy (x - mean) rstd`; without a mean for xf.rms_norm.

    ```mlir
    %dw = xf.norm_weight_grad %x, %rstd, %dy
        : (tensor<2x8x64xf32>, tensor<2x8xf32>, tensor<2x8x64xf32>)
       -> tensor<64xf32>
    ```

    Constraints:
    1. The result's shape is the trailing part of x's, those of rstd and the
       mean the rest.
    2. dy has x's shape.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_F32Tensor:$rstd, Xf_Tensor:$dy,
                       Optional<Xf_F32Tensor>:$mean);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_AttentionGradOp : Xf_TensorOp<"attention_grad", [Xf_Rule, Xf_Check, Xf_Attention,
    FixedOrderOpInterface]> {
  let summary = "gradients of xf.attention with respect to q, k and v";
  let description = [{
    With `fixed_order`, a device adds in the same order in each run: several ranks
    compute this gradient on the same values, and need the same bits.

    ```mlir
    %dq, %dk, %dv = xf.attention_grad %q, %k, %v, %o, %lse, %do
        {scale = 0.25 : f64}
        : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
           tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>)
       -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
    ```

    Constraints:
    1. q, k, v and lse are as in `xf.attention`.
    2. out and dout have q's shape; dq, dk and dv the types of q, k and v.
  }];
  let arguments = (ins Xf_Tensor:$q, Xf_Tensor:$k, Xf_Tensor:$v, Xf_Tensor:$out,
                       Xf_F32Tensor:$lse, Xf_Tensor:$dout, F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       UnitAttr:$fixed_order);
  let results = (outs Xf_Tensor:$dq, Xf_Tensor:$dk, Xf_Tensor:$dv);
  let hasVerifier = 1;
}

def Xf_ActivationGradOp : Xf_TensorOp<"activation_grad", [Xf_Rule, Xf_Check, Xf_Bytes,
                                                          SameOperandsAndResultType]> {
  let summary = "dy act'(x)";
  let description = [{
    ```mlir
    %dx = xf.activation_grad %x, %dy {kind = 3 : i32}
        : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<2x64xf32>
    ```
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$dy, Xf_ActivationKind:$kind);
  let results = (outs Xf_Tensor:$result);
}

def Xf_GluGradOp : Xf_TensorOp<"glu_grad", [Xf_Rule, Xf_Check, Xf_Bytes,
                                            SameOperandsAndResultType]> {
  let summary = "dy up act'(gate) and dy act(gate)";
  let description = [{
    ```mlir
    %dg, %du = xf.glu_grad %gate, %up, %dy {kind = 3 : i32}
        : (tensor<2x64xf32>, tensor<2x64xf32>, tensor<2x64xf32>)
       -> (tensor<2x64xf32>, tensor<2x64xf32>)
    ```
  }];
  let arguments = (ins Xf_Tensor:$gate, Xf_Tensor:$up, Xf_Tensor:$dy,
                       Xf_ActivationKind:$kind);
  let results = (outs Xf_Tensor:$dgate, Xf_Tensor:$dup);
}

def Xf_PadRowsOp : Xf_TensorOp<"pad_rows", [Xf_Rule, Xf_Check, Xf_Cost]> {
  let summary = "rows placed at `start` of a table of zeros";
  let description = [{
    The gradient of `xf.slice_rows`.

    ```mlir
    %t = xf.pad_rows %x {start = 2 : i64}
        : (tensor<48x64xf32>) -> tensor<130x64xf32>
    ```

    Constraints:
    1. The operand's rows lie in the result; other dims are the same.
  }];
  let arguments = (ins Xf_Tensor:$x, I64Attr:$start);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_CrossEntropyGradOp : Xf_TensorOp<"cross_entropy_grad", [Xf_Rule, Xf_Check, Xf_Bytes, Xf_ShardIndex]> {
  let summary = "gradient of xf.cross_entropy with respect to the logits";
  let description = [{
    `dloss (exp(x - lse) - [column = target])`, zero where the target is
    negative and in the padding from column `vocab` on.

    ```mlir
    %dx = xf.cross_entropy_grad %x, %lse, %targets, %dloss
        {vocab = 100 : i64}
        : (tensor<2x8x104xf32>, tensor<2x8xf32>, tensor<2x8xi32>, tensor<f32>)
       -> tensor<2x8x104xf32>
    ```

    Constraints:
    1. lse and the targets have the logits' leading dims, dloss none.
    2. The result has the logits' type.
    3. 1 <= vocab.
  }];
  let arguments = (ins Xf_Tensor:$logits, Xf_F32Tensor:$lse, Xf_Ids:$targets,
                       Xf_F32Tensor:$dloss, I64Attr:$vocab);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def Xf_ReciprocalOp : Xf_TensorOp<"reciprocal", [Xf_Rule, Xf_Cost,
                                                 SameOperandsAndResultType]> {
  let summary = "1 / max(x, 1)";
  let description = [{
    The factor that turns a sum over tokens into a mean; a batch of nothing but
    ignored targets gives a loss of zero.

    ```mlir
    %y = xf.reciprocal %n : (tensor<f32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Xf_F32Tensor:$x);
  let results = (outs Xf_F32Tensor:$result);
}

def Xf_MulOp : Xf_TensorOp<"mul", [Xf_Rule, Xf_Cost,
                                   SameOperandsAndResultType]> {
  let summary = "product of two tensors";
  let description = [{
    ```mlir
    %z = xf.mul %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$y);
  let results = (outs Xf_Tensor:$result);
}

def Xf_SquareSumOp : Xf_TensorOp<"square_sum", [Xf_Rule, Xf_Bytes]> {
  let summary = "sum of squares of all elements";
  let description = [{
    Partial over the axes that split the operand.

    ```mlir
    %s = xf.square_sum %g : (tensor<32x64xf32>) -> tensor<f32>
    ```

    Constraints:
    1. The result is a scalar.
  }];
  let arguments = (ins Xf_Tensor:$x);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_ClipFactorOp : Xf_TensorOp<"clip_factor", [Xf_Rule, Xf_Cost]> {
  let summary = "gradient norm and the factor that bounds it";
  let description = [{
    `norm = sqrt(x)`, `factor = min(1, max_norm / (norm + 1e-6))`, or 1 if
    max_norm is 0; as torch.nn.utils.clip_grad_norm_.

    ```mlir
    %norm, %factor = xf.clip_factor %s {max_norm = 1.0 : f64}
        : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
    ```

    Constraints:
    1. Operand and results are scalars.
  }];
  let arguments = (ins Xf_F32Tensor:$x, F64Attr:$max_norm);
  let results = (outs Xf_F32Tensor:$norm, Xf_F32Tensor:$factor);
  let hasVerifier = 1;
}

def Xf_GuardOp : Xf_TensorOp<"guard", [Xf_Rule, Xf_Cost]> {
  let summary = "the clip factor of a step that is good, and 0 of a bad one";
  let description = [{
    The clip factor if the loss is below the schedule's fourth value and the
    gradient norm below its fifth, else 0: so for what is not a number, too. An
    update leaves everything as it is where its factor is 0, so a step that would
    spoil the state changes nothing, and no device waits to be told.

    ```mlir
    %f = xf.guard %factor, %loss, %norm, %schedule
        : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<5xf32>) -> tensor<f32>
    ```

    Constraints:
    1. Factor, loss, norm and the result are scalars; the schedule has 5 elements.
  }];
  let arguments = (ins Xf_F32Tensor:$factor, Xf_F32Tensor:$loss,
                       Xf_F32Tensor:$norm, Xf_F32Tensor:$schedule);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_ScheduleKind : I32EnumAttr<"ScheduleKind", "shape of the learning rate", [
    I32EnumAttrCase<"Constant", 0, "constant">,
    I32EnumAttrCase<"Cosine", 1, "cosine">,
    I32EnumAttrCase<"Linear", 2, "linear">,
    I32EnumAttrCase<"WarmupStableDecay", 3, "wsd">]> {
  let cppNamespace = "::cleave::xf";
}

def Xf_ScheduleOp : Xf_Op<"schedule", [MemoryEffects<[MemRead]>, Xf_Rule]> {
  let summary = "what the host says of this step";
  let description = [{
    A vector of five: the learning rate, 1 / (1 - beta1^t), 1 / (1 - beta2^t), for
    the t-th update counted from 1, and what loss and gradient norm must be below
    for there to be an update. Linear warm-up over `warmup_steps`, then constant,
    cosine or linear decay to `min_lr` at step `decay_steps` (0: the run's last),
    or `stable_steps` of lr and then a linear decay.

    ```mlir
    %s = xf.schedule {kind = 1 : i32, lr = 2.0e-3 : f64, min_lr = 2.0e-4 : f64,
        warmup_steps = 5 : i64, decay_steps = 20 : i64, stable_steps = 0 : i64,
        beta1 = 0.9 : f64, beta2 = 0.95 : f64} : tensor<5xf32>
    ```

    Constraints:
    1. The result has 5 elements.
  }];
  let arguments = (ins Xf_ScheduleKind:$kind, F64Attr:$lr, F64Attr:$min_lr,
      I64Attr:$warmup_steps, I64Attr:$decay_steps, I64Attr:$stable_steps,
      F64Attr:$beta1, F64Attr:$beta2);
  let results = (outs Xf_F32Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of the result, and where in it what a step is judged by is.
    static constexpr int64_t size = 5, lossLimit = 3, normLimit = 4;
  }];
}

def Xf_AdamWOp : Xf_TensorOp<"adamw", [Xf_Rule, Xf_Bytes, OptimizerOpInterface]> {
  let summary = "one AdamW update";
  let description = [{
    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, as
    torch.optim.AdamW. With g = grad * clip and [lr, c1, c2] = schedule:
    `m' = b1 m + (1-b1) g`, `v' = b2 v + (1-b2) g^2`,
    `w' = w (1 - lr decay) - lr c1 m' / (sqrt(c2 v') + eps)`.

    ```mlir
    %w1, %m1, %v1 = xf.adamw %w, %m, %v, %g, %clip, %schedule
        {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64,
         decay = 0.1 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
           tensor<f32>, tensor<5xf32>)
       -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    1. As OptimizerOpInterface has them.
  }];
  let arguments = (ins Xf_F32Tensor:$w, Xf_Tensor:$m, Xf_Tensor:$v,
      Xf_F32Tensor:$grad, Xf_F32Tensor:$clip, Xf_F32Tensor:$schedule,
      F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$decay);
  let results = (outs Xf_F32Tensor:$new_w, Xf_Tensor:$new_m, Xf_Tensor:$new_v);
}

def Xf_SGDOp : Xf_TensorOp<"sgd", [Xf_Rule, Xf_Bytes, OptimizerOpInterface]> {
  let summary = "one step of gradient descent with momentum";
  let description = [{
    Sutskever et al., "On the importance of initialization and momentum in deep
    learning", 2013, as torch.optim.SGD without dampening and Nesterov's variant.
    With g = grad * clip + decay w and lr the first of the schedule:
    `m' = momentum m + g`, `w' = w - lr m'`.

    ```mlir
    %w1, %m1 = xf.sgd %w, %m, %g, %clip, %schedule
        {momentum = 0.9 : f64, decay = 0.1 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>,
           tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    1. As OptimizerOpInterface has them.
  }];
  let arguments = (ins Xf_F32Tensor:$w, Xf_Tensor:$m, Xf_F32Tensor:$grad,
      Xf_F32Tensor:$clip, Xf_F32Tensor:$schedule,
      F64Attr:$momentum, F64Attr:$decay);
  let results = (outs Xf_F32Tensor:$new_w, Xf_Tensor:$new_m);
}

def Xf_LionOp : Xf_TensorOp<"lion", [Xf_Rule, Xf_Bytes, OptimizerOpInterface]> {
  let summary = "one Lion update";
  let description = [{
    Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023,
    arXiv:2302.06675. With g = grad * clip and lr the first of the schedule:
    `w' = w - lr (sign(b1 m + (1-b1) g) + decay w)`, `m' = b2 m + (1-b2) g`.

    ```mlir
    %w1, %m1 = xf.lion %w, %m, %g, %clip, %schedule
        {beta1 = 0.9 : f64, beta2 = 0.99 : f64, decay = 0.1 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>,
           tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    1. As OptimizerOpInterface has them.
  }];
  let arguments = (ins Xf_F32Tensor:$w, Xf_Tensor:$m, Xf_F32Tensor:$grad,
      Xf_F32Tensor:$clip, Xf_F32Tensor:$schedule,
      F64Attr:$beta1, F64Attr:$beta2, F64Attr:$decay);
  let results = (outs Xf_F32Tensor:$new_w, Xf_Tensor:$new_m);
}

def Xf_NesterovOp : Xf_TensorOp<"nesterov", [Xf_Rule, Xf_Cost]> {
  let summary = "where Nesterov's momentum points";
  let description = [{
    With g = grad * clip and m' = momentum m + g: `g + momentum m'`.

    ```mlir
    %u = xf.nesterov %m, %g, %clip {momentum = 0.95 : f64}
        : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    ```

    Constraints:
    1. The gradient and the result have the moment's shape; the clip factor is a
       scalar.
  }];
  let arguments = (ins Xf_Tensor:$m, Xf_F32Tensor:$grad, Xf_F32Tensor:$clip,
                       F64Attr:$momentum);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_OrthogonalizeOp : Xf_TensorOp<"orthogonalize", [Xf_Rule, Xf_Flops,
                                                       SameOperandsAndResultType]> {
  let summary = "a matrix with its singular values brought near 1";
  let description = [{
    Newton and Schulz's iteration, with polynomials of degree five: from
    `X = x / max(|x|, eps)`, |x| being the root of the sum of squares, so many
    steps of `X := a X + (b X X^T + c (X X^T)^2) X`. The first `rows` dims number
    the rows, the others the columns. Needs the whole matrix.

    ```mlir
    %y = xf.orthogonalize %x {rows = 2 : i64, steps = 5 : i64, a = 3.4445 : f64,
                              b = -4.775 : f64, c = 2.0315 : f64,
                              eps = 1.0e-7 : f64}
        : (tensor<4x16x64xf32>) -> tensor<4x16x64xf32>
    ```

    Constraints:
    1. At least one dim of rows and one of columns.
    2. 0 to 100 steps.
  }];
  let arguments = (ins Xf_F32Tensor:$x, I64Attr:$rows, I64Attr:$steps,
                       F64Attr:$a, F64Attr:$b, F64Attr:$c, F64Attr:$eps);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_NormalizeOp : Xf_TensorOp<"normalize", [Xf_Rule, Xf_Cost]> {
  let summary = "a tensor over the root of a sum of squares";
  let description = [{
    `x / max(sqrt(square_sum), eps)`.

    ```mlir
    %s = xf.square_sum %x : (tensor<8x4xf32>) -> tensor<f32>
    %y = xf.normalize %x, %s {eps = 1.0e-7 : f64}
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    ```

    Constraints:
    1. The sum is a scalar; the result has x's type.
  }];
  let arguments = (ins Xf_F32Tensor:$x, Xf_F32Tensor:$square_sum, F64Attr:$eps);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_MuonOp : Xf_TensorOp<"muon", [Xf_Rule, Xf_Bytes, OptimizerOpInterface]> {
  let summary = "one Muon update of a matrix";
  let description = [{
    Jordan et al., "Muon: An optimizer for hidden layers in neural networks",
    2024. With g = grad * clip and lr the first of the schedule:
    `w' = w (1 - lr decay) - lr direction`, `m' = momentum m + g`. The direction
    is what `xf.orthogonalize` makes of `xf.nesterov`.

    ```mlir
    %u = xf.nesterov %m, %g, %clip {momentum = 0.95 : f64}
        : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %o = xf.orthogonalize %u {rows = 1 : i64, steps = 5 : i64, a = 3.4445 : f64,
                              b = -4.775 : f64, c = 2.0315 : f64,
                              eps = 1.0e-7 : f64}
        : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %w1, %m1 = xf.muon %w, %m, %g, %clip, %schedule, %o
        {momentum = 0.95 : f64, decay = 0.1 : f64}
        : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>,
           tensor<5xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
    ```

    Constraints:
    1. As OptimizerOpInterface has them.
  }];
  let arguments = (ins Xf_F32Tensor:$w, Xf_Tensor:$m, Xf_F32Tensor:$grad,
      Xf_F32Tensor:$clip, Xf_F32Tensor:$schedule, Xf_F32Tensor:$direction,
      F64Attr:$momentum, F64Attr:$decay);
  let results = (outs Xf_F32Tensor:$new_w, Xf_Tensor:$new_m);
}

#endif
