#ifndef CLEAVE_PASSES_KERNELS_LOWERINGINTERFACES_TD
#define CLEAVE_PASSES_KERNELS_LOWERINGINTERFACES_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The lowering of ops that become generated kernels: the space they walk, how
    each operand and result is found in it, and the scalar program.
    Ops that lower to a library call implement LibraryOpInterface instead, those
    that are computed by other ops CompositeOpInterface.

    The graph's dialect knows nothing of it: it is attached to its ops from
    outside, by `registerLoweringExternalModels`.
  }];
  let methods = [
    InterfaceMethod<"The space and the accesses, for local shapes.",
                    "::cleave::KernelSpace", "getKernelSpace">,
    InterfaceMethod<[{
        Builds the scalar program. `args` holds one value for each input access;
        returns one for each output access.
      }], "::llvm::SmallVector<::mlir::Value>", "buildBody",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$args)>,
  ];
}

def LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The lowering of ops that the runtime has a routine for: one instruction.
    Attached from outside, as KernelOpInterface is.
  }];
  let methods = [
    InterfaceMethod<"Builds the instruction on the buffers of `site`.",
      "::mlir::Operation *", "buildInstruction",
      (ins "::mlir::OpBuilder &":$builder,
           "const ::cleave::InstructionSite &":$site)>,
  ];
}

def CompositeOpInterface : OpInterface<"CompositeOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    The lowering of ops that are computed by other ops of the graph, each of which
    has a lowering of its own. Attached from outside, as KernelOpInterface is;
    `cleave-expand-composites` builds the parts in the place of the op.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the parts, for local shapes, and returns what takes the place of
        each result.
      }], "::llvm::SmallVector<::mlir::Value>", "buildParts",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

#endif
