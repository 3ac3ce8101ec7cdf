// The kernels compiled with AVX-512 F, BW, DQ, VL: see the flags in
// runtime/cpu/CMakeLists.txt.
#include "runtime/cpu/variants/AttentionGradUnit.h"
#include "runtime/cpu/variants/AttentionUnit.h"
#include "runtime/cpu/variants/GemmRect.h"

const cleave::cpu::Variant cleave::cpu::avx512Variant = {
    gemmRect, attentionUnits, attentionGradUnits};
