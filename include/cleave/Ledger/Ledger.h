//===- Ledger.h - The cost model against published runs -------------------===//
#ifndef CLEAVE_LEDGER_LEDGER_H
#define CLEAVE_LEDGER_LEDGER_H

#include "cleave/Cost/CostModel.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <optional>

namespace cleave {

/// A published run: what was trained how, and what was measured.
struct LedgerRow {
  std::string id, source;
  std::string group; ///< rows that share model, batch and devices
  /// Field whose absence makes the row impossible to price; empty if none.
  std::string missing;
  /// What makes it illegal, with the file and the row; empty if nothing does.
  /// Then it has no more than its id and source.
  std::string wrong;
  Architecture model;
  Machine machine;
  Workload work;
  TrainLayout layout;
  Profile profile;
  std::optional<double> stepSeconds, memoryBytes;
  std::optional<bool> fits;

  Estimate predicted;
  bool predictedFits() const {
    return predicted.memory.getTotal() <= machine.device.memory;
  }
};

/// Reads one row in the format of docs/formats.md. A field that is absent is
/// never read as zero: the row says what it misses. Errors name the row, the
/// key, its value and what is legal; a layout that breaks a rule is one
/// (checkRun), so that what is read can be priced.
llvm::Expected<LedgerRow> readLedgerRow(const llvm::json::Object &object,
                                        const llvm::Twine &where);

/// The profile of a row's software: the first whose patterns match.
llvm::Expected<Profile> findProfile(const llvm::json::Object &row);

/// A built-in profile by its name, or that of a .json file (docs/formats.md).
/// Errors list the names, or name the file, the key, its value and what is
/// legal.
llvm::Expected<Profile> loadProfile(llvm::StringRef name);

/// The name of the profile of programs that this compiler makes for a device.
llvm::StringRef getOwnProfile(const Device &device);

/// The attention kernel that a profile's software runs on a device: its own if
/// the device has it, or the best of what frameworks take without being asked;
/// `allows` may leave some out.
std::string
chooseAttention(const Profile &profile, const Device &device,
                llvm::function_ref<bool(llvm::StringRef)> allows = nullptr);

/// That profile, with the attention kernel that its programs run there.
llvm::Expected<Profile> loadOwnProfile(const Device &device);

/// Errors of predictions over rows; fractions of what was measured.
struct LedgerErrors {
  int64_t rows = 0;
  std::map<std::string, int64_t> skipped; ///< by missing field
  int64_t illegal = 0;
  double median = 0, mean = 0, p90 = 0, bias = 0;
  double spearman = 0; ///< rank correlation of step times
  /// Mean over groups: how much slower than the best measured layout is the
  /// one that the model prices lowest.
  double gap = 0;
  int64_t groups = 0;
  int64_t memoryRows = 0;
  double memoryMedian = 0, memoryBias = 0;
  int64_t fitRows = 0, fitRight = 0; ///< runs said to fit or not; told right
};

struct Ledger {
  std::vector<LedgerRow> rows;

  /// Reads and prices every row of a file. What is illegal in a row is said in
  /// its place, and the others go on; an error is one of the file.
  llvm::Error load(llvm::StringRef path);
  /// Errors over the rows of a source, or of all if `source` is empty.
  LedgerErrors getErrors(llvm::StringRef source) const;
  std::vector<std::string> getSources() const;
};

} // namespace cleave

#endif // CLEAVE_LEDGER_LEDGER_H
