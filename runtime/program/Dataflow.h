//===- Dataflow.h - What instructions access, and runs that repeat --------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_DATAFLOW_H
#define CLEAVE_RUNTIME_PROGRAM_DATAFLOW_H

#include "runtime/program/Program.h"

namespace cleave::runtime {

/// How an instruction uses its operands: inputs, then outputs, then workspace.
struct OperandRoles {
  size_t inputs = 0, outputs = 0;
  program::Accumulate accumulate = program::Accumulate::Never; ///< outputs
  const program::Kernel *kernel = nullptr;

  /// Whether outputs are read, in a run that is `first` or another.
  bool readsOutputs(bool isFirst) const {
    return accumulates(accumulate, isFirst);
  }
};

/// Of an instruction that keeps to the table.
OperandRoles getRoles(const program::Program &program,
                      const program::Instruction &instruction);

/// A place for each micro-batch.
inline bool hasAllPlaces(const program::Program &program,
                         const program::Operand &operand) {
  return operand.places() == program.micro_batches();
}

/// Runs [begin, begin + count * length), each `length` of which are those
/// before, `step` micro-batches on, as those of successive micro-batches are.
/// In each such period the operands lie where they lay in the one before, but
/// for those with a place for each micro-batch, which meet no other buffer's
/// bytes. So what is found out of a few periods holds for all of them.
struct Repetition {
  size_t length = 0, count = 0; ///< none: the runs from `begin` on are not such
  uint64_t step = 0;
};

/// The runs of a stage that repeat from run `begin` on.
Repetition findRepetition(const Stage &stage, size_t begin);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_DATAFLOW_H
