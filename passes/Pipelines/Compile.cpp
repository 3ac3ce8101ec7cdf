//===- Compile.cpp - From a model and a plan to an object file ------------===//
#include "passes/Pipelines/Compile.h"
#include "cleave/Frontend/Shrink.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Reshard/Price.h"
#include "cleave/Search/Format.h"
#include "cleave/Search/ReadArchitecture.h"
#include "dialects/dist/Placements.h"
#include "dialects/dist/PlanAttr.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/Emit/EmitObject.h"
#include "passes/Emit/EmitProgram.h"
#include "passes/Import/BuildModel.h"
#include "passes/Interpret/CheckMeaning.h"
#include "passes/Place/PlacementGraph.h"
#include "passes/Place/StageShares.h"
#include "runtime/program/Limits.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

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
    Location location = diagnostic.getLocation();
    if (auto name = dyn_cast<NameLoc>(location))
      stream << name.getName().getValue() << ": ";
    else if (auto line = location->findInstanceOf<FileLineColLoc>())
      stream << line.getFilename().getValue() << ":" << line.getLine() << ":"
             << line.getColumn() << ": ";
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

/// Those of `stages`. Where `meaning` is given, checks it around each pass.
static LogicalResult runStages(ModuleOp module, ArrayRef<Stage> stages,
                               const CompileOptions &options,
                               MeaningCheck::Result *meaning = nullptr) {
  for (const Stage &stage : stages) {
    PassManager pm(module.getContext());
    if (meaning)
      pm.addInstrumentation(std::make_unique<MeaningCheck>(*meaning));
    stage.addPasses(pm, options.stages);
    if (failed(pm.run(module)) || (meaning && meaning->failed))
      return failure();
    if (options.dump &&
        (options.dumpAfter == stage.name || options.dumpAfter == "all")) {
      *options.dump << "// after stage " << stage.name << "\n";
      OpPrintingFlags flags;
      flags.enableDebugInfo(options.dumpLocations);
      module.print(*options.dump, flags);
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

llvm::Error CompileOptions::setDevice(const Cluster &cluster) {
  cudaChip = cluster.getCudaChip();
  cudaPeaks = {cluster.getPeak(DType::F32), cluster.getPeak(DType::BF16)};
  llvm::Expected<std::optional<Device>> device = findDevice(cluster);
  if (!device)
    return device.takeError();
  if (*device)
    memory = (*device)->getUsableMemory();
  return llvm::Error::success();
}

/// Says in the module what the step trains, for the runtime.
static void addWorkload(ModuleOp module, const Model &model,
                        const CompileOptions &options) {
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  const Workload &work = options.work;
  // What MFU counts is of the model, however its products are cut, padded or
  // repeated over ranks.
  double tokens = double(work.globalBatch) * double(work.seqLen);
  double flops = tokens * getArchitecture(model).getFlopsPerToken(work.seqLen);
  exec::WorkloadOp::create(b, b.getUnknownLoc(), model.vocab, work.seqLen,
                           work.globalBatch, options.plan.microBatches,
                           b.getStrArrayAttr({}), llvm::APFloat(flops),
                           b.getStringAttr(model.configText));
}

/// Says in the module how the step is to be cut, for the stages.
static void addPlan(ModuleOp module, const Model &model, Plan plan) {
  plan.setStageLayers(int64_t(model.layers.size()));
  dist::setPlan(module, plan);
}

/// Rows that a vocabulary is padded to: each rank has as many, and on a GPU
/// whole tiles of the tensor cores. GPT-2's logits of 50,257 columns, whose
/// rows start at odd addresses, come at 103 TFLOP/s on an H200, where those of
/// 128,256 come at 775.
static int64_t getPaddedVocab(const Model &model,
                              const CompileOptions &options) {
  constexpr int64_t tile = 64;
  int64_t vocab = options.plan.getPaddedVocab(model.vocab);
  if (options.cudaChip.empty())
    return vocab;
  return int64_t(llvm::alignTo(
      uint64_t(vocab), uint64_t(tile * options.plan.mesh.getSize(
                                           options.plan.getAxes("vocab")))));
}

/// The model's forward graph, with what the stages go by.
static llvm::Expected<OwningOpRef<ModuleOp>>
importModel(Compilation &compilation, const Model &model,
            CompileOptions &options) {
  BuildOptions build;
  build.batch = options.work.globalBatch / options.plan.microBatches;
  build.seqLen = options.work.seqLen;
  build.paddedVocab = getPaddedVocab(model, options);
  build.bf16 = options.work.dtype == DType::BF16;
  build.logits = options.logits;
  llvm::Expected<OwningOpRef<ModuleOp>> module =
      buildModel(&compilation.context, model, build);
  if (!module)
    return module.takeError();
  addWorkload(**module, model, options);
  addPlan(**module, model, options.plan);
  options.stages.step.microBatches = options.plan.microBatches;
  if (options.stages.choose)
    options.stages.choose->saysTactics = options.remarks;
  if (failed(mlir::verify(**module)))
    return compilation.collector.getError("verification of the imported model");
  return module;
}

/// The model's forward graph through every stage.
static llvm::Expected<OwningOpRef<ModuleOp>>
buildProgram(Compilation &compilation, const Model &model,
             CompileOptions &options, MeaningCheck::Result *meaning = nullptr) {
  auto module = importModel(compilation, model, options);
  if (!module)
    return module;
  if (failed(runStages(**module, getStages(), options, meaning)))
    return compilation.collector.getError(meaning ? "check" : "compilation");
  return module;
}

/// Two stages of at most two virtual ones each. The first has two layers if the
/// model has as many, the others one: stages are uneven, and of its layers one
/// may recompute. Of fewer layers than stages the ends have none.
static void shrinkStages(Plan &plan, int64_t layers, SmallSizes &sizes) {
  plan.recomputeBlocks = std::min<int64_t>(plan.recomputeBlocks, 1);
  if (!plan.pipeline)
    return;
  PipelinePlan &pipeline = *plan.pipeline;
  pipeline.virtualStages = std::min<int64_t>(pipeline.virtualStages, 2);
  pipeline.layers.assign(size_t(plan.getNumStages() * pipeline.virtualStages),
                         1);
  int64_t stages = int64_t(pipeline.layers.size());
  sizes.layers = std::min(stages + 1, layers);
  pipeline.layers.front() = sizes.layers > stages   ? 2
                            : sizes.layers < stages ? 0
                                                    : 1;
  if (sizes.layers < stages - 1)
    pipeline.layers.back() = 0;
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
  // What is chosen by cost may split any dim by all axes but that of stages.
  bool isChosen = options.stages.choose.has_value();
  auto parts = [&](StringRef dim) {
    return isChosen ? small.plan.mesh.getNumRanks() / small.plan.getNumStages()
                    : small.plan.mesh.getSize(plan.getAxes(dim));
  };
  if (isChosen)
    small.stages.choose->allowsIdle = true;
  int64_t samples = options.work.globalBatch / plan.microBatches /
                    plan.mesh.getSize(plan.getAxes("batch"));
  small.work.globalBatch =
      std::min<int64_t>(samples, 2) * parts("batch") * small.plan.microBatches;
  small.work.seqLen = 3 * std::max<int64_t>(2, parts("sequence"));
  if (small.stages.turn.parts > 1) {
    // Each part of a number for each token begins where operands may.
    small.stages.turn.parts = 2;
    small.work.seqLen = 64 * parts("sequence");
  }

  SmallSizes sizes;
  shrinkStages(small.plan, int64_t(model.layers.size()), sizes);
  sizes.seqLen = small.work.seqLen;
  sizes.vocab = parts("vocab");
  sizes.heads = parts("heads");
  sizes.kvHeads = parts("kv_heads");
  sizes.intermediate = parts("intermediate");
  sizes.hidden = 2 * parts("hidden");
  sizes.headDim = parts("head_dim");
  bool padsVocab = getPaddedVocab(model, options) != model.vocab;
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

llvm::Expected<ShardingProblem>
cleave::buildShardingProblem(const Model &model, CompileOptions options,
                             const Machine &machine) {
  Compilation compilation(options.remarks);
  auto module = importModel(compilation, model, options);
  if (!module)
    return module.takeError();
  if (failed(runStages(**module, getStages().take_while([](const Stage &stage) {
        return stage.name != "place";
      }),
                       options)))
    return compilation.collector.getError("compilation");
  PassManager pm((*module)->getContext());
  pm.addPass(createExpandCrossEntropyPass());
  if (failed(pm.run(**module)))
    return compilation.collector.getError("compilation");
  const Plan &plan = options.plan;
  NetworkPricer price(plan.mesh, machine);
  llvm::Expected<Profile> profile = loadOwnProfile(machine.device);
  if (!profile)
    return profile.takeError();
  Mesh mesh =
      plan.pipeline ? getStageMesh(plan.mesh, plan.pipeline->axis) : plan.mesh;
  PlacementGraph graph((*module)->lookupSymbol<mlir::func::FuncOp>("step"),
                       FlatSymbolRefAttr::get(&compilation.context, "mesh"),
                       mesh, machine, *profile, price);
  if (failed(graph.build()))
    return compilation.collector.getError("choice of placements");
  if (plan.pipeline)
    keepOneStage(graph.problem, *plan.pipeline,
                 plan.mesh.getSize(plan.pipeline->axis), plan.microBatches);
  return std::move(graph.problem);
}

/// What comes after the last stage.
static llvm::Expected<Compiled> emitCompiled(Compilation &compilation,
                                             ModuleOp module,
                                             const CompileOptions &options) {
  const std::string &cpuName = options.cpu;
  DiagnosticCollector &collector = compilation.collector;
  FailureOr<emit::TargetCpu> cpu = emit::getTargetCpu(module, cpuName);
  if (failed(cpu))
    return collector.getError("choice of the CPU");
  FailureOr<std::vector<uint8_t>> program = emit::emitProgram(module, *cpu);
  if (failed(program))
    return collector.getError("emission of the program");
  if (llvm::Error error = checkLimits(module, program->size()))
    return error;
  emit::ObjectOptions target;
  target.cpu = cpuName;
  target.program = *program;
  emit::CudaCode cuda;
  if (!options.cudaChip.empty()) {
    emit::PtxOptions ptx;
    ptx.chip = options.cudaChip;
    FailureOr<emit::CudaCode> code = emit::emitCudaCode(module, ptx);
    if (failed(code))
      return collector.getError("code generation for GPUs");
    cuda = std::move(*code);
    cuda.peakFlops = options.cudaPeaks;
    target.cuda = &cuda;
  }
  FailureOr<llvm::SmallVector<char, 0>> object =
      emit::emitObject(module, target);
  if (failed(object))
    return collector.getError("code generation");

  Compiled compiled;
  compiled.object = std::move(*object);
  compiled.program = std::move(*program);
  if (!cuda.note.empty())
    compiled.notes.push_back(cuda.note);
  auto source = *module.getOps<exec::ProgramOp>().begin();
  compiled.arenaBytes = source.getArenaBytes().value_or(0);
  compiled.lowerBound = source.getLowerBound().value_or(0);
  if (options.memory && double(compiled.arenaBytes) > *options.memory)
    compiled.warnings.push_back(llvm::formatv(
        "the program takes {0} of a rank's memory, of which it may have {1}",
        formatBytes(double(compiled.arenaBytes)),
        formatBytes(*options.memory)));
  if (auto peak = source->getAttrOfType<DictionaryAttr>("peak"))
    for (NamedAttribute entry : peak)
      compiled.memory.emplace_back(
          entry.getName().str(), cast<IntegerAttr>(entry.getValue()).getInt());
  module.walk([&](Operation *op) {
    compiled.kernels += isa<exec::KernelOp>(op);
    compiled.instructions += isa<exec::InstructionOpInterface>(op);
  });
  return compiled;
}

llvm::Expected<Compiled> cleave::compileModel(const Model &model,
                                              CompileOptions options) {
  Compilation compilation(options.remarks);
  auto module = buildProgram(compilation, model, options);
  if (!module)
    return module.takeError();
  return emitCompiled(compilation, **module, options);
}

/// So many ranks a module is for: as its mesh says, or its plan; a module with
/// neither is to be cut over the whole cluster.
static llvm::Expected<int64_t> getNumRanks(ModuleOp module,
                                           const Cluster &cluster) {
  if (dist::MeshOp mesh = dist::lookupMesh(module))
    return mesh.getMesh().getNumRanks();
  llvm::Expected<std::optional<Plan>> plan = dist::getPlan(module);
  if (!plan)
    return plan.takeError();
  return *plan ? (*plan)->mesh.getNumRanks() : cluster.getNumRanks();
}

/// The module of a file through the stages `rest`, and the contract of the
/// last.
static llvm::Expected<OwningOpRef<ModuleOp>>
finishProgram(Compilation &compilation, llvm::StringRef path,
              ArrayRef<Stage> rest, const Cluster &cluster,
              CompileOptions &options) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return llvm::errorCodeToError(file.getError());
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  auto module = parseSourceFile<ModuleOp>(sources, &compilation.context);
  if (!module)
    return compilation.collector.getError("reading the IR");
  llvm::Expected<int64_t> ranks = getNumRanks(*module, cluster);
  if (!ranks)
    return ranks.takeError();
  options.stages.kernels.threads =
      cluster.getThreads(std::max<int64_t>(*ranks, 1));
  if (failed(runStages(*module, rest, options)))
    return compilation.collector.getError("compilation");
  // What was edited by hand has not been through the stage's own checks.
  PassManager pm(&compilation.context);
  if (rest.empty())
    addContracts(pm);
  if (failed(pm.run(*module)))
    return compilation.collector.getError("verification");
  return module;
}

llvm::Expected<Compiled> cleave::compileIR(llvm::StringRef path,
                                           llvm::StringRef after,
                                           const Cluster &cluster,
                                           CompileOptions options) {
  Compilation compilation(options.remarks);
  ArrayRef<Stage> rest = getStages();
  while (!rest.empty() && rest.front().name != after)
    rest = rest.drop_front();
  assert(!rest.empty() && "expects the name of a stage");
  auto explain = [&](llvm::Error error) {
    return llvm::createStringError(path + ": " +
                                   llvm::toString(std::move(error)));
  };
  auto module =
      finishProgram(compilation, path, rest.drop_front(), cluster, options);
  if (!module)
    return explain(module.takeError());
  auto compiled = emitCompiled(compilation, **module, options);
  if (!compiled)
    return explain(compiled.takeError());
  return compiled;
}
