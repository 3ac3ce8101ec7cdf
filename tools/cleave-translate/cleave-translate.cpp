//===- cleave-translate.cpp - Kernels to target code ----------------------===//
#include "dialects/exec/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "passes/Emit/EmitObject.h"
#include "passes/Emit/EmitPtx.h"
#include "runtime/base/StandardStreams.h"
#include "runtime/base/Version.h"
#include "tools/UsageCode.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace cleave;

static llvm::cl::opt<std::string>
    cpu("cpu", llvm::cl::init("native"),
        llvm::cl::desc("x86-64 CPU to compile for; native: this one"));

/// Before a file is parsed, so once all options are.
static void registerDialects(DialectRegistry &registry) {
  tool::UsageCode::end();
  registry.insert<exec::ExecDialect, arith::ArithDialect, math::MathDialect>();
}

/// The module around `op`, or an error.
static ModuleOp getModule(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    op->emitError("expects a module of exec.kernel ops");
  return module;
}

static void printVersion(llvm::raw_ostream &os) {
  os << "cleave-translate " << cleave::getVersion() << '\n';
}

int main(int argc, char **argv) {
  runtime::openStandardStreams();
  llvm::cl::SetVersionPrinter(printVersion);
  TranslateFromMLIRRegistration toObject(
      "kernels-to-object", "exec.kernel ops to an x86-64 ELF object",
      [](Operation *op, raw_ostream &output) -> LogicalResult {
        ModuleOp module = getModule(op);
        if (!module)
          return failure();
        auto object = emit::emitObject(module, {cpu, {}});
        if (failed(object))
          return failure();
        output.write(object->data(), object->size());
        return success();
      },
      registerDialects);
  TranslateFromMLIRRegistration toLLVMIR(
      "kernels-to-llvm-ir", "exec.kernel ops to LLVM IR for x86-64",
      [](Operation *op, raw_ostream &output) -> LogicalResult {
        ModuleOp module = getModule(op);
        if (!module)
          return failure();
        auto text = emit::emitLLVMIR(module, {cpu, {}});
        if (failed(text))
          return failure();
        output << *text;
        return success();
      },
      registerDialects);
  TranslateFromMLIRRegistration toPtx(
      "kernels-to-ptx", "exec.kernel ops to PTX for sm_90",
      [](Operation *op, raw_ostream &output) -> LogicalResult {
        ModuleOp module = getModule(op);
        if (!module)
          return failure();
        auto ptx = emit::emitPtx(module, {});
        if (failed(ptx))
          return failure();
        output << ptx->text;
        return success();
      },
      registerDialects);
  TranslateFromMLIRRegistration toCubin(
      "kernels-to-cubin", "exec.kernel ops to a cubin for sm_90, by ptxas",
      [](Operation *op, raw_ostream &output) -> LogicalResult {
        ModuleOp module = getModule(op);
        if (!module)
          return failure();
        auto ptx = emit::emitPtx(module, {});
        if (failed(ptx))
          return failure();
        std::optional<std::string> ptxas = emit::findPtxas();
        if (!ptxas)
          return op->emitError("ptxas not found; set CUDA_HOME");
        auto cubin = emit::assemblePtx(ptx->text, "sm_90", *ptxas);
        if (!cubin)
          return op->emitError(llvm::toString(cubin.takeError()));
        output.write(cubin->bytes.data(), cubin->bytes.size());
        return success();
      },
      registerDialects);
  tool::UsageCode usage;
  return failed(
      mlirTranslateMain(argc, argv, "Cleave kernels to target code\n"));
}
