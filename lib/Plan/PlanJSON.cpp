//===- PlanJSON.cpp - plan.json -------------------------------------------===//
//
// { "version": 1,
//   "mesh": [{"name": "dp", "size": 2}, {"name": "tp", "size": 4}],
//   "micro_batches": 2,
//   "dims": {"batch": ["dp"], "heads": ["tp"], "sequence": ["tp"], ...},
//   "keep": {"optimizer": ["dp"], "gradients": [], "parameters": []},
//   "recompute": ["norms", "activation"], "recompute_blocks": 4,
//   "pipeline": {"axis": "pp", "schedule": "1f1b", "virtual_stages": 1,
//                "layers": [5, 6, 6, 5]} }
//
//===----------------------------------------------------------------------===//
#include "cleave/Json/Json.h"
#include "cleave/Plan/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
namespace json = llvm::json;

static const llvm::StringRef dimNames[] = {
    "batch", "sequence", "vocab",    "hidden",
    "heads", "kv_heads", "head_dim", "intermediate"};

static constexpr int64_t maxCount = std::numeric_limits<int32_t>::max();

/// Dims that tensors have together: parameters, and the residual stream.
static const llvm::SmallVector<llvm::StringRef> dimsOfTensors[] = {
    {"vocab", "hidden"},
    {"hidden", "heads", "head_dim"},
    {"hidden", "kv_heads", "head_dim"},
    {"hidden", "intermediate"},
    {"batch", "sequence"}};

llvm::ArrayRef<llvm::StringRef> Plan::getModules() {
  static const llvm::StringRef modules[] = {"norms",  "qkv",     "attention",
                                            "output", "up",      "activation",
                                            "down",   "residual"};
  return modules;
}

std::string Plan::toJSON() const {
  auto names = [&](const AxisList &axes) {
    json::Array list;
    for (Axis axis : axes)
      list.push_back(mesh.getName(axis));
    return list;
  };
  json::Array meshAxes;
  for (const MeshAxis &axis : mesh.getAxes())
    meshAxes.push_back(json::Object{{"name", axis.name}, {"size", axis.size}});
  json::Object rules;
  for (const auto &[dim, axes] : dims)
    rules[dim] = names(axes);
  json::Object root{
      {"version", currentVersion},
      {"mesh", std::move(meshAxes)},
      {"micro_batches", microBatches},
      {"dims", std::move(rules)},
      {"keep", json::Object{{"optimizer", names(optimizerAxes)},
                            {"gradients", names(gradientAxes)},
                            {"parameters", names(parameterAxes)}}}};
  if (!recompute.empty())
    root["recompute"] = json::Array(recompute);
  if (recomputeBlocks > 0)
    root["recompute_blocks"] = recomputeBlocks;
  if (pipeline) {
    json::Object object{{"axis", mesh.getName(pipeline->axis)},
                        {"schedule", getName(pipeline->schedule)},
                        {"virtual_stages", pipeline->virtualStages}};
    if (!pipeline->layers.empty())
      object["layers"] = json::Array(pipeline->layers);
    if (pipeline->firstLayers != TrainLayout::even) {
      object["first_layers"] = pipeline->firstLayers;
      object["last_layers"] = pipeline->lastLayers;
    }
    root["pipeline"] = std::move(object);
  }
  return llvm::formatv("{0:2}\n", json::Value(std::move(root))).str();
}

namespace {
/// Reads one file; the first thing wrong with it is kept.
class PlanReader {
public:
  PlanReader(llvm::StringRef file) : file(file) {}

  llvm::Expected<Plan> read(const json::Value &root) {
    const json::Object *object = root.getAsObject();
    if (!object)
      return llvm::createStringError(file + ": expects an object");
    Plan plan;
    readTop(*object, plan);
    if (!problem.empty())
      return llvm::createStringError(file + ": " + problem);
    return plan;
  }

private:
  /// Keeps the first problem.
  void fail(const llvm::Twine &message) {
    if (problem.empty())
      problem = message.str();
  }

  void failAt(llvm::StringRef key, const json::Value &value,
              llvm::StringRef legal) {
    fail(llvm::formatv("key \"{0}\": got {1}, expects {2}", key, value, legal));
  }

  /// Refuses keys that nothing reads.
  void expectKeys(const json::Object &object, llvm::StringRef where,
                  llvm::ArrayRef<llvm::StringRef> legal) {
    for (const auto &entry : object)
      if (!llvm::is_contained(legal, llvm::StringRef(entry.first)))
        fail(llvm::formatv("unknown key \"{0}\" in {1}; legal keys are {2}",
                           llvm::StringRef(entry.first), where,
                           llvm::join(legal, ", ")));
  }

  int64_t readCount(const json::Object &object, llvm::StringRef key,
                    llvm::StringRef shown) {
    const json::Value *value = object.get(key);
    if (!value) {
      fail("missing key \"" + shown + "\"");
      return 1;
    }
    std::optional<int64_t> count = value->getAsInteger();
    if (count && *count >= 1 && *count <= maxCount)
      return *count;
    failAt(shown, *value,
           llvm::formatv("an integer in 1..{0}", maxCount).str());
    return 1;
  }

  /// The object under `key`, or null if there is none.
  const json::Object *readObject(const json::Object &root,
                                 llvm::StringRef key) {
    const json::Value *value = root.get(key);
    if (value && !value->getAsObject())
      failAt(key, *value, "an object");
    return value ? value->getAsObject() : nullptr;
  }

  /// An axis splits at most one of the dims that a tensor has.
  void checkTogether(const Plan &plan) {
    for (llvm::ArrayRef<llvm::StringRef> names : dimsOfTensors)
      for (size_t i = 0; i < names.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          for (Axis axis : plan.getAxes(names[i]))
            if (llvm::is_contained(plan.getAxes(names[j]), axis))
              fail(
                  llvm::formatv("key \"dims\": axis \"{0}\" splits both "
                                "\"{1}\" and \"{2}\" of one tensor, expects it "
                                "to split one of them",
                                plan.mesh.getName(axis), names[j], names[i]));
  }

  AxisList readAxes(const json::Value &value, llvm::StringRef key,
                    const Mesh &mesh) {
    AxisList axes;
    const json::Array *list = value.getAsArray();
    if (!list) {
      failAt(key, value, "a list of mesh axes");
      return axes;
    }
    for (const json::Value &entry : *list) {
      std::optional<llvm::StringRef> name = entry.getAsString();
      std::optional<Axis> axis;
      if (name)
        axis = mesh.getAxisIndex(*name);
      if (!axis)
        failAt(key, entry, "axes of the mesh " + mesh.toString());
      else if (llvm::is_contained(axes, *axis))
        failAt(key, entry, "each axis once");
      else
        axes.push_back(*axis);
    }
    return axes;
  }

  /// Whether IR and reports can show the name as it is.
  static bool isAxisName(llvm::StringRef name) {
    return !name.empty() && !llvm::isDigit(name[0]) &&
           llvm::all_of(name,
                        [](char c) { return llvm::isAlnum(c) || c == '_'; });
  }

  void readMesh(const json::Object &root, Plan &plan) {
    const json::Array *list = root.getArray("mesh");
    if (!list)
      return fail("key \"mesh\": expects a list of {\"name\", \"size\"}");
    llvm::SmallVector<MeshAxis> axes;
    for (const json::Value &entry : *list) {
      const json::Object *axis = entry.getAsObject();
      std::optional<llvm::StringRef> name =
          axis ? axis->getString("name") : std::nullopt;
      if (!name || !isAxisName(*name))
        return failAt("mesh", entry,
                      "{\"name\": letters, digits and _, \"size\": integer}");
      expectKeys(*axis, "mesh", {"name", "size"});
      axes.push_back({name->str(), readCount(*axis, "size", "mesh.size")});
    }
    plan.mesh = Mesh(axes);
    if (llvm::Error error = plan.mesh.verify())
      fail("key \"mesh\": " + llvm::toString(std::move(error)));
  }

  void readTop(const json::Object &root, Plan &plan) {
    expectKeys(root, "the plan",
               {"version", "mesh", "micro_batches", "dims", "keep", "recompute",
                "recompute_blocks", "pipeline"});
    if (readCount(root, "version", "version") != Plan::currentVersion)
      failAt("version", *root.get("version"),
             std::to_string(Plan::currentVersion));
    readMesh(root, plan);
    if (!problem.empty())
      return;
    if (root.get("micro_batches"))
      plan.microBatches = readCount(root, "micro_batches", "micro_batches");
    if (const json::Object *dims = readObject(root, "dims")) {
      expectKeys(*dims, "dims", dimNames);
      for (const auto &entry : *dims) {
        AxisList axes =
            readAxes(entry.second, llvm::StringRef(entry.first), plan.mesh);
        if (!axes.empty())
          plan.dims[llvm::StringRef(entry.first).str()] = axes;
      }
    }
    checkTogether(plan);
    if (const json::Object *keep = readObject(root, "keep")) {
      expectKeys(*keep, "keep", {"optimizer", "gradients", "parameters"});
      auto read = [&](llvm::StringRef key, AxisList &axes) {
        if (const json::Value *value = keep->get(key))
          axes = readAxes(*value, key, plan.mesh);
      };
      read("optimizer", plan.optimizerAxes);
      read("gradients", plan.gradientAxes);
      read("parameters", plan.parameterAxes);
    }
    readRecompute(root, plan);
    if (const json::Object *pipeline = readObject(root, "pipeline"))
      readPipeline(*pipeline, plan);
  }

  void readPipeline(const json::Object &object, Plan &plan) {
    expectKeys(object, "pipeline",
               {"axis", "schedule", "virtual_stages", "layers", "first_layers",
                "last_layers"});
    PipelinePlan &pipeline = plan.pipeline.emplace();
    const json::Value *given = object.get("axis");
    if (!given)
      return fail("missing key \"pipeline.axis\"");
    std::optional<llvm::StringRef> name = given->getAsString();
    std::optional<Axis> axis;
    if (name)
      axis = plan.mesh.getAxisIndex(*name);
    if (!axis)
      return failAt("pipeline.axis", *given,
                    "an axis of the mesh " + plan.mesh.toString());
    pipeline.axis = *axis;
    for (const auto &[dim, axes] : plan.dims)
      if (llvm::is_contained(axes, *axis))
        return fail("key \"dims\": \"" + dim + "\" is split along \"" + *name +
                    "\", the axis of the pipeline's stages");
    for (const AxisList *axes :
         {&plan.optimizerAxes, &plan.gradientAxes, &plan.parameterAxes})
      if (llvm::is_contained(*axes, *axis))
        return fail("key \"keep\": state is split along \"" + *name +
                    "\", the axis of the pipeline's stages");
    if (const json::Value *value = object.get("schedule")) {
      std::optional<llvm::StringRef> text = value->getAsString();
      std::optional<Schedule> schedule;
      if (text)
        schedule = findSchedule(*text);
      if (!schedule)
        return failAt("pipeline.schedule", *value, listSchedules());
      pipeline.schedule = *schedule;
    }
    if (object.get("virtual_stages"))
      pipeline.virtualStages =
          readCount(object, "virtual_stages", "pipeline.virtual_stages");
    bool hasFirst = object.get("first_layers"),
         hasLast = object.get("last_layers");
    if (hasFirst != hasLast || (hasFirst && object.get("layers")))
      return fail(llvm::formatv(
          "key \"pipeline\": got {0}, expects \"layers\", or both "
          "\"first_layers\" and \"last_layers\", or none of them",
          hasFirst == hasLast ? "\"layers\" and \"first_layers\""
          : hasFirst          ? "\"first_layers\""
                              : "\"last_layers\""));
    if (object.get("first_layers")) {
      auto read = [&](llvm::StringRef key) -> int64_t {
        const json::Value &value = *object.get(key);
        std::optional<int64_t> count = value.getAsInteger();
        if (count && *count >= 0 && *count <= maxCount)
          return *count;
        failAt(("pipeline." + key).str(), value, "a number of layers");
        return 0;
      };
      pipeline.firstLayers = read("first_layers");
      pipeline.lastLayers = read("last_layers");
    }
    if (const json::Value *value = object.get("layers")) {
      const json::Array *list = value->getAsArray();
      if (!list || list->empty())
        return failAt("pipeline.layers", *value, "a list of numbers of layers");
      for (const json::Value &entry : *list) {
        std::optional<int64_t> count = entry.getAsInteger();
        if (!count || *count < 0 || *count > maxCount)
          return failAt("pipeline.layers", entry, "a number of layers");
        pipeline.layers.push_back(*count);
      }
    }
  }

  void readRecompute(const json::Object &root, Plan &plan) {
    if (const json::Value *value = root.get("recompute")) {
      const json::Array *list = value->getAsArray();
      if (!list)
        return failAt("recompute", *value, "a list of modules of a layer");
      for (const json::Value &entry : *list) {
        std::optional<llvm::StringRef> name = entry.getAsString();
        if (!name ||
            (*name != "full" && !llvm::is_contained(Plan::getModules(), *name)))
          return failAt("recompute", entry,
                        "full, or of " + llvm::join(Plan::getModules(), ", "));
        plan.recompute.push_back(name->str());
      }
    }
    if (!root.get("recompute_blocks"))
      return;
    plan.recomputeBlocks =
        readCount(root, "recompute_blocks", "recompute_blocks");
    if (!root.get("recompute"))
      fail("missing key \"recompute\", of which \"recompute_blocks\" says how "
           "many layers do");
  }

  std::string file;
  std::string problem;
};
} // namespace

llvm::Expected<Plan> cleave::parsePlan(llvm::StringRef text,
                                       llvm::StringRef file) {
  llvm::Expected<json::Value> root = parseJson(text, file);
  if (!root)
    return root.takeError();
  return PlanReader(file).read(*root);
}

llvm::Expected<Plan> cleave::loadPlan(llvm::StringRef path) {
  llvm::Expected<json::Value> root = loadJson(path);
  if (!root)
    return root.takeError();
  return PlanReader(path).read(*root);
}
