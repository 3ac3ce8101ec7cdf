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
    A collective between shards of a dim and the whole of it, or of two dims:
    what has shards, and of how many blocks of the dim a shard has a piece (see
    `dist.all_gather`).
  }];
  let methods = [
    InterfaceMethod<"Of a dim of the operand or of the result.",
      "::llvm::SmallVector<::cleave::dist::Shard, 2>", "getShards">,
    InterfaceMethod<[{
        Sets the number of blocks of shard number `i`. It divides the shard's
        dim.
      }],
      "void", "setShardBlocks", (ins "size_t":$i, "int64_t":$blocks)>,
  ];
}

#endif
