//===- Print.cpp - Priced layouts as a table or JSON ----------------------===//
#include "cleave/Search/Print.h"
#include "cleave/Plan/Plan.h"
#include "cleave/Search/Format.h"
#include "runtime/base/Version.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace cleave;
namespace json = llvm::json;

double PlanContext::getTokensPerSecond(const Candidate &candidate) const {
  return double(request.work.globalBatch) * double(request.work.seqLen) /
         candidate.estimate.step / double(candidate.layout.getDevices());
}

double PlanContext::getMFU(const Candidate &candidate) const {
  return getTokensPerSecond(candidate) *
         model.getFlopsPerToken(request.work.seqLen) /
         machine.device.getMatrix(request.work.dtype).peak;
}

std::string PlanContext::getMFUConvention() const {
  return llvm::formatv(
      "of {0} TFLOP/s {1}; 6 FLOPs a weight and token, and causal attention; "
      "recomputation is not counted",
      llvm::format("%.4g",
                   machine.device.getMatrix(request.work.dtype).peak / 1e12),
      getName(request.work.dtype));
}

bool PlanContext::fits(const Candidate &candidate) const {
  return candidate.estimate.memory.getTotal() <=
         request.getMemoryLimit(machine);
}

int64_t PlanContext::getMicroBatches(const Candidate &candidate) const {
  return request.work.globalBatch /
         (candidate.layout.dp * candidate.layout.microBatch);
}

std::string cleave::getLayoutKey(llvm::StringRef field) {
  std::string key = field.str();
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

json::Object cleave::toJSON(const TrainLayout &layout) {
  json::Object object;
  for (llvm::StringRef field : getLayoutFields()) {
    if (field == "recompute-modules" &&
        layout.recompute != Recompute::Selective)
      continue;
    std::string text = getFieldText(layout, field);
    int64_t number = 0;
    if (field == "sequence-parallel")
      object[getLayoutKey(field)] = layout.sequenceParallel;
    else if (!llvm::StringRef(text).getAsInteger(10, number))
      object[getLayoutKey(field)] = number;
    else
      object[getLayoutKey(field)] = text;
  }
  return object;
}

json::Object cleave::toJSON(const PlanContext &context,
                            const Candidate &candidate) {
  const Estimate &estimate = candidate.estimate;
  json::Object time, memory;
  for (const Part<Estimate> &part : getTimeParts())
    time[part.key] = estimate.*part.value;
  for (const Part<MemoryUse> &part : getMemoryParts())
    memory[part.key] = estimate.memory.*part.value;
  memory["total"] = estimate.memory.getTotal();
  memory["device"] = context.machine.device.memory;
  return json::Object{
      {"layout", toJSON(candidate.layout)},
      {"step_time_s", estimate.step},
      {"tokens_per_s_per_device", context.getTokensPerSecond(candidate)},
      {"mfu", context.getMFU(candidate)},
      {"time_s", std::move(time)},
      {"memory_bytes", std::move(memory)},
      {"fits", context.fits(candidate)}};
}

json::Object cleave::toJSON(const PlanContext &context,
                            const SearchResult &result, bool withSeconds) {
  json::Object root = toJSON(context, result.best.front());
  root["version"] = Plan::currentVersion;
  root["cleave"] = getVersion();
  root["model"] = context.model.name;
  root["device"] = context.machine.device.name;
  root["device_type"] = context.machine.device.cores > 0 ? "cpu" : "gpu";
  root["devices"] = context.machine.devices;
  root["seq_len"] = context.request.work.seqLen;
  root["global_batch"] = context.request.work.globalBatch;
  root["dtype"] = getName(context.request.work.dtype);
  if (DType moments = context.request.work.moments; moments != DType::F32)
    root["moments"] = getName(moments);
  root["profile"] = context.request.profile.name;
  json::Object search{{"objective", getName(context.request.objective)},
                      {"space", result.space},
                      {"evaluated", result.evaluated},
                      {"value", result.best.front().value},
                      {"bound", result.bound},
                      {"optimal", result.bound == result.best.front().value}};
  if (context.request.objective == Objective::Time)
    search["bound_s"] = result.bound;
  if (context.request.memoryLimit > 0)
    search["memory_limit"] = context.request.memoryLimit;
  for (bool forbids : {false, true}) {
    json::Array texts;
    for (const Constraint &constraint : context.request.constraints)
      if (constraint.forbids == forbids)
        texts.push_back(constraint.text);
    if (!texts.empty())
      search[forbids ? "forbid" : "pin"] = std::move(texts);
  }
  if (withSeconds)
    search["seconds"] = result.seconds;
  root["search"] = std::move(search);
  if (result.best.size() > 1) {
    json::Array top;
    for (const Candidate &candidate : result.best)
      top.push_back(toJSON(context, candidate));
    root["top"] = std::move(top);
  }
  return root;
}

void cleave::printProfile(llvm::raw_ostream &os, const PlanContext &context) {
  const Profile &profile = context.request.profile;
  std::string abilities = getAbilities(profile);
  if (profile.name == "cleave" && context.machine.device.cores == 0)
    abilities = "what this compiler makes for GPUs; --profile plans for other "
                "software";
  printRow(os, "profile", profile.name, abilities);
}

void cleave::printCandidate(llvm::raw_ostream &os, const PlanContext &context,
                            const Candidate &candidate) {
  const Estimate &estimate = candidate.estimate;
  double step = estimate.step;
  printRow(os, "layout", toString(candidate.layout), "");
  printProfile(os, context);
  printRow(os, "step", formatSeconds(step),
           llvm::formatv("{0:N} tokens/s/device",
                         std::llround(context.getTokensPerSecond(candidate))));
  const TrainLayout &layout = candidate.layout;
  printRow(os, "batch",
           formatNumber(context.getMicroBatches(candidate), "micro-batch"),
           llvm::formatv("of {0} on each of dp {1}",
                         formatNumber(layout.microBatch, "sample"), layout.dp));
  printRow(os, "MFU", formatShare(context.getMFU(candidate), 1),
           context.getMFUConvention());
  std::string exposed;
  for (auto [name, seconds] : {std::pair("tp", estimate.tensor),
                               {"cp", estimate.context},
                               {"ep", estimate.expert},
                               {"pp", estimate.pipeline},
                               {"dp", estimate.data}})
    if (seconds > 0)
      exposed += (exposed.empty() ? "" : ", ") + std::string(name) + " " +
                 formatShare(seconds, step);
  printRow(os, "compute", formatShare(estimate.compute, step),
           llvm::formatv("optimizer {0}, host {1}",
                         formatShare(estimate.optimizer, step),
                         formatShare(estimate.host, step)));
  printRow(os, "bubble", formatShare(estimate.bubble, step), "");
  printRow(os, "exposed", exposed.empty() ? "0.0 %" : exposed, "");
  const MemoryUse &memory = estimate.memory;
  double limit = context.request.getMemoryLimit(context.machine);
  auto [total, usable] = formatBytesApart(memory.getTotal(), limit);
  std::string left =
      limit < context.machine.device.memory
          ? llvm::formatv(" that may be used of {0}",
                          formatBytes(context.machine.device.memory))
                .str()
          : "";
  printRow(os, "memory", total,
           llvm::formatv(
               "of {0}{1} on the fullest device: parameters {2}, "
               "gradients {3}, optimizer {4}, activations {5}, "
               "temporaries {6}, reserve {7}{8}",
               usable, left, formatBytes(memory.parameters),
               formatBytes(memory.gradients), formatBytes(memory.optimizer),
               formatBytes(memory.activations), formatBytes(memory.temporaries),
               formatBytes(memory.reserve),
               context.fits(candidate) ? "" : "; does not fit"));
}

void cleave::printCandidates(llvm::raw_ostream &os, const PlanContext &context,
                             llvm::ArrayRef<Candidate> candidates) {
  os << "step\tdevices\ttokens/s/device\tMFU\tmemory\tlayout\n";
  for (const Candidate &candidate : candidates)
    os << llvm::formatv("{0}\t{1}\t{2}\t{3}\t{4}\t{5}\n",
                        formatSeconds(candidate.estimate.step),
                        candidate.layout.getDevices(),
                        std::llround(context.getTokensPerSecond(candidate)),
                        formatShare(context.getMFU(candidate), 1),
                        formatBytes(candidate.estimate.memory.getTotal()),
                        toString(candidate.layout));
}

std::string cleave::getProof(const PlanContext &context,
                             const SearchResult &result) {
  Objective objective = context.request.objective;
  std::string all =
      result.space == 1
          ? "the only layout"
          : llvm::formatv("none of {0:N} layouts is better", result.space)
                .str();
  return llvm::formatv("{0}: {1:N} priced, bounds exclude the others; bound "
                       "{2} = {3}",
                       all, result.evaluated,
                       formatValue(objective, result.bound),
                       getName(objective));
}

void cleave::printProof(llvm::raw_ostream &os, const PlanContext &context,
                        const SearchResult &result) {
  printRow(os, "proof",
           llvm::formatv("{0}; {1}", getProof(context, result),
                         formatSeconds(result.seconds)),
           "");
}

llvm::Expected<TrainLayout> cleave::readLayout(const json::Object &object) {
  TrainLayout layout;
  layout.dp = layout.microBatch = layout.virtualStages = 0;
  bool saysModules = false;
  for (const auto &[key, value] : object) {
    std::string field = key.str();
    std::replace(field.begin(), field.end(), '_', '-');
    saysModules |= field == "recompute-modules";
    if (!llvm::is_contained(getLayoutFields(), field))
      return llvm::createStringError(llvm::formatv(
          "unknown key {0}, expects one of {1}", json::Value(key.str()),
          llvm::join(llvm::map_range(getLayoutFields(), getLayoutKey), ", ")));
    std::string text = llvm::formatv("{0}", value);
    if (std::optional<llvm::StringRef> string = value.getAsString())
      text = string->str();
    if (!setField(layout, field, text))
      return llvm::createStringError(
          llvm::formatv("key \"{0}\": value {1}: expects {2}",
                        llvm::StringRef(key), value, getLegalValues(field)));
  }
  if (saysModules && layout.recompute != Recompute::Selective)
    return llvm::createStringError(
        "key \"recompute_modules\": expects recompute selective, which has "
        "modules");
  if (layout.virtualStages == 0)
    layout.virtualStages = isVShaped(layout.schedule) ? 2 : 1;
  return layout;
}

void cleave::completeLayout(TrainLayout &layout, const Workload &work,
                            int64_t devices) {
  if (layout.dp == 0)
    layout.dp =
        std::max<int64_t>(devices / layout.tp / layout.cp / layout.pp, 1);
  if (layout.microBatch == 0)
    layout.microBatch =
        getDefaultMicroBatch(work.globalBatch / layout.dp, layout.pp);
}
