#ifndef CLEAVE_PASSES_PARTITION_PASSES_TD
#define CLEAVE_PASSES_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def InsertCollectivesPass
    : Pass<"cleave-insert-collectives", "::mlir::ModuleOp"> {
  let summary = "Turn each reshard into the cheapest sequence of collectives";
  let description = [{
    Before: a placed program with `dist.reshard`. After: none; types are still
    global and placed, so `cleave-verify-placements` and the op verifiers prove
    the program. What is cheapest depends on the cluster: its collectives are
    priced as `cleave plan` prices them, rank i of the mesh being device i. Each
    choice leaves a remark with its seconds there.

    ```mlir
    %y = dist.reshard %x : tensor<8x16xf32, #dist.on<@mesh, [{}, {} ], partial = {tp}>>
                        to tensor<8x16xf32, #dist.on<@mesh, [{tp}, {} ]>>
    // becomes
    %y = dist.reduce_scatter %x axes ["tp"] dim 0 : ... to ...
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
           "where collectives are priced: what --cluster of cleave compile takes, "
           "a cluster.json, local:N or h100-sxm:N; without one, on threads of one "
           "node with the built-in link shared-memory, so that nothing depends on "
           "the machine">,
  ];
  let statistics = [
    Statistic<"numCollectives", "collectives", "collectives inserted">,
    Statistic<"numBytes", "bytes", "bytes that each rank hands to them">,
  ];
}

def BlockShardsPass : Pass<"cleave-block-shards", "::mlir::ModuleOp"> {
  let summary = "Let shards be pieces of blocks, so that collectives have parts";
  let description = [{
    Before: a placed step without reshards. After: collectives whose shards
    nothing else has to do with than ops with sharding rules, and that could be
    done in few parts only, have `blocks`. `cleave-cut-products` then finds parts
    of them where there are fewer samples than that.

    ```mlir
    %y = dist.all_gather %x axes ["tp"] dim 1
        : tensor<1x8192x4096xbf16, #dist.on<@mesh, [{}, {tp}, {} ]>>
       to tensor<1x8192x4096xbf16, #dist.on<@mesh, [{}, {}, {} ]>>
    // becomes
    %y = dist.all_gather %x axes ["tp"] dim 1 blocks 8 : ... to ...
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let options = [
    Option<"mode", "mode", "std::string", "\"auto\"",
           "what cleave-cut-products takes: after never, nothing is done in "
           "parts, and no shard has blocks">,
  ];
  let statistics = [
    Statistic<"numCollectives", "collectives", "collectives with blocks">,
  ];
}

def KeepCopiesPass : Pass<"cleave-keep-copies", "::mlir::ModuleOp"> {
  let summary = "Keep the casts of parameters from one step to the next";
  let description = [{
    Before: a placed step without reshards, which casts a parameter to a type with
    fewer bits for all its micro-batches. After: that cast is state, a copy of the
    parameter, and the step ends with casting the new value instead of beginning
    with casting the old one: kernels that update parameters then write both, and
    nothing reads the parameter for the sake of its cast. A cast that is gathered
    is left alone.

    ```mlir
    %w = xf.get @w : tensor<8x16xf32>
    %x = xf.cast %w : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    ...
    xf.set @w, %new : tensor<8x16xf32>
    // becomes
    %x = xf.get @"w/bf16" : tensor<8x16xbf16>
    ...
    xf.set @w, %new : tensor<8x16xf32>
    %y = xf.cast %new : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    xf.set @"w/bf16", %y : tensor<8x16xbf16>
    ```
  }];
  let statistics = [Statistic<"numCopies", "copies", "parameters kept twice">];
}

def LocalizePass : Pass<"cleave-localize", "::mlir::ModuleOp"> {
  let summary = "Give every tensor the shape of one rank's shard";
  let description = [{
    Before: a placed program without reshards. After: types in functions are
    those of the local shards and carry no placement; ops whose meaning depends on
    which shard a rank has carry the axes that split it as `shard_axes`, and
    outputs keep their global type as `global`. `xf.state` stays global: its
    placement is part of the program. An op with sums whose order a device may
    choose has `fixed_order` where ranks compute it on the same values: where some
    axis of the mesh, but for that of pipeline stages, neither splits a dim of its
    operands and results nor leaves one of them partial.

    ```mlir
    %y = xf.embedding %ids, %table : (tensor<8x16xi32, #dist.on<@mesh, [{dp}, {} ]>>,
        tensor<96x64xf32, #dist.on<@mesh, [{tp}, {} ]>>) -> ...
    // becomes, on ["dp" = 2, "tp" = 4]
    %y = xf.embedding %ids, %table {shard_axes = ["tp"]}
        : (tensor<4x16xi32>, tensor<24x64xf32>) -> tensor<4x16x64xf32>

    // all of them [{dp}, {}, {}, {} ]: copies along tp
    %dq, %dk, %dv = xf.attention_grad %q, %k, %v, %o, %lse, %do {scale = 0.25 : f64}
    // becomes
    %dq, %dk, %dv = xf.attention_grad %q, %k, %v, %o, %lse, %do
        {fixed_order, scale = 0.25 : f64}
    ```
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

#endif
