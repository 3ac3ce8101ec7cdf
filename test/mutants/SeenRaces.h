//===- SeenRaces.h - Which races of a program GPUs can show ---------------===//
//
// The loader counts on less order than there is: a program that it refuses may
// have a race that never happens. This says so, from the whole step of all
// stages: an oracle for what ran on the simulated machine, never for what may
// run.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_MUTANTS_SEENRACES_H
#define CLEAVE_TEST_MUTANTS_SEENRACES_H

#include "runtime/program/Program.h"
#include <string>

namespace cleave::test {

/// What is wrong with a step, for a person:
///   "serial"     it is wrong in the serial order, or not known to be right;
///   "seen"       only in other orders, by a race that can happen;
/// and where neither is so, why the loader thinks it is:
///   "workspace"  all is in workspaces, which GPUs have elsewhere;
///   "bucket"     what another collective of a bucket waits for orders it;
///   "stages"     messages to other stages and back, or what all meet in, do.
/// The program has the structure of one, and its operands lie in the arena.
std::string describeRaces(const program::Program &program);

} // namespace cleave::test

#endif // CLEAVE_TEST_MUTANTS_SEENRACES_H
