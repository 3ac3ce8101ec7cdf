//===- Compile.cpp - From a model and a plan to an object file ------------===//
#include "passes/Pipelines/Compile.h"
#include "cleave/Search/ReadArchitecture.h"
#include "mlir/IR/Verifier.h"
#include "passes/Emit/EmitObject.h"
#include "passes/Emit/EmitProgram.h"
#include "passes/Import/BuildModel.h"
#include "runtime/program/Limits.h"

using namespace mlir;
using namespace cleave;

namespace {
/// Prints warnings and, if asked for, remarks; keeps errors.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(bool remarks) : remarks(remarks) {}

  LogicalResult handle(Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (auto name = dyn_cast<NameLoc>(diagnostic.getLocation()))
      stream << name.getName().getValue() << ": ";
    stream << diagnostic;
    for (Diagnostic &note : diagnostic.getNotes())
      stream << "; " << note;
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      errors += (errors.empty() ? ": " : "; ") + text;
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      llvm::errs() << "warning: " << text << "\n";
    else if (remarks)
      llvm::errs() << "remark: " << text << "\n";
    return success();
  }

  /// `what` failed, and why.
  llvm::Error getError(const char *what) const {
    return llvm::createStringError("%s failed%s", what, errors.c_str());
  }

private:
  bool remarks;
  std::string errors;
};
} // namespace

static LogicalResult runStages(ModuleOp module, const CompileOptions &options) {
  for (const Stage &stage : getStages()) {
    PassManager pm(module.getContext());
    stage.addPasses(pm, options.stages);
    if (failed(pm.run(module)))
      return failure();
    if (options.dump &&
        (options.dumpAfter == stage.name || options.dumpAfter == "all")) {
      *options.dump << "// after stage " << stage.name << "\n";
      module.print(*options.dump);
      *options.dump << "\n";
    }
  }
  return success();
}

/// What the runtime would refuse of the program as a whole.
static llvm::Error checkLimits(ModuleOp module, uint64_t programBytes) {
  namespace limits = runtime::limits;
  auto check = [](const char *what, uint64_t value,
                  uint64_t most) -> llvm::Error {
    if (value <= most)
      return llvm::Error::success();
    return llvm::createStringError("%s: got %llu, at most %llu are legal", what,
                                   (unsigned long long)value,
                                   (unsigned long long)most);
  };
  auto program = *module.getOps<exec::ProgramOp>().begin();
  if (llvm::Error error =
          check("threads of a rank", program.getThreads(), limits::threads))
    return error;
  if (llvm::Error error =
          check("bytes of a rank's arena", program.getArenaBytes().value_or(0),
                limits::arenaBytes))
    return error;
  return check("bytes of the program", programBytes, limits::programBytes);
}

llvm::Expected<Compiled> cleave::compileModel(const Model &model,
                                              CompileOptions options) {
  MLIRContext context;
  DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  DiagnosticCollector collector(options.remarks);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    return collector.handle(diagnostic);
  });

  BuildOptions build;
  build.batch = options.batch.globalBatch / options.plan.microBatches;
  build.seqLen = options.batch.seqLen;
  build.paddedVocab = options.plan.getPaddedVocab(model.vocab);
  build.bf16 = options.bf16;
  build.logits = options.logits;
  llvm::Expected<OwningOpRef<ModuleOp>> module =
      buildModel(&context, model, build);
  if (!module)
    return module.takeError();
  options.stages.step.microBatches = options.plan.microBatches;
  options.stages.plan = &options.plan;
  if (failed(mlir::verify(**module)))
    return collector.getError("verification of the imported model");
  if (failed(runStages(**module, options)))
    return collector.getError("compilation");

  FailureOr<emit::TargetCpu> cpu = emit::getTargetCpu(**module, options.cpu);
  if (failed(cpu))
    return collector.getError("choice of the CPU");
  // What MFU counts is of the model, however its products are cut, padded or
  // repeated over ranks.
  double tokens =
      double(options.batch.globalBatch) * double(options.batch.seqLen);
  double flops =
      tokens * getArchitecture(model).getFlopsPerToken(options.batch.seqLen);
  emit::ProgramInfo info{model, options.plan, options.batch, *cpu, flops};
  FailureOr<std::vector<uint8_t>> program = emit::emitProgram(**module, info);
  if (failed(program))
    return collector.getError("emission of the program");
  if (llvm::Error error = checkLimits(**module, program->size()))
    return error;
  emit::ObjectOptions target;
  target.cpu = options.cpu;
  target.program = *program;
  FailureOr<llvm::SmallVector<char, 0>> object =
      emit::emitObject(**module, target);
  if (failed(object))
    return collector.getError("code generation");

  Compiled compiled;
  compiled.object = std::move(*object);
  auto source = *(*module)->getOps<exec::ProgramOp>().begin();
  compiled.arenaBytes = source.getArenaBytes().value_or(0);
  compiled.lowerBound = source.getLowerBound().value_or(0);
  if (auto peak = source->getAttrOfType<DictionaryAttr>("peak"))
    for (NamedAttribute entry : peak)
      compiled.memory.emplace_back(
          entry.getName().str(), cast<IntegerAttr>(entry.getValue()).getInt());
  (*module)->walk([&](Operation *op) {
    compiled.kernels += isa<exec::KernelOp>(op);
    compiled.instructions += isa<exec::InstructionOpInterface>(op);
  });
  return compiled;
}
