// RUN: cleave-opt %s --cleave-add-waits --cleave-verify-order \
// RUN:   --split-input-file | FileCheck %s

// What another stream writes is waited for where it is read, and not again
// behind that.
// CHECK-LABEL: exec.program @read
exec.program @read threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  %c = exec.buffer "c" 64 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.fill{{.*}}<1, event = 1>
    exec.fill() -> (%a) {exec.order = #exec.order<1, event = 0>}
    // CHECK: exec.copy{{.*}}<0, event = 0, waits = [1]>
    exec.copy(%a) -> (%b)
    // CHECK: exec.copy
    // CHECK-NOT: exec.order
    exec.copy(%a) -> (%c)
  }
  exec.run @all 0 first
}

// -----

// In the next run the stream overwrites what this one reads: it waits as well,
// for the last of its readers.
// CHECK-LABEL: exec.program @next_run
exec.program @next_run threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  %c = exec.buffer "c" 64 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.fill{{.*}}<1, event = 1, waits = [2]>
    exec.fill() -> (%a) {exec.order = #exec.order<1, event = 0>}
    // CHECK: exec.copy{{.*}}<0, event = 0, waits = [1]>
    exec.copy(%a) -> (%b)
    // CHECK: exec.copy{{.*}}<0, event = 2>
    exec.copy(%a) -> (%c)
  }
  exec.run @all 0 first
  exec.run @all 1
}

// -----

// Each micro-batch has a place of its own, so no run waits for another.
// CHECK-LABEL: exec.program @places
exec.program @places threads 1 {
  %a = exec.buffer "a" 128 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  exec.segment @all {
    %view = exec.view %a 64 places 2 : !exec.buffer
    // CHECK: exec.fill{{.*}}<1, event = 1>
    exec.fill() -> (%view) {exec.order = #exec.order<1, event = 0>}
    // CHECK: exec.copy{{.*}}<0, event = 0, waits = [1]>
    exec.copy(%view) -> (%b)
  }
  exec.run @all 0 first
  exec.run @all 1
}

// -----

// Two buffers share bytes once they have offsets.
// CHECK-LABEL: exec.program @shared
exec.program @shared threads 1 {
  %a = exec.buffer "a" 64 at 0 : !exec.buffer
  %b = exec.buffer "b" 64 at 0 : !exec.buffer
  %c = exec.buffer "c" 64 at 64 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.copy{{.*}}<0, event = 1>
    exec.copy(%a) -> (%c)
    // CHECK: exec.fill{{.*}}<1, event = 0, waits = [1]>
    exec.fill() -> (%b) {exec.order = #exec.order<1, event = 0>}
  }
  exec.run @all 0 first
} {arena_bytes = 128 : i64}

// -----

// Where the update begins all streams are waited for.
// CHECK-LABEL: exec.program @update
exec.program @update threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.fill{{.*}}<1, event = 0>
    exec.fill() -> (%a) {exec.order = #exec.order<1, event = 0>}
  }
  exec.segment @update updates {
    // CHECK: exec.copy
    // CHECK-NOT: exec.order
    exec.copy(%a) -> (%b)
  }
  exec.run @all 0 first
  exec.run @update 0 first
}

// -----

// An update in which nothing happens.
// CHECK-LABEL: exec.program @nothing
exec.program @nothing threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    // CHECK: exec.fill() ->
    // CHECK-NOT: exec.order
    exec.fill() -> (%a)
  }
  exec.segment @update updates {
  }
  exec.run @all 0 first
  exec.run @update 0 first
}
