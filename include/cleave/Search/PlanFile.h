//===- PlanFile.h - plan.json ---------------------------------------------===//
#ifndef CLEAVE_SEARCH_PLANFILE_H
#define CLEAVE_SEARCH_PLANFILE_H

#include "cleave/Plan/Plan.h"
#include "cleave/Search/Print.h"
#include <variant>

namespace cleave {

/// What a plan of `cleave plan -o` is for, and what the search found, as far as
/// a plan is checked by it. The sizes of the model and the constants of the
/// devices are not in it.
struct Planned {
  std::string model, device, profile;
  int64_t devices = 0;
  Objective objective = Objective::Time;
  Workload work;
  double memoryLimit = 0; ///< bytes of a device; 0: all of it
  std::vector<Constraint> constraints;
  double step = 0;  ///< s
  double value = 0; ///< of the objective
};

/// A layout as a file, for every command: by degrees, of which a micro-batch of
/// 0 stands for getDefaultMicroBatch, or dim by dim. One that a search found
/// says for what.
struct PlanFile {
  std::string name; ///< for messages
  std::variant<TrainLayout, Plan> layout;
  std::optional<Planned> planned;
};

/// Reads plan.json; errors name the file, the key, its value and what is legal.
llvm::Expected<PlanFile> parsePlanFile(llvm::StringRef text,
                                       llvm::StringRef file);
llvm::Expected<PlanFile> loadPlanFile(llvm::StringRef path);

/// What a search found, or an error that there was none.
llvm::Expected<Planned> getPlanned(const PlanFile &file);

/// Fails if a search was for other devices, or another number of them.
llvm::Error checkDevices(const PlanFile &file, const Machine &machine);

/// Prices the layout for the model, the machine and what is trained. An error
/// says what differs if a search was for something else, or found another step
/// time or value of its objective than what they make of it.
llvm::Expected<Candidate> price(const PlanFile &file,
                                const PlanContext &context);

/// What a layout is, if `cleave compile` can run it.
std::vector<Constraint> getRunnable();

/// The plan for a compilation of this model type (empty: not known). An error
/// says what differs if a search was for something else, or what no program
/// runs.
llvm::Expected<Plan> getPlan(const PlanFile &file, llvm::StringRef model,
                             const Workload &work);

/// The degrees of a plan, if it is one that the flags of `cleave compile` give
/// as well (makePlan): those are the ones that have a price. Errors name
/// `file`. `layers` is how many the model has.
llvm::Expected<TrainLayout> getPricedLayout(const Plan &plan,
                                            llvm::StringRef file,
                                            const Workload &work,
                                            int64_t layers);

/// What a plan says of a layout's recomputation; fails on modules that no
/// compiled model has, naming them.
llvm::Error setRecompute(Plan &plan, const TrainLayout &layout);

} // namespace cleave

#endif // CLEAVE_SEARCH_PLANFILE_H
