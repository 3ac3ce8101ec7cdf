#ifndef CLEAVE_DIALECTS_DIST_COLLECTIVEINTERFACE_TD
#define CLEAVE_DIALECTS_DIST_COLLECTIVEINTERFACE_TD

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::cleave::dist";
  let description = [{
    What every collective can say, so that passes never switch over their
    names: the mesh axes its ranks differ on, and what it does to a placement.
  }];
  let methods = [
    InterfaceMethod<"Mesh axes of the group, major first.",
      "::mlir::ArrayAttr", "getAxes">,
    InterfaceMethod<[{
        The placement of the result for one of the operand, or why there is
        none. Axes are indices into `mesh`.
      }],
      "::llvm::Expected<::cleave::Placement>", "applyTo",
      (ins "const ::cleave::Mesh &":$mesh, "const ::cleave::Placement &":$from)>,
  ];
}

def ShardOpInterface : OpInterface<"ShardOpInterface"> {
  let cppNamespace = "::cleave::dist";
  let description = [{
    A collective between shards of one dim and the whole of it: which of its
    values is the shard, and of how many blocks of the dim a shard has a piece
    (see `dist.all_gather`).
  }];
  let methods = [
    InterfaceMethod<"The operand or result that has shards.",
      "::mlir::Value", "getShard">,
    InterfaceMethod<"The dim that is split.", "int64_t", "getDim">,
    InterfaceMethod<"1: a shard is one piece.", "int64_t", "getBlocks">,
    InterfaceMethod<"Sets the number of blocks, which divides the shard's dim.",
      "void", "setBlocks", (ins "int64_t":$blocks)>,
  ];
}

#endif
