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
