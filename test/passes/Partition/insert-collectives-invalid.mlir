// RUN: cleave-opt %s --cleave-insert-collectives -split-input-file \
// RUN:   -verify-diagnostics

// expected-error@below {{expects a dist.mesh}}
module {}

// -----

dist.mesh @mesh [#dist.axis<"x" = 4>]
func.func @f(%x: tensor<6xf32, #dist.on<@mesh, [{x}]>>) {
  // expected-error@below {{expects dim 0 (size 6) to be divisible by axis "x" (size 4)}}
  %0 = dist.reshard %x : tensor<6xf32, #dist.on<@mesh, [{x}]>>
      to tensor<6xf32, #dist.on<@mesh, [{}]>>
  return
}

// -----

// An axis of no mesh.
dist.mesh @mesh [#dist.axis<"x" = 4>]
func.func @f(%x: tensor<8xf32, #dist.on<@mesh, [{z}]>>) {
  // expected-error@below {{expects axes of ["x"=4], got "z"}}
  %0 = dist.reshard %x : tensor<8xf32, #dist.on<@mesh, [{z}]>>
      to tensor<8xf32, #dist.on<@mesh, [{}]>>
  return
}
