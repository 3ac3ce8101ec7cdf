//===- Html.h - Writes nested elements, escaped ---------------------------===//
#ifndef CLEAVE_LIB_REPORT_HTML_H
#define CLEAVE_LIB_REPORT_HTML_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <initializer_list>
#include <string>
#include <utility>

namespace cleave {

/// Writes HTML and SVG elements, all of them closed and all text escaped, so
/// that the page is XML as well.
class HtmlWriter {
public:
  using Attributes =
      std::initializer_list<std::pair<llvm::StringRef, std::string>>;
  using Content = llvm::function_ref<void()>;

  explicit HtmlWriter(llvm::raw_ostream &os) : os(os) {}

  /// <name attributes>, what `content` writes, </name>.
  void element(llvm::StringRef name, Attributes attributes, Content content);
  void element(llvm::StringRef name, Attributes attributes,
               llvm::StringRef text);
  void element(llvm::StringRef name, llvm::StringRef text) {
    element(name, {}, text);
  }
  /// <name attributes/>
  void leaf(llvm::StringRef name, Attributes attributes);
  void text(llvm::StringRef text);

private:
  void open(llvm::StringRef name, Attributes attributes);

  llvm::raw_ostream &os;
};

/// A coordinate or length in pixels, to a tenth.
std::string formatPixels(double pixels);

} // namespace cleave

#endif // CLEAVE_LIB_REPORT_HTML_H
