//===- ToyTrain.cpp - The toy as an executable, for tests of the command line //
//
// As the compiler's executables, but for TOY_DP, TOY_TP and TOY_MICRO_BATCHES
// in the environment, which stand for what was compiled, TOY_DAMAGE, which
// changes a byte of the program, and TOY_DISAGREE, with which every other rank
// finds its step bad.
//
//===----------------------------------------------------------------------===//
#include "runtime/train/Train.h"
#include "test/runtime/train/ToyStages.h"
#include <array>
#include <atomic>
#include <cstdlib>

using namespace cleave;

static uint64_t getNumber(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

static void disagree(void *const *buffers, const int64_t *params, int64_t begin,
                     int64_t end) {
  test::toy::guard(buffers, params, begin, end);
  static std::atomic<int> calls = 0;
  if (calls++ % 2 == 1)
    *static_cast<float *>(buffers[2]) = 0;
}

int main(int argc, char **argv) {
  auto make =
      getNumber("TOY_PP") == 2 ? test::makeToyStages : test::makeToyProgram;
  std::vector<uint8_t> bytes = make(getNumber("TOY_DP"), getNumber("TOY_TP"),
                                    getNumber("TOY_MICRO_BATCHES"))
                                   .seal();
  if (std::getenv("TOY_DAMAGE"))
    bytes[getNumber("TOY_DAMAGE") % bytes.size()] ^= 1;
  auto kernels = std::to_array(test::toy::kernels);
  for (CleaveKernelEntry &each : kernels)
    if (std::getenv("TOY_DISAGREE") && each.fn == test::toy::guard)
      each.fn = disagree;
  return runtime::runMain(argc, argv, bytes.data(), bytes.size(),
                          {kernels.data(), kernels.size()});
}
