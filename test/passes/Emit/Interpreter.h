//===- Interpreter.h - exec.kernel, evaluated one element at a time -------===//
#ifndef CLEAVE_TEST_PASSES_EMIT_INTERPRETER_H
#define CLEAVE_TEST_PASSES_EMIT_INTERPRETER_H

#include "dialects/exec/Exec.h"
#include <vector>

namespace cleave::test {

/// An operand's elements, whatever their storage, as f64.
using Operand = std::vector<double>;

/// How many elements the operand of `access` has in `kernel`.
int64_t countElements(exec::KernelOp kernel, exec::AccessAttr access);

/// Runs `kernel` in f64 over all its rows. `operands`: inputs, then outputs,
/// which hold what they held before. Rounds nothing but what the body itself
/// rounds to bf16.
void interpret(exec::KernelOp kernel, std::vector<Operand> &operands,
               int64_t shardIndex, int64_t microBatch);

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_EMIT_INTERPRETER_H
