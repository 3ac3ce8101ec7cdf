module {
  xf.state @rope.cos constant : tensor<8x2xf32> {init = #xf.init<rope_cos, 1.000000e+00 : f64, dense<[1.000000e+00, 0.00999999977]> : tensor<2xf32>>}
  xf.state @rope.sin constant : tensor<8x2xf32> {init = #xf.init<rope_sin, 1.000000e+00 : f64, dense<[1.000000e+00, 0.00999999977]> : tensor<2xf32>>}
  xf.state @model.embed_tokens.weight parameter : tensor<32x16xf32> {decay, dims = ["vocab", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, logical = array<i64: 30, 16>, piece = #xf.piece<"model.embed_tokens.weight", shape = [30, 16], view = [30, 16], starts = [0, 0], sizes = [30, 16]>}
  xf.state @model.layers.0.input_layernorm.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.layers.0.input_layernorm.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @model.layers.0.self_attn.q_proj.weight parameter : tensor<8x4x16xf32> {decay, dims = ["heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.q_proj.weight", shape = [32, 16], view = [8, 4, 16], starts = [0, 0, 0], sizes = [8, 4, 16]>, rows = 2 : i64}
  xf.state @model.layers.0.self_attn.k_proj.weight parameter : tensor<4x4x16xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.k_proj.weight", shape = [16, 16], view = [4, 4, 16], starts = [0, 0, 0], sizes = [4, 4, 16]>, rows = 2 : i64}
  xf.state @model.layers.0.self_attn.v_proj.weight parameter : tensor<4x4x16xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.v_proj.weight", shape = [16, 16], view = [4, 4, 16], starts = [0, 0, 0], sizes = [4, 4, 16]>, rows = 2 : i64}
  xf.state @model.layers.0.self_attn.o_proj.weight parameter : tensor<16x8x4xf32> {decay, dims = ["hidden", "heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.self_attn.o_proj.weight", shape = [16, 32], view = [16, 8, 4], starts = [0, 0, 0], sizes = [16, 8, 4]>, rows = 1 : i64}
  xf.state @model.layers.0.post_attention_layernorm.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.layers.0.post_attention_layernorm.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @model.layers.0.mlp.up_proj.weight parameter : tensor<32x16xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.mlp.up_proj.weight", shape = [32, 16], view = [32, 16], starts = [0, 0], sizes = [32, 16]>, rows = 1 : i64}
  xf.state @model.layers.0.mlp.gate_proj.weight parameter : tensor<32x16xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.mlp.gate_proj.weight", shape = [32, 16], view = [32, 16], starts = [0, 0], sizes = [32, 16]>, rows = 1 : i64}
  xf.state @model.layers.0.mlp.down_proj.weight parameter : tensor<16x32xf32> {decay, dims = ["hidden", "intermediate"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"model.layers.0.mlp.down_proj.weight", shape = [16, 32], view = [16, 32], starts = [0, 0], sizes = [16, 32]>, rows = 1 : i64}
  xf.state @model.norm.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"model.norm.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  func.func @forward(%arg0: tensor<4x8xi32>, %arg1: tensor<4x8xi32>) -> tensor<f32> {
    %0 = xf.get @rope.cos : tensor<8x2xf32>
    %1 = xf.get @rope.sin : tensor<8x2xf32>
    %2 = xf.get @model.embed_tokens.weight : tensor<32x16xf32>
    %3 = xf.embedding %arg0, %2 : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %4 = xf.get @model.layers.0.input_layernorm.weight : tensor<16xf32>
    %result, %rstd = xf.rms_norm %3, %4 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>)
    %5 = xf.get @model.layers.0.self_attn.q_proj.weight : tensor<8x4x16xf32>
    %6 = xf.linear %result, %5 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<8x4x16xf32>) -> tensor<4x8x8x4xf32>
    %7 = xf.get @model.layers.0.self_attn.k_proj.weight : tensor<4x4x16xf32>
    %8 = xf.linear %result, %7 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<4x4x16xf32>) -> tensor<4x8x4x4xf32>
    %9 = xf.get @model.layers.0.self_attn.v_proj.weight : tensor<4x4x16xf32>
    %10 = xf.linear %result, %9 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<4x4x16xf32>) -> tensor<4x8x4x4xf32>
    %11 = xf.rope %6, %0, %1 : (tensor<4x8x8x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<4x8x8x4xf32>
    %12 = xf.rope %8, %0, %1 : (tensor<4x8x4x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<4x8x4x4xf32>
    %result_0, %lse = xf.attention %11, %12, %10 {scale = 5.000000e-01 : f64} : (tensor<4x8x8x4xf32>, tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>) -> (tensor<4x8x8x4xf32>, tensor<4x8x8xf32>)
    %13 = xf.get @model.layers.0.self_attn.o_proj.weight : tensor<16x8x4xf32>
    %14 = xf.linear %result_0, %13 {contract = 2 : i64} : (tensor<4x8x8x4xf32>, tensor<16x8x4xf32>) -> tensor<4x8x16xf32>
    %15 = xf.add %3, %14 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %16 = xf.get @model.layers.0.post_attention_layernorm.weight : tensor<16xf32>
    %result_1, %rstd_2 = xf.rms_norm %15, %16 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>)
    %17 = xf.get @model.layers.0.mlp.up_proj.weight : tensor<32x16xf32>
    %18 = xf.linear %result_1, %17 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %19 = xf.get @model.layers.0.mlp.gate_proj.weight : tensor<32x16xf32>
    %20 = xf.linear %result_1, %19 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %21 = xf.glu %20, %18 {kind = 3 : i32} : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %22 = xf.get @model.layers.0.mlp.down_proj.weight : tensor<16x32xf32>
    %23 = xf.linear %21, %22 {contract = 1 : i64} : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
    %24 = xf.add %15, %23 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %25 = xf.get @model.norm.weight : tensor<16xf32>
    %result_3, %rstd_4 = xf.rms_norm %24, %25 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>)
    %26 = xf.linear %result_3, %2 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %loss, %lse_5 = xf.cross_entropy %26, %arg1 {vocab = 30 : i64} : (tensor<4x8x32xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
    return %loss : tensor<f32>
  }
}
