//===- Drawing.h - What every drawing is made of --------------------------===//
#ifndef CLEAVE_LIB_REPORT_DRAWING_H
#define CLEAVE_LIB_REPORT_DRAWING_H

#include "Html.h"

namespace cleave {

/// A drawing of that size in pixels, in a frame that scrolls.
void drawSVG(HtmlWriter &html, double width, double height,
             llvm::StringRef label, HtmlWriter::Content content);
void drawLine(HtmlWriter &html, llvm::StringRef style, double x1, double y1,
              double x2, double y2);
void drawText(HtmlWriter &html, llvm::StringRef style, double x, double y,
              llvm::StringRef text);
/// A filled box.
void drawBox(HtmlWriter &html, llvm::StringRef style, double x, double y,
             double width, double height);

} // namespace cleave

#endif // CLEAVE_LIB_REPORT_DRAWING_H
