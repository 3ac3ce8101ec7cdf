#define FUNCTIONS avx512Functions
#include "test/runtime/cpu/VectorFunctions.inc"
