#ifndef CLEAVE_DIALECTS_EXEC_INSTRUCTIONINTERFACE_TD
#define CLEAVE_DIALECTS_EXEC_INSTRUCTIONINTERFACE_TD

include "mlir/IR/OpBase.td"

def InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::cleave::exec";
  let description = [{
    What every instruction can say of itself, so that liveness, memory and
    emission never switch over opcodes. Its opcode and sizes are its name and
    attributes (`dialects/exec/Work.h`).
  }];
  let methods = [
    InterfaceMethod<"Buffers read.", "::mlir::OperandRange", "getInputs">,
    InterfaceMethod<"Buffers written (and read, where they accumulate).",
      "::mlir::OperandRange", "getOutputs">,
    InterfaceMethod<"Scratch, free again afterwards.",
      "::mlir::OperandRange", "getWorkspace">,
    InterfaceMethod<"What each input, then each output, holds; for a group of so "
                    "many ranks.",
      "::llvm::SmallVector<::cleave::exec::OperandShape>", "getOperandShapes",
      (ins "int64_t":$ranks)>,
    InterfaceMethod<"How its outputs meet what their buffers hold.",
      "::cleave::exec::Accumulate", "getAccumulation">,
    InterfaceMethod<"The attribute that has the group; empty if there is none.",
      "::llvm::StringRef", "getGroupName">,
    InterfaceMethod<"Axes of the group, or by which the shard is told; or null.",
      "::mlir::ArrayAttr", "getGroup", (ins), [{}], [{
        ::llvm::StringRef name = $_op.getGroupName();
        return name.empty() ? ::mlir::ArrayAttr()
                            : $_op->template getAttrOfType<::mlir::ArrayAttr>(name);
      }]>,
  ];
}

#endif
