// RUN: cleave-opt %s --cleave-verify-memory --split-input-file -verify-diagnostics

// expected-error @+1 {{expects the arena's size}}
exec.program @no_arena threads 1 {
  %a = exec.buffer "a" 64 at 0 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
}

// -----

exec.program @no_offset threads 1 {
  // expected-error @+1 {{expects an offset}}
  %a = exec.buffer "a" 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
} {arena_bytes = 64 : i64}

// -----

exec.program @outside threads 1 {
  // expected-error @+1 {{expects to lie in the arena of 64 bytes}}
  %a = exec.buffer "a" 64 at 64 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
  }
  exec.run @all 0 first
} {arena_bytes = 64 : i64}

// -----

exec.program @shared threads 1 {
  // expected-note @+1 {{the other buffer}}
  %a = exec.buffer "a" 64 at 0 : !exec.buffer
  // expected-error @+1 {{shares bytes with a buffer that is live at the same time}}
  %b = exec.buffer "b" 64 at 0 : !exec.buffer
  exec.segment @all {
    exec.fill() -> (%a)
    exec.copy(%a) -> (%b)
  }
  exec.run @all 0 first
} {arena_bytes = 64 : i64}

// -----

// The second micro-batch reads %a again.
exec.program @lost threads 1 {
  // expected-note @+1 {{the other buffer}}
  %a = exec.buffer "a" 64 at 0 : !exec.buffer
  %b = exec.buffer "b" 64 at 64 : !exec.buffer
  // expected-error @+1 {{shares bytes with a buffer that is live at the same time}}
  %c = exec.buffer "c" 64 at 0 : !exec.buffer
  exec.segment @before {
    exec.fill() -> (%a)
  }
  exec.segment @micro_batch {
    exec.copy(%a) -> (%b)
    exec.copy(%b) -> (%c)
  }
  exec.run @before 0 first
  exec.run @micro_batch 0 first
  exec.run @micro_batch 1
} {arena_bytes = 128 : i64}
