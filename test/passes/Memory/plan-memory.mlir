// RUN: cleave-opt %s --cleave-plan-memory --split-input-file | FileCheck %s
// RUN: cleave-opt %s --cleave-plan-memory --cleave-verify-memory \
// RUN:   --split-input-file -o /dev/null

// Buffers of one segment share bytes, one after the other.
// CHECK-LABEL: exec.program @one_segment
exec.program @one_segment threads 1 {
  // CHECK-DAG: exec.buffer "a" 64 at [[#A:]] :
  %a = exec.buffer "a" 64 : !exec.buffer
  // CHECK-DAG: exec.buffer "b" 128 at [[#]] :
  %b = exec.buffer "b" 128 : !exec.buffer
  // CHECK-DAG: exec.buffer "c" 64 at [[#A]] :
  %c = exec.buffer "c" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    exec.copy(%a) -> (%b)
    exec.copy(%b) -> (%c)
    exec.fill() -> (%c)
  }
  exec.run @all 0 first
}
// CHECK: } {arena_bytes = 192 : i64
// CHECK-SAME: lower_bound = 192 : i64
// CHECK-SAME: peak = {a = 64 : i64, b = 128 : i64}

// -----

// What the segment of the micro-batches reads and "before" wrote is read again
// in the next run: its bytes are no one else's until the last.
// CHECK-LABEL: exec.program @across_runs
exec.program @across_runs threads 1 {
  // CHECK-DAG: exec.buffer "weight" 64 at [[#W:]] :
  %weight = exec.buffer "weight" 64 : !exec.buffer
  // CHECK-DAG: exec.buffer "t" 64 at [[#T:]] :
  %t = exec.buffer "t" 64 : !exec.buffer
  // CHECK-DAG: exec.buffer "u" 64 at [[#]] :
  %u = exec.buffer "u" 64 : !exec.buffer
  %v = exec.buffer "v" 64 : !exec.buffer
  exec.segment @before {
    exec.fill() -> (%weight)
  }
  exec.segment @micro_batch {
    exec.copy(%weight) -> (%t)
    exec.copy(%t) -> (%u)
    exec.copy(%u) -> (%v)
  }
  exec.run @before 0 first
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
}
// CHECK: } {arena_bytes = 192 : i64

// -----

// The same, run once: the weight's bytes are free after it is read.
// CHECK-LABEL: exec.program @run_once
exec.program @run_once threads 1 {
  %weight = exec.buffer "weight" 64 : !exec.buffer
  %t = exec.buffer "t" 64 : !exec.buffer
  %u = exec.buffer "u" 64 : !exec.buffer
  exec.segment @before {
    exec.fill() -> (%weight)
  }
  exec.segment @micro_batch {
    exec.copy(%weight) -> (%t)
    exec.copy(%t) -> (%u)
  }
  exec.run @before 0 first
  exec.run @micro_batch 0 first
}
// CHECK: } {arena_bytes = 128 : i64

// -----

// A stage of a pipeline: what "forward" keeps for "backward" is in use in both,
// between the runs of which others of both lie.
// CHECK-LABEL: exec.program @pipeline
exec.program @pipeline threads 1 {
  // CHECK: exec.buffer "kept" 128 at [[#]] :
  %kept = exec.buffer "kept" 128 : !exec.buffer
  // CHECK: exec.buffer "f" 64 at [[#F:]] :
  %f = exec.buffer "f" 64 : !exec.buffer
  // CHECK: exec.buffer "b" 128 at [[#F]] :
  %b = exec.buffer "b" 128 : !exec.buffer
  exec.segment @forward {
    %place = exec.view %kept 64 places 2 : !exec.buffer
    exec.fill() -> (%f)
    exec.copy(%f) -> (%place)
  }
  exec.segment @backward {
    %place = exec.view %kept 64 places 2 : !exec.buffer
    exec.copy(%place) -> (%b)
  }
  exec.run @forward 0 first
  exec.run @forward 1
  exec.run @backward 0 first
  exec.run @forward 2
  exec.run @backward 1
  exec.run @backward 2
}
// CHECK: } {arena_bytes = 256 : i64

// -----

// What another stream moves is in use until the rank's own stream knows it moved,
// though that be in a later segment.
// CHECK-LABEL: exec.program @in_flight
exec.program @in_flight threads 1 {
  // CHECK: exec.buffer "from" 64 at [[#FROM:]] :
  %from = exec.buffer "from" 64 : !exec.buffer
  // CHECK: exec.buffer "to" 64 at [[#TO:]] :
  %to = exec.buffer "to" 64 : !exec.buffer
  // CHECK-NOT: exec.buffer "meanwhile" 64 at [[#FROM]] :
  // CHECK-NOT: exec.buffer "meanwhile" 64 at [[#TO]] :
  // CHECK: exec.buffer "meanwhile" 64 at
  %meanwhile = exec.buffer "meanwhile" 64 : !exec.buffer
  %after = exec.buffer "after" 192 : !exec.buffer
  exec.segment @first {
    exec.fill() -> (%from)
    exec.copy(%from) -> (%to) {exec.order = #exec.order<1, event = 1>}
    exec.fill() -> (%meanwhile)
  }
  exec.segment @second {
    exec.fill() -> (%meanwhile)
    exec.fill() -> (%after) {exec.order = #exec.order<0, event = 0, waits = [1]>}
  }
  exec.run @first 0 first
  exec.run @second 0 first
}
// CHECK: } {arena_bytes = 192 : i64
