//===- Tactics.h - What a person says of placements -----------------------===//
//
// A file of tactics is a strategy in a few lines, which the choice of
// placements then keeps to. Example, Megatron-LM's tensor and sequence
// parallelism with ZeRO-1:
//
//   split "batch" over dp
//   split "heads" over tp
//   split "intermediate" over tp
//   split "vocab" over tp
//   split "sequence" over tp      # of what no line above splits along tp
//   keep optimizer over dp
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_AUTOSHARD_TACTICS_H
#define CLEAVE_AUTOSHARD_TACTICS_H

#include "cleave/AutoShard/Choose.h"

namespace cleave {

/// One line of such a file:
///
///   line   ::= scope* tactic
///   scope  ::= `layers` N [`-` N] `:` | "PATTERN" `:`
///   tactic ::= [`never`] `split` "DIM" `over` axes
///            | [`never`] `keep` KIND `over` axes
///            | `pin` "PATTERN" `to` "PLACEMENT"
///            | `split` `nothing` `else`
///   axes   ::= AXIS (`,` AXIS)*
///
/// `#` begins a comment. A pattern, in which `*` stands for any text, is of
/// what ops are called, as `layers.0.up`; a scope names the ops that the tactic
/// is for. KIND is one of `parameters` (as micro-batches find them),
/// `gradients` (as micro-batches add them up), `optimizer` (all state, as
/// updates leave it) and `activations` (as the forward pass keeps them).
struct Tactic {
  enum class Verb { Split, Keep, Pin, SplitNothingElse };

  Verb verb = Verb::Split;
  bool forbids = false;
  std::string dim;               ///< of Split
  Keeps keeps = Keeps::None;     ///< of Keep
  std::vector<std::string> axes; ///< of Split and Keep
  std::string placement;         ///< of Pin
  /// Of names of ops; empty: all. What Pin pins is one of these.
  std::vector<std::string> patterns;
  std::optional<std::pair<int64_t, int64_t>> layers; ///< first and last

  std::string text;  ///< the line
  unsigned line = 0; ///< its number, from 1
  std::string place; ///< `FILE:LINE`, to begin messages with
};

/// Reads a file of tactics; fails on what is no tactic, and names place and
/// what is legal.
llvm::Expected<std::vector<Tactic>> parseTactics(llvm::StringRef text,
                                                 llvm::StringRef file);

/// The same of a file; refuses those over 16 MiB.
llvm::Expected<std::vector<Tactic>> loadTactics(llvm::StringRef path);

/// What a tactic has done.
struct TacticEffect {
  size_t ops = 0;  ///< that keep to it now
  size_t left = 0; ///< that could not
  std::string firstLeft;
};

/// Leaves ops the strategies that keep to the tactics, taken in order. Each
/// axis of `split` and `keep` holds for an op that can still do so, and not for
/// others: what an earlier line has split along an axis stays. An op
/// all of whose operands are sums that are yet to be reduced along the axis
/// keeps to `split`, too. What is forbidden or pinned holds for all ops in
/// scope. `split nothing else` takes from each op the axes that no line before
/// it uses there.
///
/// Axes of one rank split nothing, and nothing is asked of them.
///
/// Fails, and names the line and what is legal, on axes and dims that do not
/// exist, on a line that no op can keep to, and where an op cannot do what is
/// pinned or without what is forbidden; then also the line that left it nothing
/// else, if one has.
///
/// With `allowsIdle`, lines that are for no op do nothing: of a small model for
/// a large one, which has fewer layers.
llvm::Expected<std::vector<TacticEffect>>
applyTactics(ShardingProblem &problem, llvm::ArrayRef<Tactic> tactics,
             bool allowsIdle = false);

} // namespace cleave

#endif // CLEAVE_AUTOSHARD_TACTICS_H
