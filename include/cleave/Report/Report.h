//===- Report.h - A plan as one page --------------------------------------===//
#ifndef CLEAVE_REPORT_REPORT_H
#define CLEAVE_REPORT_REPORT_H

#include "cleave/Search/Explain.h"
#include "cleave/Simulate/Simulate.h"

namespace cleave {

/// What a page shows of a plan beyond its price.
struct Report {
  std::vector<MemoryUse> memory; ///< of a device of each stage
  PipelineShape shape;
  /// None if the step has too many ops to play, more than `mostOps`.
  std::optional<Simulation> simulation;
  std::vector<Candidate> front; ///< of seconds against memory
  Explanation explanation;

  static constexpr int64_t mostOps = 1 << 18; ///< forward passes of stages
};

/// Plays the plan's step, searches for its front and for what binds it, which
/// takes some ten searches. The objective of the request is time.
Report computeReport(const PlanContext &context, const SearchResult &result,
                     const Progress &progress = {});

/// One HTML page (and XML) with nothing outside of it: no scripts, no fonts, no
/// images. The same bytes each time. `title` names the model.
void printReport(llvm::raw_ostream &os, llvm::StringRef title,
                 const PlanContext &context, const SearchResult &result,
                 const Report &report);

} // namespace cleave

#endif // CLEAVE_REPORT_REPORT_H
