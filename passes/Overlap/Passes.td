#ifndef CLEAVE_PASSES_OVERLAP_PASSES_TD
#define CLEAVE_PASSES_OVERLAP_PASSES_TD

include "mlir/Pass/PassBase.td"

// Which communication there is beside compute, and what it takes.
class OverlapOptions {
  list<Option> all = [
    Option<"mode", "mode", "std::string", "\"auto\"",
           "auto: not inside a node of CPUs, whose cores move what their ranks "
           "send; always; never">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "where instructions are priced: what --cluster of cleave compile takes">,
  ];
}

def CutTurnPass : Pass<"cleave-cut-turn", "::mlir::ModuleOp"> {
  let summary = "Go from the forward to the backward pass part by part";
  let description = [{
    Before: an `exec.program`, all of it in stream 0, whose instructions say which
    pass they are of (`xf.provenance`). After: the largest value that the forward
    pass leaves to the backward pass, and that all who use it take row by row, is
    never there as a whole. It is a language model's logits; with them go the loss
    and its gradient, the product that computes them, and those that use this
    gradient. All of that is done for a part of the rows after the other, in
    buffers that all parts share. What others read, as the losses of tokens, stays
    where it was, and each part writes its own (`exec.view`); what is a sum over
    rows, as the gradient of the head's weight, is added up part by part. So sums
    are over the same terms, in an order of their own.

    Where both passes are in segments of their own, as in a pipeline, the backward
    one does what belongs to the turn, and nothing of it is kept.

    Parts repeat what products read of their weight, and small products are slow.
    So by itself the pass cuts nothing that has room: the memory that a device of
    the cluster does not reserve, less 5 %. Else it makes as few parts as fit. A
    remark says what has become of how many bytes.

    ```mlir
    exec.gemm(%x, %w) -> (%logits) {m = 4096 : i64, ...}
    exec.launch(%logits, %targets) -> (%losses, %lse) {kernel = @loss}
    exec.launch(%losses) -> (%loss) {kernel = @sum}
    exec.launch(%logits, %lse, %targets) -> (%dlogits) {kernel = @loss_grad}
    exec.gemm(%dlogits, %w) -> (%dx) {m = 4096 : i64, ...}
    exec.gemm(%dlogits, %x) -> (%dw) {k = 4096 : i64, trans_a = true, accumulate = #exec<accumulate never>, ...}
    // becomes, with %x0, %targets0, %losses0 and %dx0 the first halves of %x,
    // %targets, %losses and %dx, and %half, %lse_half, %dhalf half as large as
    // %logits, %lse and %dlogits
    exec.gemm(%x0, %w) -> (%half) {m = 2048 : i64, ...}
    exec.launch(%half, %targets0) -> (%losses0, %lse_half) {kernel = @loss_part_of_2}
    exec.launch(%half, %lse_half, %targets0) -> (%dhalf) {kernel = @loss_grad_part_of_2}
    exec.gemm(%dhalf, %w) -> (%dx0) {m = 2048 : i64, ...}
    exec.gemm(%dhalf, %x0) -> (%dw) {k = 2048 : i64, trans_a = true, accumulate = #exec<accumulate never>, ...}
    exec.gemm(%x1, %w) -> (%half) {m = 2048 : i64, ...}
    ...
    exec.gemm(%dhalf, %x1) -> (%dw) {k = 2048 : i64, trans_a = true, accumulate = #exec<accumulate always>, ...}
    exec.launch(%losses) -> (%loss) {kernel = @sum}
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
  let options = [
    Option<"parts", "parts", "int64_t", "0",
           "parts of as many rows; 1: none; 0, since parts cost time and save "
           "nothing but memory: as few as fit into a device of the cluster">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "whose devices the program is for: what --cluster of cleave compile "
           "takes">,
  ];
  let statistics = [
    Statistic<"numCut", "cut", "instructions that were cut into parts">,
    Statistic<"numParts", "parts", "instructions that they became">,
  ];
}

def CutProductsPass : Pass<"cleave-cut-products", "::mlir::ModuleOp"> {
  let summary = "Cut products and the collectives beside them into parts";
  let description = [{
    Before: an `exec.program`, all of it in stream 0. After: collectives that the
    rank would wait for are in parts, together with the products that compute what
    they move or use what they moved, and with what is between, so that one part
    can move while another is computed. So are those that a message to another
    stage waits for, which has nothing else to do where a pipeline has few
    micro-batches. Parts are of rows, one behind the other in
    the buffers that there were (`exec.view`): nothing is copied, and each sum is
    over the same terms.

    Into how many parts, or whether at all, is a matter of time on the cluster, by
    `cleave-overlap`'s own scheduler: each part pays its startup, and smaller
    products are slower. Of messages counts when they are there. A remark for each
    of these collectives says what is waited for in parts, and whole.

    ```mlir
    exec.gemm(%x, %w) -> (%y) {m = 4096 : i64, ...}
    exec.reduce_scatter(%y) -> (%z) {outer = 4 : i64, ...}
    // becomes, with %x0, %y0, %z0 the first halves of %x, %y and %z
    exec.gemm(%x0, %w) -> (%y0) {m = 2048 : i64, ...}
    exec.reduce_scatter(%y0) -> (%z0) {outer = 2 : i64, ...}
    exec.gemm(%x1, %w) -> (%y1) {m = 2048 : i64, ...}
    exec.reduce_scatter(%y1) -> (%z1) {outer = 2 : i64, ...}
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
  let options = OverlapOptions<>.all;
  let statistics = [
    Statistic<"numCut", "cut", "instructions that were cut into parts">,
    Statistic<"numParts", "parts", "instructions that they became">,
  ];
}

def JoinPiecesPass : Pass<"cleave-join-pieces", "::mlir::ModuleOp"> {
  let summary = "Let shards be pieces of no more blocks than parts need";
  let description = [{
    Before: an `exec.program` whose collectives may have `blocks`: their shards are
    pieces of so many, for whoever wants parts. After: no more of them than the
    parts that there are need, and none where all that have as many are whole. A
    device moves each piece by itself, or packs them first.

    ```mlir
    exec.reduce_scatter(%y0) -> (%z0) {outer = 4 : i64, inner = 64 : i64, blocks = 8 : i64, ...}
    exec.reduce_scatter(%y1) -> (%z1) {outer = 4 : i64, inner = 64 : i64, blocks = 8 : i64, ...}
    exec.all_gather(%z) -> (%u) {outer = 8 : i64, inner = 64 : i64, blocks = 8 : i64, ...}
    // becomes, since with two blocks a half of all shards is a half of %z, too
    exec.reduce_scatter(%y0) -> (%z0) {outer = 1 : i64, inner = 256 : i64, blocks = 2 : i64, ...}
    exec.reduce_scatter(%y1) -> (%z1) {outer = 1 : i64, inner = 256 : i64, blocks = 2 : i64, ...}
    exec.all_gather(%z) -> (%u) {outer = 2 : i64, inner = 256 : i64, blocks = 2 : i64, ...}
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
  let statistics = [
    Statistic<"numJoined", "joined", "shards of collectives with fewer pieces">,
  ];
}

def OverlapPass : Pass<"cleave-overlap", "::mlir::ModuleOp"> {
  let summary = "Let communication run beside compute, in streams of its own";
  let description = [{
    Before: an `exec.program`, all of it in stream 0. After: collectives and
    messages that can run beside compute are in other streams, one for each group
    of mesh axes and one for messages, and instructions of a segment are in the
    order that hides most of them: gathers so long before their use as they take,
    reductions as soon as their input is there, and what waits for them behind
    other compute. What is communicated once a step before the first micro-batch or
    after the last one is in one segment with it, where that hides it: the runs
    `before 0, m 0, m 1, m 2, after 0` become `before_m 0, m 1, m_after 2`.
    Collectives of one kind and group are in buckets, which start up once, where
    that saves more than it costs that all of a bucket is there at once
    (`with_next`). Else only order and streams change; who waits for whom is
    `cleave-add-waits`' to say.

    What is in flight keeps its buffers until it is known done. In the arena there
    is room for 95 % of the memory that a device of the cluster does not reserve, or
    for what the program needs in one stream, where that is more. Gathers begin no
    earlier than there is memory for them, and what is done first is waited for
    where it ends. If the program then needs more all the same, for what is in
    flight from one run to the next, nothing is; then a segment that needs too much
    has less to use; at last it stays in one stream. Its remark says so. Of a
    cluster without devices there is no limit.

    What compute and communication take is priced on the cluster. Collectives
    between pipeline stages stay where they are. A remark for each segment says
    what it communicates, and how much of that is still waited for.

    ```mlir
    exec.gemm(%x, %w0) -> (%y) ...
    exec.all_gather(%s1) -> (%w1) {...}
    exec.gemm(%y, %w1) -> (%z) ...
    // becomes
    exec.all_gather(%s1) -> (%w1) {..., exec.order = #exec.order<1, event = 0>}
    exec.gemm(%x, %w0) -> (%y) ...
    exec.gemm(%y, %w1) -> (%z) ...
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
  let options = OverlapOptions<>.all;
  let statistics = [
    Statistic<"numAside", "aside", "instructions put into other streams">,
    Statistic<"numTogether", "together",
              "instructions that begin together with the next one">,
    Statistic<"numJoined", "joined", "runs joined with another">,
  ];
}

def AddWaitsPass : Pass<"cleave-add-waits", "::mlir::ModuleOp"> {
  let summary = "Let instructions of different streams wait where they must";
  let description = [{
    Before: an `exec.program` whose instructions are in streams. After: of two that
    access the same byte, one of them to write it, the later one in the order of
    runs and list knows the earlier one done. Where their streams and events do not
    say so yet, the earlier one records an event, and the later one waits for it.
    Buffers without offsets share no bytes; once they have them, they may.

    ```mlir
    exec.all_gather(%s) -> (%w) {..., exec.order = #exec.order<1, event = 0>}
    exec.gemm(%x, %w) -> (%y) ...
    // becomes
    exec.all_gather(%s) -> (%w) {..., exec.order = #exec.order<1, event = 1>}
    exec.gemm(%x, %w) -> (%y) {..., exec.order = #exec.order<0, event = 0, waits = [1]>}
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
  let statistics = [
    Statistic<"numWaits", "waits", "waits added">,
  ];
}

def VerifyOrderPass : Pass<"cleave-verify-order", "::mlir::ModuleOp"> {
  let summary = "Check that streams which share bytes wait for each other";
  let description = [{
    The contract of streams: of two instructions that access the same byte, one of
    them to write it, the later one begins when the earlier one is done, by their
    stream or by events. Fails on the first two of which that is not so. The
    runtime checks the same of a program that it loads.
  }];
}

#endif
