// The kernels compiled with AVX2 and FMA: see the flags in
// runtime/cpu/CMakeLists.txt.
#include "runtime/cpu/variants/AttentionGradUnit.h"
#include "runtime/cpu/variants/AttentionUnit.h"
#include "runtime/cpu/variants/GemmRect.h"

const cleave::cpu::Variant cleave::cpu::avx2Variant = {gemmRect, attentionUnits,
                                                       attentionGradUnits};
