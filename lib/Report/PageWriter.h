//===- PageWriter.h - What every page of a report is made of --------------===//
#ifndef CLEAVE_LIB_REPORT_PAGEWRITER_H
#define CLEAVE_LIB_REPORT_PAGEWRITER_H

#include "Html.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"
#include <vector>

namespace cleave {

/// One HTML page with nothing outside of it, and what is on it.
class PageWriter {
public:
  explicit PageWriter(llvm::raw_ostream &os) : os(os), html(os) {}

protected:
  /// The page, with a title and the style of all of them.
  void page(llvm::StringRef title, HtmlWriter::Content body);
  void section(llvm::StringRef heading, HtmlWriter::Content content);
  void note(const llvm::Twine &text) {
    html.element("p", {{"class", "note"}}, text.str());
  }
  /// `columns` are headings; those that begin with "#" are of numbers.
  void table(llvm::StringRef id, llvm::ArrayRef<llvm::StringRef> columns,
             HtmlWriter::Content rows);
  void cell(llvm::StringRef text, bool isNumber = false) {
    html.element("td", {{"class", isNumber ? "n" : ""}}, text);
  }
  void tile(llvm::StringRef name, llvm::StringRef value, llvm::StringRef unit,
            llvm::StringRef remark);

  llvm::raw_ostream &os;
  HtmlWriter html;
};

} // namespace cleave

#endif // CLEAVE_LIB_REPORT_PAGEWRITER_H
