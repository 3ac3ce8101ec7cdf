//===- Compile.cpp - From a model and a plan to an object file ------------===//
#include "passes/Pipelines/Compile.h"
#include "cleave/Frontend/Shrink.h"
#include "cleave/Search/ReadArchitecture.h"
#include "mlir/IR/Verifier.h"
#include "passes/Emit/EmitObject.h"
#include "passes/Emit/EmitProgram.h"
#include "passes/Import/BuildModel.h"
#include "passes/Interpret/CheckMeaning.h"
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

/// Where `meaning` is given, checks it around each pass.
static LogicalResult runStages(ModuleOp module, const CompileOptions &options,
                               MeaningCheck::Result *meaning = nullptr) {
  for (const Stage &stage : getStages()) {
    PassManager pm(module.getContext());
    if (meaning)
      pm.addInstrumentation(std::make_unique<MeaningCheck>(*meaning));
    stage.addPasses(pm, options.stages);
    if (failed(pm.run(module)) || (meaning && meaning->failed))
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

namespace {
/// A context with all that a compilation needs, whose diagnostics are
/// collected.
struct Compilation {
  explicit Compilation(bool remarks)
      : collector(remarks), handler(&context, [this](Diagnostic &diagnostic) {
          return collector.handle(diagnostic);
        }) {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false);
  }

  MLIRContext context;
  DiagnosticCollector collector;
  ScopedDiagnosticHandler handler;
};
} // namespace

/// The model's forward graph through every stage.
static llvm::Expected<OwningOpRef<ModuleOp>>
buildProgram(Compilation &compilation, const Model &model,
             CompileOptions &options, MeaningCheck::Result *meaning = nullptr) {
  BuildOptions build;
  build.batch = options.batch.globalBatch / options.plan.microBatches;
  build.seqLen = options.batch.seqLen;
  build.paddedVocab = options.plan.getPaddedVocab(model.vocab);
  build.bf16 = options.bf16;
  build.logits = options.logits;
  llvm::Expected<OwningOpRef<ModuleOp>> module =
      buildModel(&compilation.context, model, build);
  if (!module)
    return module.takeError();
  options.stages.step.microBatches = options.plan.microBatches;
  options.stages.plan = &options.plan;
  options.stages.recompute.modules.assign(options.plan.recompute.begin(),
                                          options.plan.recompute.end());
  options.stages.recompute.layers = options.plan.recomputeBlocks;
  if (const std::optional<PipelinePlan> &pipeline = options.plan.pipeline) {
    options.stages.pipeline.schedule = getName(pipeline->schedule).str();
    options.stages.pipeline.virtualStages = pipeline->virtualStages;
  }
  std::vector<int64_t> layers =
      options.plan.getStageLayers(int64_t(model.layers.size()));
  options.stages.pipeline.layers.assign(layers.begin(), layers.end());
  options.stages.recompute.stageLayers.assign(layers.begin(), layers.end());
  if (failed(mlir::verify(**module)))
    return compilation.collector.getError("verification of the imported model");
  if (failed(runStages(**module, options, meaning)))
    return compilation.collector.getError(meaning ? "check" : "compilation");
  return module;
}

/// Two stages of at most two virtual ones each. The first has two layers if the
/// model has as many, the others one: stages are uneven, and of its layers one
/// may recompute.
static void shrinkStages(Plan &plan, int64_t layers, SmallSizes &sizes) {
  plan.recomputeBlocks = std::min<int64_t>(plan.recomputeBlocks, 1);
  if (!plan.pipeline)
    return;
  PipelinePlan &pipeline = *plan.pipeline;
  pipeline.virtualStages = std::min<int64_t>(pipeline.virtualStages, 2);
  pipeline.layers.assign(size_t(plan.getNumStages() * pipeline.virtualStages),
                         1);
  sizes.layers = std::min(int64_t(pipeline.layers.size()) + 1, layers);
  pipeline.layers.front() += sizes.layers - int64_t(pipeline.layers.size());
}

llvm::Expected<MeaningReport>
cleave::checkCompilation(const Model &model, const CompileOptions &options) {
  const Plan &plan = options.plan;
  CompileOptions small = options;
  small.dump = nullptr;
  small.remarks = false;
  SmallVector<MeshAxis> axes(plan.mesh.getAxes());
  for (MeshAxis &axis : axes)
    axis.size = std::min<int64_t>(axis.size, 2);
  small.plan.mesh = Mesh(axes);
  small.plan.microBatches = std::min<int64_t>(plan.microBatches, 3);
  auto parts = [&](StringRef dim) {
    return small.plan.mesh.getSize(plan.getAxes(dim));
  };
  int64_t samples = options.batch.globalBatch / plan.microBatches /
                    plan.mesh.getSize(plan.getAxes("batch"));
  small.batch.globalBatch =
      std::min<int64_t>(samples, 2) * parts("batch") * small.plan.microBatches;
  small.batch.seqLen = 3 * std::max<int64_t>(2, parts("sequence"));

  SmallSizes sizes;
  shrinkStages(small.plan, int64_t(model.layers.size()), sizes);
  sizes.seqLen = small.batch.seqLen;
  sizes.vocab = parts("vocab");
  sizes.heads = parts("heads");
  sizes.kvHeads = parts("kv_heads");
  sizes.intermediate = parts("intermediate");
  sizes.hidden = 2 * parts("hidden");
  sizes.headDim = parts("head_dim");
  bool padsVocab = plan.getPaddedVocab(model.vocab) != model.vocab;
  llvm::Expected<Model> shrunk = shrinkModel(model, sizes, padsVocab);
  if (!shrunk)
    return shrunk.takeError();

  Compilation compilation(/*remarks=*/false);
  MeaningCheck::Result meaning;
  auto module = buildProgram(compilation, *shrunk, small, &meaning);
  if (!module)
    return module.takeError();
  MeaningReport report;
  report.layers = int64_t(shrunk->layers.size());
  report.mesh.assign(axes.begin(), axes.end());
  report.microBatches = small.plan.microBatches;
  report.passes = meaning.passes;
  return report;
}

llvm::Expected<Compiled> cleave::compileModel(const Model &model,
                                              CompileOptions options) {
  Compilation compilation(options.remarks);
  DiagnosticCollector &collector = compilation.collector;
  auto module = buildProgram(compilation, model, options);
  if (!module)
    return module.takeError();

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
