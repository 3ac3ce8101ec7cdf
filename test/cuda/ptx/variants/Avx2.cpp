//===- Avx2.cpp - Lane-wise instructions: avx2 ---------------------------===//
#define CLEAVE_PTX_VARIANT avx2
#include "Lanes.inc"
