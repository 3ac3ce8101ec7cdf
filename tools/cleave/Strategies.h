//===- Strategies.h - Placements of a step, chosen in several ways --------===//
#ifndef CLEAVE_TOOLS_CLEAVE_STRATEGIES_H
#define CLEAVE_TOOLS_CLEAVE_STRATEGIES_H

#include "cleave/AutoShard/Beside.h"
#include "cleave/AutoShard/Explore.h"
#include "cleave/AutoShard/Tactics.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Reshard/Price.h"
#include "llvm/Support/JSON.h"
#include <CLI/CLI.hpp>

namespace cleave::tool {

/// What `explore` is told of a step.
struct StepFlags {
  std::string model, cluster, mesh, plan, dtype, overlap = "auto";
  std::string moments = "f32";
  int64_t seqLen = 0, globalBatch = 0, microBatches = 1;
  double memory = 0; ///< GB; 0: what a device has
  std::vector<std::string> tactics;

  /// All but the model and the cluster.
  void add(CLI::App &app);
};

/// A step whose placements are chosen.
struct StepProblem {
  ShardingProblem problem; ///< with no tactics
  Mesh mesh;               ///< of all ranks; the problem's is that of a stage
  Machine machine;
  Profile profile;
  std::string overlap;
  std::string title;
  int64_t seqLen = 0, globalBatch = 0, microBatches = 1;

  NetworkPricer getPricer() const { return {mesh, machine}; }
  BesideCompute getBeside() const {
    return getBesideCompute(mesh, machine, profile, overlap);
  }
};

llvm::Expected<StepProblem> loadStep(const StepFlags &flags);

/// What is to be chosen from: all, or what keeps to a file of tactics.
llvm::Expected<NamedStrategy> readStrategy(const StepProblem &step,
                                           llvm::StringRef tactics);
/// Chooses the cheapest of it that fits.
llvm::Error chooseStrategy(const StepProblem &step, NamedStrategy &strategy);

/// Corners of the front from the fastest to the smallest, `most` at most.
llvm::Expected<std::vector<NamedStrategy>> chooseFront(const StepProblem &step,
                                                       size_t most);

void printStrategy(llvm::raw_ostream &os, const StepProblem &step,
                   const NamedStrategy &strategy);
llvm::json::Object toJSON(const StepProblem &step,
                          const NamedStrategy &strategy);
/// Op by op, where one differs from the other.
void printDifferences(llvm::raw_ostream &os, const NamedStrategy &from,
                      const NamedStrategy &to);
llvm::json::Array getDifferences(const NamedStrategy &from,
                                 const NamedStrategy &to);
/// Why the ops of that name are as they are: what each other strategy would
/// cost, and which tactic leaves no other. Fails if there is no such op.
llvm::Error printReasons(llvm::raw_ostream &os, const StepProblem &step,
                         const NamedStrategy &strategy,
                         llvm::StringRef pattern);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_STRATEGIES_H
