#ifndef CLEAVE_PASSES_PLACE_PASSES_TD
#define CLEAVE_PASSES_PLACE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandCrossEntropyPass : Pass<"cleave-expand-cross-entropy"> {
  let summary = "Take each cross-entropy apart, so that its vocabulary may be split";
  let description = [{
    Before: `xf.cross_entropy`, which reads whole rows of logits. After: the
    maximum, the sum of exponentials and the target's logit of each token, each
    of which may be a partial result over the axes that split the vocabulary.

    ```mlir
    %loss, %lse = xf.cross_entropy %x, %targets {vocab = 100 : i64} ...
    // becomes
    %m = xf.row_max %x {vocab = 100 : i64} ...
    %z = xf.sum_exp %x, %m {vocab = 100 : i64} ...
    %t = xf.pick %x, %targets ...
    %each, %lse = xf.token_loss %m, %z, %t, %targets ...
    %loss = xf.sum %each ...
    ```
  }];
  let dependentDialects = ["::cleave::xf::XfDialect"];
}

def PlaceTensorsPass : Pass<"cleave-place-tensors", "::mlir::ModuleOp"> {
  let summary = "Give every tensor the placement that follows from the plan";
  let description = [{
    Before: a training step without placements. After: every tensor type has one
    and every op keeps to its sharding rule; where the placement that a value has
    and the one that an op needs differ, there is a `dist.reshard`.

    The plan pins where parameters, gradients and optimizer state live and how
    the batch is split. The rest follows, op by op in program order: the axes of
    an op's factors are those of its parameters first, then of its other operands;
    an axis splits one factor only. A partial value stays partial while its users
    are linear in it; where it must be whole, it takes the placement of the
    residual stream.

    ```mlir
    %z = xf.linear %h, %w {contract = 1 : i64}
    %y = xf.add %x, %z
    // becomes, with "intermediate" over tp and "sequence" over tp
    %z = xf.linear ... -> tensor<8x64x32xf32, #dist.on<@mesh, [{dp}, {}, {} ], partial = {tp}>>
    %s = dist.reshard %z : ... to tensor<8x64x32xf32, #dist.on<@mesh, [{dp}, {tp}, {} ]>>
    %y = xf.add %x, %s
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let options = [
    Option<"plan", "plan", "std::string", "\"\"",
           "path of a plan.json, by hand or of cleave plan --runnable -o; without "
           "one, the module's dist.plan, or else a mesh of one rank">,
  ];
}

def ChoosePlacementsPass
    : Pass<"cleave-choose-placements", "::mlir::ModuleOp"> {
  let summary = "Give every tensor of a function the placement that costs least";
  let description = [{
    Before: a training step, or a straight-line function of ops with sharding
    rules, without placements. After: every tensor has one, every op keeps to its
    sharding rule, and there is a `dist.reshard` wherever an op needs a value
    elsewhere than it is made.

    Which placements, follows from rules, shapes and the cluster alone: each mesh
    axis splits one factor of an op, or lets its operands stay partial, or does
    nothing, and of all such choices this is one with few seconds of ops and
    reshards, whose kept tensors fit into a rank's memory, with what ops need
    besides while they run. Ops take the time of
    their products, or that of moving their tensors through memory, on the shards
    that a rank has; a reshard takes that of its cheapest collectives, once for
    all ops of a pass that need its result. What is in an `xf.accumulate` counts
    once for each micro-batch. Of collectives that may run beside compute what counts
    is what compute waits for, by the scheduler of `cleave-overlap`.

    Kept are: state, which is where its update leaves it; what the micro-batches
    read from outside, in the placement in which they find it; what they add up;
    and what the forward pass makes for the backward pass. What an op needs only
    while it runs is not among it, but has room left, unless `memory` is given.

    Where the module's `dist.plan` has a pipeline, nothing is split along its axis of
    stages; seconds are those of all stages together, without messages between them,
    and what is kept is that of the fullest stage, with the micro-batches that it has
    in flight.

    Pins are attributes `dist.pin`, of an argument, a function's result, a state,
    or an op, for its first result; the choice is one of those that have them. An op
    without a sharding rule is an error, unless it has the attribute `dist.replicate`:
    then every rank has all that it reads, and does all of it.
    Remarks say what splits each op, what the whole takes, and what no choice can
    take less than; where that is the same, the choice is proven to be the best.

    ```mlir
    func.func @mlp(%x: tensor<512x1024xf32> {dist.pin = #dist.on<@mesh, [{}, {} ]>},
        %w1: tensor<4096x1024xf32> {dist.pin = #dist.on<@mesh, [{tp}, {} ]>}, ...) {
      %h = xf.linear %x, %w1 {contract = 1 : i64}
      %z = xf.linear %h, %w2 {contract = 1 : i64}
      return %z
    // becomes, on tp=4
      %h = xf.linear ... -> tensor<512x4096xf32, #dist.on<@mesh, [{}, {tp} ]>>
      %z = xf.linear ... -> tensor<512x1024xf32, #dist.on<@mesh, [{}, {} ], partial = {tp}>>
      %y = dist.reshard %z : ... to tensor<512x1024xf32, #dist.on<@mesh, [{tp}, {} ]>>
      return %y
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
           "what --cluster of cleave plan takes: h100-sxm:8, local:N or a "
           "cluster.json; rank i of the mesh is device i">,
    Option<"meshText", "mesh", "std::string", "\"\"",
           "axes, the last of neighbours: dp=2,tp=4; of a module without a "
           "dist.mesh; none: those of its dist.plan">,
    Option<"tactics", "tactics", "std::string", "\"\"",
           "file of tactics that the choice keeps to, docs/sharding.md">,
    Option<"saysTactics", "explain-tactics", "bool", "true",
           "say in remarks what each tactic adds, which takes a search for each">,
    Option<"allowsIdle", "allow-idle-tactics", "bool", "false",
           "tactics may be for no op: of layers that a small model has not">,
    Option<"overlap", "overlap", "std::string", "\"auto\"",
           "which collectives run beside compute: as mode of cleave-overlap">,
    Option<"memory", "memory", "uint64_t", "0",
           "bytes of a rank for what is kept; 0: what the device has for a "
           "program, less what ops need only while they run">,
    Option<"mostStates", "most-states", "uint64_t", "64",
           "states that a search keeps at a time: more take longer, and find and "
           "prove more">,
  ];
}

def PricePlacementsPass : Pass<"cleave-price-placements", "::mlir::ModuleOp"> {
  let summary = "Say what the placements of a function cost";
  let description = [{
    Before: functions whose tensors are placed. After: the same, and a remark that
    says what they take by the count that cleave-choose-placements makes least
    where nothing runs beside compute: seconds of ops and reshards, and the bytes
    that are kept. So a choice can be compared with what a plan, or a person, has
    placed.

    ```mlir
    // remark: 91.88 us, 0.00 of them in reshards; keeps 0.000 MB
    func.func @f(%x: tensor<4x512x1024xf32, #dist.on<@mesh, [{tp}, {}, {} ]>>, ...) {
      %h = xf.linear %x, %w {contract = 1 : i64} : ...
    ```
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
           "as of cleave-choose-placements">,
  ];
}

def VerifyPlacementsPass : Pass<"cleave-verify-placements", "::mlir::ModuleOp"> {
  let summary = "Check that every tensor of a step is placed on the mesh";
  let description = [{
    The contract at the end of this stage, and after the reshards are collectives:
    one mesh; every tensor has a placement whose axes are the mesh's and divide
    its dims; every op with tensors has a sharding rule or is one of the few that
    move values (state, reshards, collectives, `xf.accumulate`). Op verifiers check
    each rule by the names of the axes; this pass checks it again with their sizes.
  }];
}

#endif
