// RUN: cleave-opt %s --cleave-localize -split-input-file -verify-diagnostics

// expected-error@below {{expects a dist.mesh}}
module {}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
func.func @f(%x: tensor<8xf32, #dist.on<@mesh, [{x}]>>) {
  // expected-error@below {{expects collectives in place of reshards}}
  %0 = dist.reshard %x : tensor<8xf32, #dist.on<@mesh, [{x}]>>
      to tensor<8xf32, #dist.on<@mesh, [{}]>>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{'func.func' op expects a placement on 'tensor<8xf32>'}}
func.func @f(%x: tensor<8xf32>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects axes of ["x"=2], got "z"}}
func.func @f(%x: tensor<8xf32, #dist.on<@mesh, [{z}]>>) { return }

// -----

dist.mesh @mesh [#dist.axis<"x" = 2>]
// expected-error@below {{expects dim 0 (size 7) to be divisible by axis "x" (size 2)}}
func.func @f(%x: tensor<7xf32, #dist.on<@mesh, [{x}]>>) { return }
