// Pins of ops. Along an axis of one rank nothing is split, so a pin that names it says no
// more than one that does not. A sum of three is pinned as a whole: what it adds first stays
// a partial sum, so that two tensors are reduced, and not three.
// RUN: split-file %s %t
// RUN: cleave-opt %t/single.mlir --cleave-choose-placements="cluster=h100-sxm:4" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=SINGLE
// RUN: cleave-opt %t/sum.mlir --cleave-choose-placements="cluster=h100-sxm:4" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=SUM

//--- single.mlir
// SINGLE: xf.linear {{.*}} -> tensor<16x8xf32, #dist.on<@mesh, [{}, {tp}]>>
dist.mesh @mesh [#dist.axis<"dp" = 1>, #dist.axis<"tp" = 4>]
func.func @f(%x: tensor<16x8xf32>, %w: tensor<8x8xf32>) -> tensor<16x8xf32> {
  %y = xf.linear %x, %w {contract = 1 : i64, dist.pin = #dist.on<@mesh, [{dp}, {tp}]>} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

//--- sum.mlir
// SUM-COUNT-3: xf.linear {{.*}} partial = {tp}
// SUM-NEXT: xf.add {{.*}} partial = {tp}
// SUM-COUNT-2: dist.reshard
// SUM-NEXT: xf.add {{.*}} -> tensor<512x4096xf32, #dist.on<@mesh, [{}, {}]>>
dist.mesh @mesh [#dist.axis<"tp" = 4>]
func.func @f(%x: tensor<512x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}]>},
             %u: tensor<4096x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}]>},
             %v: tensor<4096x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}]>},
             %w: tensor<4096x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}]>})
    -> (tensor<512x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {}]>}) {
  %a = xf.linear %x, %u {contract = 1 : i64} : (tensor<512x4096xf32>, tensor<4096x4096xf32>) -> tensor<512x4096xf32>
  %b = xf.linear %x, %v {contract = 1 : i64} : (tensor<512x4096xf32>, tensor<4096x4096xf32>) -> tensor<512x4096xf32>
  %c = xf.linear %x, %w {contract = 1 : i64} : (tensor<512x4096xf32>, tensor<4096x4096xf32>) -> tensor<512x4096xf32>
  %y = xf.add %a, %b, %c {dist.pin = #dist.on<@mesh, [{}, {}]>} : (tensor<512x4096xf32>, tensor<512x4096xf32>, tensor<512x4096xf32>) -> tensor<512x4096xf32>
  return %y : tensor<512x4096xf32>
}
