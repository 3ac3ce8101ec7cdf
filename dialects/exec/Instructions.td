#ifndef CLEAVE_DIALECTS_EXEC_INSTRUCTIONS_TD
#define CLEAVE_DIALECTS_EXEC_INSTRUCTIONS_TD

include "dialects/exec/ExecDialect.td"
include "dialects/exec/InstructionInterface.td"

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def Exec_BufferOp : Exec_Op<"buffer", [Pure]> {
  let summary = "a range of the rank's arena";
  let description = [{
    Its offset is assigned by `cleave-plan-memory`. A `pinned` buffer is live
    throughout: state, data, outputs. `state` names the state tensor that it holds.

    ```mlir
    %b = exec.buffer "activations" 4096 : !exec.buffer
    ```

    Constraints:
    1. At least one byte; the offset, if assigned, is a multiple of 64. Both are
       at most 2^46.
  }];
  let arguments = (ins StrAttr:$category, I64Attr:$bytes,
                       OptionalAttr<I64Attr>:$offset, UnitAttr:$pinned,
                       OptionalAttr<FlatSymbolRefAttr>:$state);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = [{
    $category $bytes (`at` $offset^)? (`pinned` $pinned^)? (`of` $state^)?
    attr-dict `:` type($result)
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$category,
                                 "int64_t":$bytes)>];
  let hasVerifier = 1;
}

def Exec_ViewOp : Exec_Op<"view", [Pure]> {
  let summary = "a part of a buffer";
  let description = [{
    `bytes` of it from the byte `from` on. With `places` it is a micro-batch's: in
    a run for micro-batch m, from `from + (m mod places) * stride` on; without a
    stride they lie one behind the other. As many places as micro-batches give
    each its own; what is kept for k micro-batches at a time takes turns in k
    places, at multiples of 64 bytes.

    ```mlir
    %v = exec.view %b 1024 from 3072 : !exec.buffer
    %w = exec.view %b 1024 places 4 : !exec.buffer
    %x = exec.view %c 1000 places 4 stride 1024 : !exec.buffer
    ```

    Constraints:
    1. It is a view of a buffer, which has its bytes in all places, at least one
       byte each; `from` is a multiple of 64.
    2. With a stride it has places, which share no byte.
  }];
  let arguments = (ins Exec_Buffer:$buffer, I64Attr:$bytes,
                       DefaultValuedAttr<I64Attr, "0">:$places,
                       DefaultValuedAttr<I64Attr, "0">:$from,
                       DefaultValuedAttr<I64Attr, "0">:$stride);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = [{
    $buffer $bytes (`from` $from^)? (`places` $places^)? (`stride` $stride^)?
    attr-dict `:` type($result)
  }];
  let extraClassDeclaration = [{
    /// Bytes from the begin of one place to the next; 0 without places.
    int64_t getDistance();
  }];
  let hasVerifier = 1;
}

def Exec_OutputOp : Exec_Op<"output",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a buffer that a person or a test may ask for by name";
  let description = [{
    `type` is the global, placed type of the value, `logical` its shape without
    padding; `state` names the parameter whose checkpoint layout it has.

    ```mlir
    exec.output "loss" %b : tensor<f32, #dist.on<@mesh, []>>
    ```

    Constraints:
    1. The type has a placement on the module's mesh, or none; it is partial by
       sum only: that is how the runtime makes the value whole.
    2. The buffer has the bytes of this rank's shard.
    3. The logical shape fits in the type's.
  }];
  let arguments = (ins StrAttr:$name, Exec_Buffer:$buffer, TypeAttr:$type,
                       OptionalAttr<FlatSymbolRefAttr>:$state,
                       OptionalAttr<DenseI64ArrayAttr>:$logical);
  let assemblyFormat = "$name $buffer (`of` $state^)? `:` $type attr-dict";
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

def Exec_WorkloadOp : Exec_Op<"workload"> {
  let summary = "what a step trains, beside its instructions";
  let description = [{
    What the runtime has to know of a step that none of its instructions says:
    how many samples of how many tokens, of which ids, it takes, and over which
    axes the samples of a micro-batch are split, once they are placed. `model` is
    the text that the step was compiled from, kept to be shown; `flops` are those
    of the model in a step, on all ranks together, by which MFU is told.

    ```mlir
    exec.workload {vocab = 256 : i64, seq_len = 32 : i64, global_batch = 8 : i64,
                   micro_batches = 2 : i64, batch_axes = ["dp"], flops = 1.0e9 : f64}
    ```

    Constraints:
    1. A module has at most one.
    2. There is one at least of each; the micro-batches divide the global batch.
    3. The axes are distinct ones of the module's mesh, if it has one.
  }];
  let arguments = (ins I64Attr:$vocab, I64Attr:$seq_len, I64Attr:$global_batch,
                       I64Attr:$micro_batches, StrArrayAttr:$batch_axes,
                       F64Attr:$flops, OptionalAttr<StrAttr>:$model);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Exec_ProgramOp : Exec_Op<"program", [Symbol, SingleBlock, NoTerminator]> {
  let summary = "what each rank executes in a step";
  let description = [{
    Buffers, segments of instructions, and runs: a step is its runs in order. The
    list of instructions is as long as the model is deep; only the runs grow with
    the micro-batches. `threads` is the number of compute threads of a rank, for
    which workspaces are sized.

    ```mlir
    exec.program @step threads 2 {
      %sum = exec.buffer "gradients" 64 : !exec.buffer
      exec.segment @micro_batch { ... }
      exec.segment @update updates { ... }
      exec.run @micro_batch 0 first
      exec.run @micro_batch 1
      exec.run @update 0 first
    }
    ```

    Constraints:
    1. Instructions stand in segments, and no segment in another.
    2. Each segment is run. Segments stand in the order of their first runs.
    3. Once a segment that `updates` has run, only such segments run.
    4. An event is recorded by one instruction, and one that is waited for by
       some (`exec.order`).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$threads,
                       OptionalAttr<I64Attr>:$arena_bytes,
                       OptionalAttr<I64Attr>:$lower_bound);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `threads` $threads $body attr-dict";
  let hasRegionVerifier = 1;
}

def Exec_SegmentOp : Exec_Op<"segment", [HasParent<"ProgramOp">, SingleBlock,
                                         NoTerminator]> {
  let summary = "instructions that run one after the other";
  let description = [{
    One that `updates` changes parameters and moments. Before the first of them
    all streams have done what came before.

    ```mlir
    exec.segment @micro_batch { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$updates);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name (`updates` $updates^)? $body attr-dict";
}

def Exec_RunOp : Exec_Op<"run", [HasParent<"ProgramOp">]> {
  let summary = "one execution of a segment";
  let description = [{
    For one micro-batch. A run that is `first` overwrites the sums that later
    ones add to (`after_first`).

    ```mlir
    exec.run @micro_batch 0 first
    ```

    Constraints:
    1. The micro-batch is at least 0.
  }];
  let arguments = (ins FlatSymbolRefAttr:$segment, I64Attr:$micro_batch,
                       UnitAttr:$first);
  let assemblyFormat = "$segment $micro_batch (`first` $first^)? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

// The attributes of an instruction are the fields that program.fbs has for its
// opcode, by the same names. `group`: the one that has the axes of a collective,
// or those whose coordinate is the shard index. `accumulation`: how outputs
// meet what is there.
defvar never = "::cleave::exec::Accumulate::Never";
class Exec_Instruction<string mnemonic, dag attributes, string group = "",
                       string accumulation = never, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [AttrSizedOperandSegments,
                         DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                         DeclareOpInterfaceMethods<InstructionOpInterface,
                           ["getAccumulation", "getOperandShapes",
                            "getGroupName"]>])> {
  let arguments = !con((ins Variadic<Exec_Buffer>:$inputs,
                            Variadic<Exec_Buffer>:$outputs,
                            Variadic<Exec_Buffer>:$workspace), attributes);
  let assemblyFormat = [{
    `(` $inputs `)` `->` `(` $outputs `)` (`using` `(` $workspace^ `)`)? attr-dict
  }];
  let extraClassDefinition =
      "::cleave::exec::Accumulate $cppClass::getAccumulation() {"
      " return " # accumulation # "; }\n"
      "::llvm::StringRef $cppClass::getGroupName() { return \"" # group # "\"; }\n"
      "::mlir::LogicalResult $cppClass::verifySymbolUses("
      "::mlir::SymbolTableCollection &table) {"
      " return ::cleave::exec::verifyInstruction(*this, table); }\n";
}

// Instructions with rows: dialects/exec/Rows.cpp.
defvar hasRows = [DeclareOpInterfaceMethods<RowsOpInterface>];
// Instructions with pieces of blocks: dialects/exec/Pieces.cpp.
defvar hasPieces = [DeclareOpInterfaceMethods<PiecesOpInterface>];
def Exec_Blocks : DefaultValuedOptionalAttr<I64Attr, "1">;
defvar ownShard = "shard_axes";
defvar ownAccumulate = "getAccumulate()";

def Exec_LaunchOp : Exec_Instruction<"launch",
    (ins FlatSymbolRefAttr:$kernel, OptionalAttr<StrArrayAttr>:$shard_axes),
    ownShard, "getKernelAccumulation(*this)", hasRows> {
  let summary = "run a generated kernel";
}

def Exec_GemmOp : Exec_Instruction<"gemm",
    (ins I64Attr:$m, I64Attr:$n, I64Attr:$k, BoolAttr:$trans_a,
         BoolAttr:$trans_b, TypeAttr:$type_a, TypeAttr:$type_b, TypeAttr:$type_c,
         Exec_AccumulateAttr:$accumulate, BoolAttr:$has_bias),
    "", ownAccumulate, hasRows> {
  let summary = "C (+)= op(A) op(B) + bias";
}

defvar attentionAttributes = (ins I64Attr:$batch, I64Attr:$seq, I64Attr:$heads,
    I64Attr:$kv_heads, I64Attr:$head_dim, I64Attr:$window, TypeAttr:$type,
    F64Attr:$scale, F64Attr:$softcap);

def Exec_AttentionOp : Exec_Instruction<"attention", attentionAttributes> {
  let summary = "causal attention";
}

def Exec_AttentionGradOp : Exec_Instruction<"attention_grad",
    !con(attentionAttributes, (ins BoolAttr:$fixed_order))> {
  let summary = "gradients of causal attention";
}

def Exec_EmbeddingOp : Exec_Instruction<"embedding",
    (ins I64Attr:$rows, I64Attr:$width, I64Attr:$table_rows,
         TypeAttr:$type_table, TypeAttr:$type_out,
         OptionalAttr<StrArrayAttr>:$shard_axes), ownShard> {
  let summary = "rows of a table, by id";
}

def Exec_EmbeddingGradOp : Exec_Instruction<"embedding_grad",
    (ins I64Attr:$rows, I64Attr:$width, I64Attr:$table_rows,
         TypeAttr:$type_dout, TypeAttr:$type_dtable,
         Exec_AccumulateAttr:$accumulate,
         OptionalAttr<StrArrayAttr>:$shard_axes), ownShard, ownAccumulate> {
  let summary = "sum rows into a table, by id";
}

def Exec_FillOp : Exec_Instruction<"fill", (ins)> {
  let summary = "zero bytes";
}

def Exec_CopyOp : Exec_Instruction<"copy", (ins)> {
  let summary = "copy bytes";
}

def Exec_ScheduleOp : Exec_Instruction<"schedule",
    (ins Exec_LRScheduleAttr:$kind, I64Attr:$warmup_steps, I64Attr:$decay_steps,
         I64Attr:$stable_steps, F64Attr:$lr, F64Attr:$min_lr, F64Attr:$beta1,
         F64Attr:$beta2)> {
  let summary = "learning rate, bias corrections and limits of this step";
}

def Exec_AllReduceOp : Exec_Instruction<"all_reduce",
    (ins I64Attr:$elements, TypeAttr:$type, Exec_ReductionAttr:$reduction,
         StrArrayAttr:$axes), "axes", never, hasRows> {
  let summary = "combine buffers of a group; each rank gets the result";
}

def Exec_AllGatherOp : Exec_Instruction<"all_gather",
    (ins I64Attr:$outer, I64Attr:$inner, TypeAttr:$type, StrArrayAttr:$axes,
         Exec_Blocks:$blocks),
    "axes", never, !listconcat(hasRows, hasPieces)> {
  let summary = "[outer, inner] of each rank to [outer, n, inner]";
}

def Exec_ReduceScatterOp : Exec_Instruction<"reduce_scatter",
    (ins I64Attr:$outer, I64Attr:$inner, TypeAttr:$type,
         Exec_ReductionAttr:$reduction, StrArrayAttr:$axes,
         Exec_Blocks:$blocks),
    "axes", never, !listconcat(hasRows, hasPieces)> {
  let summary = "[outer, n, inner] combined; each rank gets its [outer, inner]";
}

def Exec_AllToAllOp : Exec_Instruction<"all_to_all",
    (ins I64Attr:$outer, I64Attr:$a, I64Attr:$mid, I64Attr:$b, I64Attr:$inner,
         TypeAttr:$type, BoolAttr:$concat_first, StrArrayAttr:$axes,
         Exec_Blocks:$blocks_a, Exec_Blocks:$blocks_b),
    "axes", never, hasPieces> {
  let summary = "cut one dim, join another";
}

def Exec_SliceOp : Exec_Instruction<"slice",
    (ins I64Attr:$outer, I64Attr:$inner, TypeAttr:$type, StrArrayAttr:$axes,
         Exec_Blocks:$blocks),
    "axes", never, hasPieces> {
  let summary = "this rank's [outer, inner] of [outer, n, inner]";
}

def Exec_SendOp : Exec_Instruction<"send",
    (ins I64Attr:$stage, I64Attr:$channel)> {
  let summary = "a message to the same rank of another stage";
}

def Exec_RecvOp : Exec_Instruction<"recv",
    (ins I64Attr:$stage, I64Attr:$channel)> {
  let summary = "a message from the same rank of another stage";
}

#endif
