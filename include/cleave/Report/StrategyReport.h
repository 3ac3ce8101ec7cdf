//===- StrategyReport.h - Placements of a step as one page ----------------===//
#ifndef CLEAVE_REPORT_STRATEGYREPORT_H
#define CLEAVE_REPORT_STRATEGYREPORT_H

#include "cleave/AutoShard/Explore.h"

namespace cleave {

/// What a page of placements shows.
struct StrategyReport {
  std::string title, subtitle; ///< the model; mesh, cluster, and tokens
  std::vector<NamedStrategy> strategies;
  std::vector<NamedStrategy> front; ///< of seconds against memory; or none
};

/// `1.5 GB parameters, 12.0 GB optimizer`: what a rank keeps, by what for.
std::string describeKept(const Exploration &explored);

/// `80.2 GB`, what a rank has; with more behind it where that is not enough.
std::string describeMemory(const NamedStrategy &strategy);

/// One HTML page (and XML) with nothing outside of it, the same bytes each
/// time: of each strategy where time and memory go, and of each kind of layer
/// its ops as a graph, in the colours of their placements, with the collectives
/// on its edges, and as tables.
void printStrategyReport(llvm::raw_ostream &os, const StrategyReport &report);

} // namespace cleave

#endif // CLEAVE_REPORT_STRATEGYREPORT_H
