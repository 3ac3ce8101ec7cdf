//===- PlanFlags.h - What plan and estimate are told ----------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_PLANFLAGS_H
#define CLEAVE_TOOLS_CLEAVE_PLANFLAGS_H

#include "CommandLine.h"
#include "cleave/Search/Print.h"

namespace cleave::tool {

/// What a cluster is planned as; if that is not all of it, a note on stderr
/// says so.
llvm::Expected<Machine> getNotedMachine(const Cluster &cluster);

/// What is planned, read.
struct Planned {
  Architecture model;
  Machine machine;
  SearchRequest request;
};

struct PlanFlags {
  std::string model, cluster, dtype = "bf16", profile;
  int64_t seqLen = 0, globalBatch = 0;
  double memory = 0;

  void add(CLI::App &app);
  llvm::Expected<Planned> load() const;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PLANFLAGS_H
