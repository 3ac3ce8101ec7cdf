// RUN: cleave-opt %s --cleave-insert-collectives --cleave-verify-placements \
// RUN:   2>/dev/null | FileCheck %s
// RUN: cleave-opt %s --cleave-insert-collectives 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

dist.mesh @mesh [#dist.axis<"x" = 2>, #dist.axis<"y" = 4>]

!whole = tensor<64x64xf32, #dist.on<@mesh, [{}, {}]>>
!sum = tensor<64x64xf32, #dist.on<@mesh, [{}, {}], partial = {y}>>
!sums = tensor<64x64xf32, #dist.on<@mesh, [{}, {}], partial = {x, y}>>
!max = tensor<64x64xf32, #dist.on<@mesh, [{}, {}], max = {y}>>
!rows = tensor<64x64xf32, #dist.on<@mesh, [{y}, {}]>>
!columns = tensor<64x64xf32, #dist.on<@mesh, [{}, {y}]>>
!both = tensor<64x64xf32, #dist.on<@mesh, [{x, y}, {}]>>

// CHECK-LABEL: func.func @all_reduce(
// CHECK-NEXT: dist.all_reduce %{{.*}} axes ["y"] : {{.*}} partial = {y}>> to tensor<64x64xf32, #dist.on<@mesh, [{}, {}]>>
// CHECK-NEXT: return
// REMARK: remark: [{}, {}] partial={y} -> [{}, {}] takes 1 step, {{[0-9.]+}} us on threads (shared-memory)
func.func @all_reduce(%x: !sum) -> !whole {
  %y = dist.reshard %x : !sum to !whole
  return %y : !whole
}

// The reduction is the operand's.
// CHECK-LABEL: func.func @all_reduce_max(
// CHECK-NEXT: dist.all_reduce %{{.*}} axes ["y"] reduction max
// CHECK-NEXT: return
func.func @all_reduce_max(%x: !max) -> !whole {
  %y = dist.reshard %x : !max to !whole
  return %y : !whole
}

// CHECK-LABEL: func.func @all_reduce_over_two_axes(
// CHECK-NEXT: dist.all_reduce %{{.*}} axes ["x", "y"]
// CHECK-NEXT: return
func.func @all_reduce_over_two_axes(%x: !sums) -> !whole {
  %y = dist.reshard %x : !sums to !whole
  return %y : !whole
}

// CHECK-LABEL: func.func @stays_partial(
// CHECK-NEXT: dist.all_reduce %{{.*}} axes ["x"] {{.*}} to tensor<64x64xf32, #dist.on<@mesh, [{}, {}], partial = {y}>>
// CHECK-NEXT: return
func.func @stays_partial(%x: !sums) -> !sum {
  %y = dist.reshard %x : !sums to !sum
  return %y : !sum
}

// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-NEXT: dist.reduce_scatter %{{.*}} axes ["y"] dim 1
// CHECK-NEXT: return
func.func @reduce_scatter(%x: !sum) -> !columns {
  %y = dist.reshard %x : !sum to !columns
  return %y : !columns
}

// CHECK-LABEL: func.func @all_gather(
// CHECK-NEXT: dist.all_gather %{{.*}} axes ["y"] dim 1
// CHECK-NEXT: return
func.func @all_gather(%x: !columns) -> !whole {
  %y = dist.reshard %x : !columns to !whole
  return %y : !whole
}

// CHECK-LABEL: func.func @all_to_all(
// CHECK-NEXT: dist.all_to_all %{{.*}} axes ["y"] from 0 to 1
// CHECK-NEXT: return
func.func @all_to_all(%x: !rows) -> !columns {
  %y = dist.reshard %x : !rows to !columns
  return %y : !columns
}

// CHECK-LABEL: func.func @slice(
// CHECK-NEXT: dist.slice %{{.*}} axes ["x", "y"] dim 0
// CHECK-NEXT: return
func.func @slice(%x: !whole) -> !both {
  %y = dist.reshard %x : !whole to !both
  return %y : !both
}

// Axes leave at the minor end only: to keep y, x has to go and y comes back.
// CHECK-LABEL: func.func @several_steps(
// CHECK-COUNT-2: dist.{{all_gather|slice|all_to_all}}
// CHECK: return
func.func @several_steps(%x: !both) -> !rows {
  %y = dist.reshard %x : !both to !rows
  return %y : !rows
}

// CHECK-LABEL: func.func @nothing_to_do(
// CHECK-NEXT: return
func.func @nothing_to_do(%x: !rows) -> !rows {
  %y = dist.reshard %x : !rows to !rows
  return %y : !rows
}

// The phase of a reshard is that of its collectives.
// CHECK-LABEL: func.func @phase(
// CHECK-NEXT: dist.all_reduce {{.*}} {xf.provenance = #xf.provenance<backward>}
func.func @phase(%x: !sum) -> !whole {
  %y = dist.reshard %x {xf.provenance = #xf.provenance<backward>} : !sum to !whole
  return %y : !whole
}
