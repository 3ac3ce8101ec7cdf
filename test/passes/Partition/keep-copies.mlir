// RUN: cleave-opt %s --split-input-file --cleave-keep-copies | FileCheck %s

// The cast of a parameter becomes state that is set as the parameter is, beside
// its update; nothing reads the parameter for it any more.

// CHECK: xf.state @w parameter : tensor<8x4xf32>
// CHECK: xf.state @"w/bf16" copy : tensor<8x4xbf16> {init = {{.*}}zeros{{.*}}, logical = array<i64: 7, 4>, of = @w}
xf.state @w parameter : tensor<8x4xf32> {init = #xf.init<ones, 1.0 : f64>,
  logical = array<i64: 7, 4>}

// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[COPY:.*]] = xf.get @"w/bf16" : tensor<8x4xbf16>
// CHECK-NEXT: %[[X:.*]] = xf.scale %[[COPY]]
// CHECK-NEXT: %[[G:.*]] = xf.cast %[[X]] : (tensor<8x4xbf16>) -> tensor<8x4xf32>
// CHECK-NEXT: %[[W:.*]] = xf.get @w
// CHECK-NEXT: %[[NEW:.*]] = xf.add %[[W]], %[[G]]
// CHECK-NEXT: %[[ROUNDED:.*]] = xf.cast %[[NEW]] : (tensor<8x4xf32>) -> tensor<8x4xbf16>
// CHECK-NEXT: xf.set @w, %[[NEW]]
// CHECK-NEXT: xf.set @"w/bf16", %[[ROUNDED]]
// CHECK-NEXT: return
func.func @step() {
  %w = xf.get @w : tensor<8x4xf32>
  %c = xf.cast %w : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %x = xf.scale %c {factor = 2.0 : f64} : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %g = xf.cast %x : (tensor<8x4xbf16>) -> tensor<8x4xf32>
  %old = xf.get @w : tensor<8x4xf32>
  %new = xf.add %old, %g : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  xf.set @w, %new : tensor<8x4xf32>
  return
}

// -----

// Two casts of one parameter are one copy.

// CHECK: xf.state @"w/bf16" copy
// CHECK-NOT: xf.state
// CHECK-LABEL: func.func @step
// CHECK: xf.set @"w/bf16"
// CHECK-NOT: xf.set @"w/bf16"
xf.state @w parameter : tensor<4xf32> {init = #xf.init<ones, 1.0 : f64>}
func.func @step() {
  %w = xf.get @w : tensor<4xf32>
  %a = xf.cast %w : (tensor<4xf32>) -> tensor<4xbf16>
  %b = xf.cast %w : (tensor<4xf32>) -> tensor<4xbf16>
  %sum = xf.add %a, %b : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  %g = xf.cast %sum : (tensor<4xbf16>) -> tensor<4xf32>
  %new = xf.add %w, %g : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  xf.set @w, %new : tensor<4xf32>
  return
}

// -----

// What is gathered is cast each time: a shard is little work, and the whole
// lives no longer than it is needed. What nothing updates is no parameter whose
// copy could be set; a wider type is none to keep.

// CHECK-NOT: copy
// CHECK-LABEL: func.func @step
// CHECK: xf.cast %{{.*}} : (tensor<8x4xf32
// CHECK: dist.all_gather
// CHECK: xf.cast %{{.*}} : (tensor<4xf32
// CHECK: xf.cast %{{.*}} : (tensor<4xbf16
dist.mesh @mesh [#dist.axis<"dp" = 2>]
!shard = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!shard16 = tensor<8x4xbf16, #dist.on<@mesh, [{dp}, {}]>>
!whole16 = tensor<8x4xbf16, #dist.on<@mesh, [{}, {}]>>
!row = tensor<4xf32, #dist.on<@mesh, [{}]>>
!row16 = tensor<4xbf16, #dist.on<@mesh, [{}]>>
xf.state @w parameter : !shard {init = #xf.init<ones, 1.0 : f64>}
xf.state @table constant : !row {init = #xf.init<ones, 1.0 : f64>}
xf.state @narrow parameter : !row16 {init = #xf.init<ones, 1.0 : f64>}
func.func @step() {
  %w = xf.get @w : !shard
  %c = xf.cast %w : (!shard) -> !shard16
  %all = dist.all_gather %c axes ["dp"] dim 0 : !shard16 to !whole16
  %t = xf.get @table : !row
  %t16 = xf.cast %t : (!row) -> !row16
  %n = xf.get @narrow : !row16
  %n32 = xf.cast %n : (!row16) -> !row
  xf.set @w, %w : !shard
  xf.set @narrow, %n : !row16
  return
}
