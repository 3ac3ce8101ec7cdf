// RUN: cleave-opt %s --cleave-block-shards -verify-diagnostics

// A local program says nothing of whose shards its values are.
dist.mesh @mesh [#dist.axis<"tp" = 2>]
func.func @f(%x: tensor<1x8x8xf32>) -> tensor<1x16x8xf32> {
  // expected-error@below {{'dist.all_gather' op expects placements of its operand and result}}
  %y = dist.all_gather %x axes ["tp"] dim 1
      : tensor<1x8x8xf32> to tensor<1x16x8xf32>
  return %y : tensor<1x16x8xf32>
}
