//===- Load.h - Whether a program may be loaded ---------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_PROGRAM_LOAD_H
#define CLEAVE_TEST_RUNTIME_PROGRAM_LOAD_H

#include "test/runtime/program/ProgramBuilder.h"
#include <gtest/gtest.h>

namespace cleave::test {

inline runtime::Status load(const ProgramBuilder &builder) {
  runtime::Program program;
  return builder.load(program);
}

} // namespace cleave::test

#define EXPECT_REFUSED(builder, words)                                         \
  EXPECT_NE(load(builder).message().find(words), std::string::npos)            \
      << load(builder).message()
#define EXPECT_ACCEPTED(builder)                                               \
  EXPECT_TRUE(load(builder).ok()) << load(builder).message()

#endif // CLEAVE_TEST_RUNTIME_PROGRAM_LOAD_H
