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

#endif
