// RUN: split-file %s %t
// RUN: cleave-opt %t/blocks.mlir --cleave-block-shards | FileCheck %s
// RUN: cleave-opt %t/blocks.mlir --cleave-block-shards=mode=never \
// RUN:   | FileCheck %s --check-prefix=NEVER
// RUN: cleave-opt %t/none.mlir --cleave-block-shards \
// RUN:   | FileCheck %s --check-prefix=NONE

// Where there are fewer samples than eight, shards of the sequence are pieces of
// blocks: of all collectives of values that ops compute from each other.

// NEVER-NOT: blocks
// NONE-NOT: blocks

//--- blocks.mlir
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]

#partial = #dist.on<@mesh, [{}, {}, {} ], partial = {tp}>
#split = #dist.on<@mesh, [{}, {tp}, {} ]>
#whole = #dist.on<@mesh, [{}, {}, {} ]>

// CHECK-LABEL: @one_sample
// CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 blocks 8
// CHECK: dist.slice %{{.*}} axes ["tp"] dim 1 blocks 8
// CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 1 blocks 8
func.func private @one_sample(
    %x: tensor<1x16x8xf32, #partial>, %y: tensor<1x16x8xf32, #whole>)
    -> tensor<1x16x8xf32, #whole> {
  %a = dist.reduce_scatter %x axes ["tp"] dim 1
      : tensor<1x16x8xf32, #partial> to tensor<1x16x8xf32, #split>
  %b = dist.slice %y axes ["tp"] dim 1
      : tensor<1x16x8xf32, #whole> to tensor<1x16x8xf32, #split>
  %c = xf.add %a, %b : (tensor<1x16x8xf32, #split>, tensor<1x16x8xf32, #split>)
      -> tensor<1x16x8xf32, #split>
  %d = dist.all_gather %c axes ["tp"] dim 1
      : tensor<1x16x8xf32, #split> to tensor<1x16x8xf32, #whole>
  return %d : tensor<1x16x8xf32, #whole>
}

// Four samples are four parts: two blocks of each make eight. A shard of 6 rows
// has 2 blocks.
// CHECK-LABEL: @several_samples
// CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 blocks 2
// CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 1 blocks 2
// CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 blocks 2
// CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 1 blocks 2
func.func private @several_samples(
    %x: tensor<4x16x8xf32, #partial>, %y: tensor<1x12x8xf32, #partial>)
    -> (tensor<4x16x8xf32, #whole>, tensor<1x12x8xf32, #whole>) {
  %a = dist.reduce_scatter %x axes ["tp"] dim 1
      : tensor<4x16x8xf32, #partial> to tensor<4x16x8xf32, #split>
  %b = dist.all_gather %a axes ["tp"] dim 1
      : tensor<4x16x8xf32, #split> to tensor<4x16x8xf32, #whole>
  %c = dist.reduce_scatter %y axes ["tp"] dim 1
      : tensor<1x12x8xf32, #partial> to tensor<1x12x8xf32, #split>
  %d = dist.all_gather %c axes ["tp"] dim 1
      : tensor<1x12x8xf32, #split> to tensor<1x12x8xf32, #whole>
  return %b, %d : tensor<4x16x8xf32, #whole>, tensor<1x12x8xf32, #whole>
}

// In a body that runs once a micro-batch, too, and through what it yields.
// CHECK-LABEL: @in_a_body
// CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 blocks 8
// CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 1 blocks 8
func.func private @in_a_body(%x: tensor<2x1x16x8xf32,
      #dist.on<@mesh, [{}, {}, {}, {} ], partial = {tp}>>)
    -> tensor<1x16x8xf32, #whole> {
  %sum = xf.accumulate 2 (%x) : (tensor<2x1x16x8xf32,
        #dist.on<@mesh, [{}, {}, {}, {} ], partial = {tp}>>)
      -> tensor<1x16x8xf32, #split> {
  ^bb0(%each: tensor<1x16x8xf32, #partial>):
    %a = dist.reduce_scatter %each axes ["tp"] dim 1
        : tensor<1x16x8xf32, #partial> to tensor<1x16x8xf32, #split>
    xf.yield %a : tensor<1x16x8xf32, #split>
  }
  %b = dist.all_gather %sum axes ["tp"] dim 1
      : tensor<1x16x8xf32, #split> to tensor<1x16x8xf32, #whole>
  return %b : tensor<1x16x8xf32, #whole>
}

// What moves the split to another dim takes blocks as they come.
// CHECK-LABEL: @moves
// CHECK: dist.reduce_scatter %{{.*}} axes ["tp"] dim 1 blocks 8
// CHECK: dist.all_to_all %{{.*}} axes ["tp"] from 1 blocks 8 to 2 :
// CHECK: dist.all_to_all %{{.*}} axes ["tp"] from 2 to 1 blocks 8 :
// CHECK: dist.all_gather %{{.*}} axes ["tp"] dim 1 blocks 8
func.func private @moves(%x: tensor<1x16x8xf32, #partial>)
    -> tensor<1x16x8xf32, #whole> {
  %a = dist.reduce_scatter %x axes ["tp"] dim 1
      : tensor<1x16x8xf32, #partial> to tensor<1x16x8xf32, #split>
  %b = dist.all_to_all %a axes ["tp"] from 1 to 2
      : tensor<1x16x8xf32, #split>
     to tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>>
  %c = dist.all_to_all %b axes ["tp"] from 2 to 1
      : tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>>
     to tensor<1x16x8xf32, #split>
  %d = dist.all_gather %c axes ["tp"] dim 1
      : tensor<1x16x8xf32, #split> to tensor<1x16x8xf32, #whole>
  return %d : tensor<1x16x8xf32, #whole>
}

//--- none.mlir
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]

#partial = #dist.on<@mesh, [{}, {}, {} ], partial = {tp}>
#split = #dist.on<@mesh, [{}, {tp}, {} ]>
#whole = #dist.on<@mesh, [{}, {}, {} ]>

// Eight samples are parts enough.
func.func private @many_samples(%x: tensor<8x16x8xf32, #partial>)
    -> tensor<8x16x8xf32, #whole> {
  %a = dist.reduce_scatter %x axes ["tp"] dim 1
      : tensor<8x16x8xf32, #partial> to tensor<8x16x8xf32, #split>
  %b = dist.all_gather %a axes ["tp"] dim 1
      : tensor<8x16x8xf32, #split> to tensor<8x16x8xf32, #whole>
  return %b : tensor<8x16x8xf32, #whole>
}

// What a step gives shows its shards to whoever reads them, and so does what it
// is given.
func.func private @is_shown(%x: tensor<1x16x8xf32, #partial>)
    -> tensor<1x16x8xf32, #split> {
  %a = dist.reduce_scatter %x axes ["tp"] dim 1
      : tensor<1x16x8xf32, #partial> to tensor<1x16x8xf32, #split>
  return %a : tensor<1x16x8xf32, #split>
}
func.func private @is_given(%x: tensor<1x16x8xf32, #partial>,
    %y: tensor<1x16x8xf32, #split>) -> tensor<1x16x8xf32, #whole> {
  %a = dist.reduce_scatter %x axes ["tp"] dim 1
      : tensor<1x16x8xf32, #partial> to tensor<1x16x8xf32, #split>
  %b = xf.add %a, %y : (tensor<1x16x8xf32, #split>, tensor<1x16x8xf32, #split>)
      -> tensor<1x16x8xf32, #split>
  %c = dist.all_gather %b axes ["tp"] dim 1
      : tensor<1x16x8xf32, #split> to tensor<1x16x8xf32, #whole>
  return %c : tensor<1x16x8xf32, #whole>
}
xf.state @w parameter : tensor<1x16x8xf32, #split> {init = #xf.init<ones, 1.0 : f64>}
func.func private @is_state() -> tensor<1x16x8xf32, #whole> {
  %w = xf.get @w : tensor<1x16x8xf32, #split>
  %x = dist.all_gather %w axes ["tp"] dim 1
      : tensor<1x16x8xf32, #split> to tensor<1x16x8xf32, #whole>
  return %x : tensor<1x16x8xf32, #whole>
}

// The rows of a matrix are no sequence: nothing is computed in parts of them.
func.func private @rows(%x: tensor<16x8xf32, #dist.on<@mesh, [{}, {} ], partial = {tp}>>)
    -> tensor<16x8xf32, #dist.on<@mesh, [{}, {} ]>> {
  %a = dist.reduce_scatter %x axes ["tp"] dim 0
      : tensor<16x8xf32, #dist.on<@mesh, [{}, {} ], partial = {tp}>>
     to tensor<16x8xf32, #dist.on<@mesh, [{tp}, {} ]>>
  %b = dist.all_gather %a axes ["tp"] dim 0
      : tensor<16x8xf32, #dist.on<@mesh, [{tp}, {} ]>>
     to tensor<16x8xf32, #dist.on<@mesh, [{}, {} ]>>
  return %b : tensor<16x8xf32, #dist.on<@mesh, [{}, {} ]>>
}

// It needs none of its own.
func.func private @moves(
    %x: tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>>)
    -> tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>> {
  %a = dist.all_to_all %x axes ["tp"] from 2 to 1
      : tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>>
     to tensor<1x16x8xf32, #split>
  %b = dist.all_to_all %a axes ["tp"] from 1 to 2
      : tensor<1x16x8xf32, #split>
     to tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>>
  return %b : tensor<1x16x8xf32, #dist.on<@mesh, [{}, {}, {tp} ]>>
}

// The heads of queries are groups of those of keys: neither may be in another
// order than the other.
#heads = #dist.on<@mesh, [{}, {}, {tp}, {} ]>
#all_heads = #dist.on<@mesh, [{}, {}, {}, {} ]>
func.func private @grouped_queries(
    %q: tensor<1x4x8x16xf32, #all_heads>, %k: tensor<1x4x4x16xf32, #all_heads>)
    -> tensor<1x4x8x16xf32, #all_heads> {
  %qs = dist.slice %q axes ["tp"] dim 2
      : tensor<1x4x8x16xf32, #all_heads> to tensor<1x4x8x16xf32, #heads>
  %ks = dist.slice %k axes ["tp"] dim 2
      : tensor<1x4x4x16xf32, #all_heads> to tensor<1x4x4x16xf32, #heads>
  %o, %lse = xf.attention %qs, %ks, %ks {scale = 0.25 : f64}
      : (tensor<1x4x8x16xf32, #heads>, tensor<1x4x4x16xf32, #heads>,
         tensor<1x4x4x16xf32, #heads>)
      -> (tensor<1x4x8x16xf32, #heads>,
          tensor<1x8x4xf32, #dist.on<@mesh, [{}, {tp}, {} ]>>)
  %again = dist.all_gather %ks axes ["tp"] dim 2
      : tensor<1x4x4x16xf32, #heads> to tensor<1x4x4x16xf32, #all_heads>
  %result = dist.all_gather %o axes ["tp"] dim 2
      : tensor<1x4x8x16xf32, #heads> to tensor<1x4x8x16xf32, #all_heads>
  return %result : tensor<1x4x8x16xf32, #all_heads>
}

// A piece along one axis is cut along the next.
func.func private @two_axes(%x: tensor<1x16x8xf32, #partial>)
    -> tensor<1x16x8xf32, #split> {
  %a = dist.slice %x axes ["dp"] dim 1 : tensor<1x16x8xf32, #partial>
      to tensor<1x16x8xf32, #dist.on<@mesh, [{}, {dp}, {} ], partial = {tp}>>
  %b = dist.reduce_scatter %a axes ["tp"] dim 1
      : tensor<1x16x8xf32, #dist.on<@mesh, [{}, {dp}, {} ], partial = {tp}>>
     to tensor<1x16x8xf32, #dist.on<@mesh, [{}, {dp, tp}, {} ]>>
  %c = dist.all_gather %b axes ["tp"] dim 1
      : tensor<1x16x8xf32, #dist.on<@mesh, [{}, {dp, tp}, {} ]>>
     to tensor<1x16x8xf32, #dist.on<@mesh, [{}, {dp}, {} ]>>
  %d = dist.all_gather %c axes ["dp"] dim 1
      : tensor<1x16x8xf32, #dist.on<@mesh, [{}, {dp}, {} ]>>
     to tensor<1x16x8xf32, #whole>
  %e = dist.slice %d axes ["tp"] dim 1
      : tensor<1x16x8xf32, #whole> to tensor<1x16x8xf32, #split>
  return %e : tensor<1x16x8xf32, #split>
}
