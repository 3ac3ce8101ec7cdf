#define FUNCTIONS avx2Functions
#include "test/runtime/cpu/VectorFunctions.inc"
