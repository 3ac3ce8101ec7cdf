#ifndef CLEAVE_DIALECTS_EXEC_INSTRUCTIONINTERFACE_TD
#define CLEAVE_DIALECTS_EXEC_INSTRUCTIONINTERFACE_TD

include "mlir/IR/OpBase.td"

def InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::cleave::exec";
  let description = [{
    What every instruction can say of itself, so that liveness, memory and
    emission never switch over opcodes. Names, ints and floats are those of
    runtime/program/README.md, in its order.
  }];
  let methods = [
    InterfaceMethod<"The opcode, as the program format names it.",
      "::llvm::StringRef", "getOpcode">,
    InterfaceMethod<"Buffers read.", "::mlir::OperandRange", "getInputs">,
    InterfaceMethod<"Buffers written (and read, where they accumulate).",
      "::mlir::OperandRange", "getOutputs">,
    InterfaceMethod<"Scratch, free again afterwards.",
      "::mlir::OperandRange", "getWorkspace">,
    InterfaceMethod<"Static integers.",
      "::llvm::SmallVector<int64_t>", "getInts">,
    InterfaceMethod<"Static floats.",
      "::llvm::SmallVector<double>", "getFloats">,
    InterfaceMethod<"Whether its outputs are overwritten in a run that is first, "
                    "and added to in others.",
      "bool", "addsAfterFirst">,
    InterfaceMethod<"Axes of the group, or by which the shard is told.",
      "::mlir::ArrayAttr", "getGroup">,
  ];
}

#endif
