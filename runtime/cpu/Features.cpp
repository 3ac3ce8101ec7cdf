#include "runtime/cpu/Features.h"

#include <atomic>

using namespace cleave::cpu;

const char *cleave::cpu::getName(Isa isa) {
  switch (isa) {
  case Isa::Portable:
    return "portable";
  case Isa::Avx2:
    return "avx2";
  case Isa::Avx512:
    return "avx512";
  case Isa::Avx512Bf16:
    return "avx512bf16";
  }
  return "unknown";
}

Isa cleave::cpu::getBestIsa() {
#if defined(__x86_64__)
  // These also ask the operating system whether it saves the registers.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return Isa::Portable;
  if (!__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return Isa::Avx2;
  return __builtin_cpu_supports("avx512bf16") ? Isa::Avx512Bf16 : Isa::Avx512;
#else
  return Isa::Portable;
#endif
}

static std::atomic<Isa> &getActive() {
  static std::atomic<Isa> active{getBestIsa()};
  return active;
}

Isa cleave::cpu::getActiveIsa() {
  return getActive().load(std::memory_order_relaxed);
}

bool cleave::cpu::setActiveIsa(Isa isa) {
  if (isa > getBestIsa())
    return false;
  getActive().store(isa);
  return true;
}
