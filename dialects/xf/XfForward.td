#ifndef CLEAVE_DIALECTS_XF_FORWARD_TD
#define CLEAVE_DIALECTS_XF_FORWARD_TD

include "dialects/xf/XfBase.td"

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

def Xf_EmbeddingOp : Xf_TensorOp<"embedding", [Xf_Rule, Xf_Origin, Xf_Gradient, Xf_TableBytes, Xf_ShardIndex]> {
  let summary = "rows of a table, by id";
  let description = [{
    `[b, s], [v, h] -> [b, s, h]`; an id whose row another rank holds gives
    zero, so the result is partial over the axes that split the table's rows.
    Looking up the id `padding` sends no gradient to its row.

    ```mlir
    %y = xf.embedding %ids, %table
        : (tensor<2x8xi32>, tensor<100x64xf32>) -> tensor<2x8x64xf32>
    ```

    Constraints:
    1. The result's shape is that of the ids and the table's width.
  }];
  let arguments = (ins Xf_Ids:$ids, Xf_Tensor:$table,
                       OptionalAttr<I64Attr>:$padding);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_LinearOp : Xf_TensorOp<"linear", [Xf_Rule, Xf_OriginAndCheck, Xf_Gradient, Xf_Flops]> {
  let summary = "contract the trailing dims of x with a weight; add a bias";
  let description = [{
    With `contract` = 1: `[b, s, h], [f, h], [f] -> [b, s, f]`; the weight is
    `[outs..., ins...]`, or `[ins..., outs...]` with `inputs_first`.
    `[b, s, a, d], [h, a, d] -> [b, s, h]` has `contract` = 2.

    ```mlir
    %q = xf.linear %x, %w {contract = 1 : i64}
        : (tensor<2x8x64xf32>, tensor<4x16x64xf32>) -> tensor<2x8x4x16xf32>
    ```

    Constraints:
    1. The last `contract` dims of x are the weight's input dims.
    2. The result's dims are x's other dims, then the weight's output dims.
    3. The bias has the weight's output dims.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$weight,
                       Optional<Xf_Tensor>:$bias, I64Attr:$contract,
                       UnitAttr:$inputs_first);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Dims of x that are not contracted.
    int64_t getNumLeading() { return getX().getType().getRank() - getContract(); }
    int64_t getNumOuts() { return getWeight().getType().getRank() - getContract(); }
  }];
}

def Xf_RMSNormOp : Xf_TensorOp<"rms_norm", [Xf_Rule, Xf_Gradient, Xf_Cost]> {
  let summary = "x / sqrt(mean(x^2) + eps) * (offset + weight)";
  let description = [{
    Normalizes over the dims of the weight, the trailing ones of x. The second
    result is 1 / sqrt(mean(x^2) + eps), one f32 for each row.
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    In bf16 the normalized value is rounded before the weight multiplies, unless
    `weight_in_f32` (OLMo-2, Gemma).

    ```mlir
    %y, %rstd = xf.rms_norm %x, %w {eps = 1.0e-6 : f64}
        : (tensor<2x8x64xf32>, tensor<64xf32>)
       -> (tensor<2x8x64xf32>, tensor<2x8xf32>)
    ```

    Constraints:
    1. The weight's shape is the trailing part of x's.
    2. The first result has x's type, the second x's leading dims.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$weight, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset,
                       UnitAttr:$weight_in_f32);
  let results = (outs Xf_Tensor:$result, Xf_F32Tensor:$rstd);
  let hasVerifier = 1;
}

def Xf_LayerNormOp : Xf_TensorOp<"layer_norm", [Xf_Rule, Xf_Gradient, Xf_Cost]> {
  let summary = "(x - mean) / sqrt(var + eps) * weight + bias";
  let description = [{
    As `xf.rms_norm`; further results are the mean and 1 / sqrt(var + eps).
    Ba et al., "Layer Normalization", 2016.

    ```mlir
    %y, %mean, %rstd = xf.layer_norm %x, %w, %b {eps = 1.0e-5 : f64}
        : (tensor<2x8x64xf32>, tensor<64xf32>, tensor<64xf32>)
       -> (tensor<2x8x64xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
    ```

    Constraints:
    1. Weight and bias have one shape, the trailing part of x's.
    2. The first result has x's type, the others x's leading dims.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Tensor:$weight, Xf_Tensor:$bias,
                       F64Attr:$eps);
  let results = (outs Xf_Tensor:$result, Xf_F32Tensor:$mean, Xf_F32Tensor:$rstd);
  let hasVerifier = 1;
}

def Xf_RopeOp : Xf_TensorOp<"rope", [Xf_Rule, Xf_OriginAndCheck, Xf_Gradient, Xf_Bytes]> {
  let summary = "rotate pairs of channels by a position-dependent angle";
  let description = [{
    Su et al., "RoFormer", 2021, in half-split form: with n columns of the
    tables, `(x[i], x[n+i]) -> (x[i] cos - x[n+i] sin, x[n+i] cos + x[i] sin)`
    for i < n; channels from 2n on pass. `inverse` rotates back, which is the
    gradient.

    ```mlir
    %y = xf.rope %x, %cos, %sin
        : (tensor<2x8x4x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
       -> tensor<2x8x4x16xf32>
    ```

    Constraints:
    1. x is `[b, s, a, d]`, the tables `[s, n]` with 2n <= d.
    2. The result has x's type.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_F32Tensor:$cos, Xf_F32Tensor:$sin,
                       UnitAttr:$inverse);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_AttentionOp : Xf_TensorOp<"attention", [Xf_Rule, Xf_Gradient, Xf_Attention]> {
  let summary = "causal attention, grouped heads, sliding window";
  let description = [{
    `softmax(scale q k^T) v` over keys j <= i, and j > i - window if window > 0.
    Query head h reads key head h / (heads / kv_heads). `softcap` c > 0 makes a
    score `c tanh(score / c)`. The second result is the log of the sum of
    exponentials, `[b, heads, s]`.

    ```mlir
    %o, %lse = xf.attention %q, %k, %v {scale = 0.25 : f64}
        : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
       -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
    ```

    Constraints:
    1. q is `[b, s, heads, d]`, k and v `[b, s, kv_heads, d]`.
    2. kv_heads divides heads.
    3. The first result has q's type, the second is `[b, heads, s]`.
  }];
  let arguments = (ins Xf_Tensor:$q, Xf_Tensor:$k, Xf_Tensor:$v, F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Xf_Tensor:$result, Xf_F32Tensor:$lse);
  let hasVerifier = 1;
}

def Xf_ActivationKind : I32EnumAttr<"ActivationKind", "a pointwise function", [
    I32EnumAttrCase<"GeluErf", 0, "gelu_erf">,
    I32EnumAttrCase<"GeluTanh", 1, "gelu_tanh">,
    I32EnumAttrCase<"GeluFast", 2, "gelu_fast">,
    I32EnumAttrCase<"Silu", 3, "silu">, I32EnumAttrCase<"Relu", 4, "relu">,
    I32EnumAttrCase<"Relu2", 5, "relu2">,
    I32EnumAttrCase<"QuickGelu", 6, "quick_gelu">]> {
  let cppNamespace = "::cleave::xf";
}

def Xf_ActivationOp : Xf_TensorOp<"activation", [Xf_Rule, Xf_Origin, Xf_Gradient,
    Xf_Bytes, SameOperandsAndResultType]> {
  let summary = "a pointwise function";
  let description = [{
    gelu_erf `x/2 (1 + erf(x/sqrt 2))`; gelu_tanh
    `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`; gelu_fast the same with
    sqrt(2/pi) rounded to 0.7978845608; quick_gelu `x / (1 + exp(-1.702 x))`;
    silu `x / (1 + exp(-x))`; relu2 `max(x, 0)^2`.

    ```mlir
    %y = xf.activation %x {kind = 3 : i32}
        : (tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
    ```
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_ActivationKind:$kind);
  let results = (outs Xf_Tensor:$result);
}

def Xf_GluOp : Xf_TensorOp<"glu", [Xf_Rule, Xf_Origin, Xf_Gradient, Xf_Bytes,
                                   SameOperandsAndResultType]> {
  let summary = "act(gate) * up";
  let description = [{
    Shazeer, "GLU Variants Improve Transformer", 2020.

    ```mlir
    %y = xf.glu %gate, %up {kind = 3 : i32}
        : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<2x64xf32>
    ```
  }];
  let arguments = (ins Xf_Tensor:$gate, Xf_Tensor:$up, Xf_ActivationKind:$kind);
  let results = (outs Xf_Tensor:$result);
}

def Xf_AddOp : Xf_TensorOp<"add", [Xf_Rule, Xf_Gradient, Xf_Cost, AdditionOpInterface]> {
  let summary = "sum of tensors";
  let description = [{
    Operands after the first may lack leading dims of the result: they are the
    same along those. Linear: operands that are all partial over an axis give a
    partial sum.

    ```mlir
    %z = xf.add %x, %y, %b : (tensor<2x8x64xf32>, tensor<2x8x64xf32>,
                              tensor<64xf32>) -> tensor<2x8x64xf32>
    ```

    Constraints:
    1. The result has the first operand's shape, of which each other operand's
       is the trailing part.
  }];
  let arguments = (ins Variadic<Xf_Tensor>:$inputs);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Xf_ScaleOp : Xf_TensorOp<"scale", [Xf_Rule, Xf_OriginAndCheck, Xf_Gradient, Xf_Cost,
                                       SameOperandsAndResultType]> {
  let summary = "x times a constant";
  let description = [{
    ```mlir
    %y = xf.scale %x {factor = 8.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Xf_Tensor:$x, F64Attr:$factor);
  let results = (outs Xf_Tensor:$result);
}

def Xf_CastOp : Xf_TensorOp<"cast", [Xf_Rule, Xf_Gradient, Xf_Cost,
    DeclareOpInterfaceMethods<CastOpInterface>]> {
  let summary = "the same values in another floating-point type";
  let description = [{
    ```mlir
    %y = xf.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
    ```

    Constraints:
    1. Operand and result have one shape.
  }];
  let arguments = (ins Xf_Tensor:$x);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_SliceRowsOp : Xf_TensorOp<"slice_rows", [Xf_Rule, Xf_Origin, Xf_Gradient, Xf_Cost]> {
  let summary = "rows [start, start + size) of a table";
  let description = [{
    ```mlir
    %p = xf.slice_rows %table {start = 2 : i64}
        : (tensor<130x64xf32>) -> tensor<48x64xf32>
    ```

    Constraints:
    1. The result's rows lie in the table; other dims are the same.
  }];
  let arguments = (ins Xf_Tensor:$x, I64Attr:$start);
  let results = (outs Xf_Tensor:$result);
  let hasVerifier = 1;
}

def Xf_CrossEntropyOp : Xf_TensorOp<"cross_entropy", [Xf_Rule, Xf_Check, Xf_Gradient, Xf_Bytes]> {
  let summary = "sum over tokens of -log softmax(logits)[target]";
  let description = [{
    Tokens whose target is `ignore` (-100) add nothing. Only the first `vocab`
    columns count: the rest is padding. The second result is the log of the sum
    of exponentials of each token. The vocabulary is not split here;
    `cleave-expand-cross-entropy` turns this op into parts that may be.

    ```mlir
    %loss, %lse = xf.cross_entropy %logits, %targets {vocab = 100 : i64}
        : (tensor<2x8x104xf32>, tensor<2x8xi32>)
       -> (tensor<f32>, tensor<2x8xf32>)
    ```

    Constraints:
    1. The targets have the logits' leading dims.
    2. 1 <= vocab <= the logits' last dim.
  }];
  let arguments = (ins Xf_Tensor:$logits, Xf_Ids:$targets, I64Attr:$vocab);
  let results = (outs Xf_F32Tensor:$loss, Xf_F32Tensor:$lse);
  let hasVerifier = 1;
}

// The parts of a cross-entropy, each with a vocabulary that may be split.

def Xf_RowMaxOp : Xf_TensorOp<"row_max", [Xf_Rule, Xf_Check, Xf_Cost, Xf_ShardIndex]> {
  let summary = "maximum over the first `vocab` columns";
  let description = [{
    `[b, s, v] -> [b, s]`, a maximum over v.

    ```mlir
    %m = xf.row_max %x {vocab = 100 : i64}
        : (tensor<2x8x104xf32>) -> tensor<2x8xf32>
    ```

    Constraints:
    1. The result has x's dims but the last.
    2. 1 <= vocab.
  }];
  let arguments = (ins Xf_Tensor:$x, I64Attr:$vocab);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_SumExpOp : Xf_TensorOp<"sum_exp", [Xf_Rule, Xf_Check, Xf_Cost, Xf_ShardIndex]> {
  let summary = "sum of exp(x - max) over the first `vocab` columns";
  let description = [{
    ```mlir
    %z = xf.sum_exp %x, %m {vocab = 100 : i64}
        : (tensor<2x8x104xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
    ```

    Constraints:
    1. The maximum and the result have x's dims but the last.
    2. 1 <= vocab.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_F32Tensor:$max, I64Attr:$vocab);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_PickOp : Xf_TensorOp<"pick", [Xf_Rule, Xf_Cost, Xf_ShardIndex]> {
  let summary = "the column that a target names, zero if there is none";
  let description = [{
    ```mlir
    %t = xf.pick %x, %targets
        : (tensor<2x8x104xf32>, tensor<2x8xi32>) -> tensor<2x8xf32>
    ```

    Constraints:
    1. The targets and the result have x's dims but the last.
  }];
  let arguments = (ins Xf_Tensor:$x, Xf_Ids:$targets);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_TokenLossOp : Xf_TensorOp<"token_loss", [Xf_Rule, Xf_Cost]> {
  let summary = "loss and log-sum-exp of each token from its parts";
  let description = [{
    `lse = max + log(sum_exp)`; `loss = lse - picked`, 0 where the target is
    negative.

    ```mlir
    %loss, %lse = xf.token_loss %m, %z, %t, %targets
        : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xi32>)
       -> (tensor<2x8xf32>, tensor<2x8xf32>)
    ```

    Constraints:
    1. All operands and results have one shape.
  }];
  let arguments = (ins Xf_F32Tensor:$max, Xf_F32Tensor:$sum_exp,
                       Xf_F32Tensor:$picked, Xf_Ids:$targets);
  let results = (outs Xf_F32Tensor:$loss, Xf_F32Tensor:$lse);
  let hasVerifier = 1;
}

def Xf_SumOp : Xf_TensorOp<"sum", [Xf_Rule, Xf_Cost, AccumulatingOpInterface]> {
  let summary = "sum of all elements";
  let description = [{
    ```mlir
    %s = xf.sum %x : (tensor<2x8xf32>) -> tensor<f32>
    ```

    Constraints:
    1. The result is a scalar.
  }];
  let arguments = (ins Xf_F32Tensor:$x);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

def Xf_ZerosOp : Xf_TensorOp<"zeros", []> {
  let summary = "all elements zero";
  let description = [{
    ```mlir
    %z = xf.zeros : () -> tensor<f32>
    ```
  }];
  let arguments = (ins);
  let results = (outs Xf_F32Tensor:$result);
}

def Xf_CountTokensOp : Xf_TensorOp<"count_tokens", [Xf_Rule, Xf_Cost]> {
  let summary = "how many targets are not ignored, as f32";
  let description = [{
    ```mlir
    %n = xf.count_tokens %targets : (tensor<4x2x8xi32>) -> tensor<f32>
    ```

    Constraints:
    1. The result is a scalar.
  }];
  let arguments = (ins Xf_Ids:$targets);
  let results = (outs Xf_F32Tensor:$result);
  let hasVerifier = 1;
}

#endif
