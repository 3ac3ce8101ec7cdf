// x + attention(x) + mlp(x), as in GPT-NeoX: two partial sums, one reduction.
//
// RUN: cleave-opt %S/../../mutants/inputs/gpt_neox.mlir --cleave-build-step=micro-batches=2 \
// RUN:   --cleave-expand-cross-entropy \
// RUN:   --cleave-place-tensors=plan=%S/inputs/tp.json --cleave-verify-placements \
// RUN:   | FileCheck %s

// CHECK: xf.embedding
// CHECK: %[[X:.*]] = dist.reshard {{.*}} : tensor<4x8x16xf32
// CHECK: xf.attention
// CHECK: %[[A:.*]] = xf.linear {{.*}} partial = {tp}>>
// CHECK-NOT: dist.reshard {{.*}} tensor<4x8x16xf32
// CHECK: %[[M:.*]] = xf.linear {{.*}} partial = {tp}>>
// CHECK: xf.add %{{.*}} partial = {tp}>>
// CHECK: %[[SUM:.*]] = dist.reshard {{.*}} : tensor<4x8x16xf32, #dist.on<@mesh, [{}, {}, {}], partial = {tp}>> to
// CHECK-NOT: dist.reshard {{.*}} tensor<4x8x16xf32
// CHECK: xf.layer_norm
