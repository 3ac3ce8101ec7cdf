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

/// Defines cleave_kernels, cleave_kernel_count, cleave_program and
/// cleave_program_size.
static void defineTables(llvm::Module &module, ArrayRef<llvm::Function *> funcs,
                         ArrayRef<uint8_t> program) {
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *i64 = llvm::Type::getInt64Ty(context);
  auto define = [&](llvm::StringRef name, llvm::Constant *value) {
    return new llvm::GlobalVariable(
        module, value->getType(),
        /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, value, name);
  };
  auto *entryType = llvm::StructType::get(context, {pointer, pointer});
  SmallVector<llvm::Constant *> entries;
  for (llvm::Function *func : funcs) {
    auto *name = llvm::ConstantDataArray::getString(context, func->getName());
    auto *string = new llvm::GlobalVariable(
        module, name->getType(), /*isConstant=*/true,
        llvm::GlobalValue::PrivateLinkage, name, "kernel_name");
    entries.push_back(llvm::ConstantStruct::get(entryType, {string, func}));
  }
  // A table of no entries would have no address of its own.
  if (entries.empty())
    entries.push_back(llvm::ConstantAggregateZero::get(entryType));
  define("cleave_kernels",
         llvm::ConstantArray::get(
             llvm::ArrayType::get(entryType, entries.size()), entries));
  define("cleave_kernel_count", llvm::ConstantInt::get(i64, funcs.size()));

  llvm::Constant *bytes =
      program.empty()
          ? llvm::ConstantDataArray::get(context, ArrayRef<uint8_t>{0})
          : llvm::ConstantDataArray::get(context, program);
  llvm::GlobalVariable *data = define("cleave_program", bytes);
  data->setSection(".cleave.program");
  data->setAlignment(llvm::Align(64));
  define("cleave_program_size", llvm::ConstantInt::get(i64, program.size()));
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
  defineTables(*result.module, funcs, options.program);
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
