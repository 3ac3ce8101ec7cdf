//===- ReadPlan.cpp - A plan file, read again -----------------------------===//
#include "cleave/Search/ReadPlan.h"
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

namespace {
/// Reads keys of a plan; the first that is wrong is the error.
class Reader {
public:
  explicit Reader(llvm::StringRef file) : file(file) {}

  void fail(llvm::StringRef key, const llvm::Twine &reason) {
    if (message.empty())
      message = (file + ": key \"" + key + "\": " + reason).str();
  }

  std::string getString(const json::Object &in, llvm::StringRef key) {
    std::optional<llvm::StringRef> text = in.getString(key);
    if (!text || !isLine(*text))
      fail(key, "expects a string of one line");
    return text.value_or("").str();
  }

  int64_t getCount(const json::Object &in, llvm::StringRef key) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    std::optional<int64_t> count = in.getInteger(key);
    if (count && *count >= 1 && *count <= most)
      return *count;
    fail(key, llvm::formatv("expects a whole number from 1 to {0}", most));
    return 1;
  }

  double getPositive(const json::Object &in, llvm::StringRef key) {
    std::optional<double> number = in.getNumber(key);
    if (!number || !(*number > 0))
      fail(key, "expects a positive number");
    return number.value_or(1);
  }

  const json::Object &getObject(const json::Object &in, llvm::StringRef key) {
    static const json::Object empty;
    if (const json::Object *object = in.getObject(key))
      return *object;
    fail(key, "expects an object");
    return empty;
  }

  /// Pins or what is forbidden; there may be none.
  void getConstraints(const json::Object &in, bool forbids,
                      std::vector<Constraint> &constraints) {
    llvm::StringRef key = forbids ? "forbid" : "pin";
    const json::Value *value = in.get(key);
    if (!value)
      return;
    const json::Array *array = value->getAsArray();
    if (!array)
      return fail(key, "expects an array of strings");
    for (const json::Value &entry : *array) {
      std::optional<llvm::StringRef> text = entry.getAsString();
      if (!text || !isLine(*text))
        return fail(key, "expects an array of strings of one line");
      llvm::Expected<Constraint> constraint = parseConstraint(*text, forbids);
      if (!constraint)
        return fail(key, llvm::toString(constraint.takeError()));
      constraints.push_back(*constraint);
    }
  }

  llvm::Error takeError() const {
    if (message.empty())
      return llvm::Error::success();
    return llvm::createStringError(message);
  }

private:
  /// What a message repeats fits a line of a terminal's.
  static bool isLine(llvm::StringRef text) {
    return llvm::none_of(text, [](char c) { return c >= 0 && c < ' '; });
  }

  llvm::StringRef file;
  std::string message;
};
} // namespace

static DType readType(Reader &reader, const json::Object &in) {
  std::string name = reader.getString(in, "dtype");
  for (size_t i = 0; i != numDTypes; ++i)
    if (name == getName(DType(i)))
      return DType(i);
  reader.fail("dtype", "unknown type \"" + name + "\"");
  return DType::BF16;
}

static Objective readObjective(Reader &reader, const json::Object &in) {
  std::string name = reader.getString(in, "objective");
  std::vector<llvm::StringRef> names;
  for (int i = 0; i != numObjectives; ++i) {
    names.push_back(getName(Objective(i)));
    if (name == names.back())
      return Objective(i);
  }
  reader.fail("objective", "expects one of " + llvm::join(names, ", ") +
                               ", got \"" + name + "\"");
  return Objective::Time;
}

llvm::Expected<SavedPlan> cleave::readPlan(llvm::StringRef text,
                                           llvm::StringRef file) {
  llvm::Expected<json::Object> object = parseJsonObject(text, file);
  if (!object)
    return object.takeError();
  Reader reader(file);
  if (object->getInteger("version") != 1)
    reader.fail("version", "expects 1, the version that cleave plan writes");
  SavedPlan plan;
  plan.file = file.str();
  plan.model = reader.getString(*object, "model");
  plan.device = reader.getString(*object, "device");
  std::string type = reader.getString(*object, "device_type");
  plan.isForCPUs = type == "cpu";
  if (!plan.isForCPUs && type != "gpu")
    reader.fail("device_type", "expects \"cpu\" or \"gpu\"");
  plan.profile = reader.getString(*object, "profile");
  plan.devices = reader.getCount(*object, "devices");
  plan.work = {reader.getCount(*object, "seq_len"),
               reader.getCount(*object, "global_batch"),
               readType(reader, *object)};
  plan.step = reader.getPositive(*object, "step_time_s");
  const json::Object &search = reader.getObject(*object, "search");
  plan.objective = readObjective(reader, search);
  plan.value = reader.getPositive(search, "value");
  if (search.get("memory_limit"))
    plan.memoryLimit = reader.getPositive(search, "memory_limit");
  for (bool forbids : {false, true})
    reader.getConstraints(search, forbids, plan.constraints);
  Machine counted;
  counted.devices = plan.devices;
  llvm::Expected<TrainLayout> layout =
      readLayout(reader.getObject(*object, "layout"), counted, plan.work);
  if (layout)
    plan.layout = *layout;
  else
    reader.fail("layout", llvm::toString(layout.takeError()));
  if (llvm::Error error = reader.takeError())
    return error;
  return plan;
}

static llvm::Error differ(const SavedPlan &plan, const llvm::Twine &what,
                          const llvm::Twine &theirs, const llvm::Twine &ours) {
  return llvm::createStringError(plan.file + ": the plan is for " + what + " " +
                                 theirs + ", not " + ours);
}

llvm::Error cleave::checkDevices(const SavedPlan &plan,
                                 const Machine &machine) {
  if (plan.device != machine.device.name)
    return differ(plan, "devices", "\"" + plan.device + "\"",
                  "\"" + machine.device.name + "\"");
  if (plan.devices != machine.devices)
    return llvm::createStringError(
        llvm::formatv("{0}: the plan is for {1}, not {2}", plan.file,
                      formatNumber(plan.devices, "device"), machine.devices));
  return llvm::Error::success();
}

llvm::Error cleave::checkWork(const SavedPlan &plan, const Workload &work) {
  if (plan.work.dtype != work.dtype)
    return differ(plan, "--dtype", getName(plan.work.dtype),
                  getName(work.dtype));
  for (auto [flag, theirs, ours] :
       {std::tuple("--seq-len", plan.work.seqLen, work.seqLen),
        {"--global-batch", plan.work.globalBatch, work.globalBatch}})
    if (theirs != ours)
      return differ(plan, flag, llvm::Twine(theirs), llvm::Twine(ours));
  return llvm::Error::success();
}

static bool dividesDevices(const TrainLayout &layout, const Machine &machine) {
  double devices =
      double(layout.tp) * layout.cp * double(layout.dp) * layout.pp;
  return devices <= double(machine.devices) &&
         machine.devices % int64_t(devices) == 0;
}

llvm::Expected<Candidate> cleave::priceAgain(const SavedPlan &plan,
                                             const PlanContext &context) {
  const SearchRequest &request = context.request;
  const Device &device = context.machine.device;
  if (plan.model != context.model.name)
    return differ(plan, "a model of type", "\"" + plan.model + "\"",
                  "\"" + context.model.name + "\"");
  if (llvm::Error error = checkDevices(plan, context.machine))
    return error;
  if (plan.profile != request.profile.name)
    return differ(plan, "profile", "\"" + plan.profile + "\"",
                  "\"" + request.profile.name + "\"");
  if (llvm::Error error = checkWork(plan, request.work))
    return error;
  // The cheapest may use a part of the devices.
  Machine used = context.machine;
  if (plan.objective == Objective::Cost && dividesDevices(plan.layout, used))
    used = resize(used, plan.layout.getDevices());
  std::string wrong =
      checkLayout(context.model, used, request.work, plan.layout);
  if (!wrong.empty())
    return llvm::createStringError(plan.file + ": key \"layout\": " + wrong);
  CostModel costs(context.model, used, request.work, request.profile);
  Candidate candidate{plan.layout, costs.price(plan.layout), 0};
  candidate.value =
      getValue(plan.objective, device, plan.layout, candidate.estimate);
  auto differ = [&](Objective objective, double theirs, double ours) {
    static constexpr llvm::StringLiteral verbs[] = {"takes", "needs", "costs"};
    return llvm::createStringError(
        plan.file + ": the plan's step " + verbs[size_t(objective)] + " " +
        formatValue(objective, theirs) + ", this model on this cluster " +
        formatValue(objective, ours) +
        "; it is of other sizes, or of another version of cleave");
  };
  auto isNear = [](double a, double b) { return std::abs(a / b - 1) <= 1e-9; };
  if (!isNear(candidate.estimate.step, plan.step))
    return differ(Objective::Time, plan.step, candidate.estimate.step);
  if (!isNear(candidate.value, plan.value))
    return differ(plan.objective, plan.value, candidate.value);
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

llvm::Expected<Plan> cleave::getRunnablePlan(const SavedPlan &plan,
                                             llvm::StringRef model,
                                             const BatchShape &batch,
                                             DType dtype) {
  const TrainLayout &from = plan.layout;
  if (!model.empty() && plan.model != model)
    return differ(plan, "a model of type", "\"" + plan.model + "\"",
                  "\"" + model + "\"");
  if (!plan.isForCPUs)
    return llvm::createStringError(
        plan.file + ": the plan is for devices \"" + plan.device +
        "\"; programs are compiled for CPUs so far: expects a plan for "
        "--cluster local:N or a cluster.json of CPUs");
  if (llvm::Error error =
          checkWork(plan, {batch.seqLen, batch.globalBatch, dtype}))
    return error;
  if (batch.microBatch > 0 && batch.microBatch != from.microBatch)
    return differ(plan, "--micro-batch", llvm::Twine(from.microBatch),
                  llvm::Twine(batch.microBatch));
  for (const Constraint &constraint : getRunnable())
    if (!constraint.allows(getField(from, constraint.field)))
      return llvm::createStringError(
          llvm::formatv("{0}: key \"layout\": {1} {2}: what is compiled has "
                        "{3} so far; cleave plan --runnable plans for it",
                        plan.file, constraint.field,
                        getFieldText(from, constraint.field), constraint.text));
  BatchShape shape = batch;
  shape.microBatch = from.microBatch;
  llvm::Expected<Plan> made = makePlan(from, shape);
  if (!made)
    return made;
  if (llvm::Error error = setRecompute(*made, from))
    return llvm::createStringError(
        plan.file + ": key \"layout\": " + llvm::toString(std::move(error)));
  return made;
}

llvm::Expected<AnyPlan> cleave::readAnyPlan(llvm::StringRef text,
                                            llvm::StringRef file) {
  llvm::Expected<json::Value> root = parseJson(text, file);
  if (!root)
    return root.takeError();
  const json::Object *object = root->getAsObject();
  if (object && object->get("search"))
    return readPlan(text, file);
  return parsePlan(text, file);
}

llvm::Expected<Plan> cleave::loadAnyPlan(llvm::StringRef path,
                                         llvm::StringRef model,
                                         const BatchShape &batch, DType dtype) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = loadText(path);
  if (!text)
    return text.takeError();
  llvm::Expected<AnyPlan> any = readAnyPlan((*text)->getBuffer(), path);
  if (!any)
    return any.takeError();
  if (Plan *plan = std::get_if<Plan>(&*any))
    return std::move(*plan);
  return getRunnablePlan(std::get<SavedPlan>(*any), model, batch, dtype);
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
  BatchShape batch{work.seqLen, work.globalBatch, layout.microBatch};
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
          llvm::Expected<Plan> made = makePlan(layout, batch);
          if (!made)
            return made.takeError();
          if (areAlike(*made, plan, layers))
            return layout;
        }
  return llvm::createStringError(
      file + ": keys \"mesh\", \"dims\" and \"keep\": only what the "
             "layout flags of cleave compile give has a price");
}
