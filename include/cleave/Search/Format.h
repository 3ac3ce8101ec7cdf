//===- Format.h - Quantities and parts as the planner shows them ----------===//
#ifndef CLEAVE_SEARCH_FORMAT_H
#define CLEAVE_SEARCH_FORMAT_H

#include "cleave/Search/Search.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

std::string formatSeconds(double seconds);
std::string formatShare(double part, double whole);
std::string formatBytes(double bytes);
/// The same of two numbers that are told apart: with as many digits as show
/// which is more, unless they are equal.
std::pair<std::string, std::string> formatBytesApart(double a, double b);
/// "1 stage", "2 stages", "2 micro-batches".
std::string formatNumber(int64_t number, llvm::StringRef noun);
/// "1, 2, 4"; of many the first ones and the last.
std::string formatNumbers(llvm::ArrayRef<int64_t> numbers);
/// Seconds, bytes or USD.
std::string formatValue(Objective objective, double value);

/// A name, a value, and what there is to say of it.
void printRow(llvm::raw_ostream &os, llvm::StringRef name,
              const llvm::Twine &value, const llvm::Twine &remark);

/// A part of a whole, by its name in text and its key in JSON.
struct PartName {
  llvm::StringLiteral name, key;
};
template <typename Whole>
struct Part : PartName {
  double Whole::*value;
};

/// What adds up to a step, in seconds.
llvm::ArrayRef<Part<Estimate>> getTimeParts();
/// What adds up to the memory of a device, in bytes.
llvm::ArrayRef<Part<MemoryUse>> getMemoryParts();

} // namespace cleave

#endif // CLEAVE_SEARCH_FORMAT_H
