//===- Portable.cpp - Lane-wise instructions: portable -------------------===//
//-----------------------===//
#define CLEAVE_PTX_VARIANT portable
#include "Lanes.inc"
