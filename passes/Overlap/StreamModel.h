//===- StreamModel.h - A program as lib/Streams sees it -------------------===//
#ifndef CLEAVE_PASSES_OVERLAP_STREAMMODEL_H
#define CLEAVE_PASSES_OVERLAP_STREAMMODEL_H

#include "cleave/Streams/Order.h"
#include "cleave/Tasks/Tasks.h"
#include "dialects/exec/Exec.h"

namespace cleave {

/// The instructions of a program, in list order, and what they access: bytes of
/// the arena, or, as long as some buffer has no offset, of one in which each
/// buffer has bytes of its own.
struct StreamModel {
  StreamProgram program;
  std::vector<exec::InstructionOpInterface> instructions;
};

StreamModel getStreamModel(exec::ProgramOp program);

/// Whether an instruction of it is in another stream than 0, or begins together
/// with another one.
bool hasStreams(exec::ProgramOp program);

/// What an instruction computes or moves. Its opcode must be one of the program
/// format's, its group of the mesh.
TaskShape getTaskShape(exec::InstructionOpInterface op, const Mesh &mesh);

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_STREAMMODEL_H
