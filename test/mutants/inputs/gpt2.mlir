module {
  xf.state @transformer.wte.weight parameter : tensor<32x16xf32> {decay, dims = ["vocab", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, logical = array<i64: 30, 16>, piece = #xf.piece<"transformer.wte.weight", shape = [30, 16], view = [30, 16], starts = [0, 0], sizes = [30, 16]>}
  xf.state @transformer.wpe.weight parameter : tensor<32x16xf32> {decay, dims = ["positions", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.wpe.weight", shape = [32, 16], view = [32, 16], starts = [0, 0], sizes = [32, 16]>}
  xf.state @transformer.h.0.ln_1.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.ln_1.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @transformer.h.0.ln_1.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.ln_1.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @"transformer.h.0.attn.c_attn.weight@0" parameter : tensor<16x4x4xf32> {decay, dims = ["hidden", "heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_attn.weight", shape = [16, 48], view = [16, 3, 4, 4], starts = [0, 0, 0, 0], sizes = [16, 1, 4, 4], drop = [1]>, rows = 1 : i64}
  xf.state @"transformer.h.0.attn.c_attn.bias@0" parameter : tensor<4x4xf32> {dims = ["heads", "head_dim"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_attn.bias", shape = [48], view = [3, 4, 4], starts = [0, 0, 0], sizes = [1, 4, 4], drop = [0]>}
  xf.state @"transformer.h.0.attn.c_attn.weight@1" parameter : tensor<16x4x4xf32> {decay, dims = ["hidden", "kv_heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_attn.weight", shape = [16, 48], view = [16, 3, 4, 4], starts = [0, 1, 0, 0], sizes = [16, 1, 4, 4], drop = [1]>, rows = 1 : i64}
  xf.state @"transformer.h.0.attn.c_attn.bias@1" parameter : tensor<4x4xf32> {dims = ["kv_heads", "head_dim"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_attn.bias", shape = [48], view = [3, 4, 4], starts = [1, 0, 0], sizes = [1, 4, 4], drop = [0]>}
  xf.state @"transformer.h.0.attn.c_attn.weight@2" parameter : tensor<16x4x4xf32> {decay, dims = ["hidden", "kv_heads", "head_dim"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_attn.weight", shape = [16, 48], view = [16, 3, 4, 4], starts = [0, 2, 0, 0], sizes = [16, 1, 4, 4], drop = [1]>, rows = 1 : i64}
  xf.state @"transformer.h.0.attn.c_attn.bias@2" parameter : tensor<4x4xf32> {dims = ["kv_heads", "head_dim"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_attn.bias", shape = [48], view = [3, 4, 4], starts = [2, 0, 0], sizes = [1, 4, 4], drop = [0]>}
  xf.state @transformer.h.0.attn.c_proj.weight parameter : tensor<4x4x16xf32> {decay, dims = ["heads", "head_dim", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_proj.weight", shape = [16, 16], view = [4, 4, 16], starts = [0, 0, 0], sizes = [4, 4, 16]>, rows = 2 : i64}
  xf.state @transformer.h.0.attn.c_proj.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.attn.c_proj.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @transformer.h.0.ln_2.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.ln_2.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @transformer.h.0.ln_2.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.ln_2.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @transformer.h.0.mlp.c_fc.weight parameter : tensor<16x64xf32> {decay, dims = ["hidden", "intermediate"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.h.0.mlp.c_fc.weight", shape = [16, 64], view = [16, 64], starts = [0, 0], sizes = [16, 64]>, rows = 1 : i64}
  xf.state @transformer.h.0.mlp.c_fc.bias parameter : tensor<64xf32> {dims = ["intermediate"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.mlp.c_fc.bias", shape = [64], view = [64], starts = [0], sizes = [64]>}
  xf.state @transformer.h.0.mlp.c_proj.weight parameter : tensor<64x16xf32> {decay, dims = ["intermediate", "hidden"], init = #xf.init<normal, 2.000000e-02 : f64>, piece = #xf.piece<"transformer.h.0.mlp.c_proj.weight", shape = [64, 16], view = [64, 16], starts = [0, 0], sizes = [64, 16]>, rows = 1 : i64}
  xf.state @transformer.h.0.mlp.c_proj.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.h.0.mlp.c_proj.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @transformer.ln_f.weight parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<ones, 1.000000e+00 : f64>, piece = #xf.piece<"transformer.ln_f.weight", shape = [16], view = [16], starts = [0], sizes = [16]>}
  xf.state @transformer.ln_f.bias parameter : tensor<16xf32> {dims = ["hidden"], init = #xf.init<zeros, 0.000000e+00 : f64>, piece = #xf.piece<"transformer.ln_f.bias", shape = [16], view = [16], starts = [0], sizes = [16]>}
  func.func @forward(%arg0: tensor<4x8xi32>, %arg1: tensor<4x8xi32>) -> tensor<f32> {
    %0 = xf.get @transformer.wte.weight : tensor<32x16xf32>
    %1 = xf.embedding %arg0, %0 : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %2 = xf.get @transformer.wpe.weight : tensor<32x16xf32>
    %3 = xf.slice_rows %2 {start = 0 : i64} : (tensor<32x16xf32>) -> tensor<8x16xf32>
    %4 = xf.add %1, %3 : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %5 = xf.get @transformer.h.0.ln_1.weight : tensor<16xf32>
    %6 = xf.get @transformer.h.0.ln_1.bias : tensor<16xf32>
    %result, %mean, %rstd = xf.layer_norm %4, %5, %6 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    %7 = xf.get @"transformer.h.0.attn.c_attn.weight@0" : tensor<16x4x4xf32>
    %8 = xf.get @"transformer.h.0.attn.c_attn.bias@0" : tensor<4x4xf32>
    %9 = xf.linear %result, %7, %8 {contract = 1 : i64, inputs_first} : (tensor<4x8x16xf32>, tensor<16x4x4xf32>, tensor<4x4xf32>) -> tensor<4x8x4x4xf32>
    %10 = xf.get @"transformer.h.0.attn.c_attn.weight@1" : tensor<16x4x4xf32>
    %11 = xf.get @"transformer.h.0.attn.c_attn.bias@1" : tensor<4x4xf32>
    %12 = xf.linear %result, %10, %11 {contract = 1 : i64, inputs_first} : (tensor<4x8x16xf32>, tensor<16x4x4xf32>, tensor<4x4xf32>) -> tensor<4x8x4x4xf32> loc("keys")
    %13 = xf.get @"transformer.h.0.attn.c_attn.weight@2" : tensor<16x4x4xf32>
    %14 = xf.get @"transformer.h.0.attn.c_attn.bias@2" : tensor<4x4xf32>
    %15 = xf.linear %result, %13, %14 {contract = 1 : i64, inputs_first} : (tensor<4x8x16xf32>, tensor<16x4x4xf32>, tensor<4x4xf32>) -> tensor<4x8x4x4xf32>
    %result_0, %lse = xf.attention %9, %12, %15 {scale = 5.000000e-01 : f64} : (tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>) -> (tensor<4x8x4x4xf32>, tensor<4x4x8xf32>)
    %16 = xf.get @transformer.h.0.attn.c_proj.weight : tensor<4x4x16xf32>
    %17 = xf.get @transformer.h.0.attn.c_proj.bias : tensor<16xf32>
    %18 = xf.linear %result_0, %16, %17 {contract = 2 : i64, inputs_first} : (tensor<4x8x4x4xf32>, tensor<4x4x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %19 = xf.add %4, %18 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %20 = xf.get @transformer.h.0.ln_2.weight : tensor<16xf32>
    %21 = xf.get @transformer.h.0.ln_2.bias : tensor<16xf32>
    %result_1, %mean_2, %rstd_3 = xf.layer_norm %19, %20, %21 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    %22 = xf.get @transformer.h.0.mlp.c_fc.weight : tensor<16x64xf32>
    %23 = xf.get @transformer.h.0.mlp.c_fc.bias : tensor<64xf32>
    %24 = xf.linear %result_1, %22, %23 {contract = 1 : i64, inputs_first} : (tensor<4x8x16xf32>, tensor<16x64xf32>, tensor<64xf32>) -> tensor<4x8x64xf32>
    %25 = xf.activation %24 {kind = 1 : i32} : (tensor<4x8x64xf32>) -> tensor<4x8x64xf32>
    %26 = xf.get @transformer.h.0.mlp.c_proj.weight : tensor<64x16xf32>
    %27 = xf.get @transformer.h.0.mlp.c_proj.bias : tensor<16xf32>
    %28 = xf.linear %25, %26, %27 {contract = 1 : i64, inputs_first} : (tensor<4x8x64xf32>, tensor<64x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %29 = xf.add %19, %28 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %30 = xf.get @transformer.ln_f.weight : tensor<16xf32>
    %31 = xf.get @transformer.ln_f.bias : tensor<16xf32>
    %result_4, %mean_5, %rstd_6 = xf.layer_norm %29, %30, %31 {eps = 1.000000e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    %32 = xf.linear %result_4, %0 {contract = 1 : i64} : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %loss, %lse_7 = xf.cross_entropy %32, %arg1 {vocab = 30 : i64} : (tensor<4x8x32xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
    return %loss : tensor<f32>
  }
}
