//===- PrintExplanation.cpp - What a plan depends on, in words ------------===//
#include "cleave/Search/Explain.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace cleave;
namespace json = llvm::json;

/// What adds up to the value of an objective: memory, or what time costs.
static void
visitParts(Objective objective, const Candidate &candidate,
           llvm::function_ref<void(const PartName &, double)> visit) {
  const Estimate &estimate = candidate.estimate;
  if (objective == Objective::Memory)
    for (const Part<MemoryUse> &part : getMemoryParts())
      visit(part, estimate.memory.*part.value);
  else
    for (const Part<Estimate> &part : getTimeParts())
      visit(part, estimate.*part.value * candidate.value / estimate.step);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json::Object toJSON(const Relaxation &relaxation,
                           const Candidate &plan) {
  return json::Object{{"what", relaxation.what},
                      {"layout", toJSON(relaxation.layout)},
                      {"same_layout", relaxation.layout == plan.layout},
                      {"searched", relaxation.searched},
                      {"step_time_s", relaxation.seconds},
                      {"value", relaxation.value},
                      {"gain", relaxation.getGain(plan)}};
}

static json::Object toJSON(const SlowerLink &slower) {
  return json::Object{{"link", slower.link},
                      {"kept_step_time_s", slower.kept.estimate.step},
                      {"kept_value", slower.kept.value},
                      {"step_time_s", slower.best.estimate.step},
                      {"value", slower.best.value},
                      {"layout", toJSON(slower.best.layout)},
                      {"changes", slower.changes()},
                      {"loss", slower.getLoss()}};
}

static json::Object getDifference(const Candidate &from, const Candidate &to) {
  const Estimate &plan = from.estimate, &other = to.estimate;
  json::Object time, memory;
  for (const Part<Estimate> &part : getTimeParts())
    time[part.key] = other.*part.value - plan.*part.value;
  for (const Part<MemoryUse> &part : getMemoryParts())
    memory[part.key] = other.memory.*part.value - plan.memory.*part.value;
  memory["total"] = other.memory.getTotal() - plan.memory.getTotal();
  return json::Object{{"value", to.value - from.value},
                      {"step_time_s", other.step - plan.step},
                      {"time_s", std::move(time)},
                      {"memory_bytes", std::move(memory)}};
}

json::Object cleave::toJSON(const PlanContext &context,
                            const Explanation &explanation,
                            llvm::ArrayRef<Alternative> alternatives) {
  const Candidate &plan = explanation.plan;
  json::Object shares;
  visitParts(context.request.objective, plan,
             [&](const auto &part, double value) {
               shares[part.key] = value / plan.value;
             });
  json::Array relaxed, slower;
  for (const Relaxation &relaxation : explanation.relaxations)
    relaxed.push_back(::toJSON(relaxation, plan));
  for (const SlowerLink &link : explanation.slower)
    slower.push_back(::toJSON(link));
  json::Object root{{"version", 1},
                    {"objective", getName(context.request.objective)},
                    {"value", plan.value},
                    {"plan", toJSON(context, plan)},
                    {"shares", std::move(shares)},
                    {"relaxed", std::move(relaxed)},
                    {"slower", std::move(slower)}};
  json::Array answers;
  for (const Alternative &alternative : alternatives) {
    json::Object whyNot;
    if (alternative.best) {
      whyNot = toJSON(context, *alternative.best);
      whyNot["difference"] = getDifference(plan, *alternative.best);
    }
    json::Array constraints;
    for (const Constraint &constraint : alternative.constraints)
      constraints.push_back(constraint.text);
    whyNot["constraints"] = std::move(constraints);
    if (!alternative.problem.empty())
      whyNot["problem"] = alternative.problem;
    answers.push_back(std::move(whyNot));
  }
  if (!answers.empty())
    root["why_not"] = std::move(answers);
  return root;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string formatChange(double change,
                                llvm::function_ref<std::string(double)> text) {
  return (change < 0 ? "- " : "+ ") + text(std::abs(change));
}

namespace {
/// Parts of a value, or of the difference of two.
using Values = std::vector<std::pair<double, llvm::StringRef>>;
} // namespace

/// Those above a thousandth of the whole, largest first.
static Values getLargest(Values parts, double whole) {
  llvm::erase_if(parts, [&](const auto &part) {
    return std::abs(part.first) < whole / 1000;
  });
  llvm::sort(parts, [](const auto &a, const auto &b) {
    return std::pair(-std::abs(a.first), a.second) <
           std::pair(-std::abs(b.first), b.second);
  });
  return parts;
}

/// What a value with more of it is, and one with less.
static std::pair<llvm::StringRef, llvm::StringRef>
getComparatives(Objective objective) {
  switch (objective) {
  case Objective::Time:
    return {"slower", "faster"};
  case Objective::Memory:
    return {"larger", "smaller"};
  case Objective::Cost:
    return {"dearer", "cheaper"};
  }
  llvm_unreachable("an objective");
}

std::pair<std::string, std::string>
cleave::describe(const PlanContext &context, const Relaxation &relaxation,
                 const Candidate &plan) {
  auto [more, less] = getComparatives(context.request.objective);
  double gain = relaxation.getGain(plan);
  llvm::StringRef than = gain < 0 ? more : less;
  std::string remark;
  if (!relaxation.searched)
    remark = (less + " without the bubble of this layout, or more").str();
  else if (relaxation.layout == plan.layout)
    remark = (than + " with " + relaxation.what + ", in the same layout").str();
  else
    remark =
        (than + " with " + relaxation.what + ": " + toString(relaxation.layout))
            .str();
  return {formatShare(std::abs(gain), 1), remark};
}

void cleave::printExplanation(llvm::raw_ostream &os, const PlanContext &context,
                              const Explanation &explanation) {
  const Candidate &plan = explanation.plan;
  Objective objective = context.request.objective;
  auto format = [&](double value) { return formatValue(objective, value); };
  llvm::StringRef more = getComparatives(objective).first;
  printRow(os, "layout", toString(plan.layout), "");
  printProfile(os, context);
  printRow(os, "step", formatSeconds(plan.estimate.step), "");
  if (objective != Objective::Time)
    printRow(os, getName(objective), format(plan.value), "");
  llvm::StringRef name = "costs";
  auto start = [&](llvm::StringRef next) { name = next; };
  auto print = [&](const llvm::Twine &value, const llvm::Twine &remark) {
    printRow(os, name, value, remark);
    name = "";
  };
  Values parts;
  visitParts(objective, plan, [&](const PartName &part, double value) {
    parts.emplace_back(value, part.name);
  });
  size_t width = objective == Objective::Memory ? 16 : 10;
  for (auto [value, part] : getLargest(parts, plan.value))
    print(format(value),
          llvm::formatv("{0} {1}", llvm::left_justify(part, width),
                        formatShare(value, plan.value)));
  start("binds");
  for (const Relaxation &relaxation : explanation.relaxations) {
    auto [share, remark] = describe(context, relaxation, plan);
    print(share, remark);
  }
  start(more);
  for (const SlowerLink &link : explanation.slower) {
    std::string share = formatShare(link.kept.value / plan.value - 1, 1);
    if (link.changes())
      print(share, llvm::formatv("with {0} - 20 %, {1} of it for keeping this "
                                 "layout: the best is {2}",
                                 link.link, formatShare(link.getLoss(), 1),
                                 toString(link.best.layout)));
    else
      print(share, llvm::formatv("with {0} - 20 %; this layout stays the best",
                                 link.link));
  }
}

void cleave::printAlternative(llvm::raw_ostream &os, const PlanContext &context,
                              const Alternative &alternative,
                              const Candidate &plan) {
  Objective objective = context.request.objective;
  std::vector<std::string> texts;
  for (const Constraint &constraint : alternative.constraints)
    texts.push_back(constraint.text);
  printRow(os, "why not", llvm::join(texts, ", "), "");
  if (!alternative.problem.empty())
    printRow(os, "", alternative.problem, "");
  if (!alternative.best)
    return;
  const Candidate &other = *alternative.best;
  static constexpr llvm::StringLiteral bests[] = {"fastest", "smallest",
                                                  "cheapest"};
  printRow(os,
           alternative.problem.empty()
               ? llvm::StringRef("best")
               : llvm::StringRef(bests[size_t(objective)]),
           toString(other.layout), "");
  if (other.layout == plan.layout) {
    printRow(os, "", "this is the plan", "");
    return;
  }
  llvm::StringRef name = "difference";
  auto print = [&](double change,
                   llvm::function_ref<std::string(double)> format,
                   const llvm::Twine &remark) {
    printRow(os, name, formatChange(change, format), remark);
    name = "";
  };
  auto printShare = [&](double to, double from,
                        llvm::function_ref<std::string(double)> format,
                        const llvm::Twine &what) {
    print(to - from, format,
          what + ", " + formatChange(to / from - 1, [](double share) {
            return formatShare(share, 1);
          }));
  };
  const Estimate &theirs = other.estimate, &mine = plan.estimate;
  auto printTime = [&] {
    printShare(theirs.step, mine.step, formatSeconds, "step");
    Values parts;
    for (const Part<Estimate> &part : getTimeParts())
      parts.emplace_back(theirs.*part.value - mine.*part.value, part.name);
    for (auto [seconds, part] : getLargest(parts, mine.step))
      print(seconds, formatSeconds, part);
  };
  auto printMemory = [&] {
    double to = theirs.memory.getTotal(), from = mine.memory.getTotal();
    if (objective == Objective::Memory)
      printShare(to, from, formatBytes, "memory");
    else
      print(to - from, formatBytes, "memory");
    Values parts;
    for (const Part<MemoryUse> &part : getMemoryParts())
      parts.emplace_back(theirs.memory.*part.value - mine.memory.*part.value,
                         part.name);
    for (auto [bytes, part] : getLargest(parts, from))
      print(bytes, formatBytes, part);
  };
  if (objective == Objective::Cost)
    printShare(
        other.value, plan.value,
        [](double value) { return formatValue(Objective::Cost, value); },
        "a step, of " + formatNumber(other.layout.getDevices(), "device"));
  if (objective == Objective::Memory)
    printMemory();
  printTime();
  if (objective != Objective::Memory)
    printMemory();
}
