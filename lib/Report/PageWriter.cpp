//===- PageWriter.cpp - What every page of a report is made of ------------===//
#include "PageWriter.h"
#include "cleave/Catalog/Catalog.h"

using namespace cleave;

namespace cleave {
extern const Catalog reportCatalog;
}

void PageWriter::page(llvm::StringRef title, HtmlWriter::Content body) {
  os << "<!DOCTYPE html>";
  html.element("html", {{"lang", "en"}}, [&] {
    html.element("head", {}, [&] {
      html.leaf("meta", {{"charset", "utf-8"}});
      html.leaf("meta", {{"name", "viewport"},
                         {"content", "width=device-width, initial-scale=1"}});
      html.element("title", title);
      for (const CatalogFile &file : reportCatalog)
        html.element("style", {}, [&] { os << file.text; });
    });
    html.element("body", {}, body);
  });
  os << '\n';
}

void PageWriter::section(llvm::StringRef heading, HtmlWriter::Content content) {
  html.element("section", {}, [&] {
    html.element("h2", heading);
    content();
  });
}

void PageWriter::table(llvm::StringRef id,
                       llvm::ArrayRef<llvm::StringRef> columns,
                       HtmlWriter::Content rows) {
  html.element("div", {{"class", "scroll"}}, [&] {
    html.element("table", {{"id", id.str()}}, [&] {
      html.element("thead", {}, [&] {
        html.element("tr", {}, [&] {
          for (llvm::StringRef column : columns) {
            bool isNumber = column.consume_front("#");
            html.element("th", {{"class", isNumber ? "n" : ""}}, column);
          }
        });
      });
      html.element("tbody", {}, rows);
    });
  });
}

void PageWriter::tile(llvm::StringRef name, llvm::StringRef value,
                      llvm::StringRef unit, llvm::StringRef remark) {
  html.element("div", {{"class", "tile"}}, [&] {
    html.element("span", {{"class", "name"}}, name);
    html.element("span", {{"class", "value"}}, [&] {
      html.text(value);
      html.element("small", (" " + unit).str());
    });
    html.element("span", {{"class", "remark"}}, remark);
  });
}
