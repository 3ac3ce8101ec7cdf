//===- Work.h - Instructions as the program format has them ---------------===//
//
// An exec instruction and a table of program.fbs say the same: the mnemonic is
// the opcode, and each field of the opcode's table is an attribute of its name,
//
//   exec.slice(%a) -> (%b) {outer = 2 : i64, inner = 8 : i64, type = bf16, ...}
//   table Slice { outer : long; inner : long; type : DType; }
//
// but for the kernel of a launch, which is a symbol here and a number there. So
// one piece of code translates them all, in both directions.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_DIALECTS_EXEC_WORK_H
#define CLEAVE_DIALECTS_EXEC_WORK_H

#include "dialects/exec/Exec.h"
#include "runtime/program/Work.h"

namespace cleave::exec {

/// The opcode of an instruction; none if the program format has no such.
std::optional<program::Opcode> getOpcode(mlir::Operation *op);
/// The op of an opcode: "exec.all_gather".
std::string getOpName(program::Opcode opcode);

/// bf16 is BF16, and so on; none of types that no operand has.
std::optional<program::DType> getDType(mlir::Type type);
mlir::Type getType(mlir::MLIRContext *context, program::DType type);

/// Says so if an instruction cannot be one of a program: an opcode or a type
/// that the format lacks, or an attribute of another kind than the field of its
/// name.
mlir::LogicalResult verifyWork(mlir::Operation *op);

/// The table of an instruction's opcode, in memory of its own.
class EncodedWork {
public:
  /// `op` is verified. `kernel`: the number of a launch's kernel.
  explicit EncodedWork(mlir::Operation *op, int64_t kernel = 0);

  program::Opcode getOpcode() const { return opcode; }
  const void *get() const;

private:
  program::Opcode opcode;
  flatbuffers::FlatBufferBuilder builder;
};

/// The attributes of the instruction that a table describes. `kernel`: the name
/// of a launch's.
mlir::SmallVector<mlir::NamedAttribute> decodeWork(mlir::MLIRContext *context,
                                                   program::Opcode opcode,
                                                   const void *work,
                                                   llvm::StringRef kernel);

} // namespace cleave::exec

#endif // CLEAVE_DIALECTS_EXEC_WORK_H
