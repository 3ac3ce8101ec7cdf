// An MLP by hand: two lines of tactics, the rest by cost; each line says what comes in
// with it.
// RUN: split-file %s %t
// RUN: cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:8 mesh=dp=2,tp=4 tactics=%t/megatron.tactics" --cleave-verify-placements 2>%t/remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t/remarks
// RUN: not cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:8 mesh=dp=2,tp=4 tactics=%t/axis.tactics" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:8 mesh=dp=2,tp=4 tactics=%t/conflict.tactics" 2>&1 | FileCheck %s --check-prefix=CONFLICT
// RUN: not cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:8 mesh=dp=2,tp=4 tactics=%t/idle.tactics" 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:8 mesh=dp=2,tp=4 tactics=%t/idle.tactics allow-idle-tactics" 2>/dev/null | FileCheck %s --check-prefix=ALONE
// RUN: not cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:8 mesh=dp=2,tp=4 tactics=%t/none.tactics" 2>&1 | FileCheck %s --check-prefix=NONE

// The rows, which no line speaks of, are split along the other axis.
// CHECK: xf.linear %{{.*}} -> tensor<512x4096xf32, #dist.on<@mesh, [{dp}, {tp}]>>
// CHECK: xf.linear %{{.*}} -> tensor<512x1024xf32, #dist.on<@mesh, [{dp}, {}], partial = {tp}>>

// REMARK: megatron.tactics:2:1: remark: split "wide" over tp: of 3 ops; alone with those before it {{.*}} us; +1 all_reduce over {tp}: 2.097 MB, {{.*}} us
// REMARK: megatron.tactics:3:1: remark: never split "wide" over dp: of 3 ops; alone with those before it {{[0-9.]*}} us{{$}}

// AXIS: error: {{.*}}axis.tactics:1: the mesh has no axis "cp"; it has dp, tp
// CONFLICT: error: {{.*}}conflict.tactics:2: xf.linear (up) cannot make its result in that placement after {{.*}}conflict.tactics:1, split "wide" over tp
// IDLE: error: {{.*}}idle.tactics:1: is for no op
// NONE: error: {{.*}}none.tactics: No such file or directory

// With nothing split, each rank computes all of it.
// ALONE: xf.linear %{{.*}} -> tensor<512x4096xf32, #dist.on<@mesh, [{}, {}]>>

//--- megatron.tactics
# Columns, then rows.
split "wide" over tp
never split "wide" over dp
//--- axis.tactics
split "wide" over cp
//--- conflict.tactics
split "wide" over tp
pin "up" to "[{tp}, {}]"
//--- idle.tactics
layers 3-7: split "wide" over tp
split nothing else
//--- mlp.mlir
xf.state @up constant : tensor<4096x1024xf32> {dims = ["wide", "hidden"], init = #xf.init<ones, 1.0 : f64>}
xf.state @down constant : tensor<1024x4096xf32> {dims = ["hidden", "wide"], init = #xf.init<ones, 1.0 : f64>}
func.func @mlp(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  %up = xf.get @up : tensor<4096x1024xf32>
  %down = xf.get @down : tensor<1024x4096xf32>
  %h = xf.linear %x, %up {contract = 1 : i64} : (tensor<512x1024xf32>, tensor<4096x1024xf32>) -> tensor<512x4096xf32> loc("up")
  %a = xf.activation %h {kind = 0 : i32} : (tensor<512x4096xf32>) -> tensor<512x4096xf32> loc("act")
  %z = xf.linear %a, %down {contract = 1 : i64} : (tensor<512x4096xf32>, tensor<1024x4096xf32>) -> tensor<512x1024xf32> loc("down")
  return %z : tensor<512x1024xf32>
}
