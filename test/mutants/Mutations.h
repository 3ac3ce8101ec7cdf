//===- Mutations.h - Ways to make a program compute something else --------===//
#ifndef CLEAVE_TEST_MUTANTS_MUTATIONS_H
#define CLEAVE_TEST_MUTANTS_MUTATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include <functional>
#include <string>
#include <vector>

namespace cleave::test {

/// A way to change one op. `apply` leaves the op alone, and returns false,
/// where the change does not apply; else the program is another one.
struct Mutation {
  std::string name;
  std::function<bool(mlir::Operation *)> apply;
};

/// Those of tensors: `@step` before it becomes instructions.
std::vector<Mutation> getTensorMutations();

/// Those of what pipeline stages give each other: functions of stages.
std::vector<Mutation> getMessageMutations();

/// Those of instructions: `exec.program` and its kernels.
std::vector<Mutation> getInstructionMutations();

/// Those of buffers that have offsets.
std::vector<Mutation> getMemoryMutations();

} // namespace cleave::test

#endif // CLEAVE_TEST_MUTANTS_MUTATIONS_H
