//===- EmitObject.cpp - Kernels and program as one object file ------------===//
#include "passes/Emit/EmitObject.h"
#include "dialects/exec/Exec.h"
#include "passes/Emit/EmitCpu.h"
#include "passes/Emit/LowerToLLVM.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

//===----------------------------------------------------------------------===//
// Target
//===----------------------------------------------------------------------===//

static std::string getHostFeatures() {
  std::string features;
  for (auto &[name, enabled] : llvm::sys::getHostCPUFeatures()) {
    if (!features.empty())
      features += ',';
    features += (enabled ? "+" : "-") + name.str();
  }
  return features;
}

/// Elements of f32 in the target's widest vector; 0: too old a CPU.
static int64_t getLanes(llvm::TargetMachine &machine) {
  const llvm::MCSubtargetInfo &subtarget = *machine.getMCSubtargetInfo();
  if (subtarget.checkFeatures("+avx512f") &&
      subtarget.checkFeatures("+avx512bw") &&
      subtarget.checkFeatures("+avx512vl"))
    return 16;
  if (subtarget.checkFeatures("+avx2") && subtarget.checkFeatures("+fma"))
    return 8;
  return 0;
}

static FailureOr<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(ModuleOp module, StringRef cpu) {
  static const bool initialized = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return module.emitError(error);
  bool native = cpu == "native";
  std::string name = native ? llvm::sys::getHostCPUName().str() : cpu.str();
  // Asked of a generic CPU, since LLVM prints a message if it knows not one.
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      target->createMCSubtargetInfo(triple, "", ""));
  if (!subtarget || !subtarget->isCPUStringValid(name))
    return module.emitError("unknown x86-64 CPU \"") << name << "\"";
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, name, native ? getHostFeatures() : "", options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!getLanes(*machine))
    return module.emitError("expects an x86-64 CPU with AVX2 and FMA, got \"")
           << name << "\"";
  return machine;
}

FailureOr<TargetCpu> cleave::emit::getTargetCpu(ModuleOp module,
                                                StringRef cpu) {
  auto machine = createTargetMachine(module, cpu);
  if (failed(machine))
    return failure();
  TargetCpu target{(*machine)->getTargetCPU().str()};
  const llvm::MCSubtargetInfo &subtarget = *(*machine)->getMCSubtargetInfo();
  if (subtarget.checkFeatures("+avx512bf16"))
    target.isa = program::Isa::Avx512Bf16;
  else if (getLanes(**machine) == 16)
    target.isa = program::Isa::Avx512;
  return target;
}

//===----------------------------------------------------------------------===//
// LLVM IR
//===----------------------------------------------------------------------===//

namespace {
/// Constants of an LLVM module that C++ sees as the structures of
/// runtime/abi/Kernel.h.
class ConstantBuilder {
public:
  explicit ConstantBuilder(llvm::Module &module)
      : module(module), context(module.getContext()) {}

  llvm::GlobalVariable *define(llvm::StringRef name, llvm::Constant *value) {
    return add(name, value, llvm::GlobalValue::ExternalLinkage);
  }
  /// A pointer to a constant of its own.
  llvm::Constant *pointTo(llvm::StringRef name, llvm::Constant *value) {
    return add(name, value, llvm::GlobalValue::PrivateLinkage);
  }
  /// A pointer to text that ends in a zero.
  llvm::Constant *getText(llvm::StringRef text) {
    return pointTo("text", llvm::ConstantDataArray::getString(context, text));
  }
  llvm::Constant *getNumber(uint64_t value, unsigned bits = 64) {
    return llvm::ConstantInt::get(llvm::Type::getIntNTy(context, bits), value);
  }
  llvm::Constant *getReal(double value) {
    return llvm::ConstantFP::get(llvm::Type::getDoubleTy(context), value);
  }
  llvm::Constant *getNull() {
    return llvm::ConstantPointerNull::get(llvm::PointerType::get(context, 0));
  }
  llvm::Constant *getStruct(ArrayRef<llvm::Constant *> fields) {
    return llvm::ConstantStruct::getAnon(context, fields);
  }

private:
  llvm::GlobalVariable *add(llvm::StringRef name, llvm::Constant *value,
                            llvm::GlobalValue::LinkageTypes linkage) {
    return new llvm::GlobalVariable(module, value->getType(),
                                    /*isConstant=*/true, linkage, value, name);
  }

  llvm::Module &module;
  llvm::LLVMContext &context;
};
} // namespace

/// Defines cleave_cuda_code.
static void defineCudaCode(ConstantBuilder &b, const CudaCode *code) {
  if (!code || code->ptx.launches.empty()) {
    b.define(
        "cleave_cuda_code",
        b.getStruct({b.getNull(), b.getNumber(0), b.getNull(), b.getNull(),
                     b.getNull(), b.getNumber(0), b.getReal(0), b.getReal(0)}));
    return;
  }
  SmallVector<llvm::Constant *> entries;
  for (const CudaLaunch &launch : code->ptx.launches)
    entries.push_back(b.getStruct(
        {b.getText(launch.symbol),
         launch.multiSymbol.empty() ? b.getNull()
                                    : b.getText(launch.multiSymbol),
         b.getNumber(launch.blocks, 32), b.getNumber(launch.threads, 32),
         b.getNumber(launch.scratchBytes)}));
  llvm::Constant *kernels = llvm::ConstantArray::get(
      llvm::ArrayType::get(entries.front()->getType(), entries.size()),
      entries);
  ArrayRef<char> cubin = code->cubin.bytes;
  b.define("cleave_cuda_code",
           b.getStruct(
               {b.pointTo("cuda_kernels", kernels), b.getNumber(entries.size()),
                b.getText(code->chip), b.getText(code->ptx.text),
                cubin.empty()
                    ? b.getNull()
                    : b.pointTo("cubin",
                                llvm::ConstantDataArray::get(
                                    kernels->getContext(),
                                    ArrayRef(reinterpret_cast<const uint8_t *>(
                                                 cubin.data()),
                                             cubin.size()))),
                b.getNumber(cubin.size()), b.getReal(code->peakFlops[0]),
                b.getReal(code->peakFlops[1])}));
}

/// Defines cleave_kernels, cleave_kernel_count, cleave_cuda_code,
/// cleave_program and cleave_program_size.
static void defineTables(llvm::Module &module, ArrayRef<llvm::Function *> funcs,
                         const ObjectOptions &options) {
  ArrayRef<uint8_t> program = options.program;
  llvm::LLVMContext &context = module.getContext();
  ConstantBuilder b(module);
  SmallVector<llvm::Constant *> entries;
  for (llvm::Function *func : funcs)
    entries.push_back(b.getStruct({b.getText(func->getName()), func}));
  // A table of no entries would have no address of its own.
  if (entries.empty())
    entries.push_back(b.getStruct({b.getNull(), b.getNull()}));
  b.define("cleave_kernels",
           llvm::ConstantArray::get(
               llvm::ArrayType::get(entries.front()->getType(), entries.size()),
               entries));
  b.define("cleave_kernel_count", b.getNumber(funcs.size()));
  defineCudaCode(b, options.cuda);

  llvm::Constant *bytes =
      program.empty()
          ? llvm::ConstantDataArray::get(context, ArrayRef<uint8_t>{0})
          : llvm::ConstantDataArray::get(context, program);
  llvm::GlobalVariable *data = b.define("cleave_program", bytes);
  data->setSection(".cleave.program");
  data->setAlignment(llvm::Align(64));
  b.define("cleave_program_size", b.getNumber(program.size()));
  llvm::appendToUsed(module, {data});
}

namespace {
struct Compiled {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
};
} // namespace

static LogicalResult compile(ModuleOp kernels, const ObjectOptions &options,
                             Compiled &result) {
  auto machine = createTargetMachine(kernels, options.cpu);
  if (failed(machine))
    return failure();
  result.machine = std::move(*machine);
  int64_t lanes = getLanes(*result.machine);
  auto module = lowerKernels(
      kernels, result.context, *result.machine,
      [&](exec::KernelOp kernel) -> LogicalResult {
        FailureOr<LLVM::LLVMFuncOp> func = emitCpuKernel(kernel, lanes);
        if (failed(func))
          return failure();
        std::string bits = std::to_string(lanes * 32);
        OpBuilder b(*func);
        func->setLinkage(LLVM::Linkage::Internal);
        func->setPassthroughAttr(b.getArrayAttr(
            {b.getStringAttr("nounwind"),
             b.getStrArrayAttr({"prefer-vector-width", bits}),
             b.getStrArrayAttr({"min-legal-vector-width", bits})}));
        return success();
      });
  if (failed(module))
    return failure();
  result.module = std::move(*module);
  SmallVector<llvm::Function *> funcs;
  for (auto kernel : kernels.getOps<exec::KernelOp>())
    funcs.push_back(result.module->getFunction(kernel.getSymName()));
  defineTables(*result.module, funcs, options);
  return success();
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

FailureOr<llvm::SmallVector<char, 0>>
emit::emitObject(ModuleOp kernels, const ObjectOptions &options) {
  Compiled compiled;
  if (failed(compile(kernels, options, compiled)))
    return failure();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (compiled.machine->addPassesToEmitFile(passes, stream, nullptr,
                                            llvm::CodeGenFileType::ObjectFile))
    return kernels.emitError("cannot write object files for this target");
  passes.run(*compiled.module);
  return bytes;
}

FailureOr<std::string> emit::emitLLVMIR(ModuleOp kernels,
                                        const ObjectOptions &options) {
  Compiled compiled;
  if (failed(compile(kernels, options, compiled)))
    return failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  compiled.module->print(stream, nullptr);
  return text;
}
