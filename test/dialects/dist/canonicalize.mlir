// RUN: cleave-opt %s --canonicalize | FileCheck %s

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]

!whole = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!rows = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>

// CHECK-LABEL: func.func @same_placement(
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: return %[[X]]
func.func @same_placement(%x: !rows) -> !rows {
  %0 = dist.reshard %x : !rows to !rows
  return %0 : !rows
}

// CHECK-LABEL: func.func @other_placement(
// CHECK-NEXT: dist.reshard
func.func @other_placement(%x: !rows) -> !whole {
  %0 = dist.reshard %x : !rows to !whole
  return %0 : !whole
}

// Nobody reads it: moving values has no other effect.
// CHECK-LABEL: func.func @unused(
// CHECK-NEXT: return
func.func @unused(%x: !rows) {
  %0 = dist.reshard %x : !rows to !whole
  %1 = dist.all_gather %x axes ["tp"] dim 0 : !rows to !whole
  %2 = dist.slice %1 axes ["tp"] dim 0 : !whole to !rows
  return
}
