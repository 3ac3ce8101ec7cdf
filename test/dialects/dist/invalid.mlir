// RUN: cleave-opt %s -split-input-file -verify-diagnostics

// Each error of the dialect's verifiers.

//===----------------------------------------------------------------------===//
// Placements and meshes
//===----------------------------------------------------------------------===//

// expected-error @+1 {{expects each axis once, got "tp" twice in one placement}}
func.func private @axis_of_two_dims(tensor<8x16xf32, #dist.on<@mesh, [{tp}, {tp}]>>)

// -----

// expected-error @+1 {{expects each axis once, got "tp" twice in one placement}}
func.func private @axis_twice_in_a_dim(tensor<8x16xf32, #dist.on<@mesh, [{tp, tp}, {}]>>)

// -----

// expected-error @+1 {{expects each axis once, got "tp" twice in one placement}}
func.func private @axis_split_and_partial(tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}], partial = {tp}>>)

// -----

// expected-error @+1 {{expects each axis once, got "tp" twice in one placement}}
func.func private @axis_twice_partial(tensor<8x16xf32, #dist.on<@mesh, [{}, {}], max = {tp, tp}>>)

// -----

// expected-error @+1 {{expected 'partial' or 'max'}}
func.func private @unknown_reduction(tensor<8x16xf32, #dist.on<@mesh, [{}, {}], min = {tp}>>)

// -----

// expected-error @+1 {{expects every mesh axis to have a name}}
dist.mesh @mesh [#dist.axis<"" = 2>]

// -----

// expected-error @+1 {{expects mesh axis "dp" to be named once}}
dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"dp" = 2>]

// -----

// expected-error @+1 {{expects mesh axis "dp" (size 0) to have a size of at least 1}}
dist.mesh @mesh [#dist.axis<"dp" = 0>]

// -----

// expected-error @+1 {{expects the mesh to have at most 2147483647 ranks}}
dist.mesh @mesh [#dist.axis<"dp" = 65536>, #dist.axis<"tp" = 65536>]

// -----

// expected-error @+1 {{expects as axis of stages one of ["pp"=2], got "tp"}}
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "tp"

// -----

//===----------------------------------------------------------------------===//
// Reshards
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x8xf32, #dist.on<@mesh, [{}, {}]>>
func.func @reshard_shape(%x: !from) {
  // expected-error @+1 {{expects operand and result to have one shape and element type}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xbf16, #dist.on<@mesh, [{}, {}]>>
func.func @reshard_type(%x: !from) {
  // expected-error @+1 {{expects operand and result to have one shape and element type}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32>
func.func @reshard_unplaced(%x: !from) {
  // expected-error @+1 {{expects a placement on operand and result}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
dist.mesh @other []
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@other, [{}, {}]>>
func.func @reshard_meshes(%x: !from) {
  // expected-error @+1 {{expects one mesh, got @mesh and @other}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}]>>
func.func @reshard_rank(%x: !from) {
  // expected-error @+1 {{expects one list of axes for each of 2 dims, got}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
func.func @reshard_to_partial(%x: !from) {
  // expected-error @+1 {{cannot make a value partial over axis "tp"}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], max = {tp}>>
func.func @reshard_to_max(%x: !from) {
  // expected-error @+1 {{cannot make a value partial over axis "tp"}}
  %y = dist.reshard %x : !from to !to
  return
}

// -----

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @no_axes(%x: !from) {
  // expected-error @+1 {{expects at least one axis}}
  %y = dist.all_reduce %x axes [] : !from to !to
  return
}

// -----

!from = tensor<2x16xf32>
!to = tensor<128xf32>
func.func @local_rank(%x: !from) {
  // expected-error @+1 {{expects operand and result to have one rank and element type}}
  %y = dist.all_gather %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

!from = tensor<8xf32>
!to = tensor<8xbf16>
func.func @local_type(%x: !from) {
  // expected-error @+1 {{expects operand and result to have one rank and element type}}
  %y = dist.all_reduce %x axes ["tp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32>
func.func @half_placed(%x: !from) {
  // expected-error @+1 {{expects a placement on operand and result}}
  %y = dist.all_reduce %x axes ["tp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x4xf32, #dist.on<@mesh, [{}, {}]>>
func.func @shape(%x: !from) {
  // expected-error @+1 {{expects operand and result to have one shape and element type}}
  %y = dist.all_reduce %x axes ["tp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @unknown_axis(%x: !from) {
  // expected-error @+1 {{expects axis "pp" in the placement of its operand or result}}
  %y = dist.all_reduce %x axes ["pp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @all_reduce_of_a_whole(%x: !from) {
  // expected-error @+1 {{expects an operand that is partial over axis "tp"}}
  %y = dist.all_reduce %x axes ["tp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
func.func @reduce_scatter_of_a_whole(%x: !from) {
  // expected-error @+1 {{expects an operand that is partial over axis "tp"}}
  %y = dist.reduce_scatter %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], max = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @all_reduce_reduction(%x: !from) {
  // expected-error @+1 {{expects the reduction of its operand}}
  %y = dist.all_reduce %x axes ["tp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @all_reduce_max_reduction(%x: !from) {
  // expected-error @+1 {{expects the reduction of its operand}}
  %y = dist.all_reduce %x axes ["tp"] reduction max : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], max = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
func.func @reduce_scatter_reduction(%x: !from) {
  // expected-error @+1 {{expects the reduction of its operand}}
  %y = dist.reduce_scatter %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
func.func @all_reduce_result(%x: !from) {
  // expected-error @+1 {{expects its result under [{}, {}], got}}
  %y = dist.all_reduce %x axes ["tp"] : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @reduce_scatter_result(%x: !from) {
  // expected-error @+1 {{expects its result under [{tp}, {}], got}}
  %y = dist.reduce_scatter %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
func.func @reduce_scatter_dim(%x: !from) {
  // expected-error @+1 {{expects dim 2 to be one of 2 dims}}
  %y = dist.reduce_scatter %x axes ["tp"] dim 2 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @all_gather_whole(%x: !from) {
  // expected-error @+1 {{expects dim 0 to be split by {tp} last, got {}}}
  %y = dist.all_gather %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp, dp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{dp}, {}]>>
func.func @all_gather_major(%x: !from) {
  // expected-error @+1 {{expects dim 0 to be split by {tp} last, got {tp, dp}}}
  %y = dist.all_gather %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @all_gather_dim(%x: !from) {
  // expected-error @+1 {{expects dim -1 to be one of 2 dims}}
  %y = dist.all_gather %x axes ["tp"] dim -1 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @all_gather_result(%x: !from) {
  // expected-error @+1 {{expects its result under [{}, {}], got}}
  %y = dist.all_gather %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @all_to_all_whole(%x: !from) {
  // expected-error @+1 {{expects dim 0 to be split by {tp} last, got {}}}
  %y = dist.all_to_all %x axes ["tp"] from 0 to 1 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @all_to_all_dim(%x: !from) {
  // expected-error @+1 {{expects dim 2 to be one of 2 dims}}
  %y = dist.all_to_all %x axes ["tp"] from 0 to 2 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
func.func @all_to_all_result(%x: !from) {
  // expected-error @+1 {{expects its result under [{}, {tp}], got}}
  %y = dist.all_to_all %x axes ["tp"] from 0 to 1 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @slice_again(%x: !from) {
  // expected-error @+1 {{expects an operand that has copies along axis "tp"}}
  %y = dist.slice %x axes ["tp"] dim 1 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}], partial = {tp}>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
func.func @slice_partial(%x: !from) {
  // expected-error @+1 {{expects an operand that has copies along axis "tp"}}
  %y = dist.slice %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{tp}, {}]>>
func.func @slice_dim(%x: !from) {
  // expected-error @+1 {{expects dim 5 to be one of 2 dims}}
  %y = dist.slice %x axes ["tp"] dim 5 : !from to !to
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
!from = tensor<8x16xf32, #dist.on<@mesh, [{}, {}]>>
!to = tensor<8x16xf32, #dist.on<@mesh, [{}, {tp}]>>
func.func @slice_result(%x: !from) {
  // expected-error @+1 {{expects its result under [{tp}, {}], got}}
  %y = dist.slice %x axes ["tp"] dim 0 : !from to !to
  return
}

// -----

//===----------------------------------------------------------------------===//
// Axes of the mesh, and the local program
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
func.func @unknown_axis(%0: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects axes of ["dp"=2, "tp"=4], got "zz"}}
  %1 = dist.all_reduce %0 axes ["zz"] : tensor<8xf32> to tensor<8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
func.func @axis_twice(%0: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects each axis once, got "dp" twice}}
  %1 = dist.all_reduce %0 axes ["dp", "dp"] : tensor<8xf32> to tensor<8xf32>
  return
}

// -----

func.func @no_such_dim(%0: tensor<8xf32>) {
  // expected-error @+1 {{expects dim 1 to be one of 1 dims}}
  %1 = dist.all_gather %0 axes ["tp"] dim 1 : tensor<8xf32> to tensor<32xf32>
  return
}

// -----

func.func @one_dim(%0: tensor<8x8xf32>) {
  // expected-error @+1 {{expects two dims, got 1 twice}}
  %1 = dist.all_to_all %0 axes ["tp"] from 1 to 1 : tensor<8x8xf32> to tensor<8x8xf32>
  return
}

// -----

func.func @another_dim(%0: tensor<8x8xf32>) {
  // expected-error @+1 {{expects dim 1 to stay of size 8, got 16}}
  %1 = dist.slice %0 axes ["tp"] dim 0 : tensor<8x8xf32> to tensor<2x16xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 4>]
func.func @another_number_of_ranks(%0: tensor<8x8xf32>) {
  // expected-error @+1 {{expects dim 0 of sizes that differ by the 4 ranks of its group, got 8 and 16}}
  %1 = dist.all_gather %0 axes ["tp"] dim 0 : tensor<8x8xf32> to tensor<16x8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 4>] stages "pp"
func.func @send_too_far(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects a stage below 2, got 2}}
  dist.send %x to 2 channel 0 : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>]
func.func @recv_without_stages() {
  // expected-error @+1 {{'dist.recv' op expects a stage below 1, got 1}}
  %x = dist.recv from 1 channel 0 : tensor<8xf32>
  return
}

// -----

func.func @recv_below_0() {
  // expected-error @+1 {{'dist.recv' op expects a stage of at least 0, got -1}}
  %x = dist.recv from -1 channel 0 : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @send_channel(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects a channel of at least 0, got -1}}
  dist.send %x to 1 channel -1 : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @recv_channel() {
  // expected-error @+1 {{'dist.recv' op expects a channel of at least 0, got -1}}
  %x = dist.recv from 1 channel -1 : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 2>]
func.func @blocks_of_a_placed_shard(
    %x: tensor<4x16xf32, #dist.on<@mesh, [{}, {tp} ]>>) {
  // expected-error @+1 {{'dist.all_gather' op expects blocks of at least 1 that divide 8, the size of a shard along dim 1, got 3}}
  %y = dist.all_gather %x axes ["tp"] dim 1 blocks 3
      : tensor<4x16xf32, #dist.on<@mesh, [{}, {tp} ]>>
     to tensor<4x16xf32, #dist.on<@mesh, [{}, {} ]>>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 2>]
func.func @blocks_of_a_local_shard(%x: tensor<4x16xf32>) {
  // expected-error @+1 {{'dist.slice' op expects blocks of at least 1 that divide 8, the size of a shard along dim 1, got 16}}
  %y = dist.slice %x axes ["tp"] dim 1 blocks 16
      : tensor<4x16xf32> to tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 2>]
func.func @no_blocks(%x: tensor<4x16xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op expects blocks of at least 1 that divide 8, the size of a shard along dim 1, got 0}}
  %y = dist.reduce_scatter %x axes ["tp"] dim 1 blocks 0
      : tensor<4x16xf32> to tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 2>]
func.func @blocks_of_a_dim_that_is_cut(%x: tensor<4x16xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expects blocks of at least 1 that divide 8, the size of a shard along dim 1, got 5}}
  %y = dist.all_to_all %x axes ["tp"] from 0 blocks 4 to 1 blocks 5
      : tensor<4x16xf32> to tensor<8x8xf32>
  return
}
