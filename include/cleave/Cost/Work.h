//===- Work.h - What each kind of operation computes and moves ------------===//
//
// The one statement of FLOPs and bytes: the planner's blocks and the ops of a
// training graph (xf's CostOpInterface) both count by these.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_COST_WORK_H
#define CLEAVE_COST_WORK_H

namespace cleave {

enum class Direction { Forward, Backward };

/// Floating-point operations of matrix products, a multiply-add being two.
/// Kernels that are bound by memory count none.
struct Flops {
  /// What the model asks for and MFU counts, however it is computed
  /// (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
  double model = 0;
  /// What kernels compute: also what they repeat rather than keep.
  double executed = 0;
};

/// An m x k by k x n product.
Flops getMatmulFlops(double m, double n, double k);
/// Both operands, of `operand` bytes an element, and the result, of `result`,
/// each once.
double getMatmulBytes(double m, double n, double k, double operand,
                      double result);

/// Query-key pairs of a sequence that a causal mask leaves; with a window of 1
/// and more, those of the last so many keys.
double getCausalPairs(double seqLen, double window);
/// The same where queries only meet keys of their own chunk of so many tokens.
double getChunkedPairs(double seqLen, double chunk);

/// Attention of so many query-key pairs, all samples and heads together, with
/// `headDim` channels of queries and keys and `valueDim` of values. Forward two
/// products, q k^T and p v; backward four, dp, dv, dq and dk, and q k^T again,
/// which no fused kernel keeps (Dao et al. 2022, arXiv:2205.14135).
Flops getAttentionFlops(Direction direction, double pairs, double headDim,
                        double valueDim);

/// What causal attention is asked for, all samples and heads together; `rows`
/// queries and `pairs` query-key pairs a head.
struct AttentionWork {
  Direction direction = Direction::Forward;
  double heads = 0, rows = 0, pairs = 0, headDim = 0, valueDim = 0;

  Flops getFlops() const {
    return getAttentionFlops(direction, heads * pairs, headDim, valueDim);
  }
};

/// Newton and Schulz's iteration on a matrix, whose shorter side is s and whose
/// longer one l: in each step X X^T and its product with X, of s x l, and the
/// square of X X^T, of s x s. It is of the optimizer, so the model asks for
/// none of it.
Flops getOrthogonalizeFlops(double rows, double columns, double steps);

/// How often a memory-bound kernel reads or writes a tensor of one size.
struct Passes {
  double forward = 0, backward = 0;
  double get(Direction direction) const {
    return direction == Direction::Forward ? forward : backward;
  }
};

/// act(x): x and y; x, dy and dx. With a gate, act(gate) * up: three; gate, up,
/// dy and both gradients.
constexpr Passes getActivationPasses(bool gated) {
  return gated ? Passes{3, 5} : Passes{2, 3};
}
/// Rotation of queries or keys: once in, once out.
constexpr Passes ropePasses{2, 2};
/// A norm: x and y; x, dy and dx.
constexpr Passes normPasses{2, 3};
/// A sum of two, of values as of gradients.
constexpr Passes sumPasses{3, 3};
/// A sum of the residual stream and its norm in one kernel: what the first
/// leaves is not read again.
constexpr Passes sumAndNormPasses{sumPasses.forward + normPasses.forward - 1,
                                  sumPasses.backward + normPasses.backward - 1};
/// Permutation of tokens to their experts, and back.
constexpr Passes permutationPasses{4, 4};
/// Of what a lookup gives: the row and its copy; its gradient, and the row of
/// the table's gradient both ways in f32.
constexpr Passes embeddingPasses{2, 4};

/// Bytes of a cross-entropy over logits: the row's maximum and the sum read
/// them; the gradient reads them and writes its own.
double getLossBytes(Direction direction, double logits, double logitBytes,
                    double gradientBytes);

/// Bytes that an update moves for a parameter whose moments have so many
/// together, all else being in f32: its gradient for the global norm; the
/// optimizer's gradient, and weight and moments both ways.
constexpr double gradientNormBytes = 4;
constexpr double getUpdateBytes(double moments) {
  return 4 + 2 * (4 + moments);
}

} // namespace cleave

#endif // CLEAVE_COST_WORK_H
