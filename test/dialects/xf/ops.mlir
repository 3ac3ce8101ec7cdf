// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// CHECK: dist.mesh
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

// CHECK: xf.state @w parameter : tensor<104x64xf32>
// CHECK-SAME: decay
// CHECK-SAME: dims = ["vocab", "hidden"]
// CHECK-SAME: init = #xf.init<normal, 2.000000e-02 : f64>
// CHECK-SAME: logical = array<i64: 100, 64>
// CHECK-SAME: piece = #xf.piece<"model.embed_tokens.weight", shape = [100, 64], view = [100, 64], starts = [0, 0], sizes = [100, 64]>
xf.state @w parameter : tensor<104x64xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, logical = array<i64: 100, 64>,
  dims = ["vocab", "hidden"], decay,
  piece = #xf.piece<"model.embed_tokens.weight", shape = [100, 64],
                    view = [100, 64], starts = [0, 0], sizes = [100, 64]>}
// CHECK: xf.state @"h.0.attn.c_attn.weight@0@1@0@0" parameter
// CHECK-SAME: drop = [1]
xf.state @"h.0.attn.c_attn.weight@0@1@0@0" parameter : tensor<64x4x16xf32> {
  init = #xf.init<zeros, 0.0 : f64>,
  piece = #xf.piece<"h.0.attn.c_attn.weight", shape = [64, 192],
                    view = [64, 3, 4, 16], starts = [0, 1, 0, 0],
                    sizes = [64, 1, 4, 16], drop = [1]>}
// CHECK: xf.state @m moment1 : tensor<64xf32, #dist.on<@mesh, [{dp}]>>
xf.state @m moment1 : tensor<64xf32, #dist.on<@mesh, [{dp}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
// CHECK: xf.state @v moment2 : tensor<64xf32> {init = #xf.init<ones
xf.state @v moment2 : tensor<64xf32> {init = #xf.init<ones, 1.0 : f64>}
// CHECK: xf.state @cos constant : tensor<8x2xf32>
// CHECK-SAME: #xf.init<rope_cos, 1.000000e+00 : f64, dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf32>>
xf.state @cos constant : tensor<8x2xf32> {
  init = #xf.init<rope_cos, 1.0 : f64, dense<[1.0, 0.5]> : tensor<2xf32>>}
// CHECK: xf.state @sin constant
xf.state @sin constant : tensor<8x2xf32> {
  init = #xf.init<rope_sin, 1.0 : f64, dense<[1.0, 0.5]> : tensor<2xf32>>}

// CHECK-LABEL: func.func @state(
func.func @state(%x: tensor<4x2x8xf32>) {
  // CHECK: xf.get @w : tensor<104x64xf32>
  %w = xf.get @w : tensor<104x64xf32>
  // CHECK: xf.set @w, %{{.*}} : tensor<104x64xf32>
  xf.set @w, %w : tensor<104x64xf32>
  // CHECK: xf.output "grad.w", %{{.*}} of @w : tensor<104x64xf32>
  xf.output "grad.w", %w of @w : tensor<104x64xf32>
  // CHECK: xf.output "x", %{{.*}} : tensor<4x2x8xf32>
  xf.output "x", %x : tensor<4x2x8xf32>
  // CHECK: xf.accumulate 4(%{{.*}}) : (tensor<4x2x8xf32>) -> (tensor<2x8xf32>, tensor<f32>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<2x8xf32>):
  %s:2 = xf.accumulate 4 (%x)
      : (tensor<4x2x8xf32>) -> (tensor<2x8xf32>, tensor<f32>) {
  ^bb0(%slice: tensor<2x8xf32>):
    %sum = xf.sum %slice : (tensor<2x8xf32>) -> tensor<f32>
    // CHECK: xf.yield %{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<f32>
    xf.yield %slice, %sum : tensor<2x8xf32>, tensor<f32>
  }
  // CHECK: xf.accumulate 1() : () -> () {
  // CHECK-NEXT: }
  xf.accumulate 1 () : () -> () {
    xf.yield
  }
  // CHECK: xf.accumulate 2() : () -> tensor<f32> segments ["forward", "backward"] order [0, 0, 0, 1, 1, 0, 1, 1] {
  %zeros = xf.accumulate 2 () : () -> tensor<f32>
      segments ["forward", "backward"] order [0, 0, 0, 1, 1, 0, 1, 1] {
    // CHECK-NEXT: %[[Z:.*]] = xf.zeros {xf.segment = 0 : i64} : () -> tensor<f32>
    %z = xf.zeros {xf.segment = 0 : i64} : () -> tensor<f32>
    // CHECK-NEXT: xf.scale %[[Z]] {factor = 2.000000e+00 : f64, xf.segment = 1 : i64}
    %y = xf.scale %z {factor = 2.0 : f64, xf.segment = 1 : i64}
        : (tensor<f32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  // CHECK: xf.accumulate 1() : () -> () segments [] order [] {
  xf.accumulate 1 () : () -> () segments [] order [] {
    xf.yield
  }
  // CHECK: xf.schedule {beta1 = {{.*}}, kind = 3 : i32
  %rates = xf.schedule {kind = 3 : i32, lr = 2.0e-3 : f64, min_lr = 2.0e-4 : f64,
      warmup_steps = 5 : i64, decay_steps = 20 : i64, stable_steps = 3 : i64,
      beta1 = 0.9 : f64, beta2 = 0.95 : f64} : tensor<5xf32>
  return
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @embedding(
func.func @embedding(%ids: tensor<2x8xi32>, %table: tensor<100x64xbf16>,
    %positions: tensor<130x64xf32>) {
  // CHECK: xf.embedding %{{.*}}, %{{.*}} : (tensor<2x8xi32>, tensor<100x64xbf16>) -> tensor<2x8x64xbf16>
  %0 = xf.embedding %ids, %table
      : (tensor<2x8xi32>, tensor<100x64xbf16>) -> tensor<2x8x64xbf16>
  // CHECK: xf.embedding_grad
  %1 = xf.embedding_grad %ids, %0
      : (tensor<2x8xi32>, tensor<2x8x64xbf16>) -> tensor<100x64xf32>
  // CHECK: xf.slice_rows %{{.*}} {start = 2 : i64} : (tensor<130x64xf32>) -> tensor<48x64xf32>
  %2 = xf.slice_rows %positions {start = 2 : i64}
      : (tensor<130x64xf32>) -> tensor<48x64xf32>
  // CHECK: xf.pad_rows %{{.*}} {start = 2 : i64} : (tensor<48x64xf32>) -> tensor<130x64xf32>
  %3 = xf.pad_rows %2 {start = 2 : i64}
      : (tensor<48x64xf32>) -> tensor<130x64xf32>
  return
}

// CHECK-LABEL: func.func @linear(
func.func @linear(%x: tensor<2x8x64xf32>, %w: tensor<4x16x64xf32>,
    %b: tensor<4x16xf32>, %wt: tensor<64x4x16xf32>, %o: tensor<64x4x16xf32>) {
  // CHECK: xf.linear %{{.*}}, %{{.*}} {contract = 1 : i64} :
  %0 = xf.linear %x, %w {contract = 1 : i64}
      : (tensor<2x8x64xf32>, tensor<4x16x64xf32>) -> tensor<2x8x4x16xf32>
  // CHECK: xf.linear %{{.*}}, %{{.*}}, %{{.*}} {contract = 1 : i64} :
  %1 = xf.linear %x, %w, %b {contract = 1 : i64}
      : (tensor<2x8x64xf32>, tensor<4x16x64xf32>, tensor<4x16xf32>)
     -> tensor<2x8x4x16xf32>
  // CHECK: xf.linear %{{.*}}, %{{.*}} {contract = 1 : i64, inputs_first} :
  %2 = xf.linear %x, %wt {contract = 1 : i64, inputs_first}
      : (tensor<2x8x64xf32>, tensor<64x4x16xf32>) -> tensor<2x8x4x16xf32>
  // CHECK: xf.linear %{{.*}}, %{{.*}} {contract = 2 : i64} :
  %3 = xf.linear %0, %o {contract = 2 : i64}
      : (tensor<2x8x4x16xf32>, tensor<64x4x16xf32>) -> tensor<2x8x64xf32>
  // Everything is contracted: a product of vectors.
  // CHECK: xf.linear %{{.*}}, %{{.*}} {contract = 2 : i64} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<f32>
  %4 = xf.linear %b, %b {contract = 2 : i64}
      : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<f32>
  // CHECK: xf.linear_weight_grad %{{.*}}, %{{.*}} {leading = 2 : i64} :
  %5 = xf.linear_weight_grad %x, %0 {leading = 2 : i64}
      : (tensor<2x8x64xf32>, tensor<2x8x4x16xf32>) -> tensor<4x16x64xf32>
  // CHECK: xf.linear_weight_grad %{{.*}}, %{{.*}} {inputs_first, leading = 2 : i64} :
  %6 = xf.linear_weight_grad %x, %0 {leading = 2 : i64, inputs_first}
      : (tensor<2x8x64xf32>, tensor<2x8x4x16xf32>) -> tensor<64x4x16xf32>
  // CHECK: xf.reduce_leading
  %7 = xf.reduce_leading %0 : (tensor<2x8x4x16xf32>) -> tensor<4x16xf32>
  return
}

// CHECK-LABEL: func.func @norms(
func.func @norms(%x: tensor<2x8x64xbf16>, %w: tensor<64xf32>, %b: tensor<64xf32>,
    %q: tensor<2x8x4x16xf32>, %wq: tensor<4x16xf32>) {
  // CHECK: xf.rms_norm %{{.*}}, %{{.*}} {eps = 9.9999999999999995E-7 : f64} :
  %0, %r0 = xf.rms_norm %x, %w {eps = 1.0e-6 : f64}
      : (tensor<2x8x64xbf16>, tensor<64xf32>)
     -> (tensor<2x8x64xbf16>, tensor<2x8xf32>)
  // CHECK: xf.rms_norm %{{.*}}, %{{.*}} {eps = {{.*}} : f64, offset = 1.000000e+00 : f64, weight_in_f32} :
  %1, %r1 = xf.rms_norm %q, %wq {eps = 1.0e-6 : f64, offset = 1.0 : f64,
                                 weight_in_f32}
      : (tensor<2x8x4x16xf32>, tensor<4x16xf32>)
     -> (tensor<2x8x4x16xf32>, tensor<2x8xf32>)
  // CHECK: xf.layer_norm
  %2, %m2, %r2 = xf.layer_norm %x, %w, %b {eps = 1.0e-5 : f64}
      : (tensor<2x8x64xbf16>, tensor<64xf32>, tensor<64xf32>)
     -> (tensor<2x8x64xbf16>, tensor<2x8xf32>, tensor<2x8xf32>)
  // CHECK: xf.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {offset = 1.000000e+00 : f64} :
  %3 = xf.rms_norm_grad %q, %wq, %r1, %1 {offset = 1.0 : f64}
      : (tensor<2x8x4x16xf32>, tensor<4x16xf32>, tensor<2x8xf32>,
         tensor<2x8x4x16xf32>) -> tensor<2x8x4x16xf32>
  // CHECK: xf.layer_norm_grad
  %4 = xf.layer_norm_grad %x, %w, %m2, %r2, %2
      : (tensor<2x8x64xbf16>, tensor<64xf32>, tensor<2x8xf32>, tensor<2x8xf32>,
         tensor<2x8x64xbf16>) -> tensor<2x8x64xbf16>
  // CHECK: xf.norm_weight_grad %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x8x64xbf16>, tensor<2x8xf32>, tensor<2x8x64xbf16>) ->
  %5 = xf.norm_weight_grad %x, %r0, %0
      : (tensor<2x8x64xbf16>, tensor<2x8xf32>, tensor<2x8x64xbf16>)
     -> tensor<64xf32>
  // CHECK: xf.norm_weight_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
  %6 = xf.norm_weight_grad %x, %r2, %2, %m2
      : (tensor<2x8x64xbf16>, tensor<2x8xf32>, tensor<2x8x64xbf16>,
         tensor<2x8xf32>) -> tensor<64xf32>
  return
}

// CHECK-LABEL: func.func @attention(
func.func @attention(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>,
    %cos: tensor<8x4xf32>, %sin: tensor<8x4xf32>) {
  // CHECK: xf.rope %{{.*}}, %{{.*}}, %{{.*}} :
  %0 = xf.rope %q, %cos, %sin
      : (tensor<2x8x4x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
     -> tensor<2x8x4x16xf32>
  // CHECK: xf.rope %{{.*}}, %{{.*}}, %{{.*}} {inverse} :
  %1 = xf.rope %0, %cos, %sin {inverse}
      : (tensor<2x8x4x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
     -> tensor<2x8x4x16xf32>
  // CHECK: xf.attention %{{.*}} {scale = 2.500000e-01 : f64} :
  %2, %l2 = xf.attention %q, %k, %k {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
     -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  // CHECK: xf.attention %{{.*}} {scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64, window = 4 : i64} :
  %3, %l3 = xf.attention %q, %k, %k
      {scale = 0.25 : f64, window = 4 : i64, softcap = 50.0 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
     -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  // CHECK: xf.attention_grad %{{.*}} {scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64, window = 4 : i64} :
  %4, %5, %6 = xf.attention_grad %q, %k, %k, %3, %l3, %3
      {scale = 0.25 : f64, window = 4 : i64, softcap = 50.0 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
         tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>)
     -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  // CHECK: xf.attention_grad %{{.*}} {fixed_order, scale = 2.500000e-01 : f64} :
  %7, %8, %9 = xf.attention_grad %q, %k, %k, %3, %l3, %3
      {fixed_order, scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
         tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>)
     -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return
}

// CHECK-LABEL: func.func @pointwise(
func.func @pointwise(%x: tensor<2x64xf32>, %b: tensor<64xf32>, %h: tensor<2x64xbf16>,
    %s: tensor<f32>) {
  // CHECK: xf.activation %{{.*}} {kind = 0 : i32} :
  %0 = xf.activation %x {kind = 0 : i32} : (tensor<2x64xf32>) -> tensor<2x64xf32>
  // CHECK: xf.activation %{{.*}} {kind = 6 : i32} :
  %1 = xf.activation %x {kind = 6 : i32} : (tensor<2x64xf32>) -> tensor<2x64xf32>
  // CHECK: xf.activation_grad %{{.*}}, %{{.*}} {kind = 1 : i32} :
  %2 = xf.activation_grad %x, %x {kind = 1 : i32}
      : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<2x64xf32>
  // CHECK: xf.glu %{{.*}}, %{{.*}} {kind = 3 : i32} :
  %3 = xf.glu %h, %h {kind = 3 : i32}
      : (tensor<2x64xbf16>, tensor<2x64xbf16>) -> tensor<2x64xbf16>
  // CHECK: xf.glu_grad %{{.*}}, %{{.*}}, %{{.*}} {kind = 2 : i32} :
  %4, %5 = xf.glu_grad %x, %x, %x {kind = 2 : i32}
      : (tensor<2x64xf32>, tensor<2x64xf32>, tensor<2x64xf32>)
     -> (tensor<2x64xf32>, tensor<2x64xf32>)
  // CHECK: xf.add %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x64xf32>, tensor<2x64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<2x64xf32>
  %6 = xf.add %x, %x, %b, %s
      : (tensor<2x64xf32>, tensor<2x64xf32>, tensor<64xf32>, tensor<f32>)
     -> tensor<2x64xf32>
  // CHECK: xf.scale %{{.*}} {factor = 8.000000e+00 : f64} :
  %7 = xf.scale %x {factor = 8.0 : f64} : (tensor<2x64xf32>) -> tensor<2x64xf32>
  // CHECK: xf.cast %{{.*}} : (tensor<2x64xf32>) -> tensor<2x64xbf16>
  %8 = xf.cast %x : (tensor<2x64xf32>) -> tensor<2x64xbf16>
  // CHECK: xf.mul
  %9 = xf.mul %x, %x : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<2x64xf32>
  return
}

// CHECK-LABEL: func.func @loss(
func.func @loss(%x: tensor<2x8x104xf32>, %targets: tensor<2x8xi32>) {
  // CHECK: xf.cross_entropy %{{.*}}, %{{.*}} {vocab = 100 : i64} :
  %0, %lse = xf.cross_entropy %x, %targets {vocab = 100 : i64}
      : (tensor<2x8x104xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<2x8xf32>)
  // CHECK: xf.row_max
  %m = xf.row_max %x {vocab = 100 : i64}
      : (tensor<2x8x104xf32>) -> tensor<2x8xf32>
  // CHECK: xf.sum_exp
  %z = xf.sum_exp %x, %m {vocab = 100 : i64}
      : (tensor<2x8x104xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  // CHECK: xf.pick
  %t = xf.pick %x, %targets
      : (tensor<2x8x104xf32>, tensor<2x8xi32>) -> tensor<2x8xf32>
  // CHECK: xf.token_loss
  %each, %l = xf.token_loss %m, %z, %t, %targets
      : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xi32>)
     -> (tensor<2x8xf32>, tensor<2x8xf32>)
  // CHECK: xf.sum
  %sum = xf.sum %each : (tensor<2x8xf32>) -> tensor<f32>
  // CHECK: xf.count_tokens
  %n = xf.count_tokens %targets : (tensor<2x8xi32>) -> tensor<f32>
  // CHECK: xf.reciprocal
  %r = xf.reciprocal %n : (tensor<f32>) -> tensor<f32>
  // CHECK: xf.cross_entropy_grad
  %dx = xf.cross_entropy_grad %x, %lse, %targets, %r {vocab = 100 : i64}
      : (tensor<2x8x104xf32>, tensor<2x8xf32>, tensor<2x8xi32>, tensor<f32>)
     -> tensor<2x8x104xf32>
  return
}

// CHECK-LABEL: func.func @optimizer(
func.func @optimizer(%w: tensor<8xf32>, %m: tensor<8x4xf32>, %b: tensor<8xbf16>, %rates: tensor<5xf32>) {
  // CHECK: xf.square_sum
  %s = xf.square_sum %w : (tensor<8xf32>) -> tensor<f32>
  // CHECK: xf.clip_factor %{{.*}} {max_norm = 1.000000e+00 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %norm, %factor = xf.clip_factor %s {max_norm = 1.0 : f64}
      : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  // CHECK: xf.guard %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<5xf32>) -> tensor<f32>
  %clip = xf.guard %factor, %s, %norm, %rates
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<5xf32>) -> tensor<f32>
  // CHECK: xf.adamw
  %w1, %m1, %v1 = xf.adamw %w, %w, %w, %w, %clip, %rates
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64,
       decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
         tensor<f32>, tensor<5xf32>)
     -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // Moments in bf16.
  // CHECK: xf.adamw {{.*}} -> (tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>)
  %w5, %m5, %v5 = xf.adamw %w, %b, %b, %w, %clip, %rates
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64,
       decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>,
         tensor<f32>, tensor<5xf32>)
     -> (tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>)
  // CHECK: xf.sgd
  %w2, %m2 = xf.sgd %w, %w, %w, %clip, %rates
      {momentum = 0.9 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>,
         tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: xf.nesterov
  %u = xf.nesterov %m, %m, %clip {momentum = 0.95 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  // CHECK: xf.orthogonalize
  %o = xf.orthogonalize %u {rows = 1 : i64, steps = 5 : i64, a = 3.4445 : f64,
                            b = -4.775 : f64, c = 2.0315 : f64, eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: xf.normalize
  %n = xf.normalize %o, %s {eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  // CHECK: xf.muon
  %w4, %m4 = xf.muon %m, %m, %m, %clip, %rates, %n
      {momentum = 0.95 : f64, decay = 0.1 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>,
         tensor<5xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  // CHECK: xf.lion
  %w3, %m3 = xf.lion %w, %w, %w, %clip, %rates
      {beta1 = 0.9 : f64, beta2 = 0.99 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>,
         tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

//===----------------------------------------------------------------------===//
// Placed
//===----------------------------------------------------------------------===//

!x = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}]>>
!h = tensor<8x16x32xf32, #dist.on<@mesh, [{dp}, {}, {tp}]>>
!z = tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}], partial = {tp}>>
!up = tensor<32x64xf32, #dist.on<@mesh, [{tp}, {}]>>
!down = tensor<64x32xf32, #dist.on<@mesh, [{}, {tp}]>>

// A column-parallel linear, then a row-parallel one: a partial sum.
// CHECK-LABEL: func.func @tensor_parallel(
func.func @tensor_parallel(%x: !x, %up: !up, %down: !down) -> !z {
  // CHECK: xf.linear {{.*}} -> tensor<8x16x32xf32, #dist.on<@mesh, [{dp}, {}, {tp}]>>
  %h = xf.linear %x, %up {contract = 1 : i64} : (!x, !up) -> !h
  %a = xf.activation %h {kind = 3 : i32} : (!h) -> !h
  // CHECK: xf.linear {{.*}} -> tensor<8x16x64xf32, #dist.on<@mesh, [{dp}, {}, {}], partial = {tp}>>
  %z = xf.linear %a, %down {contract = 1 : i64} : (!h, !down) -> !z
  // Sums and scalings of partial sums are partial sums.
  // CHECK: xf.scale {{.*}} partial = {tp}>>
  %s = xf.scale %z {factor = 2.0 : f64} : (!z) -> !z
  // CHECK: xf.add {{.*}} partial = {tp}>>
  %t = xf.add %z, %s : (!z, !z) -> !z
  return %t : !z
}
