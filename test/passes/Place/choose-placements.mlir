// RUN: split-file %s %t
// RUN: cleave-opt %t/mlp.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" --cleave-verify-placements 2>%t/mlp.remarks | FileCheck %s --check-prefix=MLP
// RUN: FileCheck %s --check-prefix=REMARKS < %t/mlp.remarks
// RUN: cleave-opt %t/pinned.mlir --cleave-choose-placements="cluster=h100-sxm:4" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=PINNED
// RUN: cleave-opt %t/heads.mlir --cleave-choose-placements="cluster=h100-sxm:8" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=HEADS
// RUN: cleave-opt %t/tied.mlir --cleave-choose-placements="cluster=h100-sxm:2 mesh=tp=2" --cleave-verify-placements 2>/dev/null | FileCheck %s --check-prefix=TIED

//--- mlp.mlir
// Nothing says where x, the weights and the result are: the samples are split, and
// each rank has the weights whole.
// MLP: dist.mesh @mesh [#dist.axis<"tp" = 4>]
// MLP: func.func @mlp(%{{.*}}: tensor<4x512x1024xf32, #dist.on<@mesh, [{tp}, {}, {}]>>
// MLP-SAME: %{{.*}}: tensor<4096x1024xf32, #dist.on<@mesh, [{}, {}]>>
// MLP-NOT: dist.reshard
// REMARKS: remark: splits l0 along {tp}; 91.88 us
// REMARKS: remark: 192.28 us, 0.00 of them in reshards; no choice takes less
func.func @mlp(%x: tensor<4x512x1024xf32>, %w1: tensor<4096x1024xf32>,
               %w2: tensor<1024x4096xf32>) -> tensor<4x512x1024xf32> {
  %h = xf.linear %x, %w1 {contract = 1 : i64} : (tensor<4x512x1024xf32>, tensor<4096x1024xf32>) -> tensor<4x512x4096xf32>
  %z = xf.linear %h, %w2 {contract = 1 : i64} : (tensor<4x512x4096xf32>, tensor<1024x4096xf32>) -> tensor<4x512x1024xf32>
  return %z : tensor<4x512x1024xf32>
}

//--- pinned.mlir
// Each rank keeps a part of the weights, and x and the result whole. Nobody says
// how to compute then: the first product by columns, the second by rows, and one
// all-reduce.
dist.mesh @mesh [#dist.axis<"tp" = 4>]
// PINNED: func.func @mlp(
// PINNED-NOT: dist.reshard
// PINNED: xf.linear {{.*}} -> tensor<1x512x16384xf32, #dist.on<@mesh, [{}, {}, {tp}]>>
// PINNED-NEXT: %[[Z:.*]] = xf.linear {{.*}} -> tensor<1x512x4096xf32, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>>
// PINNED-NEXT: %[[Y:.*]] = dist.reshard %[[Z]] {{.*}} to tensor<1x512x4096xf32, #dist.on<@mesh, [{}, {}, {}]>>
// PINNED-NEXT: return %[[Y]]
func.func @mlp(%x: tensor<1x512x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {}]>},
               %w1: tensor<16384x4096xf32> {dist.pin = #dist.on<@mesh, [{tp}, {}]>},
               %w2: tensor<4096x16384xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}]>})
    -> (tensor<1x512x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {}]>}) {
  %h = xf.linear %x, %w1 {contract = 1 : i64} : (tensor<1x512x4096xf32>, tensor<16384x4096xf32>) -> tensor<1x512x16384xf32>
  %z = xf.linear %h, %w2 {contract = 1 : i64} : (tensor<1x512x16384xf32>, tensor<4096x16384xf32>) -> tensor<1x512x4096xf32>
  return %z : tensor<1x512x4096xf32>
}

//--- heads.mlir
// Two key heads cannot be split four ways: the heads are split along b, and along
// a the batch is.
dist.mesh @mesh [#dist.axis<"a" = 4>, #dist.axis<"b" = 2>]
// HEADS: xf.attention {{.*}}(tensor<4x1024x8x128xf32, #dist.on<@mesh, [{a}, {}, {b}, {}]>>, tensor<4x1024x2x128xf32, #dist.on<@mesh, [{a}, {}, {b}, {}]>>
func.func @attention(%q: tensor<4x1024x8x128xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {b}, {}]>},
                     %k: tensor<4x1024x2x128xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {b}, {}]>},
                     %v: tensor<4x1024x2x128xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {b}, {}]>})
    -> tensor<4x1024x8x128xf32> {
  %y, %lse = xf.attention %q, %k, %v {scale = 0.1 : f64} : (tensor<4x1024x8x128xf32>, tensor<4x1024x2x128xf32>, tensor<4x1024x2x128xf32>) -> (tensor<4x1024x8x128xf32>, tensor<4x8x1024xf32>)
  return %y : tensor<4x1024x8x128xf32>
}

//--- tied.mlir
// One table, read twice, is in one place.
// TIED: xf.state @table parameter : tensor<32000x1024xf32, [[ON:#dist.on<@mesh, .*>]]> {
// TIED: xf.get @table : tensor<32000x1024xf32, [[ON]]>
// TIED: xf.get @table : tensor<32000x1024xf32, [[ON]]>
xf.state @table parameter : tensor<32000x1024xf32> {init = #xf.init<ones, 1.0 : f64>}
func.func @model(%ids: tensor<2x512xi32>) -> tensor<2x512x32000xf32> {
  %t = xf.get @table : tensor<32000x1024xf32>
  %x = xf.embedding %ids, %t : (tensor<2x512xi32>, tensor<32000x1024xf32>) -> tensor<2x512x1024xf32>
  %u = xf.get @table : tensor<32000x1024xf32>
  %y = xf.linear %x, %u {contract = 1 : i64} : (tensor<2x512x1024xf32>, tensor<32000x1024xf32>) -> tensor<2x512x32000xf32>
  return %y : tensor<2x512x32000xf32>
}
