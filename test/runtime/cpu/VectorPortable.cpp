#define FUNCTIONS portableFunctions
#include "test/runtime/cpu/VectorFunctions.inc"
