//===- Executable.h - What cleave compile wrote, read from the file -------===//
#ifndef CLEAVE_TOOLS_CLEAVE_EXECUTABLE_H
#define CLEAVE_TOOLS_CLEAVE_EXECUTABLE_H

#include "Cubin.h"
#include "runtime/program/Program.h"
#include "llvm/Support/Error.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace cleave::tool {

/// Kernels of one module: PTX for a chip and newer ones, and where the build
/// had an assembler, machine code.
struct CudaModule {
  std::string ptxVersion, ptxTarget; ///< "8.0", "sm_90"
  uint64_t ptxBytes = 0, cubinBytes = 0;
  std::optional<Cubin> cubin;
};

/// How a generated kernel is launched; as CleaveCudaKernel.
struct CudaKernel {
  std::string symbol, multiSymbol;
  uint32_t blocks, threads;
  uint64_t scratchBytes;
};

/// An executable's code for GPUs.
struct CudaCode {
  std::vector<CudaKernel> kernels; ///< those of `generated`
  CudaModule generated;
  std::optional<CudaModule> own;   ///< the runtime's; none where it has none
  std::array<double, 2> peakFlops; ///< CleaveCudaCode's
};

struct Executable {
  runtime::Program program;
  std::optional<CudaCode> cuda;
};

/// Reads an executable, or a file that is nothing but a sealed program, without
/// running it. Errors name the file.
llvm::Expected<Executable> readExecutable(const std::string &path);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_EXECUTABLE_H
