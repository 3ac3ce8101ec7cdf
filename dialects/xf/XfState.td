#ifndef CLEAVE_DIALECTS_XF_STATE_TD
#define CLEAVE_DIALECTS_XF_STATE_TD

include "dialects/xf/XfBase.td"

//===----------------------------------------------------------------------===//
// Named state and the shape of a step
//===----------------------------------------------------------------------===//

def Xf_StateRole : I32EnumAttr<"StateRole", "what a state tensor is", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Moment1", 1, "moment1">,
    I32EnumAttrCase<"Moment2", 2, "moment2">,
    I32EnumAttrCase<"Constant", 3, "constant">,
    I32EnumAttrCase<"Copy", 4, "copy">]> {
  let cppNamespace = "::cleave::xf";
}

def Xf_InitKind : I32EnumAttr<"InitKind", "how a rank fills new state", [
    I32EnumAttrCase<"Zeros", 0, "zeros">, I32EnumAttrCase<"Ones", 1, "ones">,
    I32EnumAttrCase<"Normal", 2, "normal">,
    I32EnumAttrCase<"RopeCos", 3, "rope_cos">,
    I32EnumAttrCase<"RopeSin", 4, "rope_sin">]> {
  let cppNamespace = "::cleave::xf";
}

def Xf_InitAttr : AttrDef<Xf_Dialect, "Init"> {
  let mnemonic = "init";
  let summary = "the value of state that no checkpoint gives";
  let description = [{
    `normal` has standard deviation `scale`; `rope_cos` and `rope_sin` hold
    `scale * cos(position * frequency)` for the listed frequencies.

    Constraints:
    1. `rope_cos` and `rope_sin` have a table of f32, the others have none.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "::cleave::xf::InitKind":$kind, "::mlir::FloatAttr":$scale,
                        OptionalParameter<"::mlir::DenseElementsAttr">:$table);
  let assemblyFormat = "`<` $kind `,` $scale (`,` $table^)? `>`";
}

def Xf_PieceAttr : AttrDef<Xf_Dialect, "Piece"> {
  let mnemonic = "piece";
  let summary = "the box of a checkpoint tensor that a parameter is";
  let description = [{
    The box `[starts, starts + sizes)` of the tensor `source` of shape `shape`,
    seen under the shape `view`, without the dims `drop`; see
    cleave/Frontend/Model.h.

    Constraints:
    1. The view has as many elements as the tensor.
    2. As many starts and sizes as dims of the view, and the box lies in it.
    3. Dropped dims are ascending dims of the view of size 1.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins StringRefParameter<>:$source,
      ArrayRefParameter<"int64_t">:$shape, ArrayRefParameter<"int64_t">:$view,
      ArrayRefParameter<"int64_t">:$starts, ArrayRefParameter<"int64_t">:$sizes,
      OptionalArrayRefParameter<"int64_t">:$drop);
  let assemblyFormat = [{
    `<` $source `,` `shape` `=` `[` $shape `]` `,` `view` `=` `[` $view `]` `,`
    `starts` `=` `[` $starts `]` `,` `sizes` `=` `[` $sizes `]`
    (`,` `drop` `=` `[` $drop^ `]`)? `>`
  }];
}

def Xf_StateOp : Xf_Op<"state", [Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a named tensor that outlives the step";
  let description = [{
    `logical` is the shape without padding. Parameters are kept in f32 whatever
    the type that the step computes in. `dims` names the dims for the rules of a
    plan; `decay` says whether weight decay applies. `rows` is there if the tensor
    is a matrix between hidden vectors, which an embedding, a head and learned
    positions are not: so many of its dims, the first ones, number the rows, the
    others the columns. Which of both are outputs does not matter. `tied` are
    further names under which some checkpoints have the same tensor. A copy has
    the value of the parameter `of` in a type with fewer bits. Nothing saves or
    initializes it: whoever gives the parameter a value gives the copy one, too.

    ```mlir
    xf.state @"model.norm.weight" parameter : tensor<64xf32> {
      init = #xf.init<ones, 1.0 : f64>, dims = ["hidden"],
      piece = #xf.piece<"model.norm.weight", shape = [64], view = [64],
                        starts = [0], sizes = [64]>}
    xf.state @"model.norm.weight/bf16" copy : tensor<64xbf16> {
      init = #xf.init<zeros, 0.0 : f64>, of = @"model.norm.weight"}
    ```

    Constraints:
    1. The logical shape has the type's rank and fits in it.
    2. As many names of dims as dims.
    3. Of a matrix, at least one dim of rows and one of columns.
    4. A placement is one on the module's mesh.
    5. A copy names a parameter of its shape and placement, and nothing else
       does.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Xf_StateRole:$role,
      TypeAttrOf<Xf_Tensor>:$type, Xf_InitAttr:$init,
      OptionalAttr<DenseI64ArrayAttr>:$logical,
      OptionalAttr<StrArrayAttr>:$dims,
      OptionalAttr<Xf_PieceAttr>:$piece, UnitAttr:$decay,
      OptionalAttr<I64Attr>:$rows,
      OptionalAttr<StrArrayAttr>:$tied,
      OptionalAttr<FlatSymbolRefAttr>:$of);
  let assemblyFormat = "$sym_name $role `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
    /// Whose value it has: its own name, or the parameter's of a copy.
    ::llvm::StringRef getValueName() {
      return getOf() ? *getOf() : getSymName();
    }
    /// The shape without padding.
    ::llvm::ArrayRef<int64_t> getLogicalShape() {
      return getLogical() ? *getLogical() : getTensorType().getShape();
    }
  }];
}

def Xf_GetOp : Xf_Op<"get", [MemoryEffects<[MemRead]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a state tensor";
  let description = [{
    ```mlir
    %w = xf.get @"model.norm.weight" : tensor<64xf32>
    ```

    Constraints:
    1. The state exists. The type is the state's; in the local program, that of
       this rank's shard of it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Xf_Tensor:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}

def Xf_SetOp : Xf_Op<"set", [MemoryEffects<[MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the new value of a state tensor";
  let description = [{
    ```mlir
    xf.set @"model.norm.weight", %w : tensor<64xf32>
    ```

    Constraints:
    1. As for `xf.get`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, Xf_Tensor:$value);
  let assemblyFormat = "$state `,` $value attr-dict `:` type($value)";
}

def Xf_OutputOp : Xf_Op<"output", [MemoryEffects<[MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a value that a person or a test may ask for";
  let description = [{
    `state` names the parameter whose checkpoint layout a gradient has. Outputs
    are f32, so that those of successive micro-batches lie at multiples of four
    bytes. `logical` is the shape of the whole value without padding.

    A value may be split or partial by sum: the runtime joins the shards and adds
    the parts along the axes that its type names, so what is reported is the
    whole value. There is no such reading of a value that is partial by max.

    ```mlir
    xf.output "loss", %loss : tensor<f32>
    ```

    Constraints:
    1. The value is not partial by max.
    2. The state exists, and the value has its shape.
    3. The logical shape has the value's rank.
  }];
  let arguments = (ins StrAttr:$name, Xf_F32Tensor:$value,
                       OptionalAttr<FlatSymbolRefAttr>:$state,
                       OptionalAttr<DenseI64ArrayAttr>:$logical);
  let assemblyFormat = "$name `,` $value (`of` $state^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Xf_AccumulateOp : Xf_Op<"accumulate", [RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "sum the body's values over micro-batches";
  let description = [{
    Runs the body `count` times; each argument is the slice of an input at the
    iteration's index along dim 0, each result the sum of a yielded value over
    the iterations. Placements of results are those of the yielded values: a
    gradient may stay partial from iteration to iteration.

    ```mlir
    %sum = xf.accumulate 4 (%x) : (tensor<4x2x8xf32>) -> tensor<f32> {
    ^bb0(%slice: tensor<2x8xf32>):
      %s = xf.sum %slice : (tensor<2x8xf32>) -> tensor<f32>
      xf.yield %s : tensor<f32>
    }
    ```

    A stage of a pipeline runs the body in `segments`: forward passes, backward
    passes. Each op's `xf.segment` says which one it is in; `order` is what the
    stage runs, in pairs of segment and micro-batch. Whatever the order, the
    result is the same sum.

    ```mlir
    %sum = xf.accumulate 2 (%x) : (tensor<2x2x8xf32>) -> tensor<f32>
        segments ["forward", "backward"] order [0, 0, 0, 1, 1, 0, 1, 1] {
      ...
      %s = xf.sum %y {xf.segment = 1 : i64} : (tensor<2x8xf32>) -> tensor<f32>
      xf.yield %s : tensor<f32>
    }
    ```

    Constraints:
    1. The count is at least 1. An input's dim 0 is `count` and not split; an
       argument has the input's type without it.
    2. As many yielded values as results, of the same types, in f32.
    3. No result is partial by max: a sum of maxima is not the maximum of sums.
    4. With segments: ops of a segment stand together, the segments in the order
       of their first runs; the order runs each segment once for each
       micro-batch, one that uses another's values after it.
  }];
  let arguments = (ins I64Attr:$count, Variadic<Xf_AnyTensor>:$inputs,
                       OptionalAttr<StrArrayAttr>:$segments,
                       OptionalAttr<DenseI64ArrayAttr>:$order);
  let results = (outs Variadic<Xf_F32Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count `(` $inputs `)` `:` functional-type($inputs, $results)
    (`segments` $segments^ `order` $order)? $body attr-dict
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$types, "int64_t":$count,
                                 "::mlir::ValueRange":$inputs), [{
    build($_builder, $_state, types, count, inputs, {}, {});
  }]>];
  let extraClassDeclaration = [{
    /// The discardable attribute of an op that says which segment it is in.
    static constexpr ::llvm::StringLiteral segmentName = "xf.segment";
    /// None where the body has no segments.
    static std::optional<int64_t> getSegment(::mlir::Operation *op);
  }];
}

def Xf_YieldOp : Xf_Op<"yield", [Pure, Terminator, HasParent<"AccumulateOp">]> {
  let summary = "what one micro-batch adds";
  let description = [{
    ```mlir
    xf.yield %loss : tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Xf_F32Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins)>];
}

#endif
