//===- PlanFlags.h - What plan and estimate are told ----------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_PLANFLAGS_H
#define CLEAVE_TOOLS_CLEAVE_PLANFLAGS_H

#include "CommandLine.h"
#include "cleave/Search/PlanFile.h"
#include "cleave/Sizing/Sizing.h"
#include "llvm/Support/MemoryBuffer.h"
#include <chrono>

namespace cleave::tool {

/// What the command line says is wrong, not a file.
class UsageError : public llvm::ErrorInfo<UsageError> {
public:
  static char ID;
  explicit UsageError(const llvm::Twine &message) : message(message.str()) {}

  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }

private:
  std::string message;
};

/// Prints `cleave: error: message` and returns the exit code for it: 2 if that
/// is one of usage.
int failPlan(llvm::Error error);

/// Reads 70e9, 70B and the like, if `takesSuffix`; `text` becomes what CLI11
/// can read. Returns what is wrong with it.
std::string readNumber(std::string &text, const LegalRange &range);
/// Documents a number: its unit, meaning and range.
CLI::Option *describe(CLI::Option *option, llvm::StringRef unit,
                      const LegalRange &range);

/// The text of a plan file; "-" is stdin.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
loadPlanText(llvm::StringRef path);

/// What devices usually compute in: GPUs in bf16, CPUs in f32.
inline DType getUsualDType(bool onGPUs) {
  return onGPUs ? DType::BF16 : DType::F32;
}
/// The type of that name, or what such devices usually compute in. A UsageError
/// if the device has no unit for it.
llvm::Expected<DType> getDType(llvm::StringRef name, const Device &device);

/// What a cluster is planned as; if that is not all of it, a note on stderr
/// says so.
llvm::Expected<Machine> getNotedMachine(const Cluster &cluster);

/// The profile of that name, or of our own software on such devices if it is
/// empty; with an attention kernel that the device has, of which a note on
/// stderr says so.
llvm::Expected<Profile> loadStack(const std::string &profile,
                                  const Device &device);

/// What is planned, read.
struct Planned {
  Architecture model;
  Machine machine;
  SearchRequest request;
};

/// Searches done of all, with the seconds since they began, in a line of stderr
/// that is written over; nothing if that is no terminal.
class ProgressLine {
public:
  explicit ProgressLine(llvm::StringRef what);
  ~ProgressLine();
  void show(int64_t done, int64_t all);

private:
  std::string what;
  bool isShown;
  std::chrono::steady_clock::time_point begin;
};

struct PlanFlags {
  std::string model, cluster, profile;
  std::string dtype; ///< empty: what the devices usually compute in
  std::string moments = "f32";
  int64_t seqLen = 0, globalBatch = 0;
  double memory = 0, headroom = 5; ///< GB; % of a device

  void add(CLI::App &app);
  /// An error of a flag's value is a UsageError.
  llvm::Expected<Planned> load() const;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PLANFLAGS_H
