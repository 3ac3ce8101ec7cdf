//===- LowerToLLVM.cpp - Emitted kernels to LLVM IR -----------------------===//
#include "passes/Emit/LowerToLLVM.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace cleave;

static LogicalResult lowerOps(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

/// The kernels are vectorized and unrolled as they should be; what is left is
/// to share addresses and to move row and call invariants out of loops.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(
      passes, "function(early-cse,instcombine<no-verify-fixpoint>,"
              "loop-mssa(licm),simplifycfg,early-cse,instsimplify)"));
  passes.run(module, modules);
}

FailureOr<std::unique_ptr<llvm::Module>>
emit::lowerKernels(ModuleOp kernels, llvm::LLVMContext &llvmContext,
                   llvm::TargetMachine &machine,
                   llvm::function_ref<LogicalResult(exec::KernelOp)> emit) {
  MLIRContext *context = kernels.getContext();
  // Patterns build ops of all of these.
  context->loadDialect<LLVM::LLVMDialect, arith::ArithDialect,
                       cf::ControlFlowDialect, math::MathDialect,
                       scf::SCFDialect>();
  OwningOpRef<ModuleOp> lowered(ModuleOp::create(kernels.getLoc()));
  OpBuilder b(context);
  for (auto kernel : kernels.getOps<exec::KernelOp>()) {
    b.setInsertionPointToEnd(lowered->getBody());
    if (failed(emit(cast<exec::KernelOp>(b.clone(*kernel)))))
      return failure();
  }
  if (failed(lowerOps(*lowered)))
    return failure();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(*lowered, llvmContext);
  if (!module)
    return failure();
  module->setTargetTriple(machine.getTargetTriple());
  module->setDataLayout(machine.createDataLayout());
  optimize(*module, machine);
  return module;
}
