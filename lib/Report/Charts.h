//===- Charts.h - The drawings of a report --------------------------------===//
#ifndef CLEAVE_LIB_REPORT_CHARTS_H
#define CLEAVE_LIB_REPORT_CHARTS_H

#include "Html.h"
#include "cleave/Report/Report.h"

namespace cleave {

/// A share of a bar, its colour's class and what it says when pointed at.
struct BarPart {
  std::string style;
  double share;
  std::string label;
};

/// A bar from left to right; what its parts leave of it stays empty.
void drawBar(HtmlWriter &html, llvm::ArrayRef<BarPart> parts);

/// A column for each stage, stacked by category, under the device's memory.
void drawMemoryOfStages(HtmlWriter &html, llvm::ArrayRef<MemoryUse> stages,
                        double limit);

/// What every stage does when, or of a long step its begin and its end. Returns
/// what is left out, in words.
std::string drawTimeline(HtmlWriter &html, const PipelineShape &shape,
                         const Simulation &simulation);

/// Seconds of a step by memory of a device, numbered in order.
void drawFront(HtmlWriter &html, llvm::ArrayRef<Candidate> front, double limit);

} // namespace cleave

#endif // CLEAVE_LIB_REPORT_CHARTS_H
