//===- PlanJSON.cpp - plan.json -------------------------------------------===//
//
// What is here of it is a layout said dim by dim; by degrees, and what a search
// found, it is lib/Search's.
//
// { "version": 2,
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

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Reads the keys of a layout.
class PlanReader {
public:
  PlanReader(JsonReader &reader, const json::Object &root)
      : reader(reader), root(root) {}

  Plan read() {
    readMesh();
    // The axes that other keys name.
    if (reader.hasFailed())
      return plan;
    plan.microBatches =
        reader.getCount(root, "micro_batches", "", 1, maxCount, 1);
    readDims();
    readKept();
    readRecompute();
    if (root.get("pipeline"))
      readPipeline(reader.getObject(root, "pipeline", ""));
    return std::move(plan);
  }

private:
  /// An axis splits at most one of the dims that a tensor has.
  void checkTogether() {
    for (llvm::ArrayRef<llvm::StringRef> names : dimsOfTensors)
      for (size_t i = 0; i < names.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          for (Axis axis : plan.getAxes(names[i]))
            if (llvm::is_contained(plan.getAxes(names[j]), axis))
              reader.fail(llvm::createStringError(llvm::formatv(
                  "{0}: key \"dims\": axis \"{1}\" splits both \"{2}\" and "
                  "\"{3}\" of one tensor, expects it to split one of them",
                  reader.getFile(), plan.mesh.getName(axis), names[j],
                  names[i])));
  }

  std::optional<Axis> findAxis(const json::Value &value) const {
    std::optional<llvm::StringRef> name = value.getAsString();
    return name ? plan.mesh.getAxisIndex(*name) : std::nullopt;
  }

  /// The axes under a key, none if it is absent.
  AxisList readAxes(const json::Object &in, llvm::StringRef key,
                    const std::string &path) {
    AxisList axes;
    const json::Value *value = in.get(key);
    if (!value)
      return axes;
    const json::Array *list = value->getAsArray();
    if (!list) {
      reader.fail(path + key, "a list of mesh axes", value);
      return axes;
    }
    for (const json::Value &entry : *list) {
      std::optional<Axis> axis = findAxis(entry);
      if (!axis)
        reader.fail(path + key, "axes of the mesh " + plan.mesh.toString(),
                    &entry);
      else if (llvm::is_contained(axes, *axis))
        reader.fail(path + key, "each axis once", &entry);
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

  void readMesh() {
    const json::Array *list = root.getArray("mesh");
    if (!list)
      return reader.fail("mesh", "a list of {\"name\", \"size\"}",
                         root.get("mesh"));
    llvm::SmallVector<MeshAxis> axes;
    for (const json::Value &entry : *list) {
      const json::Object *axis = entry.getAsObject();
      std::optional<llvm::StringRef> name =
          axis ? axis->getString("name") : std::nullopt;
      if (!name || !isAxisName(*name))
        return reader.fail(
            "mesh", "{\"name\": letters, digits and _, \"size\": integer}",
            &entry);
      reader.checkKeys(*axis, "mesh.", {"name", "size"});
      axes.push_back(
          {name->str(), reader.getCount(*axis, "size", "mesh.", 1, maxCount)});
    }
    plan.mesh = Mesh(axes);
    if (llvm::Error error = plan.mesh.verify())
      reader.fail(llvm::createStringError(
          reader.getFile() +
          ": key \"mesh\": " + llvm::toString(std::move(error))));
  }

  void readDims() {
    if (!root.get("dims"))
      return;
    const json::Object &dims = reader.getObject(root, "dims", "");
    reader.checkKeys(dims, "dims.", dimNames);
    for (llvm::StringRef name : dimNames)
      if (AxisList axes = readAxes(dims, name, "dims."); !axes.empty())
        plan.dims[name.str()] = axes;
    checkTogether();
  }

  void readKept() {
    if (!root.get("keep"))
      return;
    const json::Object &keep = reader.getObject(root, "keep", "");
    reader.checkKeys(keep, "keep.", {"optimizer", "gradients", "parameters"});
    plan.optimizerAxes = readAxes(keep, "optimizer", "keep.");
    plan.gradientAxes = readAxes(keep, "gradients", "keep.");
    plan.parameterAxes = readAxes(keep, "parameters", "keep.");
  }

  void readRecompute() {
    if (const json::Value *value = root.get("recompute")) {
      const json::Array *list = value->getAsArray();
      if (!list)
        return reader.fail("recompute", "a list of modules of a layer", value);
      for (const json::Value &entry : *list) {
        std::optional<llvm::StringRef> name = entry.getAsString();
        if (!name ||
            (*name != "full" && !llvm::is_contained(Plan::getModules(), *name)))
          return reader.fail(
              "recompute",
              "full, or of " + llvm::join(Plan::getModules(), ", "), &entry);
        plan.recompute.push_back(name->str());
      }
    }
    if (!root.get("recompute_blocks"))
      return;
    plan.recomputeBlocks =
        reader.getCount(root, "recompute_blocks", "", 1, maxCount);
    if (!root.get("recompute"))
      reader.fail("recompute",
                  "what \"recompute_blocks\" says of how many layers", nullptr);
  }

  /// Stages are no split of a tensor, and nothing is kept along them.
  void checkStages(llvm::StringRef name) {
    Axis stages = plan.pipeline->axis;
    auto refuse = [&](llvm::StringRef key, const llvm::Twine &what) {
      reader.fail(llvm::createStringError(
          llvm::formatv("{0}: key \"{1}\": {2} split along \"{3}\", the axis "
                        "of the pipeline's stages",
                        reader.getFile(), key, what.str(), name)));
    };
    for (const auto &[dim, axes] : plan.dims)
      if (llvm::is_contained(axes, stages))
        refuse("dims", "\"" + dim + "\" is");
    for (const AxisList *axes :
         {&plan.optimizerAxes, &plan.gradientAxes, &plan.parameterAxes})
      if (llvm::is_contained(*axes, stages))
        refuse("keep", "state is");
  }

  void readPipeline(const json::Object &object) {
    const std::string path = "pipeline.";
    reader.checkKeys(object, path,
                     {"axis", "schedule", "virtual_stages", "layers",
                      "first_layers", "last_layers"});
    PipelinePlan &pipeline = plan.pipeline.emplace();
    const json::Value *given = object.get("axis");
    std::optional<Axis> axis = given ? findAxis(*given) : std::nullopt;
    if (!axis)
      return reader.fail(path + "axis",
                         "an axis of the mesh " + plan.mesh.toString(), given);
    pipeline.axis = *axis;
    checkStages(plan.mesh.getName(*axis));
    if (const json::Value *value = object.get("schedule")) {
      std::optional<llvm::StringRef> text = value->getAsString();
      std::optional<Schedule> schedule;
      if (text)
        schedule = findSchedule(*text);
      if (!schedule)
        return reader.fail(path + "schedule", listSchedules(), value);
      pipeline.schedule = *schedule;
    }
    pipeline.virtualStages =
        reader.getCount(object, "virtual_stages", path, 1, maxCount, 1);
    bool hasFirst = object.get("first_layers"),
         hasLast = object.get("last_layers");
    if (hasFirst != hasLast || (hasFirst && object.get("layers")))
      return reader.fail(llvm::createStringError(llvm::formatv(
          "{0}: key \"pipeline\": got {1}, expects \"layers\", or both "
          "\"first_layers\" and \"last_layers\", or none of them",
          reader.getFile(),
          hasFirst == hasLast ? "\"layers\" and \"first_layers\""
          : hasFirst          ? "\"first_layers\""
                              : "\"last_layers\"")));
    constexpr int64_t even = TrainLayout::even;
    if (hasFirst) {
      pipeline.firstLayers =
          reader.getCount(object, "first_layers", path, 0, maxCount, even);
      pipeline.lastLayers =
          reader.getCount(object, "last_layers", path, 0, maxCount, even);
    }
    readLayers(object, pipeline);
  }

  void readLayers(const json::Object &object, PipelinePlan &pipeline) {
    const json::Value *value = object.get("layers");
    if (!value)
      return;
    const json::Array *list = value->getAsArray();
    if (!list || list->empty())
      return reader.fail("pipeline.layers", "a list of numbers of layers",
                         value);
    for (const json::Value &entry : *list) {
      std::optional<int64_t> count = entry.getAsInteger();
      if (!count || *count < 0 || *count > maxCount)
        return reader.fail("pipeline.layers", "a number of layers", &entry);
      pipeline.layers.push_back(*count);
    }
  }

  JsonReader &reader;
  const json::Object &root;
  Plan plan;
};
} // namespace

llvm::ArrayRef<llvm::StringRef> cleave::getPlanKeys() {
  static const llvm::StringRef keys[] = {
      "mesh",      "micro_batches",    "dims",    "keep",
      "recompute", "recompute_blocks", "pipeline"};
  return keys;
}

Plan cleave::readPlan(JsonReader &reader, const json::Object &object) {
  return PlanReader(reader, object).read();
}

llvm::Expected<Plan> cleave::parsePlan(llvm::StringRef text,
                                       llvm::StringRef file) {
  llvm::Expected<json::Object> object = parseJsonObject(text, file);
  if (!object)
    return object.takeError();
  JsonReader reader(file);
  llvm::SmallVector<llvm::StringRef> keys{"version"};
  llvm::append_range(keys, getPlanKeys());
  reader.checkKeys(*object, "", keys);
  reader.checkVersion(*object, Plan::currentVersion);
  Plan plan = readPlan(reader, *object);
  if (llvm::Error error = reader.takeError())
    return error;
  return plan;
}
