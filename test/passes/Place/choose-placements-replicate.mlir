// An op without a sharding rule, between two that have one: a person says that every
// rank is to do it whole. It gets all that it reads, and what reads it takes its share.
// RUN: cleave-opt %s --allow-unregistered-dialect --cleave-choose-placements="cluster=h100-sxm:4" --cleave-verify-placements 2>/dev/null | FileCheck %s
// What it takes is the same however it is counted.
// RUN: cleave-opt %s --allow-unregistered-dialect --cleave-choose-placements="cluster=h100-sxm:4 overlap=never" --cleave-price-placements="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=PRICE

// PRICE: remark: [[SECONDS:[0-9.]+ us, [0-9.]+ of them in reshards]];
// PRICE: remark: [[SECONDS]];

// CHECK: %[[H:.*]] = xf.linear {{.*}} -> tensor<512x4096xf32, #dist.on<@mesh, [{}, {tp}]>>
// CHECK: %[[WHOLE:.*]] = dist.reshard %[[H]] : {{.*}} to tensor<512x4096xf32, #dist.on<@mesh, [{}, {}]>>
// CHECK: %[[A:.*]] = "example.sort"(%[[WHOLE]]) {{.*}} -> tensor<512x4096xf32, #dist.on<@mesh, [{}, {}]>>
// CHECK: dist.reshard %[[A]] : {{.*}} to tensor<512x4096xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @f(%x: tensor<512x1024xf32> {dist.pin = #dist.on<@mesh, [{}, {}]>}, %w: tensor<4096x1024xf32> {dist.pin = #dist.on<@mesh, [{tp}, {}]>}, %v: tensor<1024x4096xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}]>}) -> tensor<512x1024xf32> {
  %h = xf.linear %x, %w {contract = 1 : i64} : (tensor<512x1024xf32>, tensor<4096x1024xf32>) -> tensor<512x4096xf32>
  %a = "example.sort"(%h) {dist.replicate} : (tensor<512x4096xf32>) -> tensor<512x4096xf32>
  %y = xf.linear %a, %v {contract = 1 : i64} : (tensor<512x4096xf32>, tensor<1024x4096xf32>) -> tensor<512x1024xf32>
  return %y : tensor<512x1024xf32>
}
dist.mesh @mesh [#dist.axis<"tp" = 4>]
