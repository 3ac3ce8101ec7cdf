//===- Origins.h - Which forward op a gradient is of ----------------------===//
//
// The forward op of a gradient is found by what both read. Where the gradient
// reads something that the forward pass saved (the log-sum-exp of attention,
// the rstd of a norm), it is the op that made it. Else it is one of the forward
// ops on the same operands; each is the origin of one gradient at most. Values
// count as the same where they differ by moves between ranks.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_DIALECTS_XF_ORIGINS_H
#define CLEAVE_DIALECTS_XF_ORIGINS_H

#include "dialects/xf/Xf.h"
#include <map>

namespace cleave::xf {

/// The value that `value` is, before it was moved between ranks.
mlir::Value getUnmoved(mlir::Value value);

/// The op of a kind that made `value`; null if another did.
template <typename Op>
Op getMaker(mlir::Value value) {
  return getUnmoved(value).getDefiningOp<Op>();
}

/// Whether an op is of the backward pass, and not a copy of a forward op.
bool isBackward(mlir::Operation *op);

/// Whether an op is a copy of a forward op.
bool isRecomputed(mlir::Operation *op);

/// The forward ops of a step that are not yet the origin of a gradient, by what
/// a gradient and the op that it is of have in common: the kind of the forward
/// op, the values that both read, and attributes as numbers.
class Origins {
public:
  /// Notes an op, in the order of the step: a recomputed op is a copy of the
  /// forward op that has its attributes and reads the same.
  void note(mlir::Operation *op);

  /// The value that `value` is, before it was moved between ranks; of a copy,
  /// that of the op that it is a copy of.
  mlir::Value getOriginal(mlir::Value value) const;
  bool isSame(mlir::Value a, mlir::Value b) const {
    return getOriginal(a) == getOriginal(b);
  }
  /// Checks that a gradient, `op`, reads what its forward op, `origin`, did.
  mlir::LogicalResult expectSame(mlir::Operation *op, mlir::Operation *origin,
                                 llvm::StringRef name, mlir::Value got,
                                 mlir::Value want) const;

  void add(llvm::StringRef kind, llvm::ArrayRef<mlir::Value> values,
           llvm::ArrayRef<double> attributes) {
    ++forward[sign(kind, values, attributes)];
  }
  /// Takes one as the origin of `op`; `what` says in words what it is.
  mlir::LogicalResult take(mlir::Operation *op, llvm::StringRef kind,
                           llvm::ArrayRef<mlir::Value> values,
                           llvm::ArrayRef<double> attributes,
                           const llvm::Twine &what);

private:
  using Signature = std::tuple<llvm::StringRef, std::vector<const void *>,
                               std::vector<double>>;
  Signature sign(llvm::StringRef kind, llvm::ArrayRef<mlir::Value> values,
                 llvm::ArrayRef<double> attributes) const;

  /// What an op is and what it reads.
  using Structure =
      std::tuple<const void *, const void *, std::vector<const void *>>;
  Structure describe(mlir::Operation *op);

  std::map<Signature, int> forward;
  std::map<Structure, mlir::Operation *> structures; ///< of forward ops
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> originals; ///< of copies
};

} // namespace cleave::xf

#endif // CLEAVE_DIALECTS_XF_ORIGINS_H
