// With 80 GB streams hold what they like. With 2 GB, of which the device keeps
// 1.5, they hold no more than fits beside what one stream needs.
//
// RUN: cleave-opt %s --cleave-overlap="mode=always cluster=h100-sxm:2" \
// RUN:   --split-input-file 2>/dev/null | FileCheck %s --check-prefix=LARGE
// RUN: cleave-opt %s \
// RUN:   --cleave-overlap="mode=always cluster=%S/inputs/small.json" \
// RUN:   --split-input-file 2>/dev/null | FileCheck %s
// RUN: cleave-opt %s \
// RUN:   --cleave-overlap="mode=always cluster=%S/inputs/small.json" \
// RUN:   --cleave-add-waits --cleave-plan-memory --cleave-add-waits \
// RUN:   --cleave-verify-memory --cleave-verify-order --split-input-file \
// RUN:   2>/dev/null | FileCheck %s --check-prefix=ARENA
// RUN: cleave-opt %s \
// RUN:   --cleave-overlap="mode=always cluster=%S/inputs/small.json" \
// RUN:   --split-input-file -o /dev/null 2>&1 | FileCheck %s \
// RUN:   --check-prefix=REMARK

// The second gradient takes the memory that the first has until it is known
// scattered. All of that is waited for, so it is worth no stream.
// LARGE-LABEL: exec.program @gradients
// LARGE: exec.reduce_scatter{{.*}}#exec.order<1, event = 0>
// LARGE: exec.reduce_scatter{{.*}}#exec.order<1, event = 0>
// CHECK-LABEL: exec.program @gradients
// CHECK: exec.gemm
// CHECK-NOT: exec.order
// CHECK: exec.reduce_scatter
// CHECK-NOT: exec.order
// CHECK: exec.gemm
// CHECK: exec.reduce_scatter{{.*}}#exec.order<1, event = 0>
// ARENA-LABEL: exec.program @gradients
// ARENA: arena_bytes = 603979776 : i64
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @gradients threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %g0 = exec.buffer "g0" 268435456 : !exec.buffer
  %g1 = exec.buffer "g1" 268435456 : !exec.buffer
  %part0 = exec.buffer "part0" 134217728 pinned : !exec.buffer
  %part1 = exec.buffer "part1" 134217728 pinned : !exec.buffer
  exec.segment @all {
    exec.gemm(%x, %x) -> (%g0) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.reduce_scatter(%g0) -> (%part0) {outer = 1 : i64, inner = 33554432 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
    exec.gemm(%x, %x) -> (%g1) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.reduce_scatter(%g1) -> (%part1) {outer = 1 : i64, inner = 33554432 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
  }
  exec.run @all 0 first
}
}

// -----

// Behind the last micro-batch something else needs the memory: the gradients are
// known scattered by the end of each.
// LARGE-LABEL: exec.program @micro_batches
// LARGE: exec.reduce_scatter{{.*}}#exec.order<1, event = 0>
// LARGE-NOT: waits
// LARGE: exec.run
// CHECK-LABEL: exec.program @micro_batches
// CHECK: exec.reduce_scatter{{.*}}#exec.order<1, event = 1>
// CHECK: exec.gemm
// CHECK-NOT: exec.order
// CHECK: exec.gemm{{.*}}#exec.order<0, event = 0, waits = [1]>
// ARENA-LABEL: exec.program @micro_batches
// ARENA: arena_bytes = 805306368 : i64
// REMARK: 1 of 4 instructions in other streams{{.*}}; more would need too much memory
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @micro_batches threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 pinned : !exec.buffer
  %z = exec.buffer "z" 536870912 : !exec.buffer
  %g = exec.buffer "g" 268435456 : !exec.buffer
  %part = exec.buffer "part" 134217728 pinned : !exec.buffer
  exec.segment @micro_batch {
    exec.gemm(%x, %x) -> (%g) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.reduce_scatter(%g) -> (%part) {outer = 1 : i64, inner = 33554432 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
    exec.gemm(%x, %x) -> (%y) {m = 2048 : i64, n = 2048 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.gemm(%x, %x) -> (%y) {m = 2048 : i64, n = 2048 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.segment @behind {
    exec.gemm(%x, %x) -> (%z) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.gemm(%z, %x) -> (%y) {m = 2048 : i64, n = 2048 : i64, k = 8192 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @behind 2
}
}

// -----

// A segment that begins with what it gathers: the one ahead of it may have nothing
// in flight then.
// LARGE-LABEL: exec.program @gathers
// LARGE: exec.reduce_scatter{{.*}}#exec.order<1, event = 0>
// LARGE: exec.all_gather{{.*}}#exec.order<1
// CHECK-LABEL: exec.program @gathers
// CHECK: exec.reduce_scatter
// CHECK-NOT: exec.order
// CHECK: exec.all_gather
// ARENA-LABEL: exec.program @gathers
// ARENA: arena_bytes = 1140850688 : i64
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @gathers threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 pinned : !exec.buffer
  %s = exec.buffer "s" 268435456 pinned : !exec.buffer
  %w = exec.buffer "w" 536870912 : !exec.buffer
  %g = exec.buffer "g" 268435456 : !exec.buffer
  %part = exec.buffer "part" 134217728 pinned : !exec.buffer
  %h = exec.buffer "h" 134217728 : !exec.buffer
  %half = exec.buffer "half" 67108864 pinned : !exec.buffer
  exec.segment @first {
    exec.gemm(%x, %x) -> (%g) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.reduce_scatter(%g) -> (%part) {outer = 1 : i64, inner = 33554432 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
  }
  exec.segment @second {
    exec.all_gather(%s) -> (%w) {outer = 1 : i64, inner = 67108864 : i64,
      type = f32, axes = ["dp"]}
    exec.gemm(%w, %x) -> (%y) {m = 2048 : i64, n = 2048 : i64, k = 8192 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.gemm(%x, %x) -> (%h) {m = 4096 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.reduce_scatter(%h) -> (%half) {outer = 1 : i64, inner = 16777216 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
    exec.gemm(%x, %x) -> (%y) {m = 2048 : i64, n = 2048 : i64, k = 8192 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @first 0 first
  exec.run @first 1
  exec.run @second 2
  exec.run @second 3
}
}

// -----

// What a segment has of another one, and frees later, has no memory at all.
// LARGE-LABEL: exec.program @shared
// LARGE: exec.reduce_scatter{{.*}}#exec.order<1
// CHECK-LABEL: exec.program @shared
// CHECK: exec.reduce_scatter
// CHECK-NOT: exec.order
// CHECK: exec.run
// ARENA-LABEL: exec.program @shared
// ARENA: arena_bytes = 805306368 : i64
// REMARK: 0 of 3 instructions in other streams{{.*}}; with more it needs too much memory
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @shared threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 pinned : !exec.buffer
  %z = exec.buffer "z" 536870912 : !exec.buffer
  %g = exec.buffer "g" 268435456 : !exec.buffer
  %part = exec.buffer "part" 134217728 pinned : !exec.buffer
  exec.segment @micro_batch {
    exec.gemm(%x, %x) -> (%g) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.segment @after {
    exec.reduce_scatter(%g) -> (%part) {outer = 1 : i64, inner = 33554432 : i64,
      type = f32, reduction = #exec<reduction sum>, axes = ["dp"]}
    exec.gemm(%x, %x) -> (%z) {m = 8192 : i64, n = 8192 : i64, k = 2048 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.gemm(%z, %x) -> (%y) {m = 2048 : i64, n = 2048 : i64, k = 8192 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @after 2
}
}

// -----

// What is gathered behind all micro-batches would be there in most of them, were
// it gathered as soon as it can be.
// LARGE-LABEL: exec.program @joined
// LARGE: exec.all_gather
// LARGE: exec.run @micro_batch_after{{.*}} 2
// LARGE-NEXT: exec.run @micro_batch 3
// CHECK-LABEL: exec.program @joined
// CHECK: exec.run @micro_batch 0
// CHECK: exec.run @after 12
// ARENA-LABEL: exec.program @joined
// ARENA: arena_bytes = 939524096 : i64
module {
dist.mesh @mesh [#dist.axis<"dp" = 2>]
exec.program @joined threads 1 {
  %x = exec.buffer "x" 67108864 pinned : !exec.buffer
  %y = exec.buffer "y" 67108864 pinned : !exec.buffer
  %z = exec.buffer "z" 268435456 : !exec.buffer
  %s = exec.buffer "s" 268435456 pinned : !exec.buffer
  %w = exec.buffer "w" 536870912 : !exec.buffer
  exec.segment @micro_batch {
    exec.gemm(%x, %x) -> (%z) {m = 8192 : i64, n = 8192 : i64, k = 64 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
    exec.gemm(%z, %x) -> (%y) {m = 512 : i64, n = 512 : i64, k = 8192 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.segment @after {
    exec.all_gather(%s) -> (%w) {outer = 1 : i64, inner = 67108864 : i64,
      type = f32, axes = ["dp"]}
    exec.gemm(%w, %x) -> (%y) {m = 512 : i64, n = 2048 : i64, k = 8192 : i64,
      trans_a = false, trans_b = false, type_a = f32, type_b = f32,
      type_c = f32, accumulate = #exec<accumulate never>, has_bias = false}
  }
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
  exec.run @micro_batch 2
  exec.run @micro_batch 3
  exec.run @micro_batch 4
  exec.run @micro_batch 5
  exec.run @micro_batch 6
  exec.run @micro_batch 7
  exec.run @micro_batch 8
  exec.run @micro_batch 9
  exec.run @micro_batch 10
  exec.run @micro_batch 11
  exec.run @after 12
}
}
