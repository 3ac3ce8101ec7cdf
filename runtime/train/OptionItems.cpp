//===- OptionItems.cpp ----------------------------------------------------===//
#include "runtime/train/OptionItems.h"
#include "runtime/io/HuggingFaceWeights.h"
#include "runtime/program/Envelope.h"
#include <cstdio>

using namespace cleave::runtime;

namespace {

std::string format(const std::string &value) { return value; }
std::string format(int64_t value) { return std::to_string(value); }
std::string format(uint64_t value) { return std::to_string(value); }
std::string format(bool value) { return value ? "yes" : "no"; }
std::string format(int value) { return std::to_string(value); }
std::string format(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", value); // tells any two apart
  return text;
}
std::string format(Backend value) { return getName(value); }
std::string format(DeviceKind value) {
  return value == DeviceKind::Auto  ? "auto"
         : value == DeviceKind::Cpu ? "cpu"
                                    : "cuda";
}
std::string format(ScheduleKind value) { return std::to_string(int(value)); }
std::string format(const std::vector<std::string> &values) {
  std::string text;
  for (const std::string &value : values)
    text += (text.empty() ? "" : " ") + value;
  return text;
}
template <typename T>
std::string format(const std::optional<T> &value) {
  return value ? format(*value) : "the program's";
}

std::string formatHex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08x", value);
  return text;
}

} // namespace

std::vector<AgreementItem>
cleave::runtime::describeProgram(const Program &program) {
  return {{"the format of programs", std::to_string(programVersion)},
          {"the program's checksum", formatHex(program.getChecksum())}};
}

std::vector<AgreementItem>
cleave::runtime::describeOptions(const Options &options) {
  // The names of all fields: one that is added does not compile until it is
  // named here, and then belongs into the list.
  const auto &[data, tokens, steps, init, metrics, trace, dumpOutputs, save,
               saveEvery, keep, resume, resumeFrom, exported, skipBudget,
               spikeSigmas, seed, backend, device, schedule, threads, logEvery,
               traceSteps, peakGflops, watchdog, serial, streamDelays, links] =
      options;
  const auto &[exportFolder, exportFileBytes, overwrite] = exported;
  const auto &[kind, warmupSteps, decaySteps, stableSteps, lr, minLr,
               totalSteps] = schedule;
  std::vector<AgreementItem> items;
  auto add = [&](const char *what, const auto &value) {
    items.push_back({what, format(value)});
  };
  // Those first that explain others.
  add("--transport", backend);
  add("--data", data);
  add("--tokens", tokens);
  add("--steps", steps);
  add("--init", init);
  add("--seed", seed);
  add("--save", save);
  add("--save-every", saveEvery);
  add("--keep", keep);
  add("--resume", resume);
  add("the folder to resume from", resumeFrom);
  add("--export", exportFolder);
  add("--max-shard-size", exportFileBytes);
  add("--overwrite", overwrite);
  add("--skip-budget", skipBudget);
  add("--spike-sigmas", spikeSigmas);
  add("--watchdog", watchdog);
  add("--metrics", metrics);
  add("--trace", trace);
  add("--trace-steps", traceSteps);
  add("--dump-outputs", dumpOutputs);
  add("--threads", threads);
  add("--lr", lr);
  add("--min-lr", minLr);
  add("--warmup-steps", warmupSteps);
  add("--decay-steps", decaySteps);
  add("the kind of schedule", kind);
  add("the schedule's stable steps", stableSteps);
  add("the schedule's total steps", totalSteps);
  add("--log-every", logEvery);
  add("--peak-gflops", peakGflops);
  add("--device", device);
  add("--serial", serial);
  add("--stream-delays", streamDelays);
  std::vector<std::string> emulated;
  for (const EmulatedLink &link : links)
    emulated.push_back(toString(link));
  add("--emulate-link", emulated);
  return items;
}

std::vector<AgreementItem>
cleave::runtime::describeFiles(const std::vector<DataIdentity> &identities) {
  std::vector<AgreementItem> items;
  for (const DataIdentity &file : identities) {
    std::string value = std::to_string(file.bytes) + " bytes";
    if (file.tokens)
      value += ", " + std::to_string(file.tokens) + " tokens";
    if (file.indexChecksum)
      value += ", index " + formatHex(file.indexChecksum);
    value += ", sample " + formatHex(file.sampleChecksum);
    items.push_back({"the content of " + file.path, value});
  }
  return items;
}

Status cleave::runtime::agreeOnRun(Communicator &communicator,
                                   const Program &program,
                                   const Options &options,
                                   const BatchSource &data,
                                   std::vector<DataIdentity> &files) {
  auto append = [](std::vector<AgreementItem> &items,
                   const std::vector<AgreementItem> &list) {
    items.insert(items.end(), list.begin(), list.end());
  };
  // 1. What was asked for: where that differs, so do the files.
  std::vector<AgreementItem> asked = describeProgram(program);
  append(asked, describeOptions(options));
  CLEAVE_RETURN_IF_ERROR(agreeOnItems(communicator, asked));

  // 2. What is in the files.
  std::vector<AgreementItem> read;
  auto readFiles = [&]() -> Status {
    CLEAVE_RETURN_IF_ERROR(data.describe(files));
    append(read, describeFiles(files));
    if (options.init.empty())
      return {};
    HuggingFaceWeights weights;
    CLEAVE_RETURN_IF_ERROR(HuggingFaceWeights::open(options.init, weights));
    std::vector<DataIdentity> weightFiles;
    CLEAVE_RETURN_IF_ERROR(weights.describe(weightFiles));
    append(read, describeFiles(weightFiles));
    return {};
  };
  CLEAVE_RETURN_IF_ERROR(communicator.agree(readFiles()));
  return agreeOnItems(communicator, read);
}
