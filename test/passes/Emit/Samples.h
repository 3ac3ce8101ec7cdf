//===- Samples.h - The kernels that emitters are tried on -----------------===//
//
// Kernels of the kinds that a training step is made of, at any size, as text.
// Each target runs the same samples.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_PASSES_EMIT_SAMPLES_H
#define CLEAVE_TEST_PASSES_EMIT_SAMPLES_H

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::test {

/// What an input is filled with.
enum class Fill { Normal, Positive, Index };

struct Sample {
  std::string name, text;
  /// One per input; columns bound the indices.
  std::vector<Fill> fills;
};

/// All kinds of row kernels. `storage` is "f32" or "bf16".
std::vector<Sample> makeRowSamples(int64_t rows, int64_t columns,
                                   const std::string &storage);
/// Pointwise kernels; `accumulate` as in exec.kernel.
std::vector<Sample> makeFlatSamples(int64_t elements,
                                    const std::string &storage,
                                    const std::string &accumulate);
/// Sums over rows.
std::vector<Sample> makeColumnSamples(int64_t rows, int64_t columns,
                                      const std::string &storage,
                                      const std::string &accumulate);
/// One kernel per math function, y = f(x), `elements` long.
std::vector<Sample> makeMathSamples(int64_t elements);

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_EMIT_SAMPLES_H
