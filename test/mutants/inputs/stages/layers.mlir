module {
  xf.state @rope.cos constant : tensor<8x2xf32> {init = #xf.init<rope_cos, 1.000000e+00 : f64, dense<[1.000000e+00, 0.00999999977]> : tensor<2xf32>>}
  xf.state @rope.sin constant : tensor<8x2xf32> {init = #xf.init<rope_sin, 1.000000e+00 : f64, dense<[1.000000e+00, 0.00999999977]> : tensor<2xf32>>}
  xf.state @model.embed_tokens.weight parameter : tensor<12x8xf32> {decay, dims = ["vocab", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, logical = array<i64: 11, 8>, piece = #xf.piece<"model.embed_tokens.weight", shape = [11, 8], view = [11, 8], starts = [0, 0], sizes = [11, 8]>}
  xf.state @model.layers.0.input_layernorm.weight parameter : tensor<8xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.layers.0.input_layernorm.weight", shape = [8], view = [8], starts = [0], sizes = [8]>}
  xf.state @model.layers.0.self_attn.q_proj.weight parameter : tensor<2x4x8xf32> {decay, dims = ["heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.q_proj.weight", shape = [8, 8], view = [2, 4, 8], starts = [0, 0, 0], sizes = [2, 4, 8]>, rows = 2 : i64}
  xf.state @model.layers.0.self_attn.k_proj.weight parameter : tensor<2x4x8xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.k_proj.weight", shape = [8, 8], view = [2, 4, 8], starts = [0, 0, 0], sizes = [2, 4, 8]>, rows = 2 : i64}
  xf.state @model.layers.0.self_attn.v_proj.weight parameter : tensor<2x4x8xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.v_proj.weight", shape = [8, 8], view = [2, 4, 8], starts = [0, 0, 0], sizes = [2, 4, 8]>, rows = 2 : i64}
  xf.state @model.layers.0.self_attn.o_proj.weight parameter : tensor<8x2x4xf32> {decay, dims = ["hidden", "heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.o_proj.weight", shape = [8, 8], view = [8, 2, 4], starts = [0, 0, 0], sizes = [8, 2, 4]>, rows = 1 : i64}
  xf.state @model.layers.0.post_attention_layernorm.weight parameter : tensor<8xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.layers.0.post_attention_layernorm.weight", shape = [8], view = [8], starts = [0], sizes = [8]>}
  xf.state @model.layers.0.mlp.up_proj.weight parameter : tensor<6x8xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.mlp.up_proj.weight", shape = [6, 8], view = [6, 8], starts = [0, 0], sizes = [6, 8]>, rows = 1 : i64}
  xf.state @model.layers.0.mlp.gate_proj.weight parameter : tensor<6x8xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.mlp.gate_proj.weight", shape = [6, 8], view = [6, 8], starts = [0, 0], sizes = [6, 8]>, rows = 1 : i64}
  xf.state @model.layers.0.mlp.down_proj.weight parameter : tensor<8x6xf32> {decay, dims = ["hidden", "intermediate"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.mlp.down_proj.weight", shape = [8, 6], view = [8, 6], starts = [0, 0], sizes = [8, 6]>, rows = 1 : i64}
  xf.state @model.layers.1.input_layernorm.weight parameter : tensor<8xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.layers.1.input_layernorm.weight", shape = [8], view = [8], starts = [0], sizes = [8]>}
  xf.state @model.layers.1.self_attn.q_proj.weight parameter : tensor<2x4x8xf32> {decay, dims = ["heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.self_attn.q_proj.weight", shape = [8, 8], view = [2, 4, 8], starts = [0, 0, 0], sizes = [2, 4, 8]>, rows = 2 : i64}
  xf.state @model.layers.1.self_attn.k_proj.weight parameter : tensor<2x4x8xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.self_attn.k_proj.weight", shape = [8, 8], view = [2, 4, 8], starts = [0, 0, 0], sizes = [2, 4, 8]>, rows = 2 : i64}
  xf.state @model.layers.1.self_attn.v_proj.weight parameter : tensor<2x4x8xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.self_attn.v_proj.weight", shape = [8, 8], view = [2, 4, 8], starts = [0, 0, 0], sizes = [2, 4, 8]>, rows = 2 : i64}
  xf.state @model.layers.1.self_attn.o_proj.weight parameter : tensor<8x2x4xf32> {decay, dims = ["hidden", "heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.self_attn.o_proj.weight", shape = [8, 8], view = [8, 2, 4], starts = [0, 0, 0], sizes = [8, 2, 4]>, rows = 1 : i64}
  xf.state @model.layers.1.post_attention_layernorm.weight parameter : tensor<8xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.layers.1.post_attention_layernorm.weight", shape = [8], view = [8], starts = [0], sizes = [8]>}
  xf.state @model.layers.1.mlp.up_proj.weight parameter : tensor<6x8xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.mlp.up_proj.weight", shape = [6, 8], view = [6, 8], starts = [0, 0], sizes = [6, 8]>, rows = 1 : i64}
  xf.state @model.layers.1.mlp.gate_proj.weight parameter : tensor<6x8xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.mlp.gate_proj.weight", shape = [6, 8], view = [6, 8], starts = [0, 0], sizes = [6, 8]>, rows = 1 : i64}
  xf.state @model.layers.1.mlp.down_proj.weight parameter : tensor<8x6xf32> {decay, dims = ["hidden", "intermediate"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.1.mlp.down_proj.weight", shape = [8, 6], view = [8, 6], starts = [0, 0], sizes = [8, 6]>, rows = 1 : i64}
  xf.state @model.norm.weight parameter : tensor<8xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.norm.weight", shape = [8], view = [8], starts = [0], sizes = [8]>}
  func.func @forward(%arg0: tensor<4x8xi32>, %arg1: tensor<4x8xi32>) -> tensor<f32> {
    %0 = xf.get @rope.cos : tensor<8x2xf32>
    %1 = xf.get @rope.sin : tensor<8x2xf32>
    %2 = xf.get @model.embed_tokens.weight : tensor<12x8xf32>
    %3 = xf.embedding %arg0, %2 : (tensor<4x8xi32>, tensor<12x8xf32>) -> tensor<4x8x8xf32>
    %4 = xf.get @model.layers.0.input_layernorm.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : tensor<8xf32>
    %result, %rstd = xf.rms_norm %3, %4 {eps = 1.000000e-05 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : (tensor<4x8x8xf32>, tensor<8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>)
    %5 = xf.get @model.layers.0.self_attn.q_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : tensor<2x4x8xf32>
    %6 = xf.linear %result, %5 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : (tensor<4x8x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8x2x4xf32>
    %7 = xf.get @model.layers.0.self_attn.k_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : tensor<2x4x8xf32>
    %8 = xf.linear %result, %7 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : (tensor<4x8x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8x2x4xf32>
    %9 = xf.get @model.layers.0.self_attn.v_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : tensor<2x4x8xf32>
    %10 = xf.linear %result, %9 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : (tensor<4x8x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8x2x4xf32>
    %11 = xf.rope %6, %0, %1 {xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : (tensor<4x8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<4x8x2x4xf32>
    %12 = xf.rope %8, %0, %1 {xf.provenance = #xf.provenance<forward, layer = 0, module = qkv>} : (tensor<4x8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<4x8x2x4xf32>
    %result_0, %lse = xf.attention %11, %12, %10 {scale = 5.000000e-01 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = attention>} : (tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>) -> (tensor<4x8x2x4xf32>, tensor<4x2x8xf32>)
    %13 = xf.get @model.layers.0.self_attn.o_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = output>} : tensor<8x2x4xf32>
    %14 = xf.linear %result_0, %13 {contract = 2 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = output>} : (tensor<4x8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<4x8x8xf32>
    %15 = xf.add %3, %14 {xf.provenance = #xf.provenance<forward, layer = 0, module = residual>} : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %16 = xf.get @model.layers.0.post_attention_layernorm.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : tensor<8xf32>
    %result_1, %rstd_2 = xf.rms_norm %15, %16 {eps = 1.000000e-05 : f64, xf.provenance = #xf.provenance<forward, layer = 0, module = norms>} : (tensor<4x8x8xf32>, tensor<8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>)
    %17 = xf.get @model.layers.0.mlp.up_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = up>} : tensor<6x8xf32>
    %18 = xf.linear %result_1, %17 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = up>} : (tensor<4x8x8xf32>, tensor<6x8xf32>) -> tensor<4x8x6xf32>
    %19 = xf.get @model.layers.0.mlp.gate_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = up>} : tensor<6x8xf32>
    %20 = xf.linear %result_1, %19 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = up>} : (tensor<4x8x8xf32>, tensor<6x8xf32>) -> tensor<4x8x6xf32>
    %21 = xf.glu %20, %18 {kind = 3 : i32, xf.provenance = #xf.provenance<forward, layer = 0, module = activation>} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
    %22 = xf.get @model.layers.0.mlp.down_proj.weight {xf.provenance = #xf.provenance<forward, layer = 0, module = down>} : tensor<8x6xf32>
    %23 = xf.linear %21, %22 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 0, module = down>} : (tensor<4x8x6xf32>, tensor<8x6xf32>) -> tensor<4x8x8xf32>
    %24 = xf.add %15, %23 {xf.provenance = #xf.provenance<forward, layer = 0, module = residual>} : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %25 = xf.get @model.layers.1.input_layernorm.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = norms>} : tensor<8xf32>
    %result_3, %rstd_4 = xf.rms_norm %24, %25 {eps = 1.000000e-05 : f64, xf.provenance = #xf.provenance<forward, layer = 1, module = norms>} : (tensor<4x8x8xf32>, tensor<8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>)
    %26 = xf.get @model.layers.1.self_attn.q_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : tensor<2x4x8xf32>
    %27 = xf.linear %result_3, %26 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : (tensor<4x8x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8x2x4xf32>
    %28 = xf.get @model.layers.1.self_attn.k_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : tensor<2x4x8xf32>
    %29 = xf.linear %result_3, %28 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : (tensor<4x8x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8x2x4xf32>
    %30 = xf.get @model.layers.1.self_attn.v_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : tensor<2x4x8xf32>
    %31 = xf.linear %result_3, %30 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : (tensor<4x8x8xf32>, tensor<2x4x8xf32>) -> tensor<4x8x2x4xf32>
    %32 = xf.rope %27, %0, %1 {xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : (tensor<4x8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<4x8x2x4xf32>
    %33 = xf.rope %29, %0, %1 {xf.provenance = #xf.provenance<forward, layer = 1, module = qkv>} : (tensor<4x8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<4x8x2x4xf32>
    %result_5, %lse_6 = xf.attention %32, %33, %31 {scale = 5.000000e-01 : f64, xf.provenance = #xf.provenance<forward, layer = 1, module = attention>} : (tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>) -> (tensor<4x8x2x4xf32>, tensor<4x2x8xf32>)
    %34 = xf.get @model.layers.1.self_attn.o_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = output>} : tensor<8x2x4xf32>
    %35 = xf.linear %result_5, %34 {contract = 2 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = output>} : (tensor<4x8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<4x8x8xf32>
    %36 = xf.add %24, %35 {xf.provenance = #xf.provenance<forward, layer = 1, module = residual>} : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %37 = xf.get @model.layers.1.post_attention_layernorm.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = norms>} : tensor<8xf32>
    %result_7, %rstd_8 = xf.rms_norm %36, %37 {eps = 1.000000e-05 : f64, xf.provenance = #xf.provenance<forward, layer = 1, module = norms>} : (tensor<4x8x8xf32>, tensor<8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>)
    %38 = xf.get @model.layers.1.mlp.up_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = up>} : tensor<6x8xf32>
    %39 = xf.linear %result_7, %38 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = up>} : (tensor<4x8x8xf32>, tensor<6x8xf32>) -> tensor<4x8x6xf32>
    %40 = xf.get @model.layers.1.mlp.gate_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = up>} : tensor<6x8xf32>
    %41 = xf.linear %result_7, %40 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = up>} : (tensor<4x8x8xf32>, tensor<6x8xf32>) -> tensor<4x8x6xf32>
    %42 = xf.glu %41, %39 {kind = 3 : i32, xf.provenance = #xf.provenance<forward, layer = 1, module = activation>} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
    %43 = xf.get @model.layers.1.mlp.down_proj.weight {xf.provenance = #xf.provenance<forward, layer = 1, module = down>} : tensor<8x6xf32>
    %44 = xf.linear %42, %43 {contract = 1 : i64, xf.provenance = #xf.provenance<forward, layer = 1, module = down>} : (tensor<4x8x6xf32>, tensor<8x6xf32>) -> tensor<4x8x8xf32>
    %45 = xf.add %36, %44 {xf.provenance = #xf.provenance<forward, layer = 1, module = residual>} : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %46 = xf.get @model.norm.weight : tensor<8xf32>
    %result_9, %rstd_10 = xf.rms_norm %45, %46 {eps = 1.000000e-05 : f64} : (tensor<4x8x8xf32>, tensor<8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>)
    %47 = xf.linear %result_9, %2 {contract = 1 : i64} : (tensor<4x8x8xf32>, tensor<12x8xf32>) -> tensor<4x8x12xf32>
    %loss, %lse_11 = xf.cross_entropy %47, %arg1 {vocab = 11 : i64} : (tensor<4x8x12xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
    return %loss : tensor<f32>
  }
}
