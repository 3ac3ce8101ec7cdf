//===- ToyTrain.cpp - The toy as an executable, for tests of the command line //
//
// As the compiler's executables, but for TOY_DP, TOY_TP and TOY_MICRO_BATCHES
// in the environment, which stand for what was compiled, and TOY_DAMAGE, which
// changes a byte of the program.
//
//===----------------------------------------------------------------------===//
#include "runtime/train/Train.h"
#include "test/runtime/train/ToyStages.h"
#include <cstdlib>

using namespace cleave;

static uint64_t getNumber(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

int main(int argc, char **argv) {
  auto make =
      getNumber("TOY_PP") == 2 ? test::makeToyStages : test::makeToyProgram;
  std::vector<uint8_t> bytes = make(getNumber("TOY_DP"), getNumber("TOY_TP"),
                                    getNumber("TOY_MICRO_BATCHES"))
                                   .seal();
  if (std::getenv("TOY_DAMAGE"))
    bytes[getNumber("TOY_DAMAGE") % bytes.size()] ^= 1;
  return runtime::runMain(argc, argv, bytes.data(), bytes.size(),
                          test::toy::kernelTable);
}
