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

// The same by cost, of what a person asks for: biases are added behind the
// reduction, and the gradient of the table is split as the table is.
//
// RUN: cleave-opt %S/../../mutants/inputs/gpt_neox.mlir --cleave-build-step=micro-batches=2 \
// RUN:   --cleave-expand-cross-entropy \
// RUN:   "--cleave-choose-placements=cluster=h100-sxm:2 mesh=tp=2 overlap=never explain-tactics=false tactics=%S/inputs/tp.tactics" \
// RUN:   2>/dev/null | FileCheck %s --check-prefix=CHOSEN

// CHOSEN: xf.embedding
// CHOSEN: %[[X:.*]] = dist.reshard {{.*}} : tensor<4x8x16xf32
// CHOSEN: xf.attention
// CHOSEN: %[[A:.*]] = xf.linear {{.*}} partial = {tp}>>
// CHOSEN-NOT: dist.reshard
// CHOSEN: %[[M:.*]] = xf.linear {{.*}} partial = {tp}>>
// CHOSEN-NEXT: %[[BOTH:.*]] = xf.add %[[A]], %[[M]] {{.*}} partial = {tp}>>
// CHOSEN-NEXT: %[[WHOLE:.*]] = dist.reshard %[[BOTH]]
// CHOSEN-NEXT: xf.add %[[X]], %[[WHOLE]], %{{.*}}, %{{.*}} : ({{.*}}tensor<16xf32{{.*}}tensor<16xf32
// CHOSEN: xf.embedding_grad {{.*}} -> tensor<32x16xf32, #dist.on<@mesh, [{tp}, {}]>>
