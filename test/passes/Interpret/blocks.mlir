// RUN: split-file %s %t
// RUN: cleave-opt %t/shards.mlir --cleave-localize -o %t/local.mlir
// RUN: cleave-translate --interpret-step --against=%t/whole.mlir %t/local.mlir
// RUN: cleave-opt %t/local.mlir --cleave-lower-to-exec --cleave-plan-memory \
// RUN:   -o %t/lowered.mlir
// RUN: cleave-translate --interpret-step --against=%t/whole.mlir \
// RUN:   %t/lowered.mlir
// RUN: cleave-opt %t/local.mlir --cleave-lower-to-exec --cleave-join-pieces \
// RUN:   --cleave-plan-memory -o %t/joined.mlir
// RUN: FileCheck %s --input-file=%t/joined.mlir --check-prefix=JOINED
// RUN: cleave-translate --interpret-step --against=%t/whole.mlir \
// RUN:   %t/joined.mlir
// RUN: sed 's/from 1 blocks 2 to 2/from 1 to 2/' %t/local.mlir > %t/mixed.mlir
// RUN: not cleave-translate --interpret-step --against=%t/whole.mlir \
// RUN:   %t/mixed.mlir 2>&1 | FileCheck %s --check-prefix=MIXED

// A tensor whose shards are pieces of blocks is the same once it is gathered, by
// way of an all_to_all as well, and as instructions, with and without the pieces
// that nothing needs. One that does not know of the blocks mixes them up.
// JOINED-NOT: blocks{{.*}} = {{[2-9]}}
// MIXED: error: state "columns": element {{.*}}, expects

//--- whole.mlir
!t = tensor<2x8x12xf32>
xf.state @w parameter : !t {init = #xf.init<normal, 1.0 : f64>}
xf.state @rows parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @columns parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @rows_again parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @columns_again parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<1x2xi32>, %targets: tensor<1x2xi32>) {
  %w = xf.get @w : !t
  xf.set @rows, %w : !t
  xf.set @columns, %w : !t
  xf.set @rows_again, %w : !t
  xf.set @columns_again, %w : !t
  return
}

//--- shards.mlir
dist.mesh @mesh [#dist.axis<"tp" = 2>]
#whole = #dist.on<@mesh, [{}, {}, {} ]>
#row_split = #dist.on<@mesh, [{}, {tp}, {} ]>
#column_split = #dist.on<@mesh, [{}, {}, {tp} ]>
!t = tensor<2x8x12xf32, #whole>
!rows = tensor<2x8x12xf32, #row_split>
!columns = tensor<2x8x12xf32, #column_split>
xf.state @w parameter : !t {init = #xf.init<normal, 1.0 : f64>}
xf.state @rows parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @columns parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @rows_again parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
xf.state @columns_again parameter : !t {init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<1x2xi32, #dist.on<@mesh, [{}, {} ]>>,
                %targets: tensor<1x2xi32, #dist.on<@mesh, [{}, {} ]>>) {
  %w = xf.get @w : !t
  %a = dist.slice %w axes ["tp"] dim 1 blocks 2 : !t to !rows
  %b = dist.all_to_all %a axes ["tp"] from 1 blocks 2 to 2 : !rows to !columns
  %c = dist.all_gather %b axes ["tp"] dim 2 : !columns to !t
  xf.set @columns, %c : !t
  %d = dist.all_to_all %b axes ["tp"] from 2 to 1 blocks 4 : !columns to !rows
  %e = dist.all_gather %d axes ["tp"] dim 1 blocks 4 : !rows to !t
  xf.set @rows, %e : !t

  %f = dist.slice %w axes ["tp"] dim 2 blocks 3 : !t to !columns
  %g = dist.all_to_all %f axes ["tp"] from 2 blocks 3 to 1 : !columns to !rows
  %h = dist.all_gather %g axes ["tp"] dim 1 : !rows to !t
  xf.set @rows_again, %h : !t
  %i = dist.all_to_all %g axes ["tp"] from 1 to 2 blocks 6 : !rows to !columns
  %j = dist.all_gather %i axes ["tp"] dim 2 blocks 6 : !columns to !t
  xf.set @columns_again, %j : !t
  return
}
