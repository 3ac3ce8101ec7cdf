//===- Explain.cpp - What a plan depends on -------------------------------===//
//
// What binds is what pays when there is more of it: each condition is relaxed
// alone and the search run again. A relaxed problem has all layouts of the
// plan's own, but for twice the batch, which may not fit where this one does;
// so only its gain may be negative, or that of schedules of which a shorter
// message makes a longer step.
//
//===----------------------------------------------------------------------===//
#include "cleave/Search/Explain.h"
#include "Find.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <tuple>

using namespace cleave;

/// Makes every message free.
static void removeCosts(Link &link) {
  // Not infinity: bandwidths are interpolated.
  link.scaleBandwidth(1e30);
  link.latency = 0;
  for (CollectiveCurve &curve : link.collectives)
    curve.startup = curve.startupPerRank = curve.treeStartup = curve.pipeline =
        0;
}

/// Levels that join more devices than the one inside them, by their index.
static std::vector<size_t> getLevels(const Machine &machine) {
  std::vector<size_t> levels;
  int64_t inside = 1;
  for (size_t i = 0; i != machine.levels.size(); ++i) {
    int64_t size = std::min(machine.levels[i].size, machine.devices);
    if (size > inside)
      levels.push_back(i);
    inside = size;
  }
  return levels;
}

static std::optional<Candidate> findBest(const Architecture &model,
                                         const Machine &machine,
                                         SearchRequest request) {
  request.top = 1;
  llvm::Expected<SearchResult> result = search(model, machine, request);
  if (result)
    return result->best.front();
  llvm::consumeError(result.takeError());
  return std::nullopt;
}

/// Seconds of the layout on the devices that it uses, which of the cheapest may
/// be a part of the machine's.
static Candidate priceOn(Machine machine, const PlanContext &context,
                         const TrainLayout &layout) {
  const SearchRequest &request = context.request;
  machine = resize(machine, layout.getDevices());
  CostModel costs(context.model, machine, request.work, request.profile);
  Candidate candidate{layout, costs.price(layout), 0};
  candidate.value =
      getValue(request.objective, machine.device, layout, candidate.estimate);
  return candidate;
}

/// What moves bytes and what bubbles are made of take time and so money, but
/// no memory.
static void relaxTime(const PlanContext &context, Explanation &explanation,
                      llvm::function_ref<void(std::string, const Machine &,
                                              const SearchRequest &, double)>
                          add) {
  const SearchRequest &request = context.request;
  SearchRequest roomy = request;
  roomy.memoryLimit = request.getMemoryLimit(context.machine) * 1.2;
  add("memory + 20 %", context.machine, roomy, 1);
  for (size_t level : getLevels(context.machine)) {
    Machine machine = context.machine;
    Link &link = machine.levels[level].link;
    link.scaleBandwidth(2);
    add(link.name + " x 2", machine, request, 1);
  }
  Machine free = context.machine;
  for (Level &level : free.levels)
    removeCosts(level.link);
  add("infinite interconnect", free, request, 1);
  const Candidate &plan = explanation.plan;
  if (plan.estimate.bubble > 0) {
    double seconds = plan.estimate.step - plan.estimate.bubble;
    explanation.relaxations.push_back(
        {"no bubble", plan.layout, seconds,
         plan.value * seconds / plan.estimate.step, false});
  }
}

static void relax(const PlanContext &context, Explanation &explanation) {
  const SearchRequest &request = context.request;
  bool seeksMemory = request.objective == Objective::Memory;
  auto add = [&](std::string what, const Machine &machine,
                 const SearchRequest &request, double steps) {
    // Twice the batch may not fit, where a pinned schedule keeps all of it.
    if (std::optional<Candidate> best =
            findBest(context.model, machine, request))
      explanation.relaxations.push_back(
          {std::move(what), best->layout, best->estimate.step / steps,
           best->value / (seeksMemory ? 1 : steps), true});
  };
  if (!seeksMemory)
    relaxTime(context, explanation, add);
  SearchRequest twice = request;
  twice.work.globalBatch *= 2;
  add("batch x 2", context.machine, twice, 2);
  for (size_t i = 0; i != request.constraints.size(); ++i) {
    SearchRequest without = request;
    without.constraints.erase(without.constraints.begin() + long(i));
    add("no " + request.constraints[i].getFlag(), context.machine, without, 1);
  }
  llvm::sort(explanation.relaxations,
             [](const Relaxation &a, const Relaxation &b) {
               return std::tie(a.value, a.what) < std::tie(b.value, b.what);
             });
}

static void slowDown(const PlanContext &context, Explanation &explanation) {
  for (size_t level : getLevels(context.machine)) {
    Machine machine = context.machine;
    Link &link = machine.levels[level].link;
    link.scaleBandwidth(0.8);
    Candidate kept = priceOn(machine, context, explanation.plan.layout);
    std::optional<Candidate> best =
        findBest(context.model, machine, context.request);
    explanation.slower.push_back({link.name, kept, best ? *best : kept});
  }
}

std::vector<Relaxation> cleave::computeRelaxations(const PlanContext &context,
                                                   const Candidate &plan) {
  Explanation explanation{plan, {}, {}};
  relax(context, explanation);
  return std::move(explanation.relaxations);
}

Explanation cleave::explain(const PlanContext &context, const Candidate &plan) {
  Explanation explanation{plan, computeRelaxations(context, plan), {}};
  if (context.request.objective != Objective::Memory)
    slowDown(context, explanation);
  return explanation;
}

/// What the plan breaks once it is what the constraints say, if they say it of
/// degrees. Empty if it breaks nothing.
static std::string checkPinned(const PlanContext &context,
                               const Candidate &plan,
                               llvm::ArrayRef<Constraint> constraints) {
  TrainLayout layout; // the choices below the degrees at their simplest
  layout.tp = plan.layout.tp;
  layout.cp = plan.layout.cp;
  layout.pp = plan.layout.pp;
  layout.dp = 0;
  for (const Constraint &constraint : constraints) {
    llvm::StringRef text = constraint.text;
    if (constraint.comparison == "=" &&
        !setField(layout, constraint.field, text.split('=').second))
      return "";
  }
  // The plan's other degrees, unless they do not divide the devices.
  int64_t devices = context.machine.devices;
  auto divides = [&] {
    double degrees = double(layout.tp) * double(layout.cp) * double(layout.pp);
    return degrees <= double(devices) && devices % int64_t(degrees) == 0;
  };
  for (int64_t *degree : {&layout.pp, &layout.cp})
    if (!divides() &&
        llvm::none_of(constraints, [&](const Constraint &constraint) {
          return constraint.field == (degree == &layout.pp ? "pp" : "cp");
        }))
      *degree = 1;
  if (layout.dp == 0)
    layout.dp =
        std::max<int64_t>(devices / layout.tp / layout.cp / layout.pp, 1);
  return checkLayout(context.model, context.machine, context.request.work,
                     layout);
}

Alternative cleave::findAlternative(const PlanContext &context,
                                    const Candidate &plan,
                                    llvm::ArrayRef<Constraint> constraints) {
  Alternative alternative{constraints, std::nullopt, ""};
  SearchRequest request = context.request;
  request.top = 1;
  llvm::append_range(request.constraints, constraints);
  llvm::Expected<SearchResult> result =
      search(context.model, context.machine, request);
  if (result) {
    alternative.best = result->best.front();
    return alternative;
  }
  alternative.problem = llvm::toString(result.takeError());
  request.memoryLimit = std::numeric_limits<double>::infinity();
  alternative.best = findBest(context.model, context.machine, request);
  if (alternative.best)
    return alternative;
  std::string broken = checkPinned(context, plan, constraints);
  if (!broken.empty())
    alternative.problem += ": " + broken;
  return alternative;
}
