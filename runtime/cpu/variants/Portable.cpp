// The kernels compiled for any CPU: see the flags in
// runtime/cpu/CMakeLists.txt.
#include "runtime/cpu/variants/AttentionGradUnit.h"
#include "runtime/cpu/variants/AttentionUnit.h"
#include "runtime/cpu/variants/GemmRect.h"

const cleave::cpu::Variant cleave::cpu::portableVariant = {
    gemmRect, attentionUnits, attentionGradUnits};
