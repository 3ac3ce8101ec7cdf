//===- VectorFunctions.h - Vector.h of one instruction set, callable ------===//
#ifndef CLEAVE_TEST_RUNTIME_CPU_VECTORFUNCTIONS_H
#define CLEAVE_TEST_RUNTIME_CPU_VECTORFUNCTIONS_H

#include <cstdint>

/// One vector's operations on arrays of `width` lanes. Tests call them through
/// this table, so that nothing but Vector.h is compiled for the wide sets.
struct VectorFunctions {
  int width;
  void (*exp)(const float *in, float *out);
  void (*tanh)(const float *in, float *out);
  void (*transpose)(float *square); ///< [width][width], in place
  float (*sum)(const float *in);
  float (*maximum)(const float *in);
  /// The first n lanes of in, plus one in all lanes, to the first n of out.
  void (*increment)(const float *in, float *out, int64_t n);
  void (*incrementBf16)(const uint16_t *in, uint16_t *out, int64_t n);
  void (*roundBf16)(const float *in, uint16_t *out);
};

extern const VectorFunctions portableFunctions;
#if defined(__x86_64__)
extern const VectorFunctions avx2Functions;
extern const VectorFunctions avx512Functions;
#endif

#endif // CLEAVE_TEST_RUNTIME_CPU_VECTORFUNCTIONS_H
