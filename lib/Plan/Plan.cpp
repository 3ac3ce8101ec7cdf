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

std::string Plan::toTactics() const {
  std::string text;
  auto addLine = [&](const std::string &tactic, const AxisList &axes) {
    std::string names;
    for (Axis axis : axes)
      if (mesh.getSize(axis) > 1)
        names += (names.empty() ? "" : ", ") + mesh.getName(axis).str();
    if (!names.empty())
      text += tactic + " over " + names + "\n";
  };
  auto split = [](const std::string &dim) { return "split \"" + dim + "\""; };
  // An axis of a parameter's dim splits the sequence where no op has that dim.
  for (const auto &[dim, axes] : dims)
    if (dim != "sequence")
      addLine(split(dim), axes);
  addLine(split("sequence"), getAxes("sequence"));
  addLine("keep optimizer", optimizerAxes);
  addLine("keep gradients", gradientAxes);
  addLine("keep parameters", parameterAxes);
  return text;
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

std::vector<int64_t> Plan::getStageLayers(int64_t layers) const {
  if (!pipeline)
    return {layers};
  if (!pipeline->layers.empty())
    return pipeline->layers;
  TrainLayout layout;
  layout.pp = getNumStages();
  layout.virtualStages = pipeline->virtualStages;
  layout.firstBlocks = pipeline->firstLayers;
  layout.lastBlocks = pipeline->lastLayers;
  std::vector<int64_t> cut;
  for (int64_t i = 0; i < layout.pp * layout.virtualStages; ++i)
    cut.push_back(layout.getNumBlocks(i, layers));
  return cut;
}

void Plan::setStageLayers(int64_t layers) {
  if (!pipeline)
    return;
  pipeline->layers = getStageLayers(layers);
  pipeline->firstLayers = pipeline->lastLayers = TrainLayout::even;
}

/// Samples of all ranks in one micro-batch.
static llvm::Expected<int64_t> getSamples(const TrainLayout &layout,
                                          const Workload &work) {
  if (layout.dp < 1 || layout.tp < 1 || layout.pp < 1)
    return makeError("parallel degrees must be at least 1");
  if (layout.zero < 0 || layout.zero > 3)
    return makeError(
        llvm::formatv("--zero {0}: legal stages are 0, 1, 2, 3", layout.zero));
  if ((layout.firstBlocks == TrainLayout::even) !=
      (layout.lastBlocks == TrainLayout::even))
    return makeError("layers of the first and of the last virtual stage: "
                     "expects both numbers, or none");
  if (layout.microBatch == 0 && work.globalBatch % layout.dp != 0)
    return makeError(llvm::formatv(
        "global batch {0} is not divisible by dp {1}; legal degrees are {2}",
        work.globalBatch, layout.dp, getLegalDegrees({work.globalBatch})));
  int64_t microBatch =
      layout.microBatch
          ? layout.microBatch
          : getDefaultMicroBatch(work.globalBatch / layout.dp, layout.pp);
  int64_t samples = microBatch * layout.dp;
  if (work.globalBatch % samples != 0)
    return makeError(llvm::formatv(
        "global batch {0} is not divisible by micro-batch {1} x dp {2} = {3}",
        work.globalBatch, microBatch, layout.dp, samples));
  return samples;
}

/// Of the ranks of dp, those that hold different parts of what ZeRO keeps, and
/// those that hold copies of them.
struct DataGroups {
  int64_t shards, copies;
};

static llvm::Expected<DataGroups> getDataGroups(const TrainLayout &layout) {
  int64_t shards = layout.getShards();
  if (layout.dp % shards != 0)
    return makeError(llvm::formatv(
        "groups of {0} ranks do not divide dp {1}; legal sizes are {2}", shards,
        layout.dp, getLegalDegrees({layout.dp})));
  return DataGroups{shards, layout.dp / shards};
}

llvm::Expected<Plan> cleave::makePlan(const TrainLayout &layout,
                                      const Workload &work) {
  llvm::Expected<int64_t> samples = getSamples(layout, work);
  if (!samples)
    return samples.takeError();
  llvm::Expected<DataGroups> groups = getDataGroups(layout);
  if (!groups)
    return groups.takeError();

  // From the outermost axis to tp, whose ranks are neighbours.
  bool isDataOuter = layout.getPipelineStride() < layout.tp * layout.dp;
  llvm::SmallVector<MeshAxis> axes;
  AxisList data, shards, stages;
  auto addAxis = [&](const char *name, int64_t size) {
    axes.push_back({name, size});
    return Axis(axes.size() - 1);
  };
  auto addStages = [&] {
    if (layout.pp > 1)
      stages.push_back(addAxis("pp", layout.pp));
  };
  if (!isDataOuter)
    addStages();
  if (groups->copies > 1)
    data.push_back(addAxis("dp_outer", groups->copies));
  shards.push_back(addAxis("dp", groups->shards));
  data.push_back(shards.front());
  if (isDataOuter)
    addStages();
  const AxisList tp{addAxis("tp", layout.tp)};

  Plan plan;
  plan.mesh = Mesh(axes);
  plan.microBatches = work.globalBatch / *samples;
  if (layout.pp > 1)
    plan.pipeline = {stages.front(),       layout.schedule,
                     layout.virtualStages, {},
                     layout.firstBlocks,   layout.lastBlocks};
  else if (layout.virtualStages > 1)
    return makeError("virtual stages are a pipeline's: expects pp of at least "
                     "2");
  if (layout.dp > 1) {
    plan.dims["batch"] = data;
    if (layout.zero >= 1)
      plan.optimizerAxes = shards;
    if (layout.zero >= 2)
      plan.gradientAxes = shards;
    if (layout.zero >= 3)
      plan.parameterAxes = shards;
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
                               const Workload &work) {
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
          check("sequence length", work.seqLen, limits::tokenIds))
    return error;
  if (llvm::Error error =
          check("global batch", work.globalBatch, limits::count))
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
  if (layers < stages - 2)
    return makeError(llvm::formatv(
        "{0} stages of {1} virtual stages each: the model has {2} layers, and "
        "each virtual stage but the first and the last has at least one",
        shape.stages, shape.chunks, layers));
  if (stages == 1 && pipeline.firstLayers != TrainLayout::even)
    return makeError("layers of the first and the last virtual stage: there is "
                     "one, which has all");
  std::vector<int64_t> cut = plan.getStageLayers(layers);
  if (int64_t(cut.size()) != stages)
    return makeError(llvm::formatv("layers of stages: got {0} numbers, expects "
                                   "one for each of the {1} virtual stages",
                                   cut.size(), stages));
  int64_t sum = std::accumulate(cut.begin(), cut.end(), int64_t(0));
  llvm::ArrayRef<int64_t> inner = llvm::ArrayRef(cut).drop_back();
  inner = inner.drop_front(inner.empty() ? 0 : 1);
  auto isEmpty = [](int64_t count) { return count < 1; };
  if (sum != layers || llvm::any_of(inner, isEmpty) || cut.front() < 0 ||
      cut.back() < 0)
    return makeError(llvm::formatv(
        "layers of stages: got {0}, expects {1} in all and at least one of "
        "each but the first and the last",
        llvm::join(
            llvm::map_range(cut, [](int64_t n) { return std::to_string(n); }),
            ", "),
        layers));
  return llvm::Error::success();
}

llvm::Error cleave::checkPlan(const Plan &plan, const Model &model,
                              const Workload &work) {
  if (llvm::Error error = plan.mesh.verify())
    return error;
  if (llvm::Error error = checkLimits(plan, model, work))
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
  const int64_t samples[] = {work.globalBatch / plan.microBatches};
  const int64_t seq[] = {work.seqLen};
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
  if (work.globalBatch % plan.microBatches != 0)
    return makeError(llvm::formatv("global batch {0} is not divisible by {1} "
                                   "micro-batches",
                                   work.globalBatch, plan.microBatches));
  return check("batch", "samples of a micro-batch", samples[0], samples);
}
