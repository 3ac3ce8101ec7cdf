//===- Explain.h - What a plan depends on ---------------------------------===//
#ifndef CLEAVE_SEARCH_EXPLAIN_H
#define CLEAVE_SEARCH_EXPLAIN_H

#include "cleave/Search/Print.h"

namespace cleave {

/// The best layout once one condition is relaxed.
struct Relaxation {
  std::string what;
  TrainLayout layout;
  double seconds = 0;   ///< of what the plan does in a step
  double value = 0;     ///< of the objective, for the same
  bool searched = true; ///< false: the plan's own layout, so at least this

  /// 0.1: the plan's value, its time if that is the objective, is 1.1 times as
  /// much.
  double getGain(const Candidate &plan) const { return plan.value / value - 1; }
};

/// What a slower link does.
struct SlowerLink {
  std::string link;
  Candidate kept; ///< the plan's layout
  Candidate best;

  /// Whether another layout is then better.
  bool changes() const { return best.value < kept.value; }
  /// 0.1: keeping the plan's layout takes 1.1 times as long, or costs as much.
  double getLoss() const { return kept.value / best.value - 1; }
};

struct Explanation {
  Candidate plan;
  std::vector<Relaxation> relaxations; ///< largest gain first
  std::vector<SlowerLink> slower;      ///< innermost level first
};

/// What would make the plan better, the most first: the searches of `explain`
/// without those on slower links.
std::vector<Relaxation> computeRelaxations(const PlanContext &context,
                                           const Candidate &plan);

/// Searches again for the plan's objective with one thing changed: each of its
/// constraints, the batch, and for time or cost memory, each level's link, all
/// links without any cost; and prices the plan on slower links, unless it is
/// for memory, which they leave as it is. The request is that of the plan.
Explanation explain(const PlanContext &context, const Candidate &plan);

/// The best layout under further constraints.
struct Alternative {
  std::vector<Constraint> constraints;
  /// If none fits, the best that would with enough memory.
  std::optional<Candidate> best;
  /// Why none is legal, or none fits; empty otherwise.
  std::string problem;
};

Alternative findAlternative(const PlanContext &context, const Candidate &plan,
                            llvm::ArrayRef<Constraint> constraints);

/// `alternatives` are the answers to why other layouts are not the best.
llvm::json::Object toJSON(const PlanContext &context,
                          const Explanation &explanation,
                          llvm::ArrayRef<Alternative> alternatives);
/// "4.3 % faster with batch x 2, in the same layout", as share and remark.
std::pair<std::string, std::string> describe(const PlanContext &context,
                                             const Relaxation &relaxation,
                                             const Candidate &plan);
void printExplanation(llvm::raw_ostream &os, const PlanContext &context,
                      const Explanation &explanation);
/// What it costs more or less than the plan, by component.
void printAlternative(llvm::raw_ostream &os, const PlanContext &context,
                      const Alternative &alternative, const Candidate &plan);

} // namespace cleave

#endif // CLEAVE_SEARCH_EXPLAIN_H
