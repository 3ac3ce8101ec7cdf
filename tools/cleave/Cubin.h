//===- Cubin.h - What machine code of a GPU says of its kernels -----------===//
#ifndef CLEAVE_TOOLS_CLEAVE_CUBIN_H
#define CLEAVE_TOOLS_CLEAVE_CUBIN_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <string>

namespace cleave::tool {

/// What a thread, or a block of threads, of one kernel takes.
struct KernelResources {
  uint32_t registers = 0;
  /// Of a block's shared memory, what the code itself has variables in.
  uint64_t sharedBytes = 0;
  /// Of local memory: a thread's stack, with the registers that are spilled.
  uint64_t localBytes = 0;
};

struct Cubin {
  std::string chip; ///< "sm_90"
  llvm::StringMap<KernelResources> kernels;
};

/// Reads an ELF file that ptxas wrote.
llvm::Expected<Cubin> readCubin(llvm::StringRef bytes);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_CUBIN_H
