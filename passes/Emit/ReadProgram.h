//===- ReadProgram.h - A program as IR again ------------------------------===//
#ifndef CLEAVE_PASSES_EMIT_READPROGRAM_H
#define CLEAVE_PASSES_EMIT_READPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/program/program_generated.h"

namespace cleave::emit {

/// The module from which `emitProgram` writes this program, which the runtime
/// has verified: its workload, mesh, states, kernels, and an `exec.program` for
/// each stage. Writing it gives the same bytes again. What a program does not
/// have is left out: provenance, but for the phase, and the names of dims.
/// Instructions have their names as locations. Emits an error and fails where
/// the compiler cannot write such a program: kernels without a body, operands
/// that are a part of a buffer.
mlir::OwningOpRef<mlir::ModuleOp> readProgram(mlir::MLIRContext *context,
                                              const program::Program &program);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_READPROGRAM_H
