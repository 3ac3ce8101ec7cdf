//===- Calibrate.h - What cleave calibrate measures, and writes -----------===//
#ifndef CLEAVE_TOOLS_CLEAVE_CALIBRATE_H
#define CLEAVE_TOOLS_CLEAVE_CALIBRATE_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace cleave::tool {

struct CalibrateFlags {
  std::string output;
  std::string cluster = "local"; ///< this CPU; or a preset of GPUs
  double largestProduct = 1e13;  ///< FLOP, on a GPU
  bool quiet = false;

  /// A line on stderr, unless they say no.
  void say(const llvm::Twine &line) const;
};

/// A constant of docs/formats.md.
llvm::json::Object makeConstant(double value, llvm::StringRef unit,
                                llvm::StringRef source);

/// cluster.json of the preset `flags.cluster`, with what this machine's first
/// GPU was measured to take in place of the preset's constants.
llvm::Expected<llvm::json::Object> calibrateGpu(const CalibrateFlags &flags);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_CALIBRATE_H
