// A small config.json of the same family, read as any other.

#include "cleave/Frontend/Shrink.h"
#include "ConfigReader.h"
#include "cleave/Frontend/Facts.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace cleave;
using nlohmann::json;

/// The least multiple of `unit` that is at least `least`.
static int64_t roundUp(int64_t least, int64_t unit) {
  return (least + unit - 1) / unit * unit;
}

/// The smallest head of which the same part is rotated, in pairs.
static int64_t getHeadDim(const Model &model, int64_t unit) {
  for (int64_t dim = 4; dim < model.headDim; dim += 2) {
    int64_t rotated = model.rope ? model.rope->dims * dim : 0;
    if (dim % unit == 0 && rotated % (2 * model.headDim) == 0)
      return dim;
  }
  return model.headDim;
}

/// Lists with a number for each pair of channels (longrope) get shorter.
static void shortenLists(json &value, size_t from, size_t to) {
  if (value.is_array() && value.size() == from)
    value.erase(value.begin() + int64_t(to), value.end());
  else if (value.is_object())
    for (auto &entry : value)
      shortenLists(entry, from, to);
}

llvm::Expected<Model> cleave::shrinkModel(const Model &model,
                                          const SmallSizes &sizes,
                                          bool padsVocab) {
  const FamilyFacts &facts = *findFacts(model.modelType);
  llvm::Expected<json> parsed =
      frontend::parseJson(model.configText, "config.json");
  if (!parsed)
    return parsed.takeError();
  json config = std::move(*parsed);
  // Where a family has two spellings, the one that the config has.
  auto set = [&](llvm::StringRef own, llvm::StringRef common, int64_t value) {
    bool isCommon = facts.commonKeys && config.contains(common.str());
    config.erase(own.str());
    config[(isCommon ? common : own).str()] = value;
  };

  int64_t layers = std::min<int64_t>(sizes.layers, model.layers.size());
  int64_t kvHeads =
      model.kvHeads == 1 ? 1 : roundUp(2, std::lcm(sizes.kvHeads, sizes.heads));
  int64_t heads = roundUp(model.heads == model.kvHeads ? kvHeads : 2 * kvHeads,
                          std::lcm(sizes.heads, kvHeads));
  int64_t headDim = getHeadDim(model, sizes.headDim);
  // A hidden size of its own, where heads need not add up to it.
  int64_t hidden = heads * headDim;
  if (facts.readsHeadDim && model.headDim * model.heads != model.hidden)
    hidden += roundUp(2, sizes.hidden);
  hidden =
      roundUp(hidden, std::lcm(sizes.hidden, facts.readsHeadDim ? 1 : heads));
  set(facts.keys.hidden, Keys().hidden, hidden);
  set(facts.keys.layers, Keys().layers, layers);
  set(facts.keys.heads, Keys().heads, heads);
  if (facts.groupedQuery)
    config["num_key_value_heads"] = kvHeads;
  if (facts.readsHeadDim)
    config["head_dim"] = headDim;
  config[facts.keys.intermediate.str()] =
      roundUp(12, std::lcm(2, sizes.intermediate));
  if (facts.learnedPositions)
    set(facts.keys.positions, Keys().positions, sizes.seqLen + 2);
  int64_t vocab = roundUp(24, sizes.vocab) - (padsVocab ? 1 : 0);
  config["vocab_size"] = vocab;
  if (model.paddingToken)
    config["pad_token_id"] = std::min(*model.paddingToken, vocab - 1);
  else
    config["pad_token_id"] = nullptr;
  if (config.contains("word_embed_proj_dim") && model.projectIn)
    config["word_embed_proj_dim"] = hidden / 2;
  else
    config.erase("word_embed_proj_dim");

  // Layers with a window that is shorter than the sequence, and others.
  auto slides = [](const LayerSpec &layer) { return layer.window > 0; };
  if (llvm::any_of(model.layers, slides)) {
    config["sliding_window"] = 3;
    if (facts.window == WindowRule::Qwen)
      config["max_window_layers"] = llvm::all_of(model.layers, slides) ? 0 : 1;
  }
  if (auto types = config.find("layer_types");
      types != config.end() && types->is_array()) {
    json kept = json::array();
    for (int64_t layer = 0; layer < layers; ++layer)
      kept.push_back((*types)[size_t(layer)]);
    // The last kept one is of the other kind, where there are two.
    for (const json &type : *types)
      if (type != kept.front() && layers > 1)
        kept.back() = type;
    *types = kept;
  }
  if (model.rope)
    shortenLists(config, size_t(model.rope->dims / 2),
                 size_t(headDim * model.rope->dims / model.headDim / 2));

  FrontendOptions options;
  options.seqLen = sizes.seqLen;
  return parseModel(config.dump(), "config.json", options);
}
