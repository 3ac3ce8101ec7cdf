// RUN: cleave-opt %s --split-input-file --cleave-insert-collectives | FileCheck %s

// Along an axis of copies, each of the copies may reduce a part of the value.

// CHECK-LABEL: func.func @copies
// CHECK: dist.slice %{{.*}} axes ["x"]
// CHECK: dist.all_reduce %{{.*}} axes ["tp"]
// CHECK: dist.all_gather %{{.*}} axes ["x"]
dist.mesh @mesh [#dist.axis<"x" = 16>, #dist.axis<"tp" = 8>]
func.func @copies(%x: tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>>) -> tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}]>> {
  %y = dist.reshard %x : tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>> to tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}]>>
  return %y : tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}]>>
}

// -----

// Other stages of a pipeline do something else meanwhile.

// CHECK-LABEL: func.func @stages
// CHECK-NOT: "pp"
// CHECK: dist.all_reduce %{{.*}} axes ["tp"]
// CHECK-NOT: "pp"
// CHECK: return
dist.mesh @mesh [#dist.axis<"pp" = 16>, #dist.axis<"tp" = 8>] stages "pp"
func.func @stages(%x: tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>>) -> tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}]>> {
  %y = dist.reshard %x : tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>> to tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}]>>
  return %y : tensor<1x8192x16384xbf16, #dist.on<@mesh, [{}, {}, {}]>>
}
