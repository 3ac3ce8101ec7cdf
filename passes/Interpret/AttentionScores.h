//===- AttentionScores.h - Causal attention and its gradient --------------===//
#ifndef CLEAVE_PASSES_INTERPRET_ATTENTIONSCORES_H
#define CLEAVE_PASSES_INTERPRET_ATTENTIONSCORES_H

#include "passes/Interpret/Dual.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// Attention as `xf.attention` says it. q and what has its shape are
/// [batch, seq, heads, depth]; k, v [batch, seq, kvHeads, depth]; lse
/// [batch, heads, seq].
class AttentionScores {
public:
  using Values = std::vector<double>;

  AttentionScores(llvm::ArrayRef<int64_t> queryShape, int64_t kvHeads,
                  double scale, int64_t window, double softcap);

  void attend(const Values &q, const Values &k, const Values &v, Values &out,
              Values &lse) const;
  /// Adds to dq, dk and dv.
  void differentiate(const Values &q, const Values &k, const Values &v,
                     const Values &out, const Values &lse, const Values &dout,
                     Values &dq, Values &dk, Values &dv) const;

private:
  int64_t atQuery(int64_t b, int64_t i, int64_t h) const;
  int64_t atKey(int64_t b, int64_t j, int64_t h) const;
  bool reads(int64_t i, int64_t j) const;
  /// The score of query i and key j, and its slope in scale q k.
  Dual score(const Values &q, const Values &k, int64_t b, int64_t i, int64_t j,
             int64_t h) const;

  int64_t batch, seq, heads, kvHeads, depth;
  double scale, softcap;
  int64_t window;
};

} // namespace cleave

#endif // CLEAVE_PASSES_INTERPRET_ATTENTIONSCORES_H
