#ifndef CLEAVE_DIALECTS_DIST_TD
#define CLEAVE_DIALECTS_DIST_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/dist/CollectiveInterface.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::cleave::dist";
  let summary = "Meshes, placements and the collectives between them";
  let description = [{
    A mesh names its axes; a placement, the encoding of a tensor type, says for
    each dim which axes split it and along which axes the value is still
    partial. `dist.reshard` is the wish to have a value under another placement;
    the collectives are the deeds.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Dist_Reduction : I32EnumAttr<"ReductionKind", "how partial values combine", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::cleave::dist";
}

def Dist_AxisAttr : AttrDef<Dist_Dialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "a named axis of a mesh and its size";
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size);
  let assemblyFormat = "`<` $name `=` $size `>`";
}

def Dist_OnAttr : AttrDef<Dist_Dialect, "On"> {
  let mnemonic = "on";
  let summary = "the placement of a tensor on a mesh; the encoding of its type";
  let description = [{
    One list of axes for each dim, major first: the dim is cut by the first
    axis, each piece by the next. Along the `partial` axes each rank holds an
    addend (or, with `max`, a candidate) of the value. Along axes that are not
    named, ranks hold copies.

    ```mlir
    #dist.on<@mesh, [{dp}, {}, {tp} ]>
    #dist.on<@mesh, [{dp}, {} ], partial = {tp}>
    #dist.on<@mesh, [{dp}, {} ], max = {tp}>
    ```

    Constraints:
    1. No axis is named twice.
    2. As many lists as the tensor has dims.
  }];
  // Axis names are bare identifiers in braces, which no directive can print.
  let hasCustomAssemblyFormat = 1;
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        "::mlir::ArrayAttr":$dims, "::mlir::ArrayAttr":$partial,
                        "::cleave::dist::ReductionKind":$reduction);
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Meshes and reshards
//===----------------------------------------------------------------------===//

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "ranks arranged along named axes";
  let description = [{
    The last axis varies fastest: its neighbours are neighbouring ranks.

    ```mlir
    dist.mesh @mesh [#dist.axis<"dp" = 4>, #dist.axis<"tp" = 8>]
    ```

    Along the axis of pipeline `stages`, if there is one, ranks run different
    parts of the model; no placement splits a value along it.

    ```mlir
    dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 4>] stages "pp"
    ```

    Constraints:
    1. Axis names are unique and not empty, sizes at least 1.
    2. The axis of stages is one of them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<Dist_AxisAttr, "axes">:$axes,
                       OptionalAttr<StrAttr>:$stage_axis);
  let assemblyFormat = "$sym_name $axes (`stages` $stage_axis^)? attr-dict";
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::ArrayAttr":$axes),
                            [{ build($_builder, $_state, name, axes, {}); }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::cleave::Mesh getMesh();
    /// 1 without a pipeline.
    int64_t getNumStages();
    /// The mesh as the ranks of one stage see it: with one rank along the axis
    /// of stages, which hold nothing in common.
    ::cleave::Mesh getStageMesh();
  }];
}

def Dist_ReshardOp : Dist_Op<"reshard", [Pure]> {
  let summary = "the same value under another placement";
  let description = [{
    Says what is wanted, not how: the reshard planner finds the cheapest
    collectives. It never makes a value partial over an axis that it was not
    partial over before.

    ```mlir
    // a reduce_scatter over tp
    %y = dist.reshard %x
        : tensor<8x16xf32, #dist.on<@mesh, [{}, {} ], partial = {tp}>>
       to tensor<8x16xf32, #dist.on<@mesh, [{tp}, {} ]>>
    ```

    Constraints:
    1. Both types have the same shape and element type, and a placement on the
       same mesh.
    2. The result is partial over no axis that the operand is not.
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

class Dist_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : Dist_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<CollectiveOpInterface, ["applyTo"]>,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>] # traits> {
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  // The mesh gives its axes their meaning, though no attribute names it.
  let extraClassDefinition = [{
    ::mlir::LogicalResult $cppClass::verifySymbolUses(
        ::mlir::SymbolTableCollection &) {
      return ::cleave::dist::verifyGroup(*this);
    }
  }];
}

/// One between shards of `dim`, which `shard` gets, and the whole of it.
class Dist_ShardOp<string mnemonic, string shard>
    : Dist_CollectiveOp<mnemonic, [ShardOpInterface]> {
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::cleave::dist::Shard, 2> getShards() {
      return {{}] # shard # [{(), int64_t(getDim()), int64_t(getBlocks())}};
    }
    void setShardBlocks(size_t, int64_t blocks) { setBlocks(blocks); }
  }];
}

def Dist_AllReduceOp : Dist_CollectiveOp<"all_reduce"> {
  let summary = "combine partial values; every rank gets the result";
  let description = [{
    `[{} ] partial={x} -> [{} ]`

    ```mlir
    %y = dist.all_reduce %x axes ["tp"]
        : tensor<8xf32, #dist.on<@mesh, [{} ], partial = {tp}>>
       to tensor<8xf32, #dist.on<@mesh, [{} ]>>
    ```

    Constraints:
    1. The axes are distinct ones of the module's mesh.
    2. With placements: the result's is the operand's after this collective.
    3. Without placements, in the local program: the element types agree, and
       only dims that the collective names change, by the number of ranks.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes,
                       DefaultValuedAttr<Dist_Reduction,
                         "::cleave::dist::ReductionKind::Sum">:$reduction);
  let assemblyFormat = [{
    $input `axes` $axes (`reduction` $reduction^)? attr-dict
    `:` type($input) `to` type($result)
  }];
}

def Dist_ReduceScatterOp : Dist_ShardOp<"reduce_scatter", "getResult"> {
  let summary = "combine partial values; each rank gets its shard of a dim";
  let description = [{
    `[{} ] partial={x} -> [{x} ]`

    ```mlir
    %y = dist.reduce_scatter %x axes ["tp"] dim 0
        : tensor<8xf32, #dist.on<@mesh, [{} ], partial = {tp}>>
       to tensor<8xf32, #dist.on<@mesh, [{tp} ]>>
    ```

    With `blocks`, the shards are those of `dist.all_gather` with as many.

    Constraints:
    1. The axes are distinct ones of the module's mesh.
    2. With placements: the result's is the operand's after this collective.
    3. Without placements, in the local program: the element types agree, and
       only dims that the collective names change, by the number of ranks.
    4. Blocks are at least 1, and divide the shard's dim.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes, I64Attr:$dim,
                       DefaultValuedAttr<Dist_Reduction,
                         "::cleave::dist::ReductionKind::Sum">:$reduction,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$blocks);
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim (`reduction` $reduction^)?
    (`blocks` $blocks^)? attr-dict
    `:` type($input) `to` type($result)
  }];
}

def Dist_AllGatherOp : Dist_ShardOp<"all_gather", "getInput"> {
  let summary = "every rank gets the shards of a dim, in shard order";
  let description = [{
    `[{x} ] -> [{} ]`

    ```mlir
    %y = dist.all_gather %x axes ["tp"] dim 0
        : tensor<8xf32, #dist.on<@mesh, [{tp} ]>>
       to tensor<8xf32, #dist.on<@mesh, [{} ]>>
    ```

    With `blocks` k, the dim is k blocks of equal size, and a shard has a piece
    of each of them: of 2 ranks with 2 blocks, the first one has the first and
    the third quarter. A type does not say so, since nothing but collectives
    sees it.

    Constraints:
    1. The axes are distinct ones of the module's mesh.
    2. With placements: the result's is the operand's after this collective.
    3. Without placements, in the local program: the element types agree, and
       only dims that the collective names change, by the number of ranks.
    4. Blocks are at least 1, and divide the shard's dim.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes, I64Attr:$dim,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$blocks);
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim (`blocks` $blocks^)? attr-dict
    `:` type($input) `to` type($result)
  }];
}

def Dist_AllToAllOp : Dist_CollectiveOp<"all_to_all",
                                          [ShardOpInterface]> {
  let summary = "move axes from one dim to another";
  let description = [{
    `[{x}, {} ] -> [{}, {x} ]`: gathers `dim`, splits `split_dim`.

    ```mlir
    %y = dist.all_to_all %x axes ["tp"] from 0 to 1
        : tensor<8x4xf32, #dist.on<@mesh, [{tp}, {} ]>>
       to tensor<8x4xf32, #dist.on<@mesh, [{}, {tp} ]>>
    ```

    With `blocks` of `dim`, the operand's shards are those of `dist.all_gather`
    with as many; with blocks of `split_dim`, the result's are.

    ```mlir
    %y = dist.all_to_all %x axes ["tp"] from 0 blocks 2 to 1
        : tensor<8x4xf32, #dist.on<@mesh, [{tp}, {} ]>>
       to tensor<8x4xf32, #dist.on<@mesh, [{}, {tp} ]>>
    ```

    Constraints:
    1. The axes are distinct ones of the module's mesh.
    2. With placements: the result's is the operand's after this collective.
    3. Without placements, in the local program: the element types agree, and
       only dims that the collective names change, by the number of ranks.
    4. Blocks are at least 1, and divide the shard's dim.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes, I64Attr:$dim,
                       I64Attr:$split_dim,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$blocks,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$split_blocks);
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::cleave::dist::Shard, 2> getShards() {
      return {{getInput(), int64_t(getDim()), int64_t(getBlocks())},
              {getResult(), int64_t(getSplitDim()), int64_t(getSplitBlocks())}};
    }
    void setShardBlocks(size_t i, int64_t blocks) {
      i == 0 ? setBlocks(blocks) : setSplitBlocks(blocks);
    }
  }];
  let assemblyFormat = [{
    $input `axes` $axes `from` $dim (`blocks` $blocks^)?
    `to` $split_dim (`blocks` $split_blocks^)? attr-dict
    `:` type($input) `to` type($result)
  }];
}

def Dist_SliceOp : Dist_ShardOp<"slice", "getResult"> {
  let summary = "each rank keeps its shard of a dim; moves nothing";
  let description = [{
    `[{} ] -> [{x} ]`

    ```mlir
    %y = dist.slice %x axes ["tp"] dim 0
        : tensor<8xf32, #dist.on<@mesh, [{} ]>>
       to tensor<8xf32, #dist.on<@mesh, [{tp} ]>>
    ```

    With `blocks`, the shards are those of `dist.all_gather` with as many.

    Constraints:
    1. The axes are distinct ones of the module's mesh.
    2. With placements: the result's is the operand's after this collective.
    3. Without placements, in the local program: the element types agree, and
       only dims that the collective names change, by the number of ranks.
    4. Blocks are at least 1, and divide the shard's dim.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes, I64Attr:$dim,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$blocks);
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim (`blocks` $blocks^)? attr-dict
    `:` type($input) `to` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Messages between pipeline stages
//===----------------------------------------------------------------------===//

def Dist_SendOp : Dist_Op<"send", [
    MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "give a value to the same rank of another stage";
  let description = [{
    The receiver has this rank's coordinates on all axes but that of the stages.
    It takes the value by the `dist.recv` of the same channel. Does not wait for
    the receiver.

    ```mlir
    dist.send %h to 1 channel 0 : tensor<2x8xf32>
    ```

    Constraints:
    1. The mesh has that stage.
    2. The channel is at least 0. It has one send and one receive in the module.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$stage, I64Attr:$channel);
  let assemblyFormat = [{
    $input `to` $stage `channel` $channel attr-dict `:` type($input)
  }];
}

def Dist_RecvOp : Dist_Op<"recv", [
    MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a value that the same rank of another stage gives";
  let description = [{
    Waits for what the `dist.send` of the same channel sent for this
    micro-batch.

    ```mlir
    %h = dist.recv from 0 channel 0 : tensor<2x8xf32>
    ```

    Constraints:
    1. As for `dist.send`.
  }];
  let arguments = (ins I64Attr:$stage, I64Attr:$channel);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `from` $stage `channel` $channel attr-dict `:` type($result)
  }];
}

#endif
