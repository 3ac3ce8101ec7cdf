//===- Main.cpp - The executable's entry ----------------------------------===//
#include "runtime/train/Train.h"

int main(int argc, char **argv) {
  return cleave::runtime::runMain(argc, argv, cleave_program,
                                  cleave_program_size,
                                  {cleave_kernels, cleave_kernel_count});
}
