//===- Avx512.cpp - Lane-wise instructions: avx512 -----------------------===//
#define CLEAVE_PTX_VARIANT avx512
#include "Lanes.inc"
