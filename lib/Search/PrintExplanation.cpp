//===- PrintExplanation.cpp - What a plan depends on, in words ------------===//
#include "cleave/Search/Explain.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace cleave;
namespace json = llvm::json;

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
                      {"gain", relaxation.getGain(plan)}};
}

static json::Object toJSON(const SlowerLink &slower) {
  return json::Object{{"link", slower.link},
                      {"kept_step_time_s", slower.kept.estimate.step},
                      {"step_time_s", slower.best.estimate.step},
                      {"layout", toJSON(slower.best.layout)},
                      {"changes", slower.changes()},
                      {"loss", slower.getLoss()}};
}

static json::Object getDifference(const Estimate &plan, const Estimate &other) {
  json::Object time, memory;
  for (const Part<Estimate> &part : getTimeParts())
    time[part.key] = other.*part.value - plan.*part.value;
  for (const Part<MemoryUse> &part : getMemoryParts())
    memory[part.key] = other.memory.*part.value - plan.memory.*part.value;
  memory["total"] = other.memory.getTotal() - plan.memory.getTotal();
  return json::Object{{"step_time_s", other.step - plan.step},
                      {"time_s", std::move(time)},
                      {"memory_bytes", std::move(memory)}};
}

json::Object cleave::toJSON(const PlanContext &context,
                            const Explanation &explanation,
                            const Alternative *alternative) {
  const Candidate &plan = explanation.plan;
  json::Object shares;
  for (const Part<Estimate> &part : getTimeParts())
    shares[part.key] = plan.estimate.*part.value / plan.estimate.step;
  json::Array relaxed, slower;
  for (const Relaxation &relaxation : explanation.relaxations)
    relaxed.push_back(::toJSON(relaxation, plan));
  for (const SlowerLink &link : explanation.slower)
    slower.push_back(::toJSON(link));
  json::Object root{{"version", 1},
                    {"plan", toJSON(context, plan)},
                    {"shares", std::move(shares)},
                    {"relaxed", std::move(relaxed)},
                    {"slower", std::move(slower)}};
  if (!alternative)
    return root;
  json::Object whyNot;
  if (alternative->best) {
    whyNot = toJSON(context, *alternative->best);
    whyNot["difference"] =
        getDifference(plan.estimate, alternative->best->estimate);
  }
  json::Array constraints;
  for (const Constraint &constraint : alternative->constraints)
    constraints.push_back(constraint.text);
  whyNot["constraints"] = std::move(constraints);
  if (!alternative->problem.empty())
    whyNot["problem"] = alternative->problem;
  root["why_not"] = std::move(whyNot);
  return root;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string formatChange(double change,
                                llvm::function_ref<std::string(double)> text) {
  return (change < 0 ? "- " : "+ ") + text(std::abs(change));
}

/// Parts above a thousandth of the whole, largest first.
template <typename Whole>
static std::vector<std::pair<double, llvm::StringRef>>
getLargest(llvm::ArrayRef<Part<Whole>> parts, double whole,
           llvm::function_ref<double(double Whole::*)> getValue) {
  std::vector<std::pair<double, llvm::StringRef>> largest;
  for (const Part<Whole> &part : parts)
    if (double value = getValue(part.value); std::abs(value) >= whole / 1000)
      largest.emplace_back(value, part.name);
  llvm::sort(largest, [](const auto &a, const auto &b) {
    return std::pair(-std::abs(a.first), a.second) <
           std::pair(-std::abs(b.first), b.second);
  });
  return largest;
}

void cleave::printExplanation(llvm::raw_ostream &os,
                              const Explanation &explanation) {
  const Candidate &plan = explanation.plan;
  double step = plan.estimate.step;
  printRow(os, "layout", toString(plan.layout), "");
  printRow(os, "step", formatSeconds(step), "");
  llvm::StringRef name = "costs";
  auto start = [&](llvm::StringRef next) { name = next; };
  auto print = [&](const llvm::Twine &value, const llvm::Twine &remark) {
    printRow(os, name, value, remark);
    name = "";
  };
  for (auto [seconds, part] :
       getLargest<Estimate>(getTimeParts(), step, [&](double Estimate::*value) {
         return plan.estimate.*value;
       }))
    print(formatSeconds(seconds),
          llvm::formatv("{0} {1}", llvm::left_justify(part, 10),
                        formatShare(seconds, step)));
  start("binds");
  for (const Relaxation &relaxation : explanation.relaxations) {
    double gain = relaxation.getGain(plan);
    std::string share = formatShare(std::abs(gain), 1);
    llvm::StringRef than = gain < 0 ? "slower" : "faster";
    if (!relaxation.searched)
      print(share, "faster without the bubble of this layout, or more");
    else if (relaxation.layout == plan.layout)
      print(share, llvm::formatv("{0} with {1}, in the same layout", than,
                                 relaxation.what));
    else
      print(share, llvm::formatv("{0} with {1}: {2}", than, relaxation.what,
                                 toString(relaxation.layout)));
  }
  start("slower");
  for (const SlowerLink &link : explanation.slower) {
    std::string more = formatShare(link.kept.estimate.step / step - 1, 1);
    if (link.changes())
      print(more, llvm::formatv("with {0} - 20 %, {1} of it for keeping this "
                                "layout: the best is {2}",
                                link.link, formatShare(link.getLoss(), 1),
                                toString(link.best.layout)));
    else
      print(more, llvm::formatv("with {0} - 20 %; this layout stays the best",
                                link.link));
  }
}

void cleave::printAlternative(llvm::raw_ostream &os,
                              const Alternative &alternative,
                              const Candidate &plan) {
  std::vector<std::string> texts;
  for (const Constraint &constraint : alternative.constraints)
    texts.push_back(constraint.text);
  printRow(os, "why not", llvm::join(texts, ", "), "");
  if (!alternative.problem.empty())
    printRow(os, "", alternative.problem, "");
  if (!alternative.best)
    return;
  const Estimate &other = alternative.best->estimate;
  const Estimate &mine = plan.estimate;
  printRow(os, alternative.problem.empty() ? "best" : "fastest",
           toString(alternative.best->layout), "");
  if (alternative.best->layout == plan.layout) {
    printRow(os, "", "this is the plan", "");
    return;
  }
  printRow(
      os, "difference", formatChange(other.step - mine.step, formatSeconds),
      llvm::formatv("step, {0}",
                    formatChange(other.step / mine.step - 1, [](double share) {
                      return formatShare(share, 1);
                    })));
  for (auto [seconds, part] : getLargest<Estimate>(
           getTimeParts(), mine.step,
           [&](double Estimate::*value) { return other.*value - mine.*value; }))
    printRow(os, "", formatChange(seconds, formatSeconds), part);
  printRow(os, "",
           formatChange(other.memory.getTotal() - mine.memory.getTotal(),
                        formatBytes),
           "memory");
  for (auto [bytes, part] :
       getLargest<MemoryUse>(getMemoryParts(), mine.memory.getTotal(),
                             [&](double MemoryUse::*value) {
                               return other.memory.*value - mine.memory.*value;
                             }))
    printRow(os, "", formatChange(bytes, formatBytes), part);
}
