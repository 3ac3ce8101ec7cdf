//===- Html.cpp - Writes nested elements, escaped -------------------------===//
#include "Html.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace cleave;

/// Elements that begin a line, where space means nothing.
static bool beginsLine(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases({"head", "body", "meta", "style", "header", "main", "footer"},
             true)
      .Cases({"section", "table", "thead", "tbody", "tr", "div", "figure"},
             true)
      .Cases({"svg", "g", "path", "h1", "h2", "p", "details"}, true)
      .Default(false);
}

void HtmlWriter::open(llvm::StringRef name, Attributes attributes) {
  if (beginsLine(name))
    os << '\n';
  os << '<' << name;
  for (const auto &[key, value] : attributes) {
    os << ' ' << key << "=\"";
    text(value);
    os << '"';
  }
}

void HtmlWriter::element(llvm::StringRef name, Attributes attributes,
                         Content content) {
  open(name, attributes);
  os << '>';
  content();
  os << "</" << name << '>';
}

void HtmlWriter::element(llvm::StringRef name, Attributes attributes,
                         llvm::StringRef inside) {
  element(name, attributes, [&] { text(inside); });
}

void HtmlWriter::leaf(llvm::StringRef name, Attributes attributes) {
  open(name, attributes);
  os << "/>";
}

void HtmlWriter::text(llvm::StringRef text) {
  // Names of files may have any bytes; HTML may not.
  std::string legal = llvm::json::fixUTF8(text);
  for (char &letter : legal)
    if (llvm::isASCII(letter) && !llvm::isPrint(letter) && letter != '\n')
      letter = '?';
  llvm::printHTMLEscaped(legal, os);
}

std::string cleave::formatPixels(double pixels) {
  int64_t tenths = std::llround(pixels * 10);
  std::string text =
      (tenths < 0 ? "-" : "") + std::to_string(std::abs(tenths) / 10);
  if (tenths % 10 != 0)
    text += "." + std::to_string(std::abs(tenths) % 10);
  return text;
}
