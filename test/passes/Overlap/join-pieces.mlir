// RUN: cleave-opt %s --cleave-join-pieces --split-input-file | FileCheck %s
// Once is enough.
// RUN: cleave-opt %s --cleave-join-pieces --cleave-join-pieces \
// RUN:   --split-input-file | FileCheck %s

// Two samples. A part is half a sample, which is four of eight blocks: as well
// one of two, also where all is whole. Shards of as many blocks may be the same
// ones; those of four blocks are others, of which no part needs any.
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @parts
exec.program @parts threads 1 {
  %y = exec.buffer "y" 8192 pinned : !exec.buffer
  %z = exec.buffer "z" 4096 pinned : !exec.buffer
  %u = exec.buffer "u" 8192 pinned : !exec.buffer
  %y0 = exec.view %y 2048 : !exec.buffer
  %z0 = exec.view %z 1024 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.reduce_scatter({{.*}}blocks = 2 : i64, inner = 256 : i64, outer = 1 : i64
    exec.reduce_scatter(%y0) -> (%z0) {axes = ["tp"], blocks = 8 : i64, inner = 64 : i64, outer = 4 : i64, reduction = #exec<reduction sum>, type = f32}
    // CHECK: exec.all_gather({{.*}}blocks = 2 : i64, inner = 256 : i64, outer = 4 : i64
    exec.all_gather(%z) -> (%u) {axes = ["tp"], blocks = 8 : i64, inner = 64 : i64, outer = 16 : i64, type = f32}
    // CHECK: exec.slice({{.*}}blocks = 2 : i64, inner = 256 : i64, outer = 4 : i64
    exec.slice(%u) -> (%z) {axes = ["tp"], blocks = 8 : i64, inner = 64 : i64, outer = 16 : i64, type = f32}
    // CHECK: exec.all_gather({{.*}}{axes = ["tp"], inner = 512 : i64, outer = 2 : i64
    exec.all_gather(%z) -> (%u) {axes = ["tp"], blocks = 4 : i64, inner = 128 : i64, outer = 8 : i64, type = f32}
    // CHECK: exec.all_gather({{.*}}{axes = ["tp"], inner = 1024 : i64, outer = 1 : i64
    exec.all_gather(%z) -> (%u) {axes = ["tp"], inner = 1024 : i64, outer = 1 : i64, type = f32}
  }
  exec.run @all 0 first
}

// -----

// A third and a half of a sample in six blocks: three blocks and two are needed,
// so six are.
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @several
exec.program @several threads 1 {
  %z = exec.buffer "z" 768 pinned : !exec.buffer
  %u = exec.buffer "u" 1536 pinned : !exec.buffer
  %z2 = exec.view %z 256 : !exec.buffer
  %u2 = exec.view %u 512 : !exec.buffer
  %z3 = exec.view %z 384 : !exec.buffer
  %u3 = exec.view %u 768 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.all_gather({{.*}}blocks = 6 : i64, inner = 32 : i64, outer = 2 : i64
    exec.all_gather(%z2) -> (%u2) {axes = ["tp"], blocks = 6 : i64, inner = 32 : i64, outer = 2 : i64, type = f32}
    // CHECK: exec.all_gather({{.*}}blocks = 6 : i64, inner = 32 : i64, outer = 3 : i64
    exec.all_gather(%z3) -> (%u3) {axes = ["tp"], blocks = 6 : i64, inner = 32 : i64, outer = 3 : i64, type = f32}
  }
  exec.run @all 0 first
}

// -----

// The dims of an all_to_all have blocks of their own, which other shards need or
// not.
dist.mesh @mesh [#dist.axis<"tp" = 2>]
// CHECK-LABEL: exec.program @move
exec.program @move threads 1 {
  %z = exec.buffer "z" 3072 pinned : !exec.buffer
  %u = exec.buffer "u" 3072 pinned : !exec.buffer
  %v = exec.buffer "v" 1536 pinned : !exec.buffer
  %w = exec.buffer "w" 3072 pinned : !exec.buffer
  exec.segment @all {
    // CHECK: exec.all_to_all({{.*}}a = 4 : i64, axes = ["tp"], b = 6 : i64, blocks_a = 2 : i64, concat_first = true, inner = 2 : i64, mid = 1 : i64, outer = 4 : i64
    exec.all_to_all(%z) -> (%u) {a = 2 : i64, axes = ["tp"], b = 2 : i64, blocks_a = 4 : i64, blocks_b = 3 : i64, concat_first = true, inner = 2 : i64, mid = 3 : i64, outer = 8 : i64, type = f32}
    // CHECK: exec.all_gather({{.*}}blocks = 2 : i64, inner = 96 : i64, outer = 3 : i64
    exec.all_gather(%v) -> (%w) {axes = ["tp"], blocks = 4 : i64, inner = 48 : i64, outer = 6 : i64, type = f32}
  }
  exec.run @all 0 first
}
