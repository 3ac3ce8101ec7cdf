//===- Pipelines.cpp - The stages of a compilation, in order --------------===//
#include "passes/Pipelines/Pipelines.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Interpret/Meanings.h"
#include "passes/Kernels/Lowerings.h"

using namespace mlir;
using namespace cleave;

static void addGrad(OpPassManager &pm, const StageOptions &options) {
  pm.addPass(createBuildStepPass(options.step));
  pm.addPass(createVerifyStepPass());
}

static void addPlan(OpPassManager &pm, const StageOptions &options) {
  pm.addPass(createChoosePlanPass(options.plan));
}

static void addRecompute(OpPassManager &pm, const StageOptions &) {
  pm.addPass(createRecomputePass());
  pm.addPass(createVerifyStepPass());
}

static void addPlace(OpPassManager &pm, const StageOptions &options) {
  // Before placements, since a whole cross-entropy would keep its vocabulary
  // unsplit.
  pm.addPass(createExpandCrossEntropyPass());
  if (options.choose)
    pm.addPass(createChoosePlacementsPass(*options.choose));
  else
    pm.addPass(createPlaceTensorsPass());
  pm.addPass(createVerifyPlacementsPass());
  pm.addPass(createVerifyStepPass());
}

static void addPartition(OpPassManager &pm, const StageOptions &options) {
  pm.addPass(createInsertCollectivesPass(options.partition));
  pm.addPass(createKeepCopiesPass());
  pm.addPass(createBlockShardsPass({options.overlap.mode}));
  // While types are still global: this is the proof of the program.
  pm.addPass(createVerifyPlacementsPass());
  pm.addPass(createVerifyStepPass());
  pm.addPass(createLocalizePass());
}

static void addPipeline(OpPassManager &pm, const StageOptions &) {
  pm.addPass(createCutStagesPass());
  pm.addPass(createVerifyStagesPass());
}

static void addKernels(OpPassManager &pm, const StageOptions &options) {
  // Not earlier: placed, an op that needs its operand whole gathers it once.
  pm.addPass(createExpandCompositesPass());
  pm.addPass(createLowerToExecPass(options.kernels));
  pm.addPass(createVerifyKernelsPass());
}

static void addOverlap(OpPassManager &pm, const StageOptions &options) {
  // Before products are cut for streams, since it decides which there are.
  pm.addPass(createCutTurnPass(options.turn));
  // Parts are made for streams to have something to run beside.
  pm.addPass(
      createCutProductsPass({options.overlap.mode, options.overlap.cluster}));
  pm.addPass(createJoinPiecesPass());
  pm.addPass(createOverlapPass(options.overlap));
  pm.addPass(createAddWaitsPass());
  pm.addPass(createVerifyOrderPass());
}

static void addMemory(OpPassManager &pm, const StageOptions &) {
  pm.addPass(createPlanMemoryPass());
  // Buffers that share bytes may be of instructions of different streams.
  pm.addPass(createAddWaitsPass());
  addContracts(pm);
}

void cleave::addContracts(OpPassManager &pm) {
  pm.addPass(createVerifyMemoryPass());
  pm.addPass(createVerifyOrderPass());
}

ArrayRef<Stage> cleave::getStages() {
  static const Stage stages[] = {
      {"grad", "forward graph to training step", addGrad},
      {"plan", "training step to one that says how it is cut", addPlan},
      {"recompute", "training step to one that keeps less", addRecompute},
      {"place", "training step to placed step", addPlace},
      {"partition", "placed step to one rank's", addPartition},
      {"pipeline", "one rank's step to those of pipeline stages", addPipeline},
      {"kernels", "tensors to instructions", addKernels},
      {"overlap", "communication to streams of its own", addOverlap},
      {"memory", "buffers to one arena", addMemory},
  };
  return stages;
}

void cleave::registerAllDialects(DialectRegistry &registry) {
  registry.insert<xf::XfDialect, dist::DistDialect, exec::ExecDialect,
                  func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  registerLoweringExternalModels(registry);
  registerInterpretableExternalModels(registry);
}

void cleave::registerAllPasses() {
  registerGradPasses();
  registerPlanPasses();
  registerRecomputePasses();
  registerPlacePasses();
  registerPartitionPasses();
  registerPipelinePasses();
  registerKernelsPasses();
  registerOverlapPasses();
  registerMemoryPasses();
  for (const Stage &stage : getStages()) {
    auto build = [&stage](OpPassManager &pm, StringRef text,
                          function_ref<LogicalResult(const Twine &)> error) {
      if (!text.empty())
        return error("a stage takes no options; run its passes instead");
      stage.addPasses(pm, StageOptions());
      return success();
    };
    registerPassPipeline(
        ("cleave-stage-" + stage.name).str(), stage.summary, build,
        [](function_ref<void(const detail::PassOptions &)>) {});
  }
}
