// RUN: cleave-opt %s --cleave-verify-order --split-input-file \
// RUN:   -verify-diagnostics

exec.program @read threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  exec.segment @all {
    // expected-note @+1 {{the other instruction}}
    exec.fill() -> (%a) {exec.order = #exec.order<1, event = 1>}
    // expected-error @+1 {{of stream 0 does not wait for one of stream 1 that accesses the same bytes before, for micro-batch 0}}
    exec.copy(%a) -> (%b)
  }
  exec.run @all 0 first
}

// -----

// The wait is there in the first run, and too late in the second.
exec.program @next_run threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{of stream 1 does not wait for one of stream 0 that accesses the same bytes before, for micro-batch 1}}
    exec.fill() -> (%a) {exec.order = #exec.order<1, event = 1>}
    // expected-note @+1 {{the other instruction}}
    exec.copy(%a) -> (%b) {exec.order = #exec.order<0, event = 2, waits = [1]>}
  }
  exec.run @all 0 first
  exec.run @all 1
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
exec.program @other_group threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  %c = exec.buffer "c" 64 : !exec.buffer
  %d = exec.buffer "d" 64 : !exec.buffer
  exec.segment @all {
    // expected-note @+1 {{the other instruction}}
    exec.all_reduce(%a) -> (%b) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["dp"], exec.order = #exec.order<0, event = 0 with_next = true>}
    // expected-error @+1 {{begins together with another instruction, expects it to be of the same kind, group and stream}}
    exec.all_reduce(%c) -> (%d) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["tp"]}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
exec.program @shared threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  %c = exec.buffer "c" 64 : !exec.buffer
  %d = exec.buffer "d" 64 : !exec.buffer
  exec.segment @all {
    // expected-note @+1 {{the other instruction}}
    exec.all_reduce(%a) -> (%b) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["dp"], exec.order = #exec.order<0, event = 0 with_next = true>}
    // expected-error @+1 {{begins together with another instruction, and one writes what the other accesses}}
    exec.all_reduce(%b) -> (%d) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["dp"]}
  }
  exec.run @all 0 first
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
exec.program @last threads 1 {
  %a = exec.buffer "a" 64 : !exec.buffer
  %b = exec.buffer "b" 64 : !exec.buffer
  %c = exec.buffer "c" 64 : !exec.buffer
  %d = exec.buffer "d" 64 : !exec.buffer
  exec.segment @all {
    // expected-error @+1 {{begins together with the next instruction, expects one behind it in its segment}}
    exec.all_reduce(%a) -> (%b) {elements = 16 : i64, type = f32,
      reduction = #exec<reduction sum>, axes = ["dp"], exec.order = #exec.order<0, event = 0 with_next = true>}
  }
  exec.run @all 0 first
}
