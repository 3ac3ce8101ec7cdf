//===- Print.h - A program as text ----------------------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_PRINT_H
#define CLEAVE_RUNTIME_PROGRAM_PRINT_H

#include "runtime/program/Program.h"
#include <string>

namespace cleave::runtime {

/// Which parts to print, in this order; all but the plan's file by default.
struct PrintOptions {
  bool summary = true; ///< mesh, batch, arenas, FLOPs
  bool plan = false;   ///< plan.json, verbatim
  bool memory = true;  ///< categories at the peak
  bool states = true;  ///< states and outputs: shape, placement, bytes
  bool kernels = true;
  bool instructions = true; ///< one line each
};

/// Lines of plain text. Unprintable characters in names are escaped. What each
/// stage has of its own comes stage by stage, under its number if there are
/// several.
std::string printProgram(const Program &program,
                         const PrintOptions &options = {});

/// One instruction, without its number, e.g.
/// `forward Gemm "q_proj" (0+256*256, 512+256, 768+256, 1024+64) m=8, n=8,
///  k=8, trans_a=0, trans_b=0, type_a=f32, type_b=f32, type_c=f32,
///  accumulate=never, has_bias=0`. An operand is offset+bytes, and *places
///  where it has several, and /stride where they lie further apart than they
///  are long.
std::string printInstruction(const Stage &stage, size_t index);

/// An instruction as errors name it: `instruction 7 (Gemm "q_proj")`, behind
/// `stage 1, ` where there are several.
std::string describeInstruction(const Stage &stage, size_t index);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_PRINT_H
