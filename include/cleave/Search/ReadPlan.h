//===- ReadPlan.h - A plan file, read again -------------------------------===//
#ifndef CLEAVE_SEARCH_READPLAN_H
#define CLEAVE_SEARCH_READPLAN_H

#include "cleave/Search/Print.h"

namespace cleave {

/// What `cleave plan -o` wrote, as far as it says what was planned. The sizes
/// of the model and the constants of the devices are not in it.
struct SavedPlan {
  std::string file; ///< for messages
  std::string model, device, profile;
  int64_t devices = 0;
  Workload work;
  double memoryLimit = 0; ///< bytes of a device; 0: all of it
  std::vector<Constraint> constraints;
  TrainLayout layout;
  double step = 0; ///< s
};

/// Reads a plan of version 1 whose objective is time. Errors name the file and
/// the key.
llvm::Expected<SavedPlan> readPlan(llvm::StringRef text, llvm::StringRef file);

/// Prices the plan's layout again. An error says what differs if the plan is
/// not of this model, machine and request, or if its step time is not what they
/// cost.
llvm::Expected<Candidate> priceAgain(const SavedPlan &plan,
                                     const PlanContext &context);

} // namespace cleave

#endif // CLEAVE_SEARCH_READPLAN_H
