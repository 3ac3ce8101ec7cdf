//===- Format.h - Quantities and rows as the planner prints them ----------===//
#ifndef CLEAVE_LIB_SEARCH_FORMAT_H
#define CLEAVE_LIB_SEARCH_FORMAT_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace cleave {

std::string formatSeconds(double seconds);
std::string formatShare(double part, double whole);
std::string formatBytes(double bytes);

/// A name, a value, and what there is to say of it.
void printRow(llvm::raw_ostream &os, llvm::StringRef name,
              const llvm::Twine &value, const llvm::Twine &remark);

} // namespace cleave

#endif // CLEAVE_LIB_SEARCH_FORMAT_H
