// RUN: cleave-opt %s --split-input-file --verify-diagnostics --cleave-verify-stages

// Two stages that wait for each other before they give what the other needs.

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>) {
  // expected-error @+1 {{of stage 0 waits for ever, for micro-batch 0}}
  %y = dist.recv from 1 channel 1 : tensor<2xf32>
  dist.send %x to 1 channel 0 : tensor<2xf32>
  return
}
func.func @stage_1(%x: tensor<2xf32>) {
  // expected-note @+1 {{so does stage 1 here, for micro-batch 0}}
  %y = dist.recv from 0 channel 0 : tensor<2xf32>
  dist.send %x to 0 channel 1 : tensor<2xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>) {
  // expected-error @+1 {{sends what no stage receives}}
  dist.send %x to 1 channel 0 : tensor<2xf32>
  return
}
func.func @stage_1(%x: tensor<2xf32>) {
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>) {
  return
}
func.func @stage_1(%x: tensor<2xf32>) {
  // expected-error @+1 {{receives what no stage sends}}
  %y = dist.recv from 0 channel 0 : tensor<2xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>) {
  dist.send %x to 1 channel 0 : tensor<2xf32>
  return
}
func.func @stage_1(%x: tensor<2xf32>) {
  // expected-error @+1 {{receives 'tensor<4xf32>', where 'tensor<2xf32>' is sent}}
  %y = dist.recv from 0 channel 0 : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 3>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>) {
  dist.send %x to 2 channel 0 : tensor<2xf32>
  return
}
func.func @stage_1(%x: tensor<2xf32>) {
  // expected-error @+1 {{is on stage 1 and receives from 0 what 0 sends to 2}}
  %y = dist.recv from 0 channel 0 : tensor<2xf32>
  return
}
func.func @stage_2(%x: tensor<2xf32>) {
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>) {
  dist.send %x to 1 channel 0 : tensor<2xf32>
  // expected-error @+1 {{is a second send over channel 0}}
  dist.send %x to 1 channel 0 : tensor<2xf32>
  return
}
func.func @stage_1(%x: tensor<2xf32>) {
  %y = dist.recv from 0 channel 0 : tensor<2xf32>
  return
}

// -----

// The second stage takes the second micro-batch first.

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2x2xf32>) {
  xf.accumulate 2(%x) : (tensor<2x2xf32>) -> () {
  ^bb0(%slice: tensor<2xf32>):
    dist.send %slice to 1 channel 0 : tensor<2xf32>
    xf.yield
  }
  return
}
func.func @stage_1(%x: tensor<2x2xf32>) {
  xf.accumulate 2(%x) : (tensor<2x2xf32>) -> () segments ["forward"] order [0, 1, 0, 0] {
  ^bb0(%slice: tensor<2xf32>):
    // expected-error @+1 {{takes micro-batch 1, where 0 is sent}}
    %y = dist.recv from 0 channel 0 {xf.segment = 0 : i64} : tensor<2xf32>
    xf.yield
  }
  return
}

// -----

// Collectives of all stages meet in their order.

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<2xf32>, %y: tensor<f32>) {
  // expected-note @+1 {{the other collective}}
  %a = dist.all_reduce %x axes ["pp"] : tensor<2xf32> to tensor<2xf32>
  %b = dist.all_reduce %y axes ["pp"] : tensor<f32> to tensor<f32>
  return
}
func.func @stage_1(%x: tensor<2xf32>, %y: tensor<f32>) {
  // expected-error @+1 {{meets another collective of the first stage}}
  %b = dist.all_reduce %y axes ["pp"] : tensor<f32> to tensor<f32>
  %a = dist.all_reduce %x axes ["pp"] : tensor<2xf32> to tensor<2xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<f32>) {
  // expected-error @+1 {{of stage 0 waits for ever}}
  %a = dist.all_reduce %x axes ["pp"] : tensor<f32> to tensor<f32>
  return
}
func.func @stage_1(%x: tensor<f32>) {
  return
}

// -----

// expected-error @+1 {{expects a function named "stage_1"}}
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
func.func @stage_0(%x: tensor<f32>) {
  return
}

// -----

// However many stages a mesh says, they are looked for one by one.

// expected-error @+1 {{expects a function named "stage_0"}}
dist.mesh @mesh [#dist.axis<"pp" = 2147483647>] stages "pp"
