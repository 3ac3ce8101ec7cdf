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
}

class Xf_Op<string mnemonic, list<Trait> traits = []>
    : Op<Xf_Dialect, mnemonic, traits>;

def Xf_Rule : DeclareOpInterfaceMethods<ShardingRuleOpInterface>;
def Xf_Gradient : DeclareOpInterfaceMethods<GradientOpInterface>;
def Xf_ShardIndex : DeclareOpInterfaceMethods<ShardIndexOpInterface>;
def Xf_Cost : DeclareOpInterfaceMethods<CostOpInterface>;
def Xf_Flops : DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>;
def Xf_Bytes : DeclareOpInterfaceMethods<CostOpInterface, ["getBytes"]>;

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
