// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// CHECK: dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
// CHECK: dist.mesh @one []
dist.mesh @one []
// CHECK: dist.mesh @quoted [#dist.axis<"data parallel" = 2>]
dist.mesh @quoted [#dist.axis<"data parallel" = 2>]

// CHECK: module @pipeline
module @pipeline {
  // CHECK: dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
  dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
  // CHECK-LABEL: func.func @messages(
  func.func @messages(%x: tensor<2x8xf32>) {
    // CHECK: dist.send %{{.*}} to 1 channel 0 : tensor<2x8xf32>
    dist.send %x to 1 channel 0 : tensor<2x8xf32>
    // CHECK: %{{.*}} = dist.recv from 1 channel 7 {xf.segment = 0 : i64} : tensor<8xbf16>
    %y = dist.recv from 1 channel 7 {xf.segment = 0 : i64} : tensor<8xbf16>
    return
  }
}

!whole = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!rows = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!columns = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
!both = tensor<8x16xf32, #dist.on<@mesh, [{dp, tp}, {}]>>
!sum = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!sums = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {dp, tp}>>
!max = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], max = {tp}>>

// CHECK-LABEL: func.func @placements(
// CHECK-SAME: tensor<f32, #dist.on<@mesh, []>>
// CHECK-SAME: tensor<f32, #dist.on<@mesh, [], partial = {dp, tp}>>
// CHECK-SAME: tensor<8xbf16, #dist.on<@mesh, [{dp, tp}]>>
// CHECK-SAME: tensor<8x4xi32, #dist.on<@mesh, [{}, {tp}], max = {dp}>>
// CHECK-SAME: tensor<8xf32, #dist.on<@quoted, [{"data parallel"}]>>
func.func @placements(%0: tensor<f32, #dist.on<@mesh, []>>,
                      %1: tensor<f32, #dist.on<@mesh, [], partial = {dp, tp}>>,
                      %2: tensor<8xbf16, #dist.on<@mesh, [{dp, tp}]>>,
                      %3: tensor<8x4xi32, #dist.on<@mesh, [{}, {tp}], max = {dp}>>,
                      %4: tensor<8xf32, #dist.on<@quoted, [{"data parallel"}]>>) {
  return
}

// CHECK-LABEL: func.func @reshard(
func.func @reshard(%sum: !sum, %max: !max, %sums: !sums) {
  // CHECK: dist.reshard %{{.*}} : tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
  // CHECK-SAME: to tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
  %0 = dist.reshard %sum : !sum to !rows
  // CHECK: dist.reshard %{{.*}} max = {tp}>> to
  %1 = dist.reshard %max : !max to !whole
  // A value may stay partial over some of its axes.
  // CHECK: dist.reshard %{{.*}} partial = {dp, tp}>> to tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
  %2 = dist.reshard %sums : !sums to !sum
  return
}

// CHECK-LABEL: func.func @collectives(
func.func @collectives(%sum: !sum, %max: !max, %rows: !rows, %whole: !whole,
                       %both: !both) {
  // CHECK: dist.all_reduce %{{.*}} axes ["tp"] : tensor
  %0 = dist.all_reduce %sum axes ["tp"] : !sum to !whole
  // CHECK: dist.all_reduce %{{.*}} axes ["tp"] reduction max : tensor
  %1 = dist.all_reduce %max axes ["tp"] reduction max : !max to !whole
  // CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 : tensor
  %2 = dist.reduce_scatter %sum axes ["tp"] dim 1 : !sum to !columns
  // CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 0 reduction max : tensor
  %3 = dist.reduce_scatter %max axes ["tp"] dim 0 reduction max
      : !max to !rows
  // CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 0 : tensor
  %4 = dist.all_gather %rows axes ["tp"] dim 0 : !rows to !whole
  // CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 0 blocks 2 : tensor
  %8 = dist.all_gather %rows axes ["tp"] dim 0 blocks 2 : !rows to !whole
  // CHECK: dist.all_gather %{{.*}} axes ["dp", "tp"] dim 0 : tensor
  %5 = dist.all_gather %both axes ["dp", "tp"] dim 0 : !both to !whole
  // CHECK: dist.all_to_all %{{.*}} axes ["tp"] from 0 to 1 : tensor
  %6 = dist.all_to_all %rows axes ["tp"] from 0 to 1 : !rows to !columns
  // CHECK: dist.all_to_all %{{.*}} axes ["tp"] from 0 blocks 2 to 1 blocks 4 : tensor
  %9 = dist.all_to_all %rows axes ["tp"] from 0 blocks 2 to 1 blocks 4
      : !rows to !columns
  // CHECK: dist.slice %{{.*}} axes ["dp", "tp"] dim 0 : tensor
  %7 = dist.slice %whole axes ["dp", "tp"] dim 0 : !whole to !both
  return
}

// The same in the program of one rank: local shapes, no placements.
// CHECK-LABEL: func.func @local(
func.func @local(%whole: tensor<8x16xf32>, %rows: tensor<2x16xf32>) {
  // CHECK: dist.all_reduce %{{.*}} axes ["tp"] : tensor<8x16xf32> to tensor<8x16xf32>
  %0 = dist.all_reduce %whole axes ["tp"] : tensor<8x16xf32> to tensor<8x16xf32>
  // CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 0 : tensor<8x16xf32> to tensor<2x16xf32>
  %1 = dist.reduce_scatter %whole axes ["tp"] dim 0
      : tensor<8x16xf32> to tensor<2x16xf32>
  // CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 0 : tensor<2x16xf32> to tensor<8x16xf32>
  %2 = dist.all_gather %rows axes ["tp"] dim 0
      : tensor<2x16xf32> to tensor<8x16xf32>
  // CHECK: dist.all_to_all %{{.*}} axes ["tp"] from 0 to 1 : tensor<2x16xf32> to tensor<8x4xf32>
  %3 = dist.all_to_all %rows axes ["tp"] from 0 to 1
      : tensor<2x16xf32> to tensor<8x4xf32>
  // CHECK: dist.slice %{{.*}} axes ["tp"] dim 1 : tensor<8x16xf32> to tensor<8x4xf32>
  %4 = dist.slice %whole axes ["tp"] dim 1 : tensor<8x16xf32> to tensor<8x4xf32>
  return
}
