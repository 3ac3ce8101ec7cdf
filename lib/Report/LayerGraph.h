//===- LayerGraph.h - The ops of a layer as a drawing ---------------------===//
#ifndef CLEAVE_LIB_REPORT_LAYERGRAPH_H
#define CLEAVE_LIB_REPORT_LAYERGRAPH_H

#include "Html.h"
#include "cleave/AutoShard/Explore.h"

namespace cleave {

/// A layer's ops of one pass, each below those that it reads from, in the
/// colour of what it splits; a legend of the colours; on the edges what is
/// moved there. Nothing if the pass has no ops. `palette` has what each colour
/// stands for on the page so far.
void drawLayer(HtmlWriter &html, const NamedStrategy &strategy,
               const LayerKind &kind, llvm::StringRef phase,
               std::vector<std::string> &palette);

} // namespace cleave

#endif // CLEAVE_LIB_REPORT_LAYERGRAPH_H
