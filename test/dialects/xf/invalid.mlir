// RUN: cleave-opt %s -split-input-file -verify-diagnostics

// Each error of the dialect's verifiers, and what each op says in it.

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

// expected-error @+1 {{expects a logical shape of 2 dims, got 1}}
xf.state @logical_rank parameter : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>,
  logical = array<i64: 8>}

// -----

// expected-error @+1 {{expects logical dim 1 to be between 1 and 4, got 5}}
xf.state @logical_size parameter : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>,
  logical = array<i64: 8, 5>}

// -----

// expected-error @+1 {{expects logical dim 0 to be between 1 and 8, got 0}}
xf.state @logical_zero parameter : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>,
  logical = array<i64: 0, 4>}

// -----

// expected-error @+1 {{expects 2 names of dims, got 1}}
xf.state @dim_names parameter : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>,
  dims = ["vocab"]}

// -----

// expected-error @+1 {{expects a copy to say of what, and nothing else to}}
xf.state @no_parameter copy : tensor<8x4xbf16> {
  init = #xf.init<zeros, 0.0 : f64>}

// -----

xf.state @w parameter : tensor<8x4xf32> {init = #xf.init<zeros, 0.0 : f64>}
// expected-error @+1 {{expects a copy to say of what, and nothing else to}}
xf.state @no_copy constant : tensor<8x4xbf16> {
  init = #xf.init<zeros, 0.0 : f64>, of = @w}

// -----

xf.state @table constant : tensor<8x4xf32> {init = #xf.init<ones, 1.0 : f64>}
// expected-error @+1 {{expects a parameter named @table}}
xf.state @of_no_parameter copy : tensor<8x4xbf16> {
  init = #xf.init<zeros, 0.0 : f64>, of = @table}

// -----

// expected-note @+1 {{parameter declared here}}
xf.state @w parameter : tensor<8x4xf32> {init = #xf.init<zeros, 0.0 : f64>}
// expected-error @+1 {{expects the shape and placement of the parameter, and a type with fewer bits than 'tensor<8x4xf32>', got 'tensor<4x8xbf16>'}}
xf.state @another_shape copy : tensor<4x8xbf16> {
  init = #xf.init<zeros, 0.0 : f64>, of = @w}

// -----

// expected-note @+1 {{parameter declared here}}
xf.state @w parameter : tensor<8x4xf32> {init = #xf.init<zeros, 0.0 : f64>}
// expected-error @+1 {{expects the shape and placement of the parameter, and a type with fewer bits than 'tensor<8x4xf32>', got 'tensor<8x4xf32>'}}
xf.state @same_type copy : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>, of = @w}

// -----

// expected-error @+1 {{expects some of the 2 dims as rows and some as columns, got rows of 2}}
xf.state @all_rows parameter : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>, rows = 2 : i64}

// -----

// expected-error @+1 {{expects some of the 2 dims as rows and some as columns, got rows of 0}}
xf.state @no_rows parameter : tensor<8x4xf32> {
  init = #xf.init<zeros, 0.0 : f64>, rows = 0 : i64}

// -----

func.func @get_unknown() {
  // expected-error @+1 {{expects a state named @w}}
  %w = xf.get @w : tensor<8xf32>
  return
}

// -----

func.func @set_unknown(%w: tensor<8xf32>) {
  // expected-error @+1 {{expects a state named @w}}
  xf.set @w, %w : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{state declared here}}
xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @get_type() {
  // expected-error @+1 {{expects the state's type 'tensor<8xf32>', got 'tensor<4xf32>'}}
  %w = xf.get @w : tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{state declared here}}
xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @set_type(%w: tensor<8xbf16>) {
  // expected-error @+1 {{expects the state's type 'tensor<8xf32>', got 'tensor<8xbf16>'}}
  xf.set @w, %w : tensor<8xbf16>
  return
}

// -----

func.func @accumulate_arguments(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expects 1 block arguments, one per input, got 2}}
  xf.accumulate 4 (%x) : (tensor<4x8xf32>) -> () {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @accumulate_count(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{expects dim 0 of input 0 to be the count, 4}}
  %s = xf.accumulate 4 (%x) : (tensor<3x8xf32>) -> tensor<8xf32> {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield %slice : tensor<8xf32>
  }
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!x = tensor<4x8xf32, #dist.on<@mesh, [{dp}, {}]>>
!slice = tensor<8xf32, #dist.on<@mesh, [{}]>>
func.func @accumulate_split(%x: !x) {
  // expected-error @+1 {{expects dim 0 of input 0 not to be split}}
  %s = xf.accumulate 4 (%x) : (!x) -> !slice {
  ^bb0(%slice: !slice):
    xf.yield %slice : !slice
  }
  return
}

// -----

func.func @accumulate_slice(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expects block argument 0 of type 'tensor<8xf32>', got 'tensor<4x8xf32>'}}
  %s = xf.accumulate 4 (%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%slice: tensor<4x8xf32>):
    xf.yield %slice : tensor<4x8xf32>
  }
  return
}

// -----

func.func @accumulate_results(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expects to yield values of its result types}}
  %s = xf.accumulate 4 (%x) : (tensor<4x8xf32>) -> tensor<f32> {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield %slice : tensor<8xf32>
  }
  return
}

// -----

func.func @accumulate_nothing() {
  // expected-error @+1 {{expects a count of at least 1, got 0}}
  xf.accumulate 0 () : () -> () {
    xf.yield
  }
  return
}

// -----

func.func @order_of_none(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects the segments that its order runs}}
  "xf.accumulate"(%x) <{count = 2 : i64, order = array<i64: 0, 0, 0, 1>}> ({
  ^bb0(%slice: tensor<8xf32>):
    "xf.yield"() : () -> ()
  }) : (tensor<2x8xf32>) -> ()
  return
}

// -----

func.func @segments_without_order(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects an order of one run of each of its 1 segments for each of its 2 micro-batches}}
  "xf.accumulate"(%x) <{count = 2 : i64, segments = ["all"]}> ({
  ^bb0(%slice: tensor<8xf32>):
    "xf.yield"() : () -> ()
  }) : (tensor<2x8xf32>) -> ()
  return
}

// -----

func.func @run_missing(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects an order of one run of each of its 2 segments for each of its 2 micro-batches}}
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["forward", "backward"] order [0, 0, 0, 1, 1, 0] {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @run_of_half(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects an order of one run of each of its 1 segments for each of its 2 micro-batches}}
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["all"] order [0, 0, 0] {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @order_of_no_segments(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects an order of one run of each of its 0 segments for each of its 2 micro-batches}}
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments [] order [0, 0] {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @run_of_no_segment(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects runs of its segments for its micro-batches, got 1, 1}}
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["all"] order [0, 0, 1, 1] {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @run_of_no_micro_batch(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{expects runs of its segments for its micro-batches, got 0, -1}}
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["all"] order [0, 0, 0, -1] {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @run_twice(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{runs segment 0 twice for micro-batch 1}}
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["all"] order [0, 1, 0, 1] {
  ^bb0(%slice: tensor<8xf32>):
    xf.yield
  }
  return
}

// -----

func.func @op_of_no_segment(%x: tensor<2x8xf32>) {
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["all"] order [0, 0, 0, 1] {
  ^bb0(%slice: tensor<8xf32>):
    // expected-error @+1 {{expects xf.segment, one of 1 segments}}
    %a = xf.scale %slice {factor = 1.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    xf.yield
  }
  return
}

// -----

func.func @op_of_unknown_segment(%x: tensor<2x8xf32>) {
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["all"] order [0, 0, 0, 1] {
  ^bb0(%slice: tensor<8xf32>):
    // expected-error @+1 {{expects xf.segment, one of 1 segments}}
    %a = xf.scale %slice {factor = 1.0 : f64, xf.segment = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    xf.yield
  }
  return
}

// -----

func.func @op_apart(%x: tensor<2x8xf32>) {
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["a", "b"] order [0, 0, 1, 0, 0, 1, 1, 1] {
  ^bb0(%slice: tensor<8xf32>):
    %a = xf.scale %slice {factor = 1.0 : f64, xf.segment = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %b = xf.scale %slice {factor = 1.0 : f64, xf.segment = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{expects to stand with the others of its segment, in the order of their first runs}}
    %c = xf.scale %slice {factor = 1.0 : f64, xf.segment = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    xf.yield
  }
  return
}

// -----

func.func @segments_not_as_they_run(%x: tensor<2x8xf32>) {
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["a", "b"] order [1, 0, 0, 0, 1, 1, 0, 1] {
  ^bb0(%slice: tensor<8xf32>):
    %a = xf.scale %slice {factor = 1.0 : f64, xf.segment = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{expects to stand with the others of its segment, in the order of their first runs}}
    %b = xf.scale %slice {factor = 1.0 : f64, xf.segment = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    xf.yield
  }
  return
}

// -----

func.func @use_before(%x: tensor<2x8xf32>) {
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["a", "b"] order [0, 0, 1, 0, 1, 1, 0, 1] {
  ^bb0(%slice: tensor<8xf32>):
    %a = xf.scale %slice {factor = 1.0 : f64, xf.segment = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{uses a value of segment 0, which the order runs after it}}
    %b = xf.scale %a {factor = 1.0 : f64, xf.segment = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    xf.yield
  }
  return
}

// -----

// What stands after its use has no segment either.
func.func @use_of_what_comes(%x: tensor<2x8xf32>) {
  xf.accumulate 2 (%x) : (tensor<2x8xf32>) -> ()
      segments ["a"] order [0, 0, 0, 1] {
  ^bb0(%slice: tensor<8xf32>):
    %b = xf.scale %a {factor = 1.0 : f64, xf.segment = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{expects xf.segment, one of 1 segments}}
    %a = xf.scale %slice {factor = 1.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    xf.yield
  }
  return
}

// -----

// expected-error @+1 {{expects xf.segment to be an i64 of at least 0, got "forward"}}
func.func @segment_name() attributes {xf.segment = "forward"} {
  return
}

// -----

// expected-error @+1 {{expects xf.segment to be an i64 of at least 0, got -1 : i64}}
func.func @segment_below_0() attributes {xf.segment = -1 : i64} {
  return
}

// -----

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

func.func @embedding_table(%0: tensor<2x8xi32>, %1: tensor<100xf32>) {
  // expected-error @+1 {{expects a table of 2 dims, got [100]}}
  %r = xf.embedding %0, %1 : (tensor<2x8xi32>, tensor<100xf32>) ->
      tensor<2x8xf32>
  return
}

// -----

func.func @embedding_result(%0: tensor<2x8xi32>, %1: tensor<100x64xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8, 64], got [2, 8, 32]}}
  %r = xf.embedding %0, %1 : (tensor<2x8xi32>, tensor<100x64xf32>) ->
      tensor<2x8x32xf32>
  return
}

// -----

func.func @linear_contract_zero(%0: tensor<2x8xf32>, %1: tensor<4x8xf32>) {
  // expected-error @+1 {{expects contract to be between 1 and the ranks of x and weight, got 0}}
  %r = xf.linear %0, %1 {contract = 0 : i64} : (tensor<2x8xf32>,
      tensor<4x8xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @linear_contract_large(%0: tensor<2x8xf32>, %1: tensor<4x8xf32>) {
  // expected-error @+1 {{expects contract to be between 1 and the ranks of x and weight, got 3}}
  %r = xf.linear %0, %1 {contract = 3 : i64} : (tensor<2x8xf32>,
      tensor<4x8xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @linear_inputs(%0: tensor<2x8xf32>, %1: tensor<4x6xf32>) {
  // expected-error @+1 {{expects x to end in the weight's input dims [6], got [2, 8]}}
  %r = xf.linear %0, %1 {contract = 1 : i64} : (tensor<2x8xf32>,
      tensor<4x6xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @linear_inputs_first(%0: tensor<2x8xf32>, %1: tensor<4x8xf32>) {
  // expected-error @+1 {{expects x to end in the weight's input dims [4], got [2, 8]}}
  %r = xf.linear %0, %1 {contract = 1 : i64, inputs_first} : (tensor<2x8xf32>,
      tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @linear_bias(%0: tensor<2x8xf32>, %1: tensor<4x8xf32>, %2:
    tensor<8xf32>) {
  // expected-error @+1 {{expects a bias of shape [4], got [8]}}
  %r = xf.linear %0, %1, %2 {contract = 1 : i64} : (tensor<2x8xf32>,
      tensor<4x8xf32>, tensor<8xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @linear_result(%0: tensor<2x8xf32>, %1: tensor<4x8xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 4], got [4, 2]}}
  %r = xf.linear %0, %1 {contract = 1 : i64} : (tensor<2x8xf32>,
      tensor<4x8xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @rms_norm_weight(%0: tensor<2x8xf32>, %1: tensor<4xf32>) {
  // expected-error @+1 {{expects a weight with the trailing dims of x, [2, 8], got [4]}}
  %r0, %r1 = xf.rms_norm %0, %1 {eps = 1.0e-6 : f64} : (tensor<2x8xf32>,
      tensor<4xf32>) -> (tensor<2x8xf32>, tensor<2xf32>)
  return
}

// -----

func.func @rms_norm_scalar(%0: tensor<2x8xf32>, %1: tensor<f32>) {
  // expected-error @+1 {{expects a weight with the trailing dims of x, [2, 8], got []}}
  %r0, %r1 = xf.rms_norm %0, %1 {eps = 1.0e-6 : f64} : (tensor<2x8xf32>,
      tensor<f32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @rms_norm_result(%0: tensor<2x8xf32>, %1: tensor<8xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got [8, 2]}}
  %r0, %r1 = xf.rms_norm %0, %1 {eps = 1.0e-6 : f64} : (tensor<2x8xf32>,
      tensor<8xf32>) -> (tensor<8x2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @rms_norm_type(%0: tensor<2x8xf32>, %1: tensor<8xf32>) {
  // expected-error @+1 {{expects a result of 'f32', got 'bf16'}}
  %r0, %r1 = xf.rms_norm %0, %1 {eps = 1.0e-6 : f64} : (tensor<2x8xf32>,
      tensor<8xf32>) -> (tensor<2x8xbf16>, tensor<2xf32>)
  return
}

// -----

func.func @rms_norm_rstd(%0: tensor<2x8xf32>, %1: tensor<8xf32>) {
  // expected-error @+1 {{expects rstd of shape [2], got [8]}}
  %r0, %r1 = xf.rms_norm %0, %1 {eps = 1.0e-6 : f64} : (tensor<2x8xf32>,
      tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_weight(%0: tensor<2x8xf32>, %1: tensor<16xf32>, %2:
    tensor<16xf32>) {
  // expected-error @+1 {{expects a weight with the trailing dims of x, [2, 8], got [16]}}
  %r0, %r1, %r2 = xf.layer_norm %0, %1, %2 {eps = 1.0e-6 : f64} :
      (tensor<2x8xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8xf32>,
      tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_bias(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<4xf32>) {
  // expected-error @+1 {{expects a bias of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.layer_norm %0, %1, %2 {eps = 1.0e-6 : f64} :
      (tensor<2x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<2x8xf32>,
      tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_result(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got [2]}}
  %r0, %r1, %r2 = xf.layer_norm %0, %1, %2 {eps = 1.0e-6 : f64} :
      (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2xf32>,
      tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_mean(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>) {
  // expected-error @+1 {{expects a mean of shape [2], got []}}
  %r0, %r1, %r2 = xf.layer_norm %0, %1, %2 {eps = 1.0e-6 : f64} :
      (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>,
      tensor<f32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_rstd(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>) {
  // expected-error @+1 {{expects rstd of shape [2], got [2, 8]}}
  %r0, %r1, %r2 = xf.layer_norm %0, %1, %2 {eps = 1.0e-6 : f64} :
      (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>,
      tensor<2xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @rope_rank(%0: tensor<2x8x64xf32>, %1: tensor<8x4xf32>, %2:
    tensor<8x4xf32>) {
  // expected-error @+1 {{expects x of 4 dims and two tables of 2 dims}}
  %r = xf.rope %0, %1, %2 : (tensor<2x8x64xf32>, tensor<8x4xf32>,
      tensor<8x4xf32>) -> tensor<2x8x64xf32>
  return
}

// -----

func.func @rope_tables(%0: tensor<2x8x4x16xf32>, %1: tensor<8x4xf32>, %2:
    tensor<8x2xf32>) {
  // expected-error @+1 {{expects x of 4 dims and two tables of 2 dims}}
  %r = xf.rope %0, %1, %2 : (tensor<2x8x4x16xf32>, tensor<8x4xf32>,
      tensor<8x2xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @rope_rows(%0: tensor<2x8x4x16xf32>, %1: tensor<4x4xf32>, %2:
    tensor<4x4xf32>) {
  // expected-error @+1 {{expects tables of 8 rows and at most 8 columns, got [4, 4]}}
  %r = xf.rope %0, %1, %2 : (tensor<2x8x4x16xf32>, tensor<4x4xf32>,
      tensor<4x4xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @rope_columns(%0: tensor<2x8x4x16xf32>, %1: tensor<8x9xf32>, %2:
    tensor<8x9xf32>) {
  // expected-error @+1 {{expects tables of 8 rows and at most 8 columns, got [8, 9]}}
  %r = xf.rope %0, %1, %2 : (tensor<2x8x4x16xf32>, tensor<8x9xf32>,
      tensor<8x9xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @rope_result(%0: tensor<2x8x4x16xf32>, %1: tensor<8x4xf32>, %2:
    tensor<8x4xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8, 4, 16], got [2, 8, 16, 4]}}
  %r = xf.rope %0, %1, %2 : (tensor<2x8x4x16xf32>, tensor<8x4xf32>,
      tensor<8x4xf32>) -> tensor<2x8x16x4xf32>
  return
}

// -----

func.func @attention_rank(%0: tensor<2x8x64xf32>, %1: tensor<2x8x32xf32>, %2:
    tensor<2x8x32xf32>) {
  // expected-error @+1 {{expects q [b, s, heads, d] and k [b, s, kv_heads, d], got [2, 8, 64] and [2, 8, 32]}}
  %r0, %r1 = xf.attention %0, %1, %2 {scale = 0.25 : f64} : (tensor<2x8x64xf32>,
      tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> (tensor<2x8x64xf32>,
      tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_sequence(%0: tensor<2x8x4x16xf32>, %1:
    tensor<2x4x2x16xf32>, %2: tensor<2x4x2x16xf32>) {
  // expected-error @+1 {{expects q [b, s, heads, d] and k [b, s, kv_heads, d], got [2, 8, 4, 16] and [2, 4, 2, 16]}}
  %r0, %r1 = xf.attention %0, %1, %2 {scale = 0.25 : f64} :
      (tensor<2x8x4x16xf32>, tensor<2x4x2x16xf32>, tensor<2x4x2x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_heads(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x3x16xf32>,
    %2: tensor<2x8x3x16xf32>) {
  // expected-error @+1 {{expects kv heads (3) to divide heads (4)}}
  %r0, %r1 = xf.attention %0, %1, %2 {scale = 0.25 : f64} :
      (tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_values(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x2x16xf32>,
    %2: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects v of shape [2, 8, 2, 16], got [2, 8, 4, 16]}}
  %r0, %r1 = xf.attention %0, %1, %2 {scale = 0.25 : f64} :
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_lse(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x2x16xf32>, %2:
    tensor<2x8x2x16xf32>) {
  // expected-error @+1 {{expects lse of shape [2, 4, 8], got [2, 8, 4]}}
  %r0, %r1 = xf.attention %0, %1, %2 {scale = 0.25 : f64} :
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
  return
}

// -----

func.func @attention_result(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x2x16xf32>,
    %2: tensor<2x8x2x16xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8, 4, 16], got [2, 8, 2, 16]}}
  %r0, %r1 = xf.attention %0, %1, %2 {scale = 0.25 : f64} :
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) ->
      (tensor<2x8x2x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @activation_types(%0: tensor<8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = xf.activation %0 {kind = 0 : i32} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @glu_types(%0: tensor<8xf32>, %1: tensor<8xbf16>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = xf.glu %0, %1 {kind = 3 : i32} : (tensor<8xf32>, tensor<8xbf16>) ->
      tensor<8xf32>
  return
}

// -----

func.func @add_nothing() {
  // expected-error @+1 {{expects at least one operand}}
  %r = xf.add : () -> tensor<8xf32>
  return
}

// -----

func.func @add_first(%0: tensor<8xf32>, %1: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a first operand of shape [2, 8], got [8]}}
  %r = xf.add %0, %1 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @add_trailing(%0: tensor<2x8xf32>, %1: tensor<2xf32>) {
  // expected-error @+1 {{expects operand 1 to have the trailing dims of [2, 8], got [2]}}
  %r = xf.add %0, %1 : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @add_rank(%0: tensor<8xf32>, %1: tensor<2x8xf32>) {
  // expected-error @+1 {{expects operand 1 to have the trailing dims of [8], got [2, 8]}}
  %r = xf.add %0, %1 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scale_types(%0: tensor<8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = xf.scale %0 {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xbf16>
  return
}

// -----

func.func @cast_result(%0: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got [8, 2]}}
  %r = xf.cast %0 : (tensor<2x8xf32>) -> tensor<8x2xbf16>
  return
}

// -----

func.func @slice_rows_dims(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects operand and result to differ in dim 0 only}}
  %r = xf.slice_rows %0 {start = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @slice_rows_rank(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects operand and result to differ in dim 0 only}}
  %r = xf.slice_rows %0 {start = 0 : i64} : (tensor<8x4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @slice_rows_end(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects rows in [0, 8), got [7, 9)}}
  %r = xf.slice_rows %0 {start = 7 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

func.func @cross_entropy_scalar(%0: tensor<f32>, %1: tensor<i32>) {
  // expected-error @+1 {{expects logits of at least one dim}}
  %r0, %r1 = xf.cross_entropy %0, %1 {vocab = 100 : i64} : (tensor<f32>,
      tensor<i32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @cross_entropy_targets(%0: tensor<2x8x104xf32>, %1: tensor<16xi32>) {
  // expected-error @+1 {{expects targets of shape [2, 8], got [16]}}
  %r0, %r1 = xf.cross_entropy %0, %1 {vocab = 100 : i64} : (tensor<2x8x104xf32>,
      tensor<16xi32>) -> (tensor<f32>, tensor<2x8xf32>)
  return
}

// -----

func.func @cross_entropy_vocab(%0: tensor<2x8x104xf32>, %1: tensor<2x8xi32>) {
  // expected-error @+1 {{expects vocab to be between 1 and 104, got 105}}
  %r0, %r1 = xf.cross_entropy %0, %1 {vocab = 105 : i64} : (tensor<2x8x104xf32>,
      tensor<2x8xi32>) -> (tensor<f32>, tensor<2x8xf32>)
  return
}

// -----

func.func @cross_entropy_loss(%0: tensor<2x8x104xf32>, %1: tensor<2x8xi32>) {
  // expected-error @+1 {{expects a loss of shape [], got [2]}}
  %r0, %r1 = xf.cross_entropy %0, %1 {vocab = 100 : i64} : (tensor<2x8x104xf32>,
      tensor<2x8xi32>) -> (tensor<2xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @cross_entropy_lse(%0: tensor<2x8x104xf32>, %1: tensor<2x8xi32>) {
  // expected-error @+1 {{expects lse of shape [2, 8], got [2]}}
  %r0, %r1 = xf.cross_entropy %0, %1 {vocab = 100 : i64} : (tensor<2x8x104xf32>,
      tensor<2x8xi32>) -> (tensor<f32>, tensor<2xf32>)
  return
}

// -----

func.func @row_max_scalar(%0: tensor<f32>) {
  // expected-error @+1 {{expects x of at least one dim}}
  %r = xf.row_max %0 {vocab = 100 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @row_max_result(%0: tensor<2x8x104xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got [2]}}
  %r = xf.row_max %0 {vocab = 100 : i64} : (tensor<2x8x104xf32>) ->
      tensor<2xf32>
  return
}

// -----

func.func @row_max_vocab(%0: tensor<2x8x104xf32>) {
  // expected-error @+1 {{expects vocab to be at least 1, got 0}}
  %r = xf.row_max %0 {vocab = 0 : i64} : (tensor<2x8x104xf32>) ->
      tensor<2x8xf32>
  return
}

// -----

func.func @sum_exp_max(%0: tensor<2x8x104xf32>, %1: tensor<8xf32>) {
  // expected-error @+1 {{expects max of shape [2, 8], got [8]}}
  %r = xf.sum_exp %0, %1 {vocab = 100 : i64} : (tensor<2x8x104xf32>,
      tensor<8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @sum_exp_result(%0: tensor<2x8x104xf32>, %1: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got [8, 2]}}
  %r = xf.sum_exp %0, %1 {vocab = 100 : i64} : (tensor<2x8x104xf32>,
      tensor<2x8xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @sum_exp_vocab(%0: tensor<2x8x104xf32>, %1: tensor<2x8xf32>) {
  // expected-error @+1 {{expects vocab to be at least 1, got 0}}
  %r = xf.sum_exp %0, %1 {vocab = 0 : i64} : (tensor<2x8x104xf32>,
      tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @pick_targets(%0: tensor<2x8x104xf32>, %1: tensor<8xi32>) {
  // expected-error @+1 {{expects targets of shape [2, 8], got [8]}}
  %r = xf.pick %0, %1 : (tensor<2x8x104xf32>, tensor<8xi32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @pick_result(%0: tensor<2x8x104xf32>, %1: tensor<2x8xi32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got []}}
  %r = xf.pick %0, %1 : (tensor<2x8x104xf32>, tensor<2x8xi32>) -> tensor<f32>
  return
}

// -----

func.func @token_loss_sum_exp(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2x8xf32>, %3: tensor<2x8xi32>) {
  // expected-error @+1 {{expects sum_exp of shape [2, 8], got [8]}}
  %r0, %r1 = xf.token_loss %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2x8xf32>, tensor<2x8xi32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @token_loss_picked(%0: tensor<2x8xf32>, %1: tensor<2x8xf32>, %2:
    tensor<8xf32>, %3: tensor<2x8xi32>) {
  // expected-error @+1 {{expects picked of shape [2, 8], got [8]}}
  %r0, %r1 = xf.token_loss %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<2x8xf32>,
      tensor<8xf32>, tensor<2x8xi32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @token_loss_targets(%0: tensor<2x8xf32>, %1: tensor<2x8xf32>, %2:
    tensor<2x8xf32>, %3: tensor<8xi32>) {
  // expected-error @+1 {{expects targets of shape [2, 8], got [8]}}
  %r0, %r1 = xf.token_loss %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<2x8xf32>,
      tensor<2x8xf32>, tensor<8xi32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @token_loss_loss(%0: tensor<2x8xf32>, %1: tensor<2x8xf32>, %2:
    tensor<2x8xf32>, %3: tensor<2x8xi32>) {
  // expected-error @+1 {{expects a loss of shape [2, 8], got []}}
  %r0, %r1 = xf.token_loss %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<2x8xf32>,
      tensor<2x8xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<2x8xf32>)
  return
}

// -----

func.func @token_loss_lse(%0: tensor<2x8xf32>, %1: tensor<2x8xf32>, %2:
    tensor<2x8xf32>, %3: tensor<2x8xi32>) {
  // expected-error @+1 {{expects lse of shape [2, 8], got []}}
  %r0, %r1 = xf.token_loss %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<2x8xf32>,
      tensor<2x8xf32>, tensor<2x8xi32>) -> (tensor<2x8xf32>, tensor<f32>)
  return
}

// -----

func.func @sum_result(%0: tensor<8xf32>) {
  // expected-error @+1 {{expects a result of shape [], got [1]}}
  %r = xf.sum %0 : (tensor<8xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @count_tokens_result(%0: tensor<8xi32>) {
  // expected-error @+1 {{expects a result of shape [], got [1]}}
  %r = xf.count_tokens %0 : (tensor<8xi32>) -> tensor<1xf32>
  return
}

// -----

func.func @square_sum_result(%0: tensor<8xf32>) {
  // expected-error @+1 {{expects a result of shape [], got [1]}}
  %r = xf.square_sum %0 : (tensor<8xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @cross_entropy_grad_scalar(%0: tensor<f32>, %1: tensor<f32>, %2:
    tensor<i32>, %3: tensor<f32>) {
  // expected-error @+1 {{expects x of at least one dim}}
  %r = xf.cross_entropy_grad %0, %1, %2, %3 {vocab = 100 : i64} : (tensor<f32>,
      tensor<f32>, tensor<i32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @cross_entropy_grad_lse(%0: tensor<2x8x104xf32>, %1: tensor<2xf32>,
    %2: tensor<2x8xi32>, %3: tensor<f32>) {
  // expected-error @+1 {{expects lse of shape [2, 8], got [2]}}
  %r = xf.cross_entropy_grad %0, %1, %2, %3 {vocab = 100 : i64} :
      (tensor<2x8x104xf32>, tensor<2xf32>, tensor<2x8xi32>, tensor<f32>) ->
      tensor<2x8x104xf32>
  return
}

// -----

func.func @cross_entropy_grad_targets(%0: tensor<2x8x104xf32>, %1:
    tensor<2x8xf32>, %2: tensor<2xi32>, %3: tensor<f32>) {
  // expected-error @+1 {{expects targets of shape [2, 8], got [2]}}
  %r = xf.cross_entropy_grad %0, %1, %2, %3 {vocab = 100 : i64} :
      (tensor<2x8x104xf32>, tensor<2x8xf32>, tensor<2xi32>, tensor<f32>) ->
      tensor<2x8x104xf32>
  return
}

// -----

func.func @cross_entropy_grad_dloss(%0: tensor<2x8x104xf32>, %1:
    tensor<2x8xf32>, %2: tensor<2x8xi32>, %3: tensor<1xf32>) {
  // expected-error @+1 {{expects dloss of shape [], got [1]}}
  %r = xf.cross_entropy_grad %0, %1, %2, %3 {vocab = 100 : i64} :
      (tensor<2x8x104xf32>, tensor<2x8xf32>, tensor<2x8xi32>, tensor<1xf32>) ->
      tensor<2x8x104xf32>
  return
}

// -----

func.func @cross_entropy_grad_result(%0: tensor<2x8x104xf32>, %1:
    tensor<2x8xf32>, %2: tensor<2x8xi32>, %3: tensor<f32>) {
  // expected-error @+1 {{expects a result of shape [2, 8, 104], got [2, 8]}}
  %r = xf.cross_entropy_grad %0, %1, %2, %3 {vocab = 100 : i64} :
      (tensor<2x8x104xf32>, tensor<2x8xf32>, tensor<2x8xi32>, tensor<f32>) ->
      tensor<2x8xf32>
  return
}

// -----

func.func @cross_entropy_grad_vocab(%0: tensor<2x8x104xf32>, %1:
    tensor<2x8xf32>, %2: tensor<2x8xi32>, %3: tensor<f32>) {
  // expected-error @+1 {{expects vocab to be at least 1, got 0}}
  %r = xf.cross_entropy_grad %0, %1, %2, %3 {vocab = 0 : i64} :
      (tensor<2x8x104xf32>, tensor<2x8xf32>, tensor<2x8xi32>, tensor<f32>) ->
      tensor<2x8x104xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

func.func @embedding_grad_table(%0: tensor<2x8xi32>, %1: tensor<2x8x64xf32>) {
  // expected-error @+1 {{expects a table of 2 dims, got [64]}}
  %r = xf.embedding_grad %0, %1 : (tensor<2x8xi32>, tensor<2x8x64xf32>) ->
      tensor<64xf32>
  return
}

// -----

func.func @embedding_grad_dy(%0: tensor<2x8xi32>, %1: tensor<2x8x64xf32>) {
  // expected-error @+1 {{expects dy of shape [2, 8, 32], got [2, 8, 64]}}
  %r = xf.embedding_grad %0, %1 : (tensor<2x8xi32>, tensor<2x8x64xf32>) ->
      tensor<100x32xf32>
  return
}

// -----

func.func @mask_rows_x(%0: tensor<8x2x4xf32>, %1: tensor<2x8xi32>) {
  // expected-error @+1 {{expects x to begin with the dims of ids, [2, 8], got [8, 2, 4]}}
  %r = xf.mask_rows %0, %1 {id = 1 : i64} : (tensor<8x2x4xf32>, tensor<2x8xi32>)
      -> tensor<8x2x4xf32>
  return
}

// -----

func.func @mask_rows_result(%0: tensor<2x8x4xf32>, %1: tensor<2x8xi32>) {
  // expected-error @+1 {{expects a result of shape [2, 8, 4], got [2, 8]}}
  %r = xf.mask_rows %0, %1 {id = 1 : i64} : (tensor<2x8x4xf32>, tensor<2x8xi32>)
      -> tensor<2x8xf32>
  return
}

// -----

func.func @linear_weight_grad_leading(%0: tensor<2x8xf32>, %1: tensor<2x4xf32>)
    {
  // expected-error @+1 {{expects leading to be between 0 and the ranks of x and dy, got 3}}
  %r = xf.linear_weight_grad %0, %1 {leading = 3 : i64} : (tensor<2x8xf32>,
      tensor<2x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_weight_grad_negative(%0: tensor<2x8xf32>, %1: tensor<2x4xf32>)
    {
  // expected-error @+1 {{expects leading to be between 0 and the ranks of x and dy, got -1}}
  %r = xf.linear_weight_grad %0, %1 {leading = -1 : i64} : (tensor<2x8xf32>,
      tensor<2x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_weight_grad_rows(%0: tensor<2x8xf32>, %1: tensor<3x4xf32>) {
  // expected-error @+1 {{expects x and dy to agree in 1 leading dims, got [2, 8] and [3, 4]}}
  %r = xf.linear_weight_grad %0, %1 {leading = 1 : i64} : (tensor<2x8xf32>,
      tensor<3x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @linear_weight_grad_result(%0: tensor<2x8xf32>, %1: tensor<2x4xf32>) {
  // expected-error @+1 {{expects a result of shape [4, 8], got [8, 4]}}
  %r = xf.linear_weight_grad %0, %1 {leading = 1 : i64} : (tensor<2x8xf32>,
      tensor<2x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @linear_weight_grad_inputs_first(%0: tensor<2x8xf32>, %1:
    tensor<2x4xf32>) {
  // expected-error @+1 {{expects a result of shape [8, 4], got [4, 8]}}
  %r = xf.linear_weight_grad %0, %1 {leading = 1 : i64, inputs_first} :
      (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @reduce_leading_result(%0: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a result with the trailing dims of [2, 8], got [2]}}
  %r = xf.reduce_leading %0 : (tensor<2x8xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @rms_norm_grad_weight(%0: tensor<2x8xf32>, %1: tensor<2xf32>, %2:
    tensor<2xf32>, %3: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a weight with the trailing dims of x, [2, 8], got [2]}}
  %r = xf.rms_norm_grad %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<2xf32>,
      tensor<2xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @rms_norm_grad_rstd(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>, %3: tensor<2x8xf32>) {
  // expected-error @+1 {{expects rstd of shape [2], got [8]}}
  %r = xf.rms_norm_grad %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @rms_norm_grad_dy(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2xf32>, %3: tensor<2xf32>) {
  // expected-error @+1 {{expects dy of shape [2, 8], got [2]}}
  %r = xf.rms_norm_grad %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2xf32>, tensor<2xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @rms_norm_grad_result(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2xf32>, %3: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a result of shape [2, 8], got [8]}}
  %r = xf.rms_norm_grad %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2xf32>, tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @layer_norm_grad_weight(%0: tensor<2x8xf32>, %1: tensor<2xf32>, %2:
    tensor<2xf32>, %3: tensor<2xf32>, %4: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a weight with the trailing dims of x, [2, 8], got [2]}}
  %r = xf.layer_norm_grad %0, %1, %2, %3, %4 : (tensor<2x8xf32>, tensor<2xf32>,
      tensor<2xf32>, tensor<2xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @layer_norm_grad_mean(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>, %3: tensor<2xf32>, %4: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a mean of shape [2], got [8]}}
  %r = xf.layer_norm_grad %0, %1, %2, %3, %4 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<2xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @layer_norm_grad_rstd(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2xf32>, %3: tensor<8xf32>, %4: tensor<2x8xf32>) {
  // expected-error @+1 {{expects rstd of shape [2], got [8]}}
  %r = xf.layer_norm_grad %0, %1, %2, %3, %4 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2xf32>, tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @layer_norm_grad_dy(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2xf32>, %3: tensor<2xf32>, %4: tensor<2xf32>) {
  // expected-error @+1 {{expects dy of shape [2, 8], got [2]}}
  %r = xf.layer_norm_grad %0, %1, %2, %3, %4 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @layer_norm_grad_result(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2xf32>, %3: tensor<2xf32>, %4: tensor<2x8xf32>) {
  // expected-error @+1 {{expects a result of 'f32', got 'bf16'}}
  %r = xf.layer_norm_grad %0, %1, %2, %3, %4 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2xf32>, tensor<2xf32>, tensor<2x8xf32>) -> tensor<2x8xbf16>
  return
}

// -----

func.func @norm_weight_grad_result(%0: tensor<2x8xf32>, %1: tensor<2xf32>, %2:
    tensor<2x8xf32>) {
  // expected-error @+1 {{expects a weight with the trailing dims of x, [2, 8], got [2]}}
  %r = xf.norm_weight_grad %0, %1, %2 : (tensor<2x8xf32>, tensor<2xf32>,
      tensor<2x8xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @norm_weight_grad_rstd(%0: tensor<2x8xf32>, %1: tensor<8xf32>, %2:
    tensor<2x8xf32>) {
  // expected-error @+1 {{expects rstd of shape [2], got [8]}}
  %r = xf.norm_weight_grad %0, %1, %2 : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @norm_weight_grad_dy(%0: tensor<2x8xf32>, %1: tensor<2xf32>, %2:
    tensor<2xf32>) {
  // expected-error @+1 {{expects dy of shape [2, 8], got [2]}}
  %r = xf.norm_weight_grad %0, %1, %2 : (tensor<2x8xf32>, tensor<2xf32>,
      tensor<2xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @norm_weight_grad_mean(%0: tensor<2x8xf32>, %1: tensor<2xf32>, %2:
    tensor<2x8xf32>, %3: tensor<8xf32>) {
  // expected-error @+1 {{expects a mean of shape [2], got [8]}}
  %r = xf.norm_weight_grad %0, %1, %2, %3 : (tensor<2x8xf32>, tensor<2xf32>,
      tensor<2x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @attention_grad_heads(%0: tensor<2x8x4x16xf32>, %1:
    tensor<2x8x3x16xf32>, %2: tensor<2x8x3x16xf32>, %3: tensor<2x8x4x16xf32>,
    %4: tensor<2x4x8xf32>, %5: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects kv heads (3) to divide heads (4)}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>,
      tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return
}

// -----

func.func @attention_grad_lse(%0: tensor<2x8x4x16xf32>, %1:
    tensor<2x8x2x16xf32>, %2: tensor<2x8x2x16xf32>, %3: tensor<2x8x4x16xf32>,
    %4: tensor<8xf32>, %5: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects lse of shape [2, 4, 8], got [8]}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
      tensor<2x8x4x16xf32>, tensor<8xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return
}

// -----

func.func @attention_grad_out(%0: tensor<2x8x4x16xf32>, %1:
    tensor<2x8x2x16xf32>, %2: tensor<2x8x2x16xf32>, %3: tensor<2x8x2x16xf32>,
    %4: tensor<2x4x8xf32>, %5: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects out of shape [2, 8, 4, 16], got [2, 8, 2, 16]}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
      tensor<2x8x2x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return
}

// -----

func.func @attention_grad_dout(%0: tensor<2x8x4x16xf32>, %1:
    tensor<2x8x2x16xf32>, %2: tensor<2x8x2x16xf32>, %3: tensor<2x8x4x16xf32>,
    %4: tensor<2x4x8xf32>, %5: tensor<2x8x2x16xf32>) {
  // expected-error @+1 {{expects dout of shape [2, 8, 4, 16], got [2, 8, 2, 16]}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
      tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x2x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return
}

// -----

func.func @attention_grad_dq(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x2x16xf32>,
    %2: tensor<2x8x2x16xf32>, %3: tensor<2x8x4x16xf32>, %4: tensor<2x4x8xf32>,
    %5: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects dq of shape [2, 8, 4, 16], got [2, 8, 2, 16]}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
      tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return
}

// -----

func.func @attention_grad_dk(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x2x16xf32>,
    %2: tensor<2x8x2x16xf32>, %3: tensor<2x8x4x16xf32>, %4: tensor<2x4x8xf32>,
    %5: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects dk of 'f32', got 'bf16'}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
      tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xf32>)
  return
}

// -----

func.func @attention_grad_dv(%0: tensor<2x8x4x16xf32>, %1: tensor<2x8x2x16xf32>,
    %2: tensor<2x8x2x16xf32>, %3: tensor<2x8x4x16xf32>, %4: tensor<2x4x8xf32>,
    %5: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{expects dv of shape [2, 8, 2, 16], got [2, 8, 4, 16]}}
  %r0, %r1, %r2 = xf.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.25 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
      tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) ->
      (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x4x16xf32>)
  return
}

// -----

func.func @activation_grad_types(%0: tensor<8xf32>, %1: tensor<4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = xf.activation_grad %0, %1 {kind = 0 : i32} : (tensor<8xf32>,
      tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @glu_grad_types(%0: tensor<8xf32>, %1: tensor<8xf32>, %2:
    tensor<4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r0, %r1 = xf.glu_grad %0, %1, %2 {kind = 3 : i32} : (tensor<8xf32>,
      tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @pad_rows_dims(%0: tensor<2x2xf32>) {
  // expected-error @+1 {{expects operand and result to differ in dim 0 only}}
  %r = xf.pad_rows %0 {start = 0 : i64} : (tensor<2x2xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @pad_rows_start(%0: tensor<2x4xf32>) {
  // expected-error @+1 {{expects rows in [0, 8), got [-1, 1)}}
  %r = xf.pad_rows %0 {start = -1 : i64} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

func.func @reciprocal_types(%0: tensor<f32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = xf.reciprocal %0 : (tensor<f32>) -> tensor<1xf32>
  return
}

// -----

func.func @mul_types(%0: tensor<8xf32>, %1: tensor<f32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = xf.mul %0, %1 : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return
}

// -----

func.func @clip_factor_x(%0: tensor<1xf32>) {
  // expected-error @+1 {{expects x of shape [], got [1]}}
  %r0, %r1 = xf.clip_factor %0 {max_norm = 1.0 : f64} : (tensor<1xf32>) ->
      (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @clip_factor_norm(%0: tensor<f32>) {
  // expected-error @+1 {{expects a norm of shape [], got [1]}}
  %r0, %r1 = xf.clip_factor %0 {max_norm = 1.0 : f64} : (tensor<f32>) ->
      (tensor<1xf32>, tensor<f32>)
  return
}

// -----

func.func @clip_factor_factor(%0: tensor<f32>) {
  // expected-error @+1 {{expects a factor of shape [], got [1]}}
  %r0, %r1 = xf.clip_factor %0 {max_norm = 1.0 : f64} : (tensor<f32>) ->
      (tensor<f32>, tensor<1xf32>)
  return
}

// -----

func.func @guard_factor(%0: tensor<1xf32>, %1: tensor<f32>, %2: tensor<f32>,
    %3: tensor<5xf32>) {
  // expected-error @+1 {{expects a factor of shape [], got [1]}}
  %r = xf.guard %0, %1, %2, %3 : (tensor<1xf32>, tensor<f32>, tensor<f32>,
      tensor<5xf32>) -> tensor<f32>
  return
}

// -----

func.func @guard_loss(%0: tensor<f32>, %1: tensor<1xf32>, %2: tensor<f32>,
    %3: tensor<5xf32>) {
  // expected-error @+1 {{expects a loss of shape [], got [1]}}
  %r = xf.guard %0, %1, %2, %3 : (tensor<f32>, tensor<1xf32>, tensor<f32>,
      tensor<5xf32>) -> tensor<f32>
  return
}

// -----

func.func @guard_norm(%0: tensor<f32>, %1: tensor<f32>, %2: tensor<1xf32>,
    %3: tensor<5xf32>) {
  // expected-error @+1 {{expects a norm of shape [], got [1]}}
  %r = xf.guard %0, %1, %2, %3 : (tensor<f32>, tensor<f32>, tensor<1xf32>,
      tensor<5xf32>) -> tensor<f32>
  return
}

// -----

func.func @guard_schedule(%0: tensor<f32>, %1: tensor<f32>, %2: tensor<f32>,
    %3: tensor<4xf32>) {
  // expected-error @+1 {{expects a schedule of shape [5], got [4]}}
  %r = xf.guard %0, %1, %2, %3 : (tensor<f32>, tensor<f32>, tensor<f32>,
      tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @guard_result(%0: tensor<f32>, %1: tensor<f32>, %2: tensor<f32>,
    %3: tensor<5xf32>) {
  // expected-error @+1 {{expects a result of shape [], got [1]}}
  %r = xf.guard %0, %1, %2, %3 : (tensor<f32>, tensor<f32>, tensor<f32>,
      tensor<5xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @schedule_result() {
  // expected-error @+1 {{expects a result of shape [5], got [3]}}
  %r = xf.schedule {kind = 0 : i32, lr = 1.0 : f64, min_lr = 0.1 : f64,
      warmup_steps = 0 : i64, decay_steps = 0 : i64, stable_steps = 0 : i64,
      beta1 = 0.9 : f64, beta2 = 0.95 : f64} : tensor<3xf32>
  return
}

// -----

func.func @adamw_m(%0: tensor<8xf32>, %1: tensor<4xf32>, %2: tensor<8xf32>, %3:
    tensor<8xf32>, %4: tensor<f32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects state 1 of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_v(%0: tensor<8xf32>, %1: tensor<8xf32>, %2: tensor<4xf32>, %3:
    tensor<8xf32>, %4: tensor<f32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects state 2 of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_gradient(%0: tensor<8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>, %3: tensor<4xf32>, %4: tensor<f32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects a gradient of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_clip(%0: tensor<8xf32>, %1: tensor<8xf32>, %2: tensor<8xf32>,
    %3: tensor<8xf32>, %4: tensor<8xf32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects clip of shape [], got [8]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_schedule(%0: tensor<8xf32>, %1: tensor<8xf32>, %2:
    tensor<8xf32>, %3: tensor<8xf32>, %4: tensor<f32>, %5: tensor<8xf32>) {
  // expected-error @+1 {{expects a schedule of shape [5], got [8]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<f32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_new_w(%0: tensor<8xf32>, %1: tensor<8xf32>, %2: tensor<8xf32>,
    %3: tensor<8xf32>, %4: tensor<f32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects new value 0 of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<8xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_new_m(%0: tensor<8xf32>, %1: tensor<8xf32>, %2: tensor<8xf32>,
    %3: tensor<8xf32>, %4: tensor<f32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects new value 1 of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<4xf32>,
      tensor<8xf32>)
  return
}

// -----

func.func @adamw_new_v(%0: tensor<8xf32>, %1: tensor<8xf32>, %2: tensor<8xf32>,
    %3: tensor<8xf32>, %4: tensor<f32>, %5: tensor<5xf32>) {
  // expected-error @+1 {{expects new value 2 of shape [8], got [4]}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %2, %3, %4, %5
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>,
      tensor<4xf32>)
  return
}

// -----

func.func @adamw_new_v_type(%0: tensor<8xf32>, %1: tensor<8xbf16>,
    %2: tensor<f32>, %3: tensor<5xf32>) {
  // expected-error @+1 {{expects new value 2 of the old one's type 'bf16', got 'f32'}}
  %r0, %r1, %r2 = xf.adamw %0, %1, %1, %0, %2, %3
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>,
      tensor<f32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<8xbf16>,
      tensor<8xf32>)
  return
}

// -----

func.func @sgd_state(%0: tensor<8xf32>, %1: tensor<4xf32>, %2: tensor<f32>,
    %3: tensor<5xf32>) {
  // expected-error @+1 {{expects state 1 of shape [8], got [4]}}
  %r0, %r1 = xf.sgd %0, %1, %0, %2, %3 {momentum = 0.9 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<f32>,
         tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @lion_gradient(%0: tensor<8xf32>, %1: tensor<4xf32>, %2: tensor<f32>,
    %3: tensor<5xf32>) {
  // expected-error @+1 {{expects a gradient of shape [8], got [4]}}
  %r0, %r1 = xf.lion %0, %0, %1, %2, %3
      {beta1 = 0.9 : f64, beta2 = 0.99 : f64, decay = 0.1 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<f32>,
         tensor<5xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @muon_direction(%0: tensor<8x4xf32>, %1: tensor<4x8xf32>,
    %2: tensor<f32>, %3: tensor<5xf32>) {
  // expected-error @+1 {{expects operand 5 of shape [8, 4], got [4, 8]}}
  %r0, %r1 = xf.muon %0, %0, %0, %2, %3, %1
      {momentum = 0.95 : f64, decay = 0.1 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>,
         tensor<5xf32>, tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @nesterov_gradient(%0: tensor<8x4xf32>, %1: tensor<4x8xf32>,
    %2: tensor<f32>) {
  // expected-error @+1 {{expects a gradient of shape [8, 4], got [4, 8]}}
  %r = xf.nesterov %0, %1, %2 {momentum = 0.95 : f64}
      : (tensor<8x4xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @nesterov_clip(%0: tensor<8x4xf32>, %1: tensor<4xf32>) {
  // expected-error @+1 {{expects clip of shape [], got [4]}}
  %r = xf.nesterov %0, %0, %1 {momentum = 0.95 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @nesterov_result(%0: tensor<8x4xf32>, %1: tensor<f32>) {
  // expected-error @+1 {{expects a result of shape [8, 4], got [4, 8]}}
  %r = xf.nesterov %0, %0, %1 {momentum = 0.95 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @orthogonalize_rows(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects some of the 2 dims as rows and some as columns, got rows of 2}}
  %r = xf.orthogonalize %0 {rows = 2 : i64, steps = 5 : i64, a = 3.4445 : f64,
      b = -4.775 : f64, c = 2.0315 : f64, eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @orthogonalize_no_rows(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects some of the 2 dims as rows and some as columns, got rows of -1}}
  %r = xf.orthogonalize %0 {rows = -1 : i64, steps = 5 : i64, a = 3.4445 : f64,
      b = -4.775 : f64, c = 2.0315 : f64, eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @orthogonalize_steps(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects 0 to 100 steps, got -5}}
  %r = xf.orthogonalize %0 {rows = 1 : i64, steps = -5 : i64, a = 3.4445 : f64,
      b = -4.775 : f64, c = 2.0315 : f64, eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @orthogonalize_many_steps(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expects 0 to 100 steps, got 101}}
  %r = xf.orthogonalize %0 {rows = 1 : i64, steps = 101 : i64, a = 3.4445 : f64,
      b = -4.775 : f64, c = 2.0315 : f64, eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @normalize_sum(%0: tensor<8x4xf32>, %1: tensor<4xf32>) {
  // expected-error @+1 {{expects square_sum of shape [], got [4]}}
  %r = xf.normalize %0, %1 {eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @normalize_result(%0: tensor<8x4xf32>, %1: tensor<f32>) {
  // expected-error @+1 {{expects a result of shape [8, 4], got [4, 8]}}
  %r = xf.normalize %0, %1 {eps = 1.0e-7 : f64}
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Placements: what the sharding rule says
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"dp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
func.func @part_of_a_matrix(%0: !a) {
  // expected-error @+1 {{singular values are of the whole matrix}}
  %r = xf.orthogonalize %0 {rows = 1 : i64, steps = 5 : i64, a = 3.4445 : f64,
      b = -4.775 : f64, c = 2.0315 : f64, eps = 1.0e-7 : f64} : (!a) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!b = tensor<4xf32>
func.func @placed_or_not(%0: !a, %1: !b) {
  // expected-error @+1 {{expects a placement on every tensor or on none}}
  %r = xf.add %0, %1 : (!a, !b) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
dist.mesh @other [#dist.axis<"dp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!b = tensor<4xf32, #dist.on<@other, [{}]>>
func.func @two_meshes(%0: !a, %1: !b) {
  // expected-error @+1 {{expects one mesh, got @mesh and @other}}
  %r = xf.add %0, %1 : (!a, !b) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!b = tensor<4xf32, #dist.on<@mesh, [{}, {}]>>
func.func @placed_rank(%0: !a, %1: !b) {
  // expected-error @+1 {{expects one list of axes for each dim, got}}
  %r = xf.add %0, %1 : (!a, !b) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{}, {tp}]>>
!b = tensor<4xf32, #dist.on<@mesh, [{tp}]>>
!c = tensor<8xf32, #dist.on<@mesh, [{}]>>
func.func @row_of_a_norm(%0: !a, %1: !b) {
  // expected-error @+1 {{factor "h0" cannot be split by {tp}: a norm reads whole rows}}
  %r0, %r1 = xf.rms_norm %0, %1 {eps = 1.0e-6 : f64} : (!a, !b) -> (!a, !c)
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!b = tensor<8x4xf32, #dist.on<@mesh, [{}, {}]>>
func.func @agreement(%0: !a, %1: !b) {
  // expected-error @+1 {{to be split by {dp}}}
  %r = xf.add %0, %1 : (!a, !b) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{}, {tp}]>>
!b = tensor<6x4xf32, #dist.on<@mesh, [{}, {tp}]>>
!c = tensor<8x6xf32, #dist.on<@mesh, [{}, {}]>>
func.func @forgotten_sum(%0: !a, %1: !b) {
  // expected-error @+1 {{expects result 0 to be partial over}}
  %r = xf.linear %0, %1 {contract = 1 : i64} : (!a, !b) -> !c
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!b = tensor<6x4xf32, #dist.on<@mesh, [{}, {}]>>
!c = tensor<8x6xf32, #dist.on<@mesh, [{dp}, {}], partial = {tp}>>
func.func @sum_of_nothing(%0: !a, %1: !b) {
  // expected-error @+1 {{expects result 0 not to be partial over}}
  %r = xf.linear %0, %1 {contract = 1 : i64} : (!a, !b) -> !c
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8xf32, #dist.on<@mesh, [{}], partial = {tp}>>
func.func @not_linear(%0: !a) {
  // expected-error @+1 {{does not let operands partial over}}
  %r = xf.activation %0 {kind = 0 : i32} : (!a) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8xf32, #dist.on<@mesh, [{}], partial = {tp}>>
!b = tensor<8xf32, #dist.on<@mesh, [{}]>>
func.func @one_of_two_partial(%0: !a, %1: !b) {
  // expected-error @+1 {{pass if they are just}}
  %r = xf.add %0, %1 : (!a, !b) -> !a
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8xf32, #dist.on<@mesh, [{}], max = {tp}>>
func.func @wrong_reduction(%0: !a) {
  // expected-error @+1 {{partial over}}
  %r = xf.scale %0 {factor = 2.0 : f64} : (!a) -> !a
  return
}

// -----

func.func @bf16_output(%x: tensor<8xbf16>) {
  // expected-error @+1 {{'xf.output' op operand #0 must be f32 tensor, but got 'tensor<8xbf16>'}}
  xf.output "x", %x : tensor<8xbf16>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"dp" = 2>, #dist.axis<"tp" = 2>]
!a = tensor<8x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!b = tensor<6x4xf32, #dist.on<@mesh, [{dp}, {}]>>
!c = tensor<8x6xf32, #dist.on<@mesh, [{dp}, {}]>>
func.func @half_a_result(%0: !a, %1: !b) {
  // expected-error @+1 {{expects result 0 dim 1 to be split by {dp} over factor "o0", as operand 1 dim 0 is, got {}}}
  %r = xf.linear %0, %1 {contract = 1 : i64} : (!a, !b) -> !c
  return
}

// -----

// expected-error @+2 {{expects a table of frequencies}}
xf.state @cos constant : tensor<8x4xf32> {
  init = #xf.init<rope_cos, 1.0 : f64>}

// -----

// expected-error @+2 {{expects no table of frequencies}}
xf.state @w parameter : tensor<4xf32> {
  init = #xf.init<ones, 1.0 : f64, dense<1.0> : tensor<4xf32>>}

// -----

// expected-error @+2 {{expects frequencies of f32, got 'f64'}}
xf.state @cos constant : tensor<8x4xf32> {
  init = #xf.init<rope_cos, 1.0 : f64, dense<1.0> : tensor<4xf64>>}

// -----

xf.state @w parameter : tensor<4xf32> {
  init = #xf.init<ones, 1.0 : f64>,
  // expected-error @+1 {{expects a view of 8 elements, got 4}}
  piece = #xf.piece<"w", shape = [8], view = [4], starts = [0], sizes = [4]>}

// -----

xf.state @w parameter : tensor<4xf32> {
  init = #xf.init<ones, 1.0 : f64>,
  // expected-error @+1 {{expects 2 starts and sizes, got 1 and 2}}
  piece = #xf.piece<"w", shape = [8], view = [2, 4], starts = [0], sizes = [1, 4]>}

// -----

xf.state @w parameter : tensor<4xf32> {
  init = #xf.init<ones, 1.0 : f64>,
  // expected-error @+1 {{expects dim 0 of the box in [0, 2), got [2, 3)}}
  piece = #xf.piece<"w", shape = [8], view = [2, 4], starts = [2, 0], sizes = [1, 4], drop = [0]>}

// -----

xf.state @w parameter : tensor<4xf32> {
  init = #xf.init<ones, 1.0 : f64>,
  // expected-error @+1 {{expects to drop ascending dims of size 1, got 1}}
  piece = #xf.piece<"w", shape = [8], view = [2, 4], starts = [1, 0], sizes = [1, 4], drop = [1]>}

// -----

//===----------------------------------------------------------------------===//
// What a sharding rule is spelled from
//===----------------------------------------------------------------------===//

func.func @no_dim(%x: tensor<0x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{expects dims of at least 1, got 'tensor<0x4xf32>'}}
  %y = xf.linear %x, %w {contract = 1 : i64}
      : (tensor<0x4xf32>, tensor<6x4xf32>) -> tensor<0x6xf32>
  return
}

// -----

// The op's own verifier comes before its rule.
dist.mesh @mesh [#dist.axis<"tp" = 2>]
!x = tensor<8x4xf32, #dist.on<@mesh, [{}, {}]>>
!w = tensor<6x4xf32, #dist.on<@mesh, [{}, {}]>>
!y = tensor<8x6xf32, #dist.on<@mesh, [{}, {}]>>
func.func @placed_contract(%x: !x, %w: !w) {
  // expected-error @+1 {{expects contract to be between 1 and the ranks of x and weight, got -1}}
  %y = xf.linear %x, %w {contract = -1 : i64} : (!x, !w) -> !y
  return
}

// -----

// State, outputs and sums on a mesh
//===----------------------------------------------------------------------===//

dist.mesh @mesh [#dist.axis<"tp" = 4>]
// expected-error @+1 {{'xf.state' op expects axes of ["tp"=4], got "zz"}}
xf.state @w parameter : tensor<8xf32, #dist.on<@mesh, [{zz}]>> {
  init = #xf.init<zeros, 0.0 : f64>}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 4>]
// expected-note @+1 {{state declared here}}
xf.state @w parameter : tensor<8xf32, #dist.on<@mesh, [{tp}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
func.func @step() {
  // expected-error @+1 {{'xf.get' op expects this rank's shard of the state, 'tensor<2xf32>', got 'tensor<8xf32>'}}
  %0 = xf.get @w : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh [#dist.axis<"tp" = 4>]
// expected-note @+1 {{state declared here}}
xf.state @w parameter : tensor<8xf32, #dist.on<@mesh, [{tp}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%0: tensor<4xf32>) {
  // expected-error @+1 {{'xf.set' op expects this rank's shard of the state, 'tensor<2xf32>', got 'tensor<4xf32>'}}
  xf.set @w, %0 : tensor<4xf32>
  return
}

// -----

!max = tensor<f32, #dist.on<@mesh, [], max = {tp}>>
func.func @candidates(%0: !max) {
  // expected-error @+1 {{'xf.output' op expects a value that is whole or partial by sum}}
  xf.output "loss", %0 : !max
  return
}

// -----

func.func @no_state(%0: tensor<8xf32>) {
  // expected-error @+1 {{'xf.output' op expects a state named @w}}
  xf.output "grad.w", %0 of @w : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{state declared here}}
xf.state @w parameter : tensor<8xf32> {init = #xf.init<zeros, 0.0 : f64>}
func.func @another_shape(%0: tensor<4xf32>) {
  // expected-error @+1 {{'xf.output' op expects the shape of its state}}
  xf.output "grad.w", %0 of @w : tensor<4xf32>
  return
}

// -----

!x = tensor<2x8xf32, #dist.on<@mesh, [{}, {tp}]>>
!slice = tensor<8xf32, #dist.on<@mesh, [{tp}]>>
!max = tensor<f32, #dist.on<@mesh, [], max = {tp}>>
func.func @sum_of_maxima(%0: !x, %1: !max) {
  // expected-error @+1 {{'xf.accumulate' op expects result 0 to be whole or partial by sum}}
  %2 = xf.accumulate 2 (%0) : (!x) -> !max {
  ^bb0(%slice: !slice):
    xf.yield %1 : !max
  }
  return
}

// -----

// expected-error@+1 {{op expects xf.provenance to be an #xf.provenance, got "forward"}}
func.func @f() attributes {xf.provenance = "forward"} {
  return
}

// -----

// expected-error@+1 {{op has an attribute "xf.phase", which xf does not have}}
func.func @f() attributes {xf.phase = "forward"} {
  return
}

// -----

// expected-error@+1 {{expects a layer of at least 0, got -3}}
func.func @f() attributes {xf.provenance = #xf.provenance<forward, layer = -3>} {
  return
}

// -----

// expected-error@+1 {{expected 'layer'}}
func.func @f() attributes {xf.provenance = #xf.provenance<forward, module = norms>} {
  return
}
