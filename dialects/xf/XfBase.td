#ifndef CLEAVE_DIALECTS_XF_BASE_TD
#define CLEAVE_DIALECTS_XF_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/CastInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "dialects/xf/XfInterfaces.td"

def Xf_Dialect : Dialect {
  let name = "xf";
  let cppNamespace = "::cleave::xf";
  let summary = "The training graph of a transformer";
  let description = [{
    Tensor operations of the forward pass, their gradients, the optimizer, and
    the named state of the program. An op is a .td entry and three interfaces:
    sharding rule, gradient, cost; its lowering is attached from outside. Every
    pass then handles it.

    Shapes are static. Heads are dims of their own: activations are
    `[batch, seq, hidden]` and `[batch, seq, heads, head_dim]`. Floating-point
    tensors are f32 or bf16; arithmetic is f32 and results round once.
  }];
  let useDefaultAttributePrinterParser = 1;
  // `xf.provenance`, which ops of any dialect may have.
  let hasOperationAttrVerify = 1;
}

//===----------------------------------------------------------------------===//
// Provenance
//===----------------------------------------------------------------------===//

def Xf_Phase : I32EnumAttr<"Phase", "part of a training step", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"Optimizer", 2, "optimizer">]> {
  let cppNamespace = "::cleave::xf";
}

def Xf_Module : I32EnumAttr<"Module", "part of a layer", [
    I32EnumAttrCase<"Norms", 0, "norms">,
    I32EnumAttrCase<"QKV", 1, "qkv">,
    I32EnumAttrCase<"Attention", 2, "attention">,
    I32EnumAttrCase<"Output", 3, "output">,
    I32EnumAttrCase<"Up", 4, "up">,
    I32EnumAttrCase<"Activation", 5, "activation">,
    I32EnumAttrCase<"Down", 6, "down">,
    I32EnumAttrCase<"Residual", 7, "residual">]> {
  let cppNamespace = "::cleave::xf";
}

def Xf_ProvenanceAttr : AttrDef<Xf_Dialect, "Provenance"> {
  let mnemonic = "provenance";
  let summary = "what an op is part of: phase, layer, module";
  let description = [{
    The value of the discardable attribute `xf.provenance`, which an op keeps on
    its way through the stages: a collective has that of the op that it is for, an
    instruction that of the op that it was. A gradient has the layer and the
    module of the forward op that it is of. What is outside of the layers, such as
    the embedding and the head, has neither. An op of the backward pass that is
    `recomputed` is a copy of a forward op of that layer and module.

    The modules of a layer: its norms; the projections to queries, keys and
    values with their rotation; scores and weighted sum; the projection of
    attention's output; the first products of the MLP; its activation; its last
    product; the additions to the residual stream.

    ```mlir
    #xf.provenance<backward, layer = 3, module = attention>
    #xf.provenance<optimizer>
    ```

    Constraints:
    1. A layer's number is at least 0.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "::cleave::xf::Phase":$phase,
      DefaultValuedParameter<"int64_t", "-1">:$layer,
      OptionalParameter<"std::optional<::cleave::xf::Module>">:$module,
      OptionalParameter<"bool">:$recomputed);
  let assemblyFormat = [{
    `<` $phase (`,` `layer` `=` $layer^)? (`,` `module` `=` $module^)?
    (`,` `recomputed` `=` $recomputed^)? `>`
  }];
}

class Xf_Op<string mnemonic, list<Trait> traits = []>
    : Op<Xf_Dialect, mnemonic, traits>;

def Xf_Rule : DeclareOpInterfaceMethods<ShardingRuleOpInterface>;
def Xf_Gradient : DeclareOpInterfaceMethods<GradientOpInterface>;
def Xf_ShardIndex : DeclareOpInterfaceMethods<ShardIndexOpInterface>;
def Xf_Cost : DeclareOpInterfaceMethods<CostOpInterface>;
def Xf_Flops : DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>;
def Xf_Attention
    : DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getAttention"]>;
def Xf_Bytes : DeclareOpInterfaceMethods<CostOpInterface, ["getBytes"]>;
def Xf_TableBytes
    : DeclareOpInterfaceMethods<CostOpInterface, ["getBytes", "getLookedUp"]>;

// What gradients know of an op; what is checked of one; both.
def Xf_Origin : DeclareOpInterfaceMethods<StepCheckOpInterface, ["noteForward"]>;
def Xf_Check : DeclareOpInterfaceMethods<StepCheckOpInterface, ["verifyInStep"]>;
def Xf_OriginAndCheck : DeclareOpInterfaceMethods<StepCheckOpInterface,
    ["noteForward", "verifyInStep"]>;

def Xf_Tensor : AnyTypeOf<[RankedTensorOf<[F32, BF16]>], "f32 or bf16 tensor",
                          "::mlir::RankedTensorType">;
def Xf_F32Tensor : AnyTypeOf<[RankedTensorOf<[F32]>], "f32 tensor",
                             "::mlir::RankedTensorType">;
def Xf_Ids : AnyTypeOf<[RankedTensorOf<[I32]>], "i32 tensor",
                       "::mlir::RankedTensorType">;
def Xf_AnyTensor : AnyTypeOf<[RankedTensorOf<[F32, BF16, I32]>],
                             "f32, bf16 or i32 tensor",
                             "::mlir::RankedTensorType">;

// An op whose result types are spelled out: `xf.op %a, %b : (A, B) -> C`.
class Xf_TensorOp<string mnemonic, list<Trait> traits>
    : Xf_Op<mnemonic, !listconcat([Pure], traits)> {
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
}

#endif
