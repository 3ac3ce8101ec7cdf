//===- ChoosePlan.h - The best layout of those that compile ---------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_CHOOSEPLAN_H
#define CLEAVE_TOOLS_CLEAVE_CHOOSEPLAN_H

#include "PlanFlags.h"
#include "cleave/Frontend/Model.h"

namespace cleave::tool {

/// What `cleave compile` says to layouts of a model, for a search that asks.
/// The model must outlive it, and it the search.
class Runnable {
public:
  Runnable(const Model &model, const Workload &work)
      : model(model), work(work) {}

  /// Lets a search take only what compiles.
  void restrict(SearchRequest &request);
  /// The error of a search that found nothing, with what was refused last.
  llvm::Error explain(llvm::Error error) const;
  /// Reads a plan as `cleave compile --plan` does.
  llvm::Expected<Plan> read(llvm::StringRef text) const;

private:
  bool takes(const TrainLayout &layout);

  const Model &model;
  Workload work;
  std::string refused; ///< why, of a layout; empty if it took all
};

/// What a search found, and for what.
struct ChosenPlan {
  Planned planned;
  std::unique_ptr<Runnable> runnable; ///< that the request asks
  SearchResult result;
  std::string text; ///< plan.json
  Plan plan;

  /// The plan, what binds it, and the runners-up with how far they are.
  void print(llvm::raw_ostream &os) const;
};

/// The fastest layout of those that compile, with the next best few. `flags`
/// name the configuration that `model`, which must outlive what is chosen, was
/// read from.
llvm::Expected<ChosenPlan> choosePlan(const PlanFlags &flags,
                                      const Model &model,
                                      llvm::ArrayRef<Constraint> pins);

/// What would make the best plan better, the proof that none is, and, if there
/// are any, the others.
void printReasons(llvm::raw_ostream &os, const PlanContext &context,
                  const SearchResult &result);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_CHOOSEPLAN_H
