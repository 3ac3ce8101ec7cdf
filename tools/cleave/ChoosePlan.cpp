//===- ChoosePlan.cpp - The best layout of those that compile -------------===//
#include "ChoosePlan.h"
#include "cleave/Search/Explain.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

bool tool::Runnable::takes(const TrainLayout &layout) {
  llvm::Expected<Plan> plan = makePlan(layout, work);
  llvm::Error error = plan ? setRecompute(*plan, layout) : plan.takeError();
  if (!error)
    error = checkPlan(*plan, model, work);
  if (!error)
    return true;
  refused = llvm::toString(std::move(error));
  return false;
}

void tool::Runnable::restrict(SearchRequest &request) {
  llvm::append_range(request.constraints, getRunnable());
  request.runs = [this](const TrainLayout &layout) { return takes(layout); };
}

llvm::Error tool::Runnable::explain(llvm::Error error) const {
  if (refused.empty())
    return error;
  return llvm::createStringError(
      llvm::toString(std::move(error)) +
      "; cleave compile refuses other layouts: " + refused);
}

llvm::Expected<Plan> tool::Runnable::read(llvm::StringRef text) const {
  llvm::Expected<PlanFile> file = parsePlanFile(text, "the plan");
  if (!file)
    return file.takeError();
  llvm::Expected<Plan> plan = getPlan(*file, model.modelType, work);
  if (plan)
    if (llvm::Error error = checkPlan(*plan, model, work))
      return error;
  return plan;
}

llvm::Expected<tool::ChosenPlan>
tool::choosePlan(const PlanFlags &flags, const Model &model,
                 llvm::ArrayRef<Constraint> pins) {
  llvm::Expected<Planned> planned = flags.load();
  if (!planned)
    return planned.takeError();
  ChosenPlan chosen;
  chosen.planned = std::move(*planned);
  SearchRequest &request = chosen.planned.request;
  llvm::append_range(request.constraints, pins);
  constexpr int64_t shown = 4;
  request.top = shown;
  chosen.runnable = std::make_unique<Runnable>(model, request.work);
  chosen.runnable->restrict(request);
  llvm::Expected<SearchResult> result =
      search(chosen.planned.model, chosen.planned.machine, request);
  if (!result)
    return chosen.runnable->explain(result.takeError());
  chosen.result = std::move(*result);
  PlanContext context{chosen.planned.model, chosen.planned.machine, request};
  chosen.text = llvm::formatv(
      "{0:2}\n", llvm::json::Value(toJSON(context, chosen.result, false)));
  llvm::Expected<Plan> plan = chosen.runnable->read(chosen.text);
  if (!plan)
    return plan.takeError();
  chosen.plan = std::move(*plan);
  return chosen;
}

void tool::ChosenPlan::print(llvm::raw_ostream &os) const {
  PlanContext context{planned.model, planned.machine, planned.request};
  printCandidate(os, context, result.best.front());
  printReasons(os, context, result);
}

/// What would make the plan better: the best few of what `explain` searches.
static void printBinds(llvm::raw_ostream &os, const PlanContext &context,
                       const Candidate &plan) {
  constexpr size_t most = 3;
  std::vector<Relaxation> relaxations = computeRelaxations(context, plan);
  llvm::StringRef name = "binds";
  for (const Relaxation &relaxation :
       llvm::ArrayRef(relaxations).take_front(most)) {
    // They come in order; what pays nothing does not bind.
    constexpr double least = 5e-4;
    if (relaxation.getGain(plan) < least)
      break;
    auto [share, remark] = describe(context, relaxation, plan);
    printRow(os, name, share, remark);
    name = "";
  }
}

void tool::printReasons(llvm::raw_ostream &os, const PlanContext &context,
                        const SearchResult &result) {
  printBinds(os, context, result.best.front());
  printProof(os, context, result);
  if (result.best.size() > 1) {
    os << '\n';
    printCandidates(os, context, result.best);
  }
}
