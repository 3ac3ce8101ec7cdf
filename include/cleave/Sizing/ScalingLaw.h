//===- ScalingLaw.h - How large a model, and on how many tokens -----------===//
#ifndef CLEAVE_SIZING_SCALINGLAW_H
#define CLEAVE_SIZING_SCALINGLAW_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// What a training run trains: N parameters on D tokens.
struct ModelSize {
  double parameters = 0, tokens = 0;
};

/// FLOPs of a training run, forward and backward: 6 N D (Kaplan et al. 2020,
/// arXiv:2001.08361, section 2.1). Attention over the sequence and
/// recomputation are not in it.
double getTrainingFlops(ModelSize size);

/// Approach 3 of Hoffmann et al. 2022 (arXiv:2203.15556, section 3.3): the
/// loss, in nats per token, is E + A / N^alpha + B / D^beta. The constants hold
/// for the corpus and the tokenizer that they were fitted on, MassiveText's.
struct LossFit {
  double E = 0, A = 0, B = 0, alpha = 0, beta = 0;

  double getLoss(ModelSize size) const;
};

/// Which N and D are best for a number of FLOPs.
struct ScalingLaw {
  llvm::StringRef name;
  llvm::StringRef source; ///< the paper, and what of it
  LossFit fit;            ///< predicts the loss
  /// Tokens for each parameter of the best model; 0: N and D minimize the loss
  /// of `fit` at 6 N D FLOPs.
  double tokensPerParameter = 0;

  /// The best N and D for `flops` FLOPs. Of a fit, section 3.3 of Hoffmann et
  /// al. 2022: N = G (C / 6)^(beta / (alpha + beta)), where
  /// G = (alpha A / (beta B))^(1 / (alpha + beta)).
  ModelSize getOptimum(double flops) const;
  /// Tokens D for which `parameters` is the best N for 6 N D FLOPs.
  double getOptimalTokens(double parameters) const;
  /// Parameters N for which `tokens` is the best D for 6 N D FLOPs.
  double getOptimalParameters(double tokens) const;
};

/// `besiroglu`, `hoffmann`, `ratio`; the first is the default.
llvm::ArrayRef<ScalingLaw> getScalingLaws();

/// The law of that name; the error of an unknown one lists the known.
llvm::Expected<ScalingLaw> getScalingLaw(llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_SIZING_SCALINGLAW_H
