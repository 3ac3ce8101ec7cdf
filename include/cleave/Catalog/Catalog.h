//===- Catalog.h - Data files that are part of the program ----------------===//
#ifndef CLEAVE_CATALOG_CATALOG_H
#define CLEAVE_CATALOG_CATALOG_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace cleave {

/// The text of data/FOLDER/NAME.*; cleave_embed (cmake) makes such lists.
struct CatalogFile {
  llvm::StringRef folder, name, text;
};
using Catalog = llvm::ArrayRef<CatalogFile>;

} // namespace cleave

#endif // CLEAVE_CATALOG_CATALOG_H
