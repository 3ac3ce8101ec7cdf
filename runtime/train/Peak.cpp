//===- Peak.cpp -----------------------------------------------------------===//
#include "runtime/train/Peak.h"
#include "runtime/cpu/Peak.h"
#include <algorithm>

using namespace cleave;
namespace fb = cleave::program;

fb::DType runtime::getMatrixType(const Program &program) {
  double bf16 = 0, all = 0;
  for (const fb::Stage *stage : toList(program->stages()))
    for (const fb::Instruction *instruction : toList(stage->instructions())) {
      const fb::Gemm *gemm = instruction->work_as_Gemm();
      if (!gemm)
        continue;
      double products =
          double(gemm->m()) * double(gemm->n()) * double(gemm->k());
      all += products;
      if (gemm->type_a() == fb::DType::BF16 &&
          gemm->type_b() == fb::DType::BF16)
        bf16 += products;
    }
  return bf16 > all / 2 ? fb::DType::BF16 : fb::DType::F32;
}

double runtime::measureCorePeakGflops(fb::DType type) {
  constexpr double seconds = 0.02;
  cpu::Isa isa = cpu::getActiveIsa();
  double best = cpu::measurePeak(isa, /*bf16Pairs=*/false, seconds);
  if (type == fb::DType::BF16)
    best = std::max(best, cpu::measurePeak(isa, /*bf16Pairs=*/true, seconds));
  return best * 1e-9;
}
