//===- PlanFile.cpp - plan.json -------------------------------------------===//
//
// A layout, dim by dim (lib/Plan/PlanJSON.cpp) or by degrees,
//
// { "version": 2,
//   "layout": {"tp": 4, "dp": 2, "zero": 1, "micro_batch": 1, ...} }
//
// and with it, of `cleave plan -o`, what it is for and what was found (toJSON).
//
//===----------------------------------------------------------------------===//
#include "cleave/Search/PlanFile.h"
#include "Find.h"
#include "cleave/Json/Json.h"
#include "cleave/Search/Format.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <limits>
#include <map>

using namespace cleave;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// What a search was for, and what it found.
static constexpr llvm::StringLiteral plannedKeys[] = {"model",
                                                      "device",
                                                      "device_type",
                                                      "devices",
                                                      "profile",
                                                      "seq_len",
                                                      "global_batch",
                                                      "dtype",
                                                      "moments",
                                                      "step_time_s",
                                                      "time_s",
                                                      "mfu",
                                                      "tokens_per_s_per_device",
                                                      "memory_bytes",
                                                      "fits",
                                                      "search",
                                                      "top"};

/// The one of `names` that is under the key.
static size_t readName(JsonReader &reader, const json::Object &in,
                       llvm::StringRef key, const std::string &path,
                       llvm::ArrayRef<llvm::StringRef> names) {
  const json::Value *value = in.get(key);
  std::optional<llvm::StringRef> text =
      value ? value->getAsString() : std::nullopt;
  const auto *found = text ? llvm::find(names, *text) : names.end();
  if (found == names.end())
    reader.fail(path + key, "one of " + llvm::join(names, ", "), value);
  return found == names.end() ? 0 : size_t(found - names.begin());
}

/// Whether a text that messages repeat fits in a line of a terminal's.
static bool isLine(llvm::StringRef text) {
  return llvm::none_of(text, [](char c) { return c >= 0 && c < ' '; });
}

static std::string readLine(JsonReader &reader, const json::Object &in,
                            llvm::StringRef key) {
  std::string text = reader.getString(in, key, "");
  if (!isLine(text))
    reader.fail(key, "a text of one line", in.get(key));
  return text;
}

/// Pins or what is forbidden; there may be none.
static void readConstraints(JsonReader &reader, const json::Object &search,
                            bool forbids,
                            std::vector<Constraint> &constraints) {
  llvm::StringRef key = forbids ? "forbid" : "pin";
  const json::Value *value = search.get(key);
  if (!value)
    return;
  const json::Array *list = value->getAsArray();
  if (!list)
    return reader.fail("search." + key, "a list of texts", value);
  for (const json::Value &entry : *list) {
    std::optional<llvm::StringRef> text = entry.getAsString();
    if (!text || !isLine(*text))
      return reader.fail("search." + key, "a list of texts of one line",
                         &entry);
    llvm::Expected<Constraint> constraint = parseConstraint(*text, forbids);
    if (!constraint)
      return reader.fail("search." + key,
                         llvm::toString(constraint.takeError()), &entry);
    constraints.push_back(*constraint);
  }
}

static Planned readPlanned(JsonReader &reader, const json::Object &root) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  constexpr double least = std::numeric_limits<double>::min(),
                   largest = std::numeric_limits<double>::max();
  auto count = [&](llvm::StringRef key) {
    return reader.getCount(root, key, "", 1, most);
  };
  Planned planned;
  planned.model = readLine(reader, root, "model");
  planned.device = readLine(reader, root, "device");
  // For who reads the plan; what is compiled goes by --cluster.
  readName(reader, root, "device_type", "", {"gpu", "cpu"});
  planned.profile = readLine(reader, root, "profile");
  planned.devices = count("devices");
  llvm::SmallVector<llvm::StringRef> types, objectives;
  for (size_t i = 0; i != numDTypes; ++i)
    types.push_back(getName(DType(i)));
  for (int i = 0; i != numObjectives; ++i)
    objectives.push_back(getName(Objective(i)));
  planned.work = {count("seq_len"), count("global_batch"),
                  DType(readName(reader, root, "dtype", "", types))};
  if (root.get("moments"))
    planned.work.moments =
        readName(reader, root, "moments", "", {"f32", "bf16"}) == 0
            ? DType::F32
            : DType::BF16;
  planned.step = reader.getNumber(root, "step_time_s", "", least, largest);
  const json::Object &search = reader.getObject(root, "search", "");
  const std::string path = "search.";
  planned.objective =
      Objective(readName(reader, search, "objective", path, objectives));
  planned.value = reader.getNumber(search, "value", path, least, largest);
  planned.memoryLimit =
      reader.getNumber(search, "memory_limit", path, least, largest, 0);
  for (bool forbids : {false, true})
    readConstraints(reader, search, forbids, planned.constraints);
  return planned;
}

/// By degrees: those that are not said are 1, as on a command line.
static TrainLayout readDegrees(JsonReader &reader, const json::Object &root) {
  llvm::Expected<TrainLayout> layout =
      readLayout(reader.getObject(root, "layout", ""));
  if (!layout) {
    reader.fail(llvm::createStringError(
        reader.getFile() +
        ": key \"layout\": " + llvm::toString(layout.takeError())));
    return {};
  }
  layout->dp = std::max<int64_t>(layout->dp, 1);
  return *layout;
}

static PlanFile readFile(JsonReader &reader, const json::Object &root) {
  llvm::SmallVector<llvm::StringRef> keys{"version", "cleave", "layout"};
  llvm::append_range(keys, getPlanKeys());
  llvm::append_range(keys, plannedKeys);
  reader.checkVersion(root, Plan::currentVersion);
  reader.checkKeys(root, "", keys);
  PlanFile file;
  file.name = reader.getFile().str();
  if (root.get("layout")) {
    for (llvm::StringRef key : getPlanKeys())
      if (root.get(key))
        reader.fail(llvm::createStringError(
            file.name + ": key \"" + key +
            "\": excludes \"layout\", which says all of the layout"));
    file.layout = readDegrees(reader, root);
  } else {
    file.layout = readPlan(reader, root);
  }
  if (llvm::any_of(plannedKeys,
                   [&](llvm::StringRef key) { return root.get(key); }))
    file.planned = readPlanned(reader, root);
  return file;
}

llvm::Expected<PlanFile> cleave::parsePlanFile(llvm::StringRef text,
                                               llvm::StringRef name) {
  llvm::Expected<json::Object> root = parseJsonObject(text, name);
  if (!root)
    return root.takeError();
  JsonReader reader(name);
  PlanFile file = readFile(reader, *root);
  if (llvm::Error error = reader.takeError())
    return error;
  return file;
}

llvm::Expected<PlanFile> cleave::loadPlanFile(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = loadText(path);
  if (!text)
    return text.takeError();
  return parsePlanFile((*text)->getBuffer(), path);
}

//===----------------------------------------------------------------------===//
// What a search was for
//===----------------------------------------------------------------------===//

llvm::Expected<Planned> cleave::getPlanned(const PlanFile &file) {
  if (file.planned)
    return *file.planned;
  return llvm::createStringError(
      file.name + ": key \"search\": expects what a search found, but it is "
                  "missing; cleave plan -o writes it");
}

static llvm::Error differ(const PlanFile &file, const llvm::Twine &what,
                          const llvm::Twine &theirs, const llvm::Twine &ours) {
  return llvm::createStringError(file.name + ": the plan is for " + what + " " +
                                 theirs + ", not " + ours);
}

static llvm::Error checkModel(const PlanFile &file, llvm::StringRef model) {
  if (!file.planned || file.planned->model == model)
    return llvm::Error::success();
  return differ(file, "a model of type", "\"" + file.planned->model + "\"",
                "\"" + model + "\"");
}

llvm::Error cleave::checkDevices(const PlanFile &file, const Machine &machine) {
  if (!file.planned)
    return llvm::Error::success();
  const Planned &planned = *file.planned;
  if (planned.device != machine.device.name)
    return differ(file, "devices", "\"" + planned.device + "\"",
                  "\"" + machine.device.name + "\"");
  if (planned.devices != machine.devices)
    return llvm::createStringError(llvm::formatv(
        "{0}: the plan is for {1}, not {2}", file.name,
        formatNumber(planned.devices, "device"), machine.devices));
  return llvm::Error::success();
}

static llvm::Error checkWork(const PlanFile &file, const Workload &work) {
  if (!file.planned)
    return llvm::Error::success();
  const Workload &planned = file.planned->work;
  if (planned.dtype != work.dtype)
    return differ(file, "--dtype", getName(planned.dtype), getName(work.dtype));
  if (planned.moments != work.moments)
    return differ(file, "--moments", getName(planned.moments),
                  getName(work.moments));
  for (auto [flag, theirs, ours] :
       {std::tuple("--seq-len", planned.seqLen, work.seqLen),
        {"--global-batch", planned.globalBatch, work.globalBatch}})
    if (theirs != ours)
      return differ(file, flag, llvm::Twine(theirs), llvm::Twine(ours));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Its price
//===----------------------------------------------------------------------===//

static bool dividesDevices(const TrainLayout &layout, const Machine &machine) {
  double devices =
      double(layout.tp) * layout.cp * double(layout.dp) * layout.pp;
  return devices <= double(machine.devices) &&
         machine.devices % int64_t(devices) == 0;
}

/// Fails if what was found is not what the candidate is.
static llvm::Error checkFound(const PlanFile &file,
                              const Candidate &candidate) {
  const Planned &planned = *file.planned;
  auto differ = [&](Objective objective, double theirs, double ours) {
    static constexpr llvm::StringLiteral verbs[] = {"takes", "needs", "costs"};
    return llvm::createStringError(
        file.name + ": the plan's step " + verbs[size_t(objective)] + " " +
        formatValue(objective, theirs) + ", this model on this cluster " +
        formatValue(objective, ours) +
        "; it is of other sizes, or of another version of cleave");
  };
  auto isNear = [](double a, double b) { return std::abs(a / b - 1) <= 1e-9; };
  if (!isNear(candidate.estimate.step, planned.step))
    return differ(Objective::Time, planned.step, candidate.estimate.step);
  if (!isNear(candidate.value, planned.value))
    return differ(planned.objective, planned.value, candidate.value);
  return llvm::Error::success();
}

llvm::Expected<Candidate> cleave::price(const PlanFile &file,
                                        const PlanContext &context) {
  const SearchRequest &request = context.request;
  const std::optional<Planned> &planned = file.planned;
  if (llvm::Error error = checkModel(file, context.model.name))
    return error;
  if (llvm::Error error = checkDevices(file, context.machine))
    return error;
  if (planned && planned->profile != request.profile.name)
    return differ(file, "profile", "\"" + planned->profile + "\"",
                  "\"" + request.profile.name + "\"");
  if (llvm::Error error = checkWork(file, request.work))
    return error;
  bool isByDegrees = std::holds_alternative<TrainLayout>(file.layout);
  llvm::Expected<TrainLayout> layout =
      isByDegrees ? std::get<TrainLayout>(file.layout)
                  : getPricedLayout(std::get<Plan>(file.layout), file.name,
                                    request.work, context.model.getNumBlocks());
  if (!layout)
    return layout.takeError();
  completeLayout(*layout, request.work);
  // The cheapest may use a part of the devices.
  Objective objective = planned ? planned->objective : Objective::Time;
  Machine used = context.machine;
  if (objective == Objective::Cost && dividesDevices(*layout, used))
    used = resize(used, layout->getDevices());
  std::string wrong = checkLayout(context.model, used, request.work, *layout);
  if (!wrong.empty())
    return llvm::createStringError(
        file.name + ": " + (isByDegrees ? "key \"layout\": " : "") + wrong);
  CostModel costs(context.model, used, request.work, request.profile);
  Candidate candidate{*layout, costs.price(*layout), 0};
  candidate.value =
      getValue(objective, context.machine.device, *layout, candidate.estimate);
  if (planned)
    if (llvm::Error error = checkFound(file, candidate))
      return error;
  return candidate;
}

//===----------------------------------------------------------------------===//
// What can be compiled
//===----------------------------------------------------------------------===//

std::vector<Constraint> cleave::getRunnable() {
  std::vector<Constraint> constraints;
  for (const char *text : {"cp=1", "ep=1"})
    constraints.push_back(
        llvm::cantFail(parseConstraint(text, /*forbids=*/false)));
  return constraints;
}

/// What programs repeat, as the planner and as plans call it.
static constexpr std::pair<unsigned, llvm::StringLiteral> recomputeNames[] = {
    {recomputeNorms, "norms"},           {recomputeAttention, "attention"},
    {recomputeOutput, "output"},         {recomputeUp, "up"},
    {recomputeActivation, "activation"}, {recomputeDown, "down"}};

/// The other way about, where the planner has a price for it.
static llvm::Error readRecompute(TrainLayout &layout, const Plan &plan,
                                 llvm::StringRef file) {
  layout.recompute = Recompute::None;
  layout.recomputeBlocks = plan.recomputeBlocks;
  if (plan.recompute.empty())
    return llvm::Error::success();
  layout.recompute = Recompute::Selective;
  layout.recomputedModules = 0;
  for (const std::string &name : plan.recompute) {
    if (name == "full") {
      layout.recompute = Recompute::Full;
      layout.recomputedModules = TrainLayout().recomputedModules;
      return llvm::Error::success();
    }
    auto known = llvm::find_if(
        recomputeNames, [&](const auto &each) { return each.second == name; });
    if (known == std::end(recomputeNames))
      return llvm::createStringError(
          llvm::formatv("{0}: key \"recompute\": \"{1}\" has no price; expects "
                        "full, or of norms, attention, output, up, activation, "
                        "down",
                        file, name));
    layout.recomputedModules |= known->first;
  }
  return llvm::Error::success();
}

llvm::Error cleave::setRecompute(Plan &plan, const TrainLayout &layout) {
  plan.recompute.clear();
  plan.recomputeBlocks = layout.recomputeBlocks;
  if (layout.recompute == Recompute::None)
    return layout.recomputeBlocks == 0
               ? llvm::Error::success()
               : llvm::createStringError(
                     "recompute-blocks %lld: nothing recomputes",
                     (long long)layout.recomputeBlocks);
  if (layout.recompute == Recompute::Full) {
    plan.recompute = {"full"};
    return llvm::Error::success();
  }
  unsigned left = layout.recomputedModules;
  // Of what is pointwise, no compiled model has experts.
  if ((left & recomputePointwise) == recomputePointwise)
    left &= ~unsigned(recomputeExpertActivation);
  for (auto [bit, name] : recomputeNames)
    if (left & bit) {
      plan.recompute.push_back(name.str());
      left &= ~bit;
    }
  if (left == 0)
    return llvm::Error::success();
  TrainLayout rest = layout;
  rest.recomputedModules = left;
  return llvm::createStringError(
      "recompute-modules " + getFieldText(rest, "recompute-modules") +
      ": programs repeat norms, attention, output, up, activation, down");
}

llvm::Expected<Plan> cleave::getPlan(const PlanFile &file,
                                     llvm::StringRef model,
                                     const Workload &work) {
  if (!model.empty())
    if (llvm::Error error = checkModel(file, model))
      return error;
  if (llvm::Error error = checkWork(file, work))
    return error;
  if (const Plan *plan = std::get_if<Plan>(&file.layout))
    return *plan;
  const TrainLayout &layout = std::get<TrainLayout>(file.layout);
  const std::string where = file.name + ": key \"layout\": ";
  for (const Constraint &constraint : getRunnable())
    if (!constraint.allows(getField(layout, constraint.field)))
      return llvm::createStringError(llvm::formatv(
          "{0}{1} {2}: what is compiled has {3} so far; cleave plan --runnable "
          "plans for it",
          where, constraint.field, getFieldText(layout, constraint.field),
          constraint.text));
  llvm::Expected<Plan> plan = makePlan(layout, work);
  llvm::Error error = plan ? setRecompute(*plan, layout) : plan.takeError();
  if (error)
    return llvm::createStringError(where + llvm::toString(std::move(error)));
  return plan;
}

//===----------------------------------------------------------------------===//
// What compiles, as the planner knows it
//===----------------------------------------------------------------------===//

/// How many ways dims are cut, by name, and what is kept: over the data axes,
/// which are those of the batch, and over all others.
static std::map<std::string, std::pair<int64_t, int64_t>>
getCuts(const Plan &plan) {
  std::map<std::string, std::pair<int64_t, int64_t>> cuts;
  AxisList data = plan.getAxes("batch");
  auto add = [&](const std::string &what, const AxisList &axes) {
    AxisList both, other;
    for (Axis axis : axes)
      (llvm::is_contained(data, axis) ? both : other).push_back(axis);
    if (plan.mesh.getSize(axes) > 1)
      cuts[what] = {plan.mesh.getSize(both), plan.mesh.getSize(other)};
  };
  for (const auto &[dim, axes] : plan.dims)
    add(dim, axes);
  add("kept optimizer", plan.optimizerAxes);
  add("kept gradients", plan.gradientAxes);
  add("kept parameters", plan.parameterAxes);
  return cuts;
}

/// Whether two plans cut and keep alike, order their axes alike, and have the
/// same stages of `layers` layers.
static bool areAlike(const Plan &a, const Plan &b, int64_t layers) {
  // What the axes are of, from the outermost on: stages, data, others.
  auto getSizes = [](const Plan &plan) {
    std::vector<std::pair<int, int64_t>> sizes;
    for (auto [axis, each] : llvm::enumerate(plan.mesh.getAxes())) {
      bool isStage = plan.pipeline && plan.pipeline->axis == Axis(axis);
      bool isData = llvm::is_contained(plan.getAxes("batch"), Axis(axis));
      if (each.size > 1)
        sizes.push_back({isStage ? 0 : isData ? 1 : 2, each.size});
    }
    return sizes;
  };
  if (getCuts(a) != getCuts(b) || getSizes(a) != getSizes(b) ||
      a.pipeline.has_value() != b.pipeline.has_value())
    return false;
  return !a.pipeline ||
         (a.pipeline->schedule == b.pipeline->schedule &&
          a.pipeline->virtualStages == b.pipeline->virtualStages &&
          a.getStageLayers(layers) == b.getStageLayers(layers));
}

llvm::Expected<TrainLayout> cleave::getPricedLayout(const Plan &plan,
                                                    llvm::StringRef file,
                                                    const Workload &work,
                                                    int64_t layers) {
  AxisList data = plan.getAxes("batch");
  TrainLayout layout;
  layout.dp = plan.mesh.getSize(data);
  layout.pp = plan.getNumStages();
  layout.tp = plan.mesh.getNumRanks() / (layout.dp * layout.pp);
  if (work.globalBatch % (layout.dp * plan.microBatches) != 0)
    return llvm::createStringError(llvm::formatv(
        "{0}: the global batch {1} is not divisible by its {2} of {3}", file,
        work.globalBatch, formatNumber(plan.microBatches, "micro-batch"),
        formatNumber(layout.dp, "rank")));
  layout.microBatch = work.globalBatch / (layout.dp * plan.microBatches);
  if (plan.pipeline) {
    layout.schedule = plan.pipeline->schedule;
    layout.virtualStages = plan.pipeline->virtualStages;
    std::vector<int64_t> cut = plan.getStageLayers(layers);
    TrainLayout even = layout;
    for (size_t i = 0; i < cut.size(); ++i)
      if (cut[i] != even.getNumBlocks(int64_t(i), layers)) {
        layout.firstBlocks = cut.front();
        layout.lastBlocks = cut.back();
      }
  }
  if (llvm::Error error = readRecompute(layout, plan, file))
    return error;
  int64_t inner = data.empty() ? 1 : plan.mesh.getAxes()[data.back()].size;
  for (int64_t group : {int64_t(0), inner})
    for (AxisOrder order :
         {AxisOrder::ContextDataPipeline, AxisOrder::ContextPipelineData})
      for (int zero = 0; zero <= 3; ++zero)
        for (bool sequenceParallel : {false, true}) {
          layout.zeroGroup = group;
          layout.order = order;
          layout.zero = zero;
          layout.sequenceParallel = sequenceParallel;
          llvm::Expected<Plan> made = makePlan(layout, work);
          if (!made)
            return made.takeError();
          if (areAlike(*made, plan, layers))
            return layout;
        }
  return llvm::createStringError(
      file + ": keys \"mesh\", \"dims\" and \"keep\": only what the "
             "layout flags of cleave compile give has a price");
}
