//===- Format.h - Quantities and parts as the planner shows them ----------===//
#ifndef CLEAVE_SEARCH_FORMAT_H
#define CLEAVE_SEARCH_FORMAT_H

#include "cleave/Cost/CostModel.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

std::string formatSeconds(double seconds);
std::string formatShare(double part, double whole);
std::string formatBytes(double bytes);

/// A name, a value, and what there is to say of it.
void printRow(llvm::raw_ostream &os, llvm::StringRef name,
              const llvm::Twine &value, const llvm::Twine &remark);

/// A part of a whole, by its name in text and its key in JSON.
template <typename Whole>
struct Part {
  llvm::StringLiteral name, key;
  double Whole::*value;
};

/// What adds up to a step, in seconds.
llvm::ArrayRef<Part<Estimate>> getTimeParts();
/// What adds up to the memory of a device, in bytes.
llvm::ArrayRef<Part<MemoryUse>> getMemoryParts();

} // namespace cleave

#endif // CLEAVE_SEARCH_FORMAT_H
