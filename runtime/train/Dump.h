//===- Dump.h - A program's outputs as a safetensors file -----------------===//
#ifndef CLEAVE_RUNTIME_TRAIN_DUMP_H
#define CLEAVE_RUNTIME_TRAIN_DUMP_H

#include "runtime/executor/Executor.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Safetensors.h"

namespace cleave::runtime {

/// Writes every output of the program, whole and unpadded, after the first
/// step, and the losses and gradient norms of all steps:
///  - an output with the layout of a state whose checkpoint tensor is T is
///    part of "grad.T", F32, put together as a checkpoint is;
///  - any other goes under its own name, F32 or I32; one with a stride over
///    micro-batches has them one after the other along its first dim;
///  - "trajectory.loss" and "trajectory.grad_norm": F64 [steps].
class OutputDump {
public:
  /// Collective; rank 0 makes the file. `path` empty: does nothing, ever.
  static Status create(Executor &executor, const std::string &path,
                       uint64_t steps, OutputDump &dump);

  /// After the first step. Collective.
  Status writeOutputs(Executor &executor);
  /// After the last step: gives the file its name. Collective. Fewer numbers
  /// than steps is an error of the caller.
  Status finish(Executor &executor, const std::vector<double> &losses,
                const std::vector<double> &gradNorms);

private:
  bool isActive = false;
  SafetensorsLayout layout;
  OutputFile file; ///< open on rank 0
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_DUMP_H
