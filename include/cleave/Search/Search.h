//===- Search.h - The best layout, with a proof ---------------------------===//
#ifndef CLEAVE_SEARCH_SEARCH_H
#define CLEAVE_SEARCH_SEARCH_H

#include "cleave/Cost/CostModel.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <functional>

namespace cleave {

enum class Objective { Time, Memory, Cost };
constexpr int numObjectives = 3;
llvm::StringRef getName(Objective objective);

/// What a layout must be (`tp=8`, `recompute!=full`), or must not.
struct Constraint {
  std::string text; ///< as given, for messages
  std::string field, comparison;
  int64_t value = 0;
  bool forbids = false;
  /// The flag that it was given as, if that is neither --pin nor --forbid.
  std::string flag = {};

  bool allows(int64_t actual) const;
  /// Whether it leaves the field one value.
  bool isPin() const { return comparison == "=" && !forbids; }
  /// As on a command line: --pin tp=8.
  std::string getFlag() const {
    return flag.empty() ? (forbids ? "--forbid " : "--pin ") + text : flag;
  }
};

/// Reads FIELD=VALUE; also !=, <, <=, >, >=. Errors list fields and names.
llvm::Expected<Constraint> parseConstraint(llvm::StringRef text, bool forbids);

/// A field of a layout by its name in constraints, plans and batches: tp, cp,
/// cp-kind, dp, pp, ...
std::vector<llvm::StringRef> getLayoutFields();
/// What it is and its legal values, for help texts.
std::string getMeaning(llvm::StringRef field);
int64_t getField(const TrainLayout &layout, llvm::StringRef field);
/// False if the field has no such value.
bool setField(TrainLayout &layout, llvm::StringRef field,
              llvm::StringRef value);
/// The values that it has, in words.
std::string getLegalValues(llvm::StringRef field);
/// A field's value as a person writes it.
std::string getFieldText(const TrainLayout &layout, llvm::StringRef field);

/// What a layout breaks, in words with the numbers; empty if it is legal.
std::string checkLayout(const Architecture &model, const Machine &machine,
                        const Workload &work, const TrainLayout &layout);

/// Virtual stages that a run which somebody did may have without a block: those
/// of the embedding and of the head.
constexpr int64_t mostEmptyStages = 2;
/// The same of such a run: its tp groups may also leave their node.
std::string checkRun(const Architecture &model, const Machine &machine,
                     const Workload &work, const TrainLayout &layout);

/// What of a layout a profile's software cannot run, and what it has instead,
/// in words; empty if it can run all of it.
std::string checkAbilities(const Profile &profile, const TrainLayout &layout);
/// All that it can run, in words; empty if that is every layout.
std::string getAbilities(const Profile &profile);

/// Percents of a device's memory that may be left free.
constexpr double mostHeadroom = 90;

struct SearchRequest {
  Workload work;
  Profile profile;
  Objective objective = Objective::Time;
  std::vector<Constraint> constraints;
  /// What tp, dp, micro-batch and sp of a layout must besides allow; nothing:
  /// all do.
  std::function<bool(const TrainLayout &)> runs;
  int64_t top = 1;
  double memoryLimit = 0; ///< bytes of a device; 0: all of it

  /// Leaves so many percents of a device's memory free.
  void setHeadroom(const Device &device, double percents) {
    memoryLimit = device.memory * (1 - percents / 100);
  }
  /// Bytes that a layout may need.
  double getMemoryLimit(const Machine &machine) const {
    return memoryLimit > 0 ? memoryLimit : machine.device.memory;
  }
};

struct Candidate {
  TrainLayout layout;
  Estimate estimate;
  double value = 0; ///< of the objective: s, bytes or USD of a step
};

/// USD of a second of so many devices for the cost, 1 for the time.
double getRate(Objective objective, const Device &device, int64_t devices);
/// What an objective makes of a layout: seconds of its step, bytes of its
/// fullest device, or USD of its step.
double getValue(Objective objective, const Device &device,
                const TrainLayout &layout, const Estimate &estimate);

/// What layouts are told apart by where several are asked for: degrees and
/// schedule, of which a person chooses; not how often what is repeated.
using LayoutKind = std::array<int64_t, 7>;
LayoutKind getKind(const TrainLayout &layout);

struct SearchResult {
  /// In order, as many as were asked for, of each kind the best.
  std::vector<Candidate> best;
  int64_t space = 0;     ///< legal layouts
  int64_t evaluated = 0; ///< of them priced; bounds exclude the others
  /// No layout's value is below this; that of the best if it is proven.
  double bound = 0;
  double seconds = 0; ///< of the search itself
};

/// The best layouts that use every device of the machine (with the objective
/// cost, any number that divides it) and fit. Branch and bound: branches are
/// taken in the order of their lower bounds, until the next bound exceeds what
/// was found. Equal values are ordered by the order of enumeration. An error
/// says which condition fails for the layout that is nearest to legal.
llvm::Expected<SearchResult> search(const Architecture &model,
                                    const Machine &machine,
                                    const SearchRequest &request);

/// The machine with another number of devices.
Machine resize(const Machine &machine, int64_t devices);

/// Calls `visit` with every layout of the space, in a fixed order.
void enumerateLayouts(const Architecture &model, const Machine &machine,
                      const SearchRequest &request,
                      llvm::function_ref<void(const TrainLayout &)> visit);

/// Is told how many of all searches are done, each once it is.
using Progress = std::function<void(int64_t done, int64_t all)>;

/// The front of time against memory and number of devices: of layouts that are
/// the fastest within `count` equal steps of the limit, on each of some numbers
/// of devices (all of the machine's, if there are none), those that no other
/// one is at least as good as in all three. The fastest comes first.
llvm::Expected<std::vector<Candidate>>
computeFront(const Architecture &model, const Machine &machine,
             const SearchRequest &request, int64_t count,
             llvm::ArrayRef<int64_t> devices = {},
             const Progress &progress = {});

/// A layout in one line, what is 1 or off left out.
std::string toString(const TrainLayout &layout);

} // namespace cleave

#endif // CLEAVE_SEARCH_SEARCH_H
