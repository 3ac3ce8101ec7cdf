//===- cleave-translate.cpp - IR to code, and to values -------------------===//
#include "dialects/exec/Exec.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "passes/Emit/EmitObject.h"
#include "passes/Emit/EmitProgram.h"
#include "passes/Emit/EmitPtx.h"
#include "passes/Emit/ReadProgram.h"
#include "passes/Interpret/CompareSteps.h"
#include "passes/Pipelines/Pipelines.h"
#include "runtime/base/StandardStreams.h"
#include "runtime/base/Version.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Program.h"
#include "tools/UsageCode.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace cleave;

static llvm::cl::opt<std::string>
    cpu("cpu", llvm::cl::init("native"),
        llvm::cl::desc("x86-64 CPU to compile for; native: this one"));

static llvm::cl::opt<int> steps("steps", llvm::cl::init(1),
                                llvm::cl::desc("steps to interpret"));
static llvm::cl::opt<std::string>
    against("against",
            llvm::cl::desc("IR of the same step to compare with, of an earlier "
                           "stage or by hand"));

/// Before a file is parsed, so once all options are.
static void registerDialects(DialectRegistry &registry) {
  tool::UsageCode::end();
  registerAllDialects(registry);
}

/// The module around `op`, or an error.
static ModuleOp getModule(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    op->emitError("expects a module");
  return module;
}

/// A line for each value: what it is, its name, its shape, its first elements.
static void printValues(StringRef kind,
                        const std::map<std::string, Array> &values,
                        raw_ostream &output) {
  constexpr size_t most = 8;
  for (const auto &[name, array] : values) {
    output << kind << "\t" << name << "\t[";
    llvm::interleave(array.shape, output, "x");
    output << "]\t";
    ArrayRef<double> elements(array.data);
    llvm::interleave(
        elements.take_front(most), output,
        [&](double x) { output << llvm::format("%.12g", x); }, " ");
    output << (elements.size() > most ? " ...\n" : "\n");
  }
}

/// The program of an executable, or a sealed one from a file of its own.
static OwningOpRef<ModuleOp> readProgram(llvm::SourceMgr &sources,
                                         MLIRContext *context) {
  const llvm::MemoryBuffer &file =
      *sources.getMemoryBuffer(sources.getMainFileID());
  runtime::Program program;
  std::string name = file.getBufferIdentifier().str();
  runtime::Status status =
      file.getBuffer().starts_with(runtime::programMagic)
          ? runtime::Program::load(file.getBufferStart(), file.getBufferSize(),
                                   name, program)
          : runtime::Program::loadFile(name, program);
  if (!status.ok()) {
    emitError(UnknownLoc::get(context)) << status.message();
    return {};
  }
  return emit::readProgram(context, program.get());
}

/// Runs a step in f64, and compares it with another.
static LogicalResult interpret(Operation *op, raw_ostream &output) {
  ModuleOp module = getModule(op);
  if (!module)
    return failure();
  if (steps < 1)
    return op->emitError("--steps ")
           << steps.getValue() << ": expects at least 1";
  StepRunner runner(module);
  FailureOr<StepInputs> inputs = runner.makeInputs(steps);
  if (failed(inputs))
    return failure();
  if (!against.empty()) {
    OwningOpRef<ModuleOp> other =
        parseSourceFile<ModuleOp>(against, op->getContext());
    if (!other)
      return failure();
    return compareSteps(*other, module, *inputs);
  }
  FailureOr<StepResults> results = runner.run(*inputs);
  if (failed(results))
    return failure();
  printValues("output", results->outputs, output);
  printValues("state", results->states, output);
  return success();
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
  TranslateFromMLIRRegistration toProgram(
      "exec-to-program",
      "exec.program ops with their memory planned, exec.kernel ops and an "
      "exec.workload to a program file, which cleave inspect shows; cleave "
      "assemble makes an executable of them",
      [](Operation *op, raw_ostream &output) -> LogicalResult {
        ModuleOp module = getModule(op);
        if (!module)
          return failure();
        auto target = emit::getTargetCpu(module, cpu);
        if (failed(target))
          return failure();
        auto program = emit::emitProgram(module, *target);
        if (failed(program))
          return failure();
        output.write(reinterpret_cast<const char *>(program->data()),
                     program->size());
        return success();
      },
      registerDialects);
  TranslateToMLIRRegistration toExec(
      "program-to-exec",
      "the program of an executable, or a program file, to exec.program ops "
      "(--mlir-print-debuginfo keeps the names of instructions)",
      readProgram, registerDialects);
  TranslateFromMLIRRegistration toValues(
      "interpret-step",
      "the outputs and states after steps in f64, on simulated ranks, from "
      "random states and tokens",
      interpret, registerDialects);
  tool::UsageCode usage;
  return failed(
      mlirTranslateMain(argc, argv, "Cleave IR to code, and to values\n"));
}
