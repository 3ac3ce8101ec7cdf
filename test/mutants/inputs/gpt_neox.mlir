module {
  xf.state @rope.cos constant : tensor<8x1xf32> {init = #xf.init<rope_cos, 1.000000e+00 : f64, dense<1.000000e+00> : tensor<1xf32>>}
  xf.state @rope.sin constant : tensor<8x1xf32> {init = #xf.init<rope_sin, 1.000000e+00 : f64, dense<1.000000e+00> : tensor<1xf32>>}
  xf.state @gpt_neox.embed_in.weight parameter : tensor<32x16xf32> {decay, dims = ["vocab", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.embed_in.weight", shape = [32, 16], view = [32, 16], starts = [0, 0], sizes = [32, 16]>}
  xf.state @gpt_neox.layers.0.input_layernorm.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.input_layernorm.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @gpt_neox.layers.0.input_layernorm.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.input_layernorm.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @"gpt_neox.layers.0.attention.query_key_value.weight@0" parameter : tensor<4x4x16xf32> {decay, dims = ["heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.query_key_value.weight", shape = [48, 16], view = [4, 3, 4, 16], starts = [0, 0, 0, 0], sizes = [4, 1, 4, 16], drop = [1]>, rows = 2 : i64}
  xf.state @"gpt_neox.layers.0.attention.query_key_value.bias@0" parameter : tensor<4x4xf32> {dims = ["heads", "head_dim"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.query_key_value.bias", shape = [48], view = [4, 3, 4], starts = [0, 0, 0], sizes = [4, 1, 4], drop = [1]>}
  xf.state @"gpt_neox.layers.0.attention.query_key_value.weight@1" parameter : tensor<4x4x16xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.query_key_value.weight", shape = [48, 16], view = [4, 3, 4, 16], starts = [0, 1, 0, 0], sizes = [4, 1, 4, 16], drop = [1]>, rows = 2 : i64}
  xf.state @"gpt_neox.layers.0.attention.query_key_value.bias@1" parameter : tensor<4x4xf32> {dims = ["kv_heads", "head_dim"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.query_key_value.bias", shape = [48], view = [4, 3, 4], starts = [0, 1, 0], sizes = [4, 1, 4], drop = [1]>}
  xf.state @"gpt_neox.layers.0.attention.query_key_value.weight@2" parameter : tensor<4x4x16xf32> {decay, dims = ["kv_heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.query_key_value.weight", shape = [48, 16], view = [4, 3, 4, 16], starts = [0, 2, 0, 0], sizes = [4, 1, 4, 16], drop = [1]>, rows = 2 : i64}
  xf.state @"gpt_neox.layers.0.attention.query_key_value.bias@2" parameter : tensor<4x4xf32> {dims = ["kv_heads", "head_dim"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.query_key_value.bias", shape = [48], view = [4, 3, 4], starts = [0, 2, 0], sizes = [4, 1, 4], drop = [1]>}
  xf.state @gpt_neox.layers.0.attention.dense.weight parameter : tensor<16x4x4xf32> {decay, dims = ["hidden", "heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.dense.weight", shape = [16, 16], view = [16, 4, 4], starts = [0, 0, 0], sizes = [16, 4, 4]>, rows = 1 : i64}
  xf.state @gpt_neox.layers.0.attention.dense.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.attention.dense.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @gpt_neox.layers.0.post_attention_layernorm.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.post_attention_layernorm.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @gpt_neox.layers.0.post_attention_layernorm.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.post_attention_layernorm.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @gpt_neox.layers.0.mlp.dense_h_to_4h.weight parameter : tensor<32x16xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.layers.0.mlp.dense_h_to_4h.weight", shape = [32, 16], view = [32, 16], starts = [0, 0], sizes = [32, 16]>, rows = 1 : i64}
  xf.state @gpt_neox.layers.0.mlp.dense_h_to_4h.bias parameter : tensor<32xf32> {dims = ["intermediate"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.mlp.dense_h_to_4h.bias", shape = [32], view = [32], starts = [0], sizes = [32]>}
  xf.state @gpt_neox.layers.0.mlp.dense_4h_to_h.weight parameter : tensor<16x32xf32> {decay, dims = ["hidden", "intermediate"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"gpt_neox.layers.0.mlp.dense_4h_to_h.weight", shape = [16, 32], view = [16, 32], starts = [0, 0], sizes = [16, 32]>, rows = 1 : i64}
  xf.state @gpt_neox.layers.0.mlp.dense_4h_to_h.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.layers.0.mlp.dense_4h_to_h.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @gpt_neox.final_layer_norm.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.final_layer_norm.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @gpt_neox.final_layer_norm.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"gpt_neox.final_layer_norm.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @embed_out.weight parameter : tensor<32x16xf32> {decay, dims = ["vocab", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"embed_out.weight", shape = [32, 16], view = [32, 16], starts = [0, 0], sizes = [32, 16]>}
  func.func @forward(%arg0: tensor<4x8xi32>, %arg1: tensor<4x8xi32>) -> tensor<f32> {
    %0 = xf.get @rope.cos : tensor<8x1xf32>
    %1 = xf.get @rope.sin : tensor<8x1xf32>
    %2 = xf.get @gpt_neox.embed_in.weight : tensor<32x16xf32>
    %3 = xf.embedding %arg0, %2 : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %4 = xf.get @gpt_neox.layers.0.input_layernorm.weight : tensor<16xf32>
    %5 = xf.get @gpt_neox.layers.0.input_layernorm.bias : tensor<16xf32>
    %result, %mean, %rstd = xf.layer_norm %3, %4, %5 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    %6 = xf.get @"gpt_neox.layers.0.attention.query_key_value.weight@0" : tensor<4x4x16xf32>
    %7 = xf.get @"gpt_neox.layers.0.attention.query_key_value.bias@0" : tensor<4x4xf32>
    %8 = xf.linear %result, %6, %7 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<4x4x16xf32>, tensor<4x4xf32>) -> tensor<4x8x4x4xf32>
    %9 = xf.get @"gpt_neox.layers.0.attention.query_key_value.weight@1" : tensor<4x4x16xf32>
    %10 = xf.get @"gpt_neox.layers.0.attention.query_key_value.bias@1" : tensor<4x4xf32>
    %11 = xf.linear %result, %9, %10 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<4x4x16xf32>, tensor<4x4xf32>) -> tensor<4x8x4x4xf32>
    %12 = xf.get @"gpt_neox.layers.0.attention.query_key_value.weight@2" : tensor<4x4x16xf32>
    %13 = xf.get @"gpt_neox.layers.0.attention.query_key_value.bias@2" : tensor<4x4xf32>
    %14 = xf.linear %result, %12, %13 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<4x4x16xf32>, tensor<4x4xf32>) -> tensor<4x8x4x4xf32>
    %15 = xf.rope %8, %0, %1 : (tensor<4x8x4x4xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<4x8x4x4xf32>
    %16 = xf.rope %11, %0, %1 : (tensor<4x8x4x4xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<4x8x4x4xf32>
    %result_0, %lse = xf.attention %15, %16, %14 {scale = 5.000000e-01 : f64} : (tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>) -> (tensor<4x8x4x4xf32>, tensor<4x4x8xf32>)
    %17 = xf.get @gpt_neox.layers.0.attention.dense.weight : tensor<16x4x4xf32>
    %18 = xf.get @gpt_neox.layers.0.attention.dense.bias : tensor<16xf32>
    %19 = xf.linear %result_0, %17, %18 {contract = 2 : i64} : (tensor<4x8x4x4xf32>, tensor<16x4x4xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %20 = xf.get @gpt_neox.layers.0.post_attention_layernorm.weight : tensor<16xf32>
    %21 = xf.get @gpt_neox.layers.0.post_attention_layernorm.bias : tensor<16xf32>
    %result_1, %mean_2, %rstd_3 = xf.layer_norm %3, %20, %21 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    %22 = xf.get @gpt_neox.layers.0.mlp.dense_h_to_4h.weight : tensor<32x16xf32>
    %23 = xf.get @gpt_neox.layers.0.mlp.dense_h_to_4h.bias : tensor<32xf32>
    %24 = xf.linear %result_1, %22, %23 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<32x16xf32>, tensor<32xf32>) -> tensor<4x8x32xf32>
    %25 = xf.activation %24 {kind = 0 : i32} : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %26 = xf.get @gpt_neox.layers.0.mlp.dense_4h_to_h.weight : tensor<16x32xf32>
    %27 = xf.get @gpt_neox.layers.0.mlp.dense_4h_to_h.bias : tensor<16xf32>
    %28 = xf.linear %25, %26, %27 {contract = 1 : i64} : (tensor<4x8x32xf32>, tensor<16x32xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %29 = xf.add %3, %19, %28 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %30 = xf.get @gpt_neox.final_layer_norm.weight : tensor<16xf32>
    %31 = xf.get @gpt_neox.final_layer_norm.bias : tensor<16xf32>
    %result_4, %mean_5, %rstd_6 = xf.layer_norm %29, %30, %31 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    %32 = xf.get @embed_out.weight : tensor<32x16xf32>
    %33 = xf.linear %result_4, %32 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %loss, %lse_7 = xf.cross_entropy %33, %arg1 {vocab = 32 : i64} : (tensor<4x8x32xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
    return %loss : tensor<f32>
  }
}
