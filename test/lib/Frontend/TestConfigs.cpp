#include "TestConfigs.h"
#include "gtest/gtest.h"
#include <fstream>
#include <map>
#include <sstream>

using namespace cleave;
using nlohmann::json;

std::string cleave::test::readText(const std::string &name) {
  std::ifstream file(std::string(CLEAVE_CONFIGS) + "/" + name,
                     std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

json cleave::test::readJson(const std::string &name) {
  return json::parse(readText(name));
}

std::vector<std::string> cleave::test::getGoldenCases() {
  std::vector<std::string> cases;
  const json all = readJson("golden/tensors.json");
  for (const auto &[name, tensors] : all.items())
    cases.push_back(name);
  return cases;
}

json cleave::test::getSmallConfig(const std::string &modelType) {
  for (const std::string &name : getGoldenCases()) {
    json config = readJson("golden/" + name + ".json");
    if (config["model_type"] == modelType)
      return config;
  }
  ADD_FAILURE() << "no small config of " << modelType;
  return {};
}

json cleave::test::change(const std::string &modelType, const json &changes) {
  json config = getSmallConfig(modelType);
  for (const auto &[key, value] : changes.items())
    if (value == "absent")
      config.erase(key);
    else
      config[key] = value;
  return config;
}

Model cleave::test::parse(const json &config, const FrontendOptions &options) {
  llvm::Expected<Model> model =
      parseModel(config.dump(), "config.json", options);
  if (model)
    return std::move(*model);
  ADD_FAILURE() << toString(model.takeError());
  return {};
}

std::string cleave::test::getError(llvm::StringRef text,
                                   const FrontendOptions &options) {
  llvm::Expected<Model> model = parseModel(text, "config.json", options);
  return model ? "" : toString(model.takeError());
}

std::string cleave::test::getError(const json &config,
                                   const FrontendOptions &options) {
  return getError(llvm::StringRef(config.dump()), options);
}

std::vector<const Piece *> cleave::test::getPieces(const Model &model) {
  std::vector<const Piece *> pieces;
  auto addOptional = [&](const std::optional<Piece> &piece) {
    if (piece)
      pieces.push_back(&*piece);
  };
  auto add = [&](const auto &weights) {
    pieces.push_back(&weights.weight);
    addOptional(weights.bias);
  };
  pieces.push_back(&model.embedding);
  addOptional(model.positions);
  if (model.projectIn)
    add(*model.projectIn);
  if (model.projectOut)
    add(*model.projectOut);
  for (const LayerSpec &layer : model.layers) {
    add(layer.norm1);
    add(layer.norm2);
    for (const LinearSpec *linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.up, &layer.down})
      add(*linear);
    if (layer.gate)
      add(*layer.gate);
    if (layer.qNorm)
      add(*layer.qNorm);
    if (layer.kNorm)
      add(*layer.kNorm);
  }
  if (model.finalNorm)
    add(*model.finalNorm);
  if (model.head)
    add(*model.head);
  return pieces;
}

static int64_t getVolume(const std::vector<int64_t> &shape) {
  int64_t volume = 1;
  for (int64_t size : shape)
    volume *= size;
  return volume;
}

/// Boxes of one view that share an element.
static bool overlap(const Piece &a, const Piece &b) {
  for (size_t dim = 0; dim < a.view.size(); ++dim)
    if (a.starts[dim] + a.sizes[dim] <= b.starts[dim] ||
        b.starts[dim] + b.sizes[dim] <= a.starts[dim])
      return false;
  return true;
}

std::string cleave::test::checkCover(const Model &model) {
  std::map<std::string, std::vector<const Piece *>> users;
  for (const Piece *piece : getPieces(model))
    users[piece->tensor].push_back(piece);
  if (users.size() != model.tensors.size())
    return "pieces use " + std::to_string(users.size()) + " tensors, " +
           std::to_string(model.tensors.size()) + " are listed";

  for (const CheckpointTensor &tensor : model.tensors) {
    const std::vector<const Piece *> &pieces = users[tensor.name];
    int64_t covered = 0;
    for (const Piece *piece : pieces) {
      const size_t rank = piece->view.size();
      if (piece->tensorShape != tensor.shape ||
          piece->view != pieces.front()->view ||
          getVolume(piece->view) != getVolume(tensor.shape) ||
          piece->starts.size() != rank || piece->sizes.size() != rank)
        return tensor.name + ": inconsistent shapes";
      for (size_t dim = 0; dim < rank; ++dim)
        if (piece->starts[dim] < 0 || piece->sizes[dim] < 1 ||
            piece->starts[dim] + piece->sizes[dim] > piece->view[dim])
          return tensor.name + ": a box leaves the tensor";
      for (int64_t dim : piece->drop)
        if (dim < 0 || dim >= int64_t(rank) || piece->sizes[dim] != 1)
          return tensor.name + ": drops a dim that is not of size 1";
      for (const Piece *other : pieces)
        if (other != piece && overlap(*piece, *other))
          return tensor.name + ": boxes overlap";
      covered += getVolume(piece->sizes);
    }
    // Disjoint boxes of the full volume cover everything once.
    if (covered != getVolume(tensor.shape))
      return tensor.name + ": " + std::to_string(covered) + " of " +
             std::to_string(getVolume(tensor.shape)) + " elements are used";
  }
  return "";
}
