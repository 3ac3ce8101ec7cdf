// RUN: split-file %s %t
// RUN: not cleave-opt %t/mesh.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp" 2>&1 | FileCheck %s --check-prefix=AXES
// RUN: not cleave-opt %t/mesh.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=8" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not cleave-opt %t/mesh.mlir --cleave-choose-placements="cluster=none mesh=tp=8" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not cleave-opt %t/pin.mlir --cleave-choose-placements="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=PIN
// RUN: not cleave-opt %t/pin.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not cleave-opt %t/whole.mlir --cleave-choose-placements="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not cleave-opt %t/rule.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not cleave-opt %t/twice.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not cleave-opt %t/shape.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not cleave-opt %t/split.mlir --cleave-choose-placements="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: not cleave-opt %t/unlike.mlir --cleave-choose-placements="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=UNLIKE
// RUN: not cleave-opt %t/input.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not cleave-opt %t/placed.mlir --cleave-price-placements="cluster=h100-sxm:4" 2>&1 | FileCheck %s --check-prefix=NOMESH
// RUN: not cleave-opt %t/idle.mlir --cleave-choose-placements="cluster=h100-sxm:28 mesh=dp=4,odd=7" 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: not cleave-opt %t/mesh.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4 most-states=0" 2>&1 | FileCheck %s --check-prefix=STATES
// RUN: not cleave-opt %t/whole-op.mlir --allow-unregistered-dialect --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=NOPIN
// RUN: not cleave-opt %t/shared.mlir --cleave-choose-placements="cluster=h100-sxm:4 mesh=tp=4" 2>&1 | FileCheck %s --check-prefix=SHARED

//--- whole-op.mlir
// NOPIN: error: 'example.sort' op takes no dist.pin: expects it on an op with a sharding rule, a state, an argument or a result of the function
func.func @f(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %y = "example.sort"(%x) {dist.replicate, dist.pin = #dist.on<@mesh, [{}, {tp}]>} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

//--- shared.mlir
// SHARED: error: 'xf.get' op is of the state @w, which @f has, too: expects one function for each state, since functions are placed one by one
xf.state @w parameter : tensor<8x8xf32> {dims = ["f", "h"], init = #xf.init<ones, 1.0 : f64>}
func.func @f(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %w = xf.get @w : tensor<8x8xf32>
  %y = xf.linear %x, %w {contract = 1 : i64} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}
func.func @g(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %w = xf.get @w : tensor<8x8xf32>
  %y = xf.linear %x, %w {contract = 1 : i64} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

//--- idle.mlir
// IDLE: error: axis "odd" of the mesh has 7 ranks: expects a divisor of a dim that an op may split
func.func @f(%x: tensor<16x8xf32>, %w: tensor<12x8xf32>) -> tensor<16x12xf32> {
  %y = xf.linear %x, %w {contract = 1 : i64} : (tensor<16x8xf32>, tensor<12x8xf32>) -> tensor<16x12xf32>
  return %y : tensor<16x12xf32>
}

//--- mesh.mlir
// AXES: error: mesh "tp": expects axes like dp=2,tp=4
// STATES: error: expects most-states of 1 or more, got 0
// RANKS: error: mesh ["tp"=8] has 8 ranks, cluster h100-sxm:4 has 4
// CLUSTER: error: none: No such file or directory
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

//--- pin.mlir
// PIN: error: {{.*}}"x"
// TWICE: error: the module has a dist.mesh: expects no option mesh
dist.mesh @mesh [#dist.axis<"tp" = 4>]
func.func @f(%x: tensor<8xf32> {dist.pin = #dist.on<@mesh, [{x}]>}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

//--- whole.mlir
// WHOLE: error: 'xf.attention' op cannot be split so that its result is where dist.pin has it
dist.mesh @mesh [#dist.axis<"tp" = 4>]
func.func @f(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %y, %lse = xf.attention %q, %k, %k {scale = 0.1 : f64, dist.pin = #dist.on<@mesh, [{}, {}, {}, {tp}]>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %y : tensor<1x8x2x4xf32>
}

//--- rule.mlir
// RULE: error: 'arith.constant' op has no sharding rule; with the attribute dist.replicate every rank does it whole
func.func @f() -> tensor<8xf32> {
  %x = arith.constant dense<1.0> : tensor<8xf32>
  return %x : tensor<8xf32>
}

//--- twice.mlir
// TWO: error: 'xf.accumulate' op is the second one: expects a function with one
func.func @step(%x: tensor<2x4xf32>) {
  %s = xf.accumulate 2 (%x) : (tensor<2x4xf32>) -> tensor<f32> {
  ^bb0(%i: tensor<4xf32>):
    %y = xf.sum %i : (tensor<4xf32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  %t = xf.accumulate 2 (%x) : (tensor<2x4xf32>) -> tensor<f32> {
  ^bb0(%i: tensor<4xf32>):
    %y = xf.sum %i : (tensor<4xf32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  return
}

//--- shape.mlir
// SHAPE: error: expects arguments whose dim 0 is the number of micro-batches
func.func @step(%x: tensor<2x4xf32>, %z: tensor<4xf32>) {
  %s = xf.accumulate 2 (%x) : (tensor<2x4xf32>) -> tensor<f32> {
  ^bb0(%i: tensor<4xf32>):
    %y = xf.sum %i : (tensor<4xf32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  return
}

//--- split.mlir
// SPLIT: error: expects pins of arguments that split the batch alone
dist.mesh @mesh [#dist.axis<"tp" = 4>]
func.func @step(%x: tensor<2x4x8xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {tp}]>}) {
  %s = xf.accumulate 2 (%x) : (tensor<2x4x8xf32>) -> tensor<f32> {
  ^bb0(%i: tensor<4x8xf32>):
    %y = xf.sum %i : (tensor<4x8xf32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  return
}

//--- unlike.mlir
// UNLIKE: error: expects pins of arguments that split the batch alike
dist.mesh @mesh [#dist.axis<"tp" = 4>]
func.func @step(%x: tensor<2x4x8xf32> {dist.pin = #dist.on<@mesh, [{}, {tp}, {}]>},
                %z: tensor<2x4x8xf32> {dist.pin = #dist.on<@mesh, [{}, {}, {}]>}) {
  %s = xf.accumulate 2 (%x) : (tensor<2x4x8xf32>) -> tensor<f32> {
  ^bb0(%i: tensor<4x8xf32>):
    %y = xf.sum %i : (tensor<4x8xf32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  return
}

//--- input.mlir
// INPUT: error: 'xf.accumulate' op expects arguments of the function as inputs
func.func @step(%x: tensor<2x4xf32>) {
  %w = xf.add %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = xf.accumulate 2 (%w) : (tensor<2x4xf32>) -> tensor<f32> {
  ^bb0(%i: tensor<4xf32>):
    %y = xf.sum %i : (tensor<4xf32>) -> tensor<f32>
    xf.yield %y : tensor<f32>
  }
  return
}

//--- placed.mlir
// NOMESH: error: expects a dist.mesh
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
