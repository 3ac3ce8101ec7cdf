//===- Lanes.h - Instructions that compute lane by lane -------------------===//
#ifndef CLEAVE_TEST_CUDA_PTX_LANES_H
#define CLEAVE_TEST_CUDA_PTX_LANES_H

#include "Module.h"
#include <unordered_map>

namespace cleave::ptx {

/// What computes an instruction, and the registers that it takes: those
/// written, `=`, those read; each p (predicate), h, i or l (16, 32 or 64 bits).
/// What follows `?` may be left out.
struct Computation {
  const char *signature;
  Compute compute;
};

/// By mnemonic, with all its modifiers.
class LaneTable {
public:
  /// The one for this processor.
  static const LaneTable &get();

  /// The names of `pattern`, in which (a|b) is a choice and {a} may be left
  /// out.
  void add(const char *pattern, const char *signature, Compute compute);
  const Computation *find(const std::string &mnemonic) const;
  const std::unordered_map<std::string, Computation> &getAll() const {
    return entries;
  }

private:
  void expand(const std::string &done, const std::string &rest,
              const Computation &entry);

  std::unordered_map<std::string, Computation> entries;
};

/// What is vectorized, once for each instruction set.
namespace portable {
void addLanes(LaneTable &table);
}
namespace avx2 {
void addLanes(LaneTable &table);
}
namespace avx512 {
void addLanes(LaneTable &table);
}

/// What is rare: all directed roundings.
void addRoundedLanes(LaneTable &table);

/// Instructions of Kind::Convert.
void convertLanes(std::byte *registers, const Instruction &instruction,
                  uint32_t mask);

} // namespace cleave::ptx

#endif // CLEAVE_TEST_CUDA_PTX_LANES_H
