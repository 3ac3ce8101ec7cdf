//===- CudaReport.h - What a GPU will be told -----------------------------===//
//
// What `cleave inspect` shows of an executable that has code for GPUs, of the
// file alone: needs neither a GPU nor a library of CUDA.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_CUDAREPORT_H
#define CLEAVE_TOOLS_CLEAVE_CUDAREPORT_H

#include "Executable.h"
#include "runtime/program/program_generated.h"
#include "llvm/Support/JSON.h"
#include <map>

namespace cleave::tool {

/// All counts of instructions and launches are those of a step.
struct CudaReport {
  /// What a run opens, by the first of these names that there is.
  struct Library {
    std::vector<std::string> files;
    std::string oldest; ///< version; empty: the names say it
    std::vector<std::string> wrong;
    bool isOptional;
    std::string purpose;
  };
  /// A stage's step, which a device is given at once.
  struct Graph {
    size_t stage;
    uint64_t instructions, updateInstructions; ///< the latter of the former
  };
  struct Stream {
    size_t stage, number;
    std::map<program::Opcode, uint64_t> instructions;
  };
  struct Kernel {
    std::string symbol;
    bool isOwn;   ///< the runtime's, not generated
    bool isMulti; ///< launches of it that are neighbours may be one
    uint32_t threads;
    uint64_t dynamicSharedBytes, scratchBytes, launches;
    std::optional<KernelResources> resources; ///< none without machine code
  };

  std::vector<Library> libraries;
  std::vector<Graph> graphs;
  std::vector<Stream> streams;
  std::vector<Kernel> kernels;
};

/// Of an executable that has `cuda`.
CudaReport makeCudaReport(const Executable &executable);

llvm::json::Object toJSON(const CudaReport &report, const CudaCode &code);

/// A section of `cleave inspect`.
std::string print(const CudaReport &report, const CudaCode &code);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_CUDAREPORT_H
