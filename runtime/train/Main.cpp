//===- Main.cpp - The executable's entry ----------------------------------===//
#include "runtime/base/StandardStreams.h"
#include "runtime/train/Train.h"

int main(int argc, char **argv) {
  cleave::runtime::openStandardStreams();
  return cleave::runtime::runMain(
      argc, argv, cleave_program, cleave_program_size,
      {cleave_kernels, cleave_kernel_count, &cleave_cuda_code});
}
