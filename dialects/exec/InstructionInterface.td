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

def RowsOpInterface : OpInterface<"RowsOpInterface"> {
  let cppNamespace = "::cleave::exec";
  let description = [{
    An instruction that does the same for each of its rows. So it may be done for
    the first of them, and then for the others: as several instructions, each on
    its part of the bytes of some operands and on the whole of the rest.

    ```mlir
    exec.gemm(%a, %b) -> (%c) {m = 8 : i64, ...}
    // is, of %a0 and %a1, the halves of %a, and those of %c
    exec.gemm(%a0, %b) -> (%c0) {m = 4 : i64, ...}
    exec.gemm(%a1, %b) -> (%c1) {m = 4 : i64, ...}
    ```

    What it adds up over its rows is the sum of its parts: the first of them meets
    what is there as the whole does, and the others add.

    ```mlir
    exec.gemm(%a, %b) -> (%c) {k = 8 : i64, trans_a = true, accumulate = #exec<accumulate never>, ...}
    // is
    exec.gemm(%a0, %b0) -> (%c) {k = 4 : i64, trans_a = true, accumulate = #exec<accumulate never>, ...}
    exec.gemm(%a1, %b1) -> (%c) {k = 4 : i64, trans_a = true, accumulate = #exec<accumulate always>, ...}
    ```
  }];
  let methods = [
    InterfaceMethod<"What each of `parts` of as many rows has of each operand; "
                    "nothing where rows cannot be cut so.",
      "std::optional<::llvm::SmallVector<::cleave::Share>>", "getShares",
      (ins "int64_t":$parts)>,
    InterfaceMethod<"Makes it part `number` of `parts`, into which rows can be cut. "
                    "All of them are alike but for their operands, and for how the "
                    "first one meets a sum.",
      "void", "keepOnePart", (ins "int64_t":$parts, "int64_t":$number)>,
  ];
}

def PiecesOpInterface : OpInterface<"PiecesOpInterface"> {
  let cppNamespace = "::cleave::exec";
  let description = [{
    A collective between shards of a dim and the whole of it, or of two dims. A
    shard may be pieces of some blocks of the dim (`dist.all_gather`), so that a
    part of all shards is a part of the whole; or, with fewer blocks, fewer and
    longer pieces, if it is so for all instructions that have to do with the shard.
    These have the same number of `blocks`.

    ```mlir
    exec.all_gather(%x) -> (%y) {outer = 8 : i64, inner = 64 : i64, blocks = 8 : i64, ...}
    // has, if shards are pieces of two blocks, another order of elements in %x,
    // and the same %y
    exec.all_gather(%x) -> (%y) {outer = 2 : i64, inner = 256 : i64, blocks = 2 : i64, ...}
    ```
  }];
  let methods = [
    InterfaceMethod<"Of each of its shards.",
      "::llvm::SmallVector<::cleave::exec::Pieces, 2>", "getPieces">,
    InterfaceMethod<"Joins as many pieces of shard number `i`, whose blocks they "
                    "divide.",
      "void", "joinPieces", (ins "size_t":$i, "int64_t":$count)>,
  ];
}

#endif
