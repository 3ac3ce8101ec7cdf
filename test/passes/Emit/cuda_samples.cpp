//===- cuda_samples.cpp - Writes sample kernels for cuda_runner -----------===//
//
// Usage: cuda_samples DIR [--small]. Writes DIR/kernels.so (the CPU's),
// DIR/kernels.ptx, where there is a ptxas DIR/kernels.cubin, and
// DIR/launches.txt:
//
//     kernel NAME RANGE BLOCKS THREADS SCRATCHBYTES OPERANDS SUMS
//     operand in|out f32|bf16|i32 ELEMENTS normal|positive|index COLUMNS
//
//===----------------------------------------------------------------------===//
#include "Harness.h"
#include "passes/Emit/EmitObject.h"
#include "passes/Emit/EmitPtx.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

static void write(const std::string &path, StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream(path, error) << bytes;
  if (error)
    llvm::report_fatal_error(llvm::Twine("cannot write ") + path);
}

/// Small ones have fewer rows: for a GPU that is simulated.
static std::vector<Sample> makeSamples(bool isSmall) {
  std::vector<Sample> samples;
  int64_t rows = isSmall ? 11 : 250, elements = isSmall ? 1 << 14 : 1 << 20;
  for (const char *storage : {"f32", "bf16"}) {
    for (int64_t columns : {3, 128, 331, 4096, 50257})
      llvm::append_range(samples, makeRowSamples(rows, columns, storage));
    llvm::append_range(samples, makeFlatSamples(elements, storage, "never"));
    llvm::append_range(samples, makeFlatSamples(4099, storage, "after_first"));
    llvm::append_range(
        samples, makeColumnSamples(isSmall ? 67 : 250, 4096, storage, "never"));
    llvm::append_range(samples, makeColumnSamples(7, 331, storage, "always"));
  }
  llvm::append_range(samples, makeMathSamples(elements / 16));
  return samples;
}

static std::string getTypeName(Type type) {
  return type.isF32() ? "f32" : type.isBF16() ? "bf16" : "i32";
}

static std::string describe(exec::KernelOp kernel, const Sample &sample,
                            const emit::CudaLaunch &launch) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool sums = kernel.getMode() == exec::KernelMode::Column;
  stream << "kernel " << sample.name << " "
         << (sums ? kernel.getColumns() : kernel.getRows()) << " "
         << launch.blocks << " " << launch.threads << " " << launch.scratchBytes
         << " " << launch.operands << " " << int(sums) << "\n";
  const char *fills[] = {"normal", "positive", "index"};
  for (size_t i = 0; i < launch.operands; ++i) {
    exec::AccessAttr access = getAccess(kernel, i);
    bool isInput = i < sample.fills.size();
    stream << "operand " << (isInput ? "in " : "out ")
           << getTypeName(access.getType()) << " "
           << countElements(kernel, access) << " "
           << fills[isInput ? int(sample.fills[i]) : 0] << " "
           << kernel.getColumns() << "\n";
  }
  return text;
}

int main(int argc, char **argv) {
  bool isSmall = argc == 3 && StringRef(argv[2]) == "--small";
  if (argc != 2 && !isSmall) {
    llvm::errs() << "usage: cuda_samples DIR [--small]\n";
    return 1;
  }
  std::string directory = argv[1];
  if (llvm::sys::fs::create_directories(directory))
    llvm::report_fatal_error("cannot make the directory");
  std::vector<Sample> samples = makeSamples(isSmall);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  auto module = parse(samples, context);
  auto object = emit::emitObject(*module, {});
  auto ptx = emit::emitPtx(*module, {});
  if (failed(object) || failed(ptx))
    return 1;
  linkObject(*object, directory + "/kernels.so", /*mayImport=*/false);
  write(directory + "/kernels.ptx", ptx->text);
  if (std::optional<std::string> ptxas = emit::findPtxas()) {
    auto cubin = emit::assemblePtx(ptx->text, "sm_90", *ptxas);
    if (!cubin)
      llvm::report_fatal_error(cubin.takeError());
    write(directory + "/kernels.cubin",
          StringRef(cubin->bytes.data(), cubin->bytes.size()));
  }
  std::string launches;
  for (auto [sample, launch] : llvm::zip(samples, ptx->launches))
    launches += describe(
        cast<exec::KernelOp>(SymbolTable::lookupSymbolIn(*module, sample.name)),
        sample, launch);
  write(directory + "/launches.txt", launches);
  llvm::outs() << samples.size() << " kernels\n";
  return 0;
}
