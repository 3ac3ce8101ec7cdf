//===- EmitPtx.cpp - Kernels as PTX and cubin -----------------------------===//
#include "passes/Emit/EmitPtx.h"
#include "passes/Emit/LowerToLLVM.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <cstdlib>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

//===----------------------------------------------------------------------===//
// PTX
//===----------------------------------------------------------------------===//

static FailureOr<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(ModuleOp module, const PtxOptions &options) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return module.emitError(error);
  llvm::TargetOptions targetOptions;
  // As on the CPU, only what the kernel says is one rounding is one.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, options.chip, options.features, targetOptions, std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Kernels that are launched several times with only launches in between.
static llvm::StringSet<> findRepeated(ModuleOp module) {
  llvm::StringSet<> repeated, neighbours;
  module.walk([&](exec::SegmentOp segment) {
    neighbours.clear();
    for (Operation &op : segment.getBody().front()) {
      if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
        if (!neighbours.insert(launch.getKernel()).second)
          repeated.insert(launch.getKernel());
      } else if (isa<exec::InstructionOpInterface>(op)) {
        neighbours.clear();
      }
    }
  });
  return repeated;
}

FailureOr<std::unique_ptr<llvm::Module>>
emit::emitCudaLLVM(ModuleOp kernels, const PtxOptions &options,
                   llvm::LLVMContext &context,
                   SmallVectorImpl<CudaLaunch> &launches) {
  auto machine = createTargetMachine(kernels, options);
  if (failed(machine))
    return failure();
  llvm::StringSet<> repeated = findRepeated(kernels);
  for (auto kernel : kernels.getOps<exec::KernelOp>())
    if (std::string name = getMultiSymbol(kernel.getSymName());
        repeated.contains(kernel.getSymName()) && kernels.lookupSymbol(name)) {
      kernel.emitError("expects no other kernel @")
          << name << ", which is what several launches of it at once are";
      return failure();
    }
  return lowerKernels(
      kernels, context, **machine, [&](exec::KernelOp kernel) -> LogicalResult {
        FailureOr<CudaLaunch> launch =
            emitCudaKernel(kernel, repeated.contains(kernel.getSymName()));
        if (succeeded(launch))
          launches.push_back(std::move(*launch));
        return launch;
      });
}

FailureOr<PtxModule> emit::emitPtx(ModuleOp kernels,
                                   const PtxOptions &options) {
  PtxModule result;
  llvm::LLVMContext context;
  auto module = emitCudaLLVM(kernels, options, context, result.launches);
  if (failed(module))
    return failure();
  auto machine = createTargetMachine(kernels, options);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return kernels.emitError("cannot write PTX");
  passes.run(**module);
  result.text.assign(bytes.begin(), bytes.end());
  return result;
}

//===----------------------------------------------------------------------===//
// ptxas
//===----------------------------------------------------------------------===//

std::optional<std::string> emit::findPtxas() {
  auto tryFolder = [](const char *root,
                      StringRef rest) -> std::optional<std::string> {
    if (!root)
      return std::nullopt;
    llvm::SmallString<128> path(root);
    llvm::sys::path::append(path, rest);
    if (!llvm::sys::fs::can_execute(path))
      return std::nullopt;
    return path.str().str();
  };
  // One that is named is taken, so that assemblePtx says what is wrong with it.
  if (const char *named = std::getenv("CLEAVE_PTXAS"); named && *named)
    return named;
  if (auto path = tryFolder(std::getenv("CUDA_HOME"), "bin/ptxas"))
    return path;
  if (auto path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  return tryFolder("/usr/local/cuda", "bin/ptxas");
}

char OldPtxasError::ID;

/// By what it says of a version of PTX, or of an -arch, that it does not know.
static bool isTooOld(StringRef said) {
  return said.contains("Unsupported .version") ||
         said.contains("is not defined for option 'gpu-name'");
}

llvm::Expected<Cubin> emit::assemblePtx(StringRef ptx, StringRef chip,
                                        StringRef ptxas) {
  if (!llvm::sys::fs::can_execute(ptxas))
    return llvm::createStringError(ptxas +
                                   ": no program that can be executed; "
                                   "CLEAVE_PTXAS names the ptxas to use");
  // Files are removed however this ends.
  llvm::SmallString<64> paths[3];
  const char *suffixes[] = {"ptx", "cubin", "txt"};
  std::optional<llvm::FileRemover> removers[3];
  for (int i = 0; i < 3; ++i) {
    if (std::error_code error = llvm::sys::fs::createTemporaryFile(
            "kernels", suffixes[i], paths[i]))
      return llvm::createStringError(error, "cannot make a temporary file");
    removers[i].emplace(paths[i]);
  }
  std::error_code error;
  llvm::raw_fd_ostream(paths[0], error) << ptx;
  if (error)
    return llvm::createStringError(error, "cannot write " + paths[0]);
  std::string arch = ("-arch=" + chip).str();
  StringRef report(paths[2]);
  int status = llvm::sys::ExecuteAndWait(
      ptxas, {ptxas, arch, "-O3", "-v", "-o", paths[1], paths[0]}, std::nullopt,
      {std::nullopt, report, report});
  auto text = llvm::MemoryBuffer::getFile(paths[2]);
  std::string said = text ? (*text)->getBuffer().str() : "";
  if (status != 0 && isTooOld(said))
    return llvm::make_error<OldPtxasError>(
        (ptxas + " is too old: " + said).str());
  if (status != 0)
    return llvm::createStringError("ptxas refuses the kernels: " + said);
  auto cubin = llvm::MemoryBuffer::getFile(paths[1]);
  if (!cubin)
    return llvm::createStringError(cubin.getError(), "ptxas wrote no cubin");
  StringRef bytes = (*cubin)->getBuffer();
  Cubin result;
  result.bytes.assign(bytes.begin(), bytes.end());
  result.report = std::move(said);
  return result;
}

FailureOr<CudaCode> emit::emitCudaCode(ModuleOp kernels,
                                       const PtxOptions &options) {
  CudaCode code;
  code.chip = options.chip;
  FailureOr<PtxModule> ptx = emitPtx(kernels, options);
  if (failed(ptx))
    return failure();
  code.ptx = std::move(*ptx);
  std::optional<std::string> ptxas = findPtxas();
  // A module without functions is none that ptxas takes.
  if (!ptxas || code.ptx.launches.empty())
    return code;
  llvm::Expected<Cubin> cubin =
      assemblePtx(code.ptx.text, options.chip, *ptxas);
  if (cubin) {
    code.cubin = std::move(*cubin);
    return code;
  }
  llvm::Error error = cubin.takeError();
  if (!error.isA<OldPtxasError>())
    return kernels.emitError(llvm::toString(std::move(error)));
  llvm::consumeError(std::move(error));
  code.note = *ptxas + " is too old for " + options.chip +
              ", so the executable has no machine code but PTX, which the "
              "driver compiles when it starts; CLEAVE_PTXAS names another";
  return code;
}
