//===- ReadPlan.h - A plan file, read again -------------------------------===//
#ifndef CLEAVE_SEARCH_READPLAN_H
#define CLEAVE_SEARCH_READPLAN_H

#include "cleave/Plan/Plan.h"
#include "cleave/Search/Print.h"
#include <variant>

namespace cleave {

/// What `cleave plan -o` wrote, as far as it says what was planned. The sizes
/// of the model and the constants of the devices are not in it.
struct SavedPlan {
  std::string file; ///< for messages
  std::string model, device, profile;
  bool isForCPUs = false;
  int64_t devices = 0;
  Objective objective = Objective::Time;
  Workload work;
  double memoryLimit = 0; ///< bytes of a device; 0: all of it
  std::vector<Constraint> constraints;
  TrainLayout layout;
  double step = 0;  ///< s
  double value = 0; ///< of the objective
};

/// Reads a plan of version 1. Errors name the file and the key.
llvm::Expected<SavedPlan> readPlan(llvm::StringRef text, llvm::StringRef file);

/// A plan of either kind: one that a person wrote for `cleave compile`, or one
/// of `cleave plan -o`, which says what it found.
using AnyPlan = std::variant<Plan, SavedPlan>;
llvm::Expected<AnyPlan> readAnyPlan(llvm::StringRef text, llvm::StringRef file);

/// Fails if the plan is for other devices, or another number of them.
llvm::Error checkDevices(const SavedPlan &plan, const Machine &machine);

/// Fails if the plan is for another type, length or batch; says which.
llvm::Error checkWork(const SavedPlan &plan, const Workload &work);

/// Prices the layout of a plan again. An error says what differs if the plan is
/// not of this model, machine and request, or if its step time or the value of
/// its objective is not what they make of it.
llvm::Expected<Candidate> priceAgain(const SavedPlan &plan,
                                     const PlanContext &context);

/// What a layout is, if `cleave compile` can run it.
std::vector<Constraint> getRunnable();

/// The plan of the layout, for a compilation of this model type (empty: not
/// known), batch and type of products. An error says what differs, or what
/// cannot be run.
llvm::Expected<Plan> getRunnablePlan(const SavedPlan &plan,
                                     llvm::StringRef model,
                                     const BatchShape &batch, DType dtype);

/// Reads a plan of either kind, for such a compilation.
llvm::Expected<Plan> loadAnyPlan(llvm::StringRef path, llvm::StringRef model,
                                 const BatchShape &batch, DType dtype);

/// The degrees of a plan for `cleave compile`, if it is one that the flags of
/// `cleave compile` give as well (makePlan): those are the ones that have a
/// price. Errors name `file`.
/// `layers` is how many the model has.
llvm::Expected<TrainLayout> getPricedLayout(const Plan &plan,
                                            llvm::StringRef file,
                                            const Workload &work,
                                            int64_t layers);

/// What a plan says of a layout's recomputation; fails on modules that no
/// compiled model has, naming them.
llvm::Error setRecompute(Plan &plan, const TrainLayout &layout);

} // namespace cleave

#endif // CLEAVE_SEARCH_READPLAN_H
