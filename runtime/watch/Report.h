//===- Report.h - A verdict in words --------------------------------------===//
#ifndef CLEAVE_RUNTIME_WATCH_REPORT_H
#define CLEAVE_RUNTIME_WATCH_REPORT_H

#include "runtime/program/Program.h"
#include "runtime/watch/Judge.h"
#include <string>

namespace cleave::runtime {

/// Where a rank is, e.g. `step 12, instruction 9 (AllReduce "grad") over dp of
/// ranks 0 and 2`.
std::string describePosition(const Program &program, int rank,
                             const PositionRecord &position);

/// One line: who, what, where, for how long, and who waits for it.
std::string describeVerdict(const Program &program,
                            const std::vector<RankView> &views,
                            const Verdict &verdict);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_REPORT_H
