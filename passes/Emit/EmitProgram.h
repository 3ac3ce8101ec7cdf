//===- EmitProgram.h - The instructions as a program file -----------------===//
#ifndef CLEAVE_PASSES_EMIT_EMITPROGRAM_H
#define CLEAVE_PASSES_EMIT_EMITPROGRAM_H

#include "cleave/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Emit/EmitObject.h"
#include <vector>

namespace cleave::emit {

/// What a program says beside its instructions.
struct ProgramInfo {
  const Model &model;
  const Plan &plan;
  BatchShape batch;
  TargetCpu cpu;
  double modelFlops; ///< of a step, as MFU counts them
};

/// Writes the `exec.program` of `module`, whose memory is planned, in the
/// format of runtime/program/program.fbs, sealed as runtime/program/Envelope.h
/// says. The same input gives the same bytes. Emits an error and fails where a
/// buffer has no offset.
mlir::FailureOr<std::vector<uint8_t>> emitProgram(mlir::ModuleOp module,
                                                  const ProgramInfo &info);

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_EMITPROGRAM_H
