//===- EmitProgram.h - The instructions as a program file -----------------===//
#ifndef CLEAVE_PASSES_EMIT_EMITPROGRAM_H
#define CLEAVE_PASSES_EMIT_EMITPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Emit/EmitObject.h"
#include <vector>

namespace cleave::emit {

/// Writes the `exec.program`s of `module`, whose memory is planned, its kernels
/// and its `exec.workload` in the format of runtime/program/program.fbs, sealed
/// as runtime/program/Envelope.h says; `cpu` is what the kernels are for. The
/// same input gives the same bytes. Emits an error and fails where a buffer has
/// no offset, or the module no workload.
mlir::FailureOr<std::vector<uint8_t>> emitProgram(mlir::ModuleOp module,
                                                  const TargetCpu &cpu);

/// What the name of an instruction begins with: "gemm", or a launch's kernel.
std::string getInstructionName(mlir::Operation *op);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EMITPROGRAM_H
