//===- Plan.cpp - Recipes, and the placements that follow -----------------===//
#include "cleave/Plan/Plan.h"
#include "runtime/program/Limits.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <numeric>

using namespace cleave;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(message.str());
}

/// The degrees that divide every one of `sizes`.
static std::string getLegalDegrees(llvm::ArrayRef<int64_t> sizes) {
  int64_t common = 0;
  for (int64_t size : sizes)
    common = std::gcd(common, size);
  std::vector<std::string> legal, large;
  for (int64_t degree = 1; degree * degree <= common; ++degree)
    if (common % degree == 0) {
      legal.push_back(std::to_string(degree));
      if (degree * degree != common)
        large.push_back(std::to_string(common / degree));
    }
  legal.insert(legal.end(), large.rbegin(), large.rend());
  return llvm::join(legal, ", ");
}

AxisList Plan::getAxes(llvm::StringRef dim) const {
  auto it = dims.find(dim.str());
  return it == dims.end() ? AxisList() : it->second;
}

Placement Plan::getCompute(llvm::ArrayRef<std::string> names) const {
  Placement placement;
  for (const std::string &name : names)
    placement.dims.push_back(getAxes(name));
  return placement;
}

Placement Plan::getKept(llvm::ArrayRef<std::string> names,
                        llvm::ArrayRef<int64_t> shape,
                        const AxisList &axes) const {
  Placement placement = getCompute(names);
  // Axes that split the tensor already cannot split it further.
  AxisList further;
  for (Axis axis : axes)
    if (llvm::none_of(placement.dims, [&](const AxisList &dim) {
          return llvm::is_contained(dim, axis);
        }))
      further.push_back(axis);
  for (auto [dim, size] : llvm::zip(placement.dims, shape))
    if (size % (mesh.getSize(dim) * mesh.getSize(further)) == 0) {
      dim.append(further.begin(), further.end());
      return placement;
    }
  return placement;
}

int64_t Plan::getPaddedVocab(int64_t vocab) const {
  int64_t parts = mesh.getSize(getAxes("vocab"));
  return (vocab + parts - 1) / parts * parts;
}

int64_t Plan::getNumStages() const {
  return pipeline ? mesh.getAxes()[pipeline->axis].size : 1;
}

int64_t cleave::getDefaultMicroBatch(int64_t samples, int64_t stages) {
  int64_t most = std::max<int64_t>(samples / std::max<int64_t>(stages, 1), 1);
  int64_t best = 1;
  for (int64_t i = 1; i * i <= samples; ++i)
    if (samples % i == 0)
      for (int64_t divisor : {i, samples / i})
        if (divisor <= most)
          best = std::max(best, divisor);
  return best;
}

llvm::Expected<Plan> cleave::makePlan(const Layout &layout,
                                      const BatchShape &batch) {
  if (layout.dp < 1 || layout.tp < 1 || layout.pp < 1)
    return makeError("parallel degrees must be at least 1");
  if (layout.zero < 0 || layout.zero > 3)
    return makeError(
        llvm::formatv("--zero {0}: legal stages are 0, 1, 2, 3", layout.zero));
  if (batch.microBatch == 0 && batch.globalBatch % layout.dp != 0)
    return makeError(llvm::formatv(
        "global batch {0} is not divisible by dp {1}; legal degrees are {2}",
        batch.globalBatch, layout.dp, getLegalDegrees({batch.globalBatch})));
  int64_t microBatch =
      batch.microBatch
          ? batch.microBatch
          : getDefaultMicroBatch(batch.globalBatch / layout.dp, layout.pp);
  int64_t samples = microBatch * layout.dp;
  if (batch.globalBatch % samples != 0)
    return makeError(llvm::formatv(
        "global batch {0} is not divisible by micro-batch {1} x dp {2} = {3}",
        batch.globalBatch, batch.microBatch, layout.dp, samples));

  Plan plan;
  llvm::SmallVector<MeshAxis> axes{{"dp", layout.dp}, {"tp", layout.tp}};
  if (layout.pp > 1) {
    axes.insert(axes.begin(), {"pp", layout.pp});
    plan.pipeline = {0, layout.schedule, layout.virtualStages,
                     layout.stageLayers};
  } else if (layout.virtualStages > 1 || !layout.stageLayers.empty()) {
    return makeError("virtual stages and layers of stages are of a pipeline: "
                     "expects --pp of at least 2");
  }
  plan.mesh = Mesh(axes);
  plan.microBatches = batch.globalBatch / samples;
  const Axis tpAxis = Axis(axes.size() - 1);
  const AxisList dp{Axis(tpAxis - 1)}, tp{tpAxis};
  if (layout.dp > 1) {
    plan.dims["batch"] = dp;
    if (layout.zero >= 1)
      plan.optimizerAxes = dp;
    if (layout.zero >= 2)
      plan.gradientAxes = dp;
    if (layout.zero >= 3)
      plan.parameterAxes = dp;
  }
  if (layout.tp > 1) {
    for (const char *dim : {"vocab", "heads", "kv_heads", "intermediate"})
      plan.dims[dim] = tp;
    if (layout.sequenceParallel)
      plan.dims["sequence"] = tp;
  }
  return plan;
}

/// What the runtime would refuse.
static llvm::Error checkLimits(const Plan &plan, const Model &model,
                               const BatchShape &batch) {
  namespace limits = runtime::limits;
  auto check = [](const llvm::Twine &what, int64_t value,
                  uint64_t most) -> llvm::Error {
    if (uint64_t(value) <= most)
      return llvm::Error::success();
    return makeError(llvm::formatv("{0}: got {1}, at most {2} are legal",
                                   what.str(), value, most));
  };
  size_t axes = plan.mesh.getAxes().size();
  if (llvm::Error error = check("mesh axes", axes, limits::axes))
    return error;
  if (llvm::Error error =
          check("ranks of the layout " + llvm::Twine(plan.mesh.toString()),
                plan.mesh.getNumRanks(), limits::worldSize))
    return error;
  if (llvm::Error error =
          check("sequence length", batch.seqLen, limits::tokenIds))
    return error;
  if (llvm::Error error =
          check("global batch", batch.globalBatch, limits::count))
    return error;
  if (llvm::Error error =
          check("micro-batches", plan.microBatches, limits::tokenIds))
    return error;
  if (llvm::Error error = check("vocabulary", model.vocab, limits::tokenIds))
    return error;
  return check("head size", model.headDim, limits::headDim);
}

/// Whether the layers make as many virtual stages as the schedule asks.
static llvm::Error checkPipeline(const Plan &plan, const Model &model) {
  if (!plan.pipeline)
    return llvm::Error::success();
  const PipelinePlan &pipeline = *plan.pipeline;
  PipelineShape shape{pipeline.schedule, plan.getNumStages(),
                      pipeline.virtualStages, plan.microBatches};
  if (std::string problem = findProblem(shape); !problem.empty())
    return makeError(problem);
  int64_t layers = int64_t(model.layers.size()),
          stages = shape.getVirtualStages();
  if (layers < stages)
    return makeError(llvm::formatv(
        "{0} stages of {1} virtual stages: the model has {2} layers, and each "
        "virtual stage has at least one",
        shape.stages, shape.chunks, layers));
  if (pipeline.layers.empty())
    return llvm::Error::success();
  if (int64_t(pipeline.layers.size()) != stages)
    return makeError(llvm::formatv("layers of stages: got {0} numbers, expects "
                                   "one of each of the {1} virtual stages",
                                   pipeline.layers.size(), stages));
  int64_t sum = 0;
  for (int64_t count : pipeline.layers)
    sum += count;
  if (sum != layers)
    return makeError(llvm::formatv("layers of stages: got {0} in all, the "
                                   "model has {1}",
                                   sum, layers));
  return llvm::Error::success();
}

llvm::Error cleave::checkPlan(const Plan &plan, const Model &model,
                              const BatchShape &batch) {
  if (llvm::Error error = plan.mesh.verify())
    return error;
  if (llvm::Error error = checkLimits(plan, model, batch))
    return error;
  if (llvm::Error error = checkPipeline(plan, model))
    return error;
  auto check = [&](llvm::StringRef dim, llvm::StringRef what, int64_t size,
                   llvm::ArrayRef<int64_t> together) -> llvm::Error {
    int64_t parts = plan.mesh.getSize(plan.getAxes(dim));
    if (size % parts == 0)
      return llvm::Error::success();
    return makeError(llvm::formatv(
        "{0} ({1}) cannot be split {2} ways over {3}; legal degrees are {4}",
        what, size, parts, plan.mesh.toString(plan.getAxes(dim)),
        getLegalDegrees(together)));
  };
  const int64_t model3[] = {model.heads, model.kvHeads, model.intermediate};
  const int64_t samples[] = {batch.globalBatch / plan.microBatches};
  const int64_t seq[] = {batch.seqLen};
  const int64_t hidden[] = {model.hidden}, headDim[] = {model.headDim};
  if (llvm::Error error =
          check("heads", "attention heads", model.heads, model3))
    return error;
  if (llvm::Error error =
          check("kv_heads", "key-value heads", model.kvHeads, model3))
    return error;
  if (llvm::Error error = check("intermediate", "intermediate size",
                                model.intermediate, model3))
    return error;
  if (llvm::Error error = check("hidden", "hidden size", hidden[0], hidden))
    return error;
  if (llvm::Error error = check("head_dim", "head size", headDim[0], headDim))
    return error;
  if (llvm::Error error = check("sequence", "sequence length", seq[0], seq))
    return error;
  if (batch.globalBatch % plan.microBatches != 0)
    return makeError(llvm::formatv("global batch {0} is not divisible by {1} "
                                   "micro-batches",
                                   batch.globalBatch, plan.microBatches));
  return check("batch", "samples of a micro-batch", samples[0], samples);
}
