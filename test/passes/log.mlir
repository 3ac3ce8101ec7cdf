// What passes decide is printed where their names are given, and nowhere else;
// of the passes that are not named, nothing is.
//
// RUN: cleave-opt %s --cleave-insert-collectives --cleave-localize \
// RUN:   --cleave-lower-to-exec --cleave-plan-memory -o /dev/null \
// RUN:   --debug-only=cleave-insert-collectives,cleave-lower-to-exec 2>&1 \
// RUN:   | FileCheck %s --implicit-check-not='[cleave-plan-memory]'
// RUN: cleave-opt %s --cleave-insert-collectives --cleave-localize \
// RUN:   --cleave-lower-to-exec --cleave-plan-memory -o /dev/null \
// RUN:   --debug-only=cleave-plan-memory 2>&1 | FileCheck %s \
// RUN:   --check-prefix=MEMORY --implicit-check-not='[cleave-lower-to-exec]'
// RUN: cleave-opt %s --cleave-insert-collectives --cleave-localize \
// RUN:   --cleave-lower-to-exec --cleave-plan-memory -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OFF --implicit-check-not='[cleave-'

// CHECK: [cleave-insert-collectives] [{dp}, {}] -> [{}, {}] by dist.all_gather along ["dp"], {{[0-9.]+}} us
// CHECK: [cleave-lower-to-exec] xf.add begins a kernel: no kernel is before it
// CHECK: [cleave-lower-to-exec] xf.add joins the kernel before it
// CHECK: [cleave-lower-to-exec] xf.square_sum begins a kernel: one has start values or a second pass, or their modes differ

// MEMORY: [cleave-plan-memory] 128 bytes of constants at {{[0-9]+}}, live from instruction 0 to 3
// MEMORY: [cleave-plan-memory] 256 bytes of communication at {{[0-9]+}}, live from instruction 0 to 1

// OFF: remark: arena of

!shard = tensor<4x16xf32, #dist.on<@mesh, [{dp}, {}]>>
!t = tensor<4x16xf32, #dist.on<@mesh, [{}, {}]>>
!one = tensor<f32, #dist.on<@mesh, []>>
dist.mesh @mesh [#dist.axis<"dp" = 2>]
xf.state @w constant : !shard {init = #xf.init<zeros, 0.0 : f64>}
func.func @step() {
  %w = xf.get @w : !shard
  %x = dist.reshard %w : !shard to !t
  %y = xf.add %x, %x : (!t, !t) -> !t
  %z = xf.add %y, %x : (!t, !t) -> !t
  %n = xf.square_sum %z : (!t) -> !one
  xf.output "n", %n : !one
  return
}
