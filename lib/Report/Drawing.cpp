//===- Drawing.cpp - What every drawing is made of ------------------------===//
#include "Drawing.h"

using namespace cleave;

void cleave::drawLine(HtmlWriter &html, llvm::StringRef style, double x1,
                      double y1, double x2, double y2) {
  html.leaf("path",
            {{"class", style.str()},
             {"d", "M" + formatPixels(x1) + " " + formatPixels(y1) + "L" +
                       formatPixels(x2) + " " + formatPixels(y2)}});
}

void cleave::drawText(HtmlWriter &html, llvm::StringRef style, double x,
                      double y, llvm::StringRef text) {
  html.element(
      "text",
      {{"class", style.str()}, {"x", formatPixels(x)}, {"y", formatPixels(y)}},
      text);
}

void cleave::drawSVG(HtmlWriter &html, double width, double height,
                     llvm::StringRef label, HtmlWriter::Content content) {
  std::string w = formatPixels(width), h = formatPixels(height);
  html.element("div", {{"class", "scroll"}}, [&] {
    html.element("svg",
                 {{"width", w},
                  {"height", h},
                  {"viewBox", "0 0 " + w + " " + h},
                  {"role", "img"},
                  {"aria-label", label.str()}},
                 content);
  });
}

void cleave::drawBox(HtmlWriter &html, llvm::StringRef style, double x,
                     double y, double width, double height) {
  html.leaf("rect", {{"class", style.str()},
                     {"x", formatPixels(x)},
                     {"y", formatPixels(y)},
                     {"width", formatPixels(width)},
                     {"height", formatPixels(height)}});
}
