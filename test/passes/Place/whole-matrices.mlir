// Muon: what ZeRO or tensor parallelism splits is gathered once, orthogonalized
// whole by each rank, and cut again, where the state is.
//
// RUN: cleave-opt %s --cleave-build-step="micro-batches=2 optimizer=muon" \
// RUN:   --cleave-expand-cross-entropy -o %t.mlir
// RUN: cleave-opt %t.mlir --check-meaning \
// RUN:   --cleave-place-tensors=plan=%S/inputs/zero1.json \
// RUN:   --cleave-verify-placements --cleave-verify-step \
// RUN:   --cleave-insert-collectives | FileCheck %s --check-prefix=Z1
// RUN: cleave-opt %t.mlir --check-meaning \
// RUN:   --cleave-place-tensors=plan=%S/inputs/tp.json \
// RUN:   --cleave-verify-placements --cleave-verify-step \
// RUN:   --cleave-insert-collectives | FileCheck %s --check-prefix=TP
// RUN: cleave-opt %t.mlir --check-meaning \
// RUN:   --cleave-place-tensors=plan=%S/inputs/all.json \
// RUN:   --cleave-verify-placements --cleave-verify-step \
// RUN:   --cleave-insert-collectives | FileCheck %s --check-prefix=ALL

xf.state @embed parameter : tensor<32x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["vocab", "hidden"]}
xf.state @up parameter : tensor<64x16xf32> {
  init = #xf.init<normal, 2.0e-2 : f64>, dims = ["intermediate", "hidden"],
  rows = 1 : i64}

func.func @forward(%ids: tensor<4x8xi32>, %targets: tensor<4x8xi32>)
    -> tensor<f32> {
  %e = xf.get @embed : tensor<32x16xf32>
  %u = xf.get @up : tensor<64x16xf32>
  %x = xf.embedding %ids, %e
      : (tensor<4x8xi32>, tensor<32x16xf32>) -> tensor<4x8x16xf32>
  %h = xf.linear %x, %u {contract = 1 : i64}
      : (tensor<4x8x16xf32>, tensor<64x16xf32>) -> tensor<4x8x64xf32>
  %y = xf.linear %h, %u {contract = 1 : i64, inputs_first}
      : (tensor<4x8x64xf32>, tensor<64x16xf32>) -> tensor<4x8x16xf32>
  %l = xf.linear %y, %e {contract = 1 : i64}
      : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %loss, %lse = xf.cross_entropy %l, %targets {vocab = 32 : i64}
      : (tensor<4x8x32xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<4x8xf32>)
  return %loss : tensor<f32>
}

// Z1: %[[M:.*]] = xf.get @"up/muon" {{.*}} : tensor<64x16xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z1: %[[U:.*]] = xf.nesterov %[[M]], %[[G:[^,]*]], {{.*}} -> tensor<64x16xf32, #dist.on<@mesh, [{dp}, {}]>>
// Z1-NEXT: %[[WHOLE:.*]] = dist.all_gather %[[U]] axes ["dp"] dim 0
// Z1-NEXT: %[[O:.*]] = xf.orthogonalize %[[WHOLE]] {{.*}} -> tensor<64x16xf32, #dist.on<@mesh, [{}, {}]>>
// Z1-NEXT: %[[D:.*]] = xf.scale %[[O]]
// Z1-NEXT: %[[PART:.*]] = dist.slice %[[D]] axes ["dp"] dim 0
// Z1-NEXT: %[[NEW:.*]], %[[NEWM:.*]] = xf.muon %[[W:[^,]*]], %[[M]], %[[G]], {{.*}}, %[[PART]] {{.*}} -> (tensor<64x16xf32, #dist.on<@mesh, [{dp}, {}]>>, tensor<64x16xf32, #dist.on<@mesh, [{dp}, {}]>>)
// Z1-NEXT: xf.set @up, %[[NEW]]
// Z1-NEXT: xf.set @"up/muon", %[[NEWM]]

// TP: %[[M:.*]] = xf.get @"up/muon" {{.*}} : tensor<64x16xf32, #dist.on<@mesh, [{tp}, {}]>>
// TP: %[[U:.*]] = xf.nesterov %[[M]], %[[G:[^,]*]], {{.*}} -> tensor<64x16xf32, #dist.on<@mesh, [{tp}, {}]>>
// TP-NEXT: %[[WHOLE:.*]] = dist.all_gather %[[U]] axes ["tp"] dim 0
// TP-NEXT: %[[O:.*]] = xf.orthogonalize %[[WHOLE]] {{.*}} -> tensor<64x16xf32, #dist.on<@mesh, [{}, {}]>>
// TP-NEXT: %[[D:.*]] = xf.scale %[[O]]
// TP-NEXT: %[[PART:.*]] = dist.slice %[[D]] axes ["tp"] dim 0
// TP-NEXT: %[[NEW:.*]], %[[NEWM:.*]] = xf.muon %[[W:[^,]*]], %[[M]], %[[G]], {{.*}}, %[[PART]] {{.*}} -> (tensor<64x16xf32, #dist.on<@mesh, [{tp}, {}]>>, tensor<64x16xf32, #dist.on<@mesh, [{tp}, {}]>>)
// TP-NEXT: xf.set @up, %[[NEW]]
// TP-NEXT: xf.set @"up/muon", %[[NEWM]]

// ALL: %[[M:.*]] = xf.get @"up/muon" {{.*}} : tensor<64x16xf32, #dist.on<@mesh, [{tp, dp}, {}]>>
// ALL: %[[U:.*]] = xf.nesterov %[[M]], %[[G:[^,]*]], {{.*}} -> tensor<64x16xf32, #dist.on<@mesh, [{tp, dp}, {}]>>
// ALL-NEXT: %[[WHOLE:.*]] = dist.all_gather %[[U]] axes ["tp", "dp"] dim 0
// ALL-NEXT: %[[O:.*]] = xf.orthogonalize %[[WHOLE]] {{.*}} -> tensor<64x16xf32, #dist.on<@mesh, [{}, {}]>>
// ALL-NEXT: %[[D:.*]] = xf.scale %[[O]]
// ALL-NEXT: %[[PART:.*]] = dist.slice %[[D]] axes ["tp", "dp"] dim 0
// ALL-NEXT: %[[NEW:.*]], %[[NEWM:.*]] = xf.muon %[[W:[^,]*]], %[[M]], %[[G]], {{.*}}, %[[PART]] {{.*}} -> (tensor<64x16xf32, #dist.on<@mesh, [{tp, dp}, {}]>>, tensor<64x16xf32, #dist.on<@mesh, [{tp, dp}, {}]>>)
// ALL-NEXT: xf.set @up, %[[NEW]]
// ALL-NEXT: xf.set @"up/muon", %[[NEWM]]
