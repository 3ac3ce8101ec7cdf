//===- ReadArchitecture.cpp - The sizes that a config.json says -----------===//
#include "cleave/Search/ReadArchitecture.h"
#include "cleave/Frontend/Facts.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
namespace json = llvm::json;

static void addBlock(Architecture &model, const Block &block) {
  if (!model.blocks.empty() && model.blocks.back().block == block)
    ++model.blocks.back().count;
  else
    model.blocks.push_back({block, 1});
}

static int64_t getSize(const Piece &piece) {
  int64_t size = 1;
  for (int64_t each : piece.sizes)
    size *= each;
  return size;
}

static int64_t getSize(const NormWeights &norm) {
  return getSize(norm.weight) + (norm.bias ? getSize(*norm.bias) : 0);
}

static int64_t getBiases(std::initializer_list<const LinearSpec *> linears) {
  int64_t sum = 0;
  for (const LinearSpec *linear : linears)
    if (linear && linear->bias)
      sum += getSize(*linear->bias);
  return sum;
}

Architecture cleave::getArchitecture(const Model &model) {
  auto at = [](const auto &optional) {
    return optional ? &*optional : nullptr;
  };
  Architecture result;
  result.name = model.modelType;
  result.hidden = model.hidden;
  result.vocab = model.vocab;
  result.tied = model.tied;
  result.maxPositions = model.maxPositions;
  if (model.positions)
    result.positions = model.positions->getShape().front();
  if (model.projectIn)
    result.embeddingWidth = model.embedding.getShape().back();
  result.vectors = getBiases({at(model.head)}) - model.hidden;
  if (model.finalNorm)
    result.vectors += getSize(*model.finalNorm);
  for (const LayerSpec &layer : model.layers) {
    Block block;
    block.heads = model.heads;
    block.kvHeads = model.kvHeads;
    block.headDim = block.valueDim = model.headDim;
    block.headNorm = model.qkNorm == QKNorm::PerHead ? Block::HeadNorm::Each
                     : model.qkNorm == QKNorm::FullWidth
                         ? Block::HeadNorm::Whole
                         : Block::HeadNorm::None;
    block.normsAfter =
        model.form == BlockForm::PostNorm || model.form == BlockForm::NormedSum;
    block.window = layer.window;
    block.gated = layer.gate.has_value();
    block.ffn = model.intermediate;
    block.vectors = getSize(layer.norm1) + getSize(layer.norm2) +
                    getBiases({&layer.q, &layer.k, &layer.v, &layer.o,
                               at(layer.gate), &layer.up, &layer.down}) -
                    2 * model.hidden;
    for (const auto &norm : {layer.qNorm, layer.kNorm})
      if (norm) {
        block.vectors += getSize(*norm);
        ++block.vectorTensors;
      }
    for (const NormWeights *norm : {&layer.norm1, &layer.norm2})
      block.vectorTensors += norm->bias ? 1 : 0;
    for (const LinearSpec *linear : {&layer.q, &layer.k, &layer.v, &layer.o,
                                     at(layer.gate), &layer.up, &layer.down})
      block.vectorTensors += linear && linear->bias ? 1 : 0;
    addBlock(result, block);
  }
  return result;
}

namespace {
/// A family that is planned and not compiled.
struct Family {
  FamilyFacts facts;
  llvm::StringRef experts = ""; ///< key of their number; empty: there are none
};
} // namespace

// Sources: configuration_<type>.py of HuggingFace transformers 5, or the code
// beside the published weights (arctic, deepseek, kimi_k2, phi-msft).
static const Family families[] = {
    {{.modelType = "arctic", .positions = 4096}, "num_local_experts"},
    {{.modelType = "bloom",
      .keys = {.layers = "n_layer", .heads = "n_head"},
      .tied = true,
      .mlp = MLPLayout::Plain,
      .mlpFactor = 4,
      .positions = 0}},
    {{.modelType = "dbrx",
      .keys = {.hidden = "d_model",
               .layers = "n_layers",
               .heads = "n_heads",
               .intermediate = "ffn_hidden_size",
               .positions = "max_seq_len"},
      .kvHeads = 1},
     "moe_num_experts"},
    {{.modelType = "deepseek"}, "n_routed_experts"},
    {{.modelType = "deepseek_v2"}, "n_routed_experts"},
    {{.modelType = "deepseek_v3", .kvHeads = 128, .positions = 4096},
     "n_routed_experts"},
    {{.modelType = "falcon",
      .tied = true,
      .mlp = MLPLayout::Plain,
      .mlpFactor = 4}},
    {{.modelType = "gemma2",
      .tied = true,
      .kvHeads = 4,
      .headDim = 256,
      .positions = 8192,
      .window = WindowRule::Even,
      .slidingWindow = 4096}},
    {{.modelType = "gemma3_text",
      .tied = true,
      .kvHeads = 4,
      .headDim = 256,
      .positions = 131072,
      .window = WindowRule::Pattern,
      .slidingWindow = 4096}},
    {{.modelType = "glm4_moe", .kvHeads = 8, .positions = 131072},
     "n_routed_experts"},
    {{.modelType = "gpt_oss",
      .kvHeads = 8,
      .headDim = 64,
      .positions = 131072,
      .window = WindowRule::Even,
      .slidingWindow = 128},
     "num_local_experts"},
    {{.modelType = "granitemoe"}, "num_local_experts"},
    {{.modelType = "kimi_k2", .kvHeads = 128, .positions = 4096},
     "n_routed_experts"},
    {{.modelType = "llama4_text",
      .kvHeads = 8,
      .headDim = 128,
      .positions = 131072},
     "num_local_experts"},
    {{.modelType = "mixtral",
      .kvHeads = 8,
      .positions = 131072,
      .window = WindowRule::All},
     "num_local_experts"},
    {{.modelType = "nemotron", .mlp = MLPLayout::Plain, .positions = 4096}},
    {{.modelType = "olmo"}},
    {{.modelType = "olmo3",
      .window = WindowRule::AllButFourth,
      .slidingWindow = 4096}},
    {{.modelType = "olmoe", .positions = 4096}, "num_experts"},
    {{.modelType = "phi", .mlp = MLPLayout::Plain}},
    {{.modelType = "phi-msft",
      .keys = {.hidden = "n_embd",
               .layers = "n_layer",
               .heads = "n_head",
               .intermediate = "n_inner",
               .positions = "n_positions"},
      .mlp = MLPLayout::Plain,
      .mlpFactor = 4}},
    {{.modelType = "phimoe",
      .kvHeads = 8,
      .positions = 131072,
      .window = WindowRule::All},
     "num_local_experts"},
    {{.modelType = "qwen2_moe",
      .kvHeads = 16,
      .positions = 32768,
      .window = WindowRule::Qwen,
      .slidingWindow = 4096},
     "num_experts"},
    {{.modelType = "qwen3_moe",
      .kvHeads = 4,
      .positions = 32768,
      .window = WindowRule::Switched,
      .slidingWindow = 4096},
     "num_experts"},
    {{.modelType = "smollm3",
      .tied = true,
      .kvHeads = 4,
      .positions = 32768,
      .window = WindowRule::EachFourth}},
};

namespace {
class SizeReader {
public:
  /// `experts`: the key of their number; empty: there are none.
  SizeReader(const json::Object &object, const FamilyFacts &facts,
             llvm::StringRef experts, llvm::StringRef file)
      : object(object), facts(facts), expertsKey(experts), file(file) {}

  llvm::Expected<Architecture> read() {
    Architecture model;
    const Keys &keys = facts.keys;
    model.name = facts.modelType.str();
    model.hidden = need({keys.hidden, "hidden_size", "d_model", "n_embed"});
    // What OLMo's first files, which its own code reads, name otherwise.
    model.vocab = need({"embedding_size", "vocab_size"});
    model.tied =
        getSwitch("tie_word_embeddings", getSwitch("weight_tying", facts.tied));
    model.maxPositions =
        facts.learnedPositions
            ? need({keys.positions, Keys().positions})
            : get({keys.positions, Keys().positions, "max_sequence_length"},
                  facts.positions);
    int64_t layers = need({keys.layers, Keys().layers, "n_layers"});
    Block block = readAttention(model.hidden);
    if (message.empty() && (layers > 4096 || block.heads > model.hidden))
      fail("num_hidden_layers", "expects at most 4096 layers and as many heads "
                                "as channels");
    if (message.empty())
      readWindows(layers);
    for (int64_t i = 0; message.empty() && i != layers; ++i) {
      Block layer = block;
      layer.window = slides[size_t(i)] ? window : 0;
      layer.chunk = hasChunks(i) ? get({"attention_chunk_size"}, 8192) : 0;
      readMLP(layer, model.hidden, i);
      addBlock(model, layer);
    }
    if (!message.empty())
      return llvm::createStringError(message);
    return model;
  }

private:
  /// The first of these keys that is there, here or one level below; if that
  /// is null, or none is there and `absent` is nothing, nothing.
  std::optional<int64_t>
  getOptional(std::initializer_list<llvm::StringRef> keys,
              std::optional<int64_t> absent) {
    for (llvm::StringRef key : keys)
      for (const json::Object *at :
           {&object, getObject("attn_config"), getObject("ffn_config")}) {
        const json::Value *value = at ? at->get(key) : nullptr;
        if (!value)
          continue;
        if (value->kind() == json::Value::Null)
          return std::nullopt;
        std::optional<int64_t> number = value->getAsInteger();
        if (number && *number >= 0 && *number <= (int64_t(1) << 31))
          return number;
        fail(key, "expects a whole number from 0");
      }
    return absent;
  }
  /// The same, where null is as good as absent.
  int64_t get(std::initializer_list<llvm::StringRef> keys, int64_t absent = 0) {
    return getOptional(keys, absent).value_or(absent);
  }
  /// What a key has, or nothing.
  const json::Value *find(llvm::StringRef key) const {
    const json::Value *value = object.get(key);
    return value && value->kind() != json::Value::Null ? value : nullptr;
  }
  bool getSwitch(llvm::StringRef key, bool absent) {
    const json::Value *value = find(key);
    if (!value)
      return absent;
    std::optional<bool> is = value->getAsBoolean();
    if (!is)
      fail(key, "expects true or false");
    return is.value_or(absent);
  }
  const json::Array *getList(llvm::StringRef key) {
    const json::Value *value = find(key);
    const json::Array *list = value ? value->getAsArray() : nullptr;
    if (value && !list)
      fail(key, "expects an array");
    return list;
  }
  const json::Object *getObject(llvm::StringRef key) {
    const json::Value *value = find(key);
    const json::Object *inner = value ? value->getAsObject() : nullptr;
    if (value && !inner)
      fail(key, "expects an object");
    return inner;
  }
  int64_t need(std::initializer_list<llvm::StringRef> keys) {
    int64_t value = get(keys);
    if (value == 0)
      fail(*keys.begin(), "expects a whole number from 1");
    return std::max<int64_t>(value, 1);
  }
  void fail(llvm::StringRef key, const llvm::Twine &what) {
    if (message.empty())
      message = (file + ": key \"" + key + "\": " + what).str();
  }

  Block readAttention(int64_t hidden) {
    Block block;
    block.gated = facts.mlp != MLPLayout::Plain;
    block.heads = need({facts.keys.heads, Keys().heads, "n_heads"});
    block.headDim = hidden / block.heads;
    if (facts.readsHeadDim)
      block.headDim =
          getOptional({"head_dim"}, facts.headDim).value_or(block.headDim);
    block.valueDim = block.headDim;
    block.kvHeads = block.heads;
    if (facts.groupedQuery)
      block.kvHeads = getOptional({"num_key_value_heads", "num_kv_heads",
                                   "kv_n_heads", "n_head_kv"},
                                  facts.kvHeads)
                          .value_or(block.heads);
    if (facts.modelType == "falcon" && getSwitch("multi_query", true) &&
        !getSwitch("new_decoder_architecture", false))
      block.kvHeads = 1;
    block.latentRank = get({"kv_lora_rank"});
    if (block.latentRank > 0) {
      block.kvHeads = block.heads;
      block.queryRank = get({"q_lora_rank"});
      block.sharedKeyDim = need({"qk_rope_head_dim"});
      block.headDim = need({"qk_nope_head_dim"}) + block.sharedKeyDim;
      block.valueDim = need({"v_head_dim"});
    }
    if (block.headDim < 1 || block.kvHeads < 1)
      fail("num_attention_heads", "expects heads of one channel and more");
    return block;
  }

  /// Which layers slide, by the file or by the family's rule, and how far.
  void readWindows(int64_t layers) {
    WindowKeys keys;
    keys.use = getSwitch("use_sliding_window", keys.use);
    keys.firstSliding = get({"max_window_layers"}, keys.firstSliding);
    keys.pattern = get({"sliding_window_pattern"}, keys.pattern);
    if (keys.pattern < 1)
      return fail("sliding_window_pattern", "expects a whole number from 1");
    const bool switched = facts.window == WindowRule::Switched ||
                          facts.window == WindowRule::Qwen ||
                          facts.window == WindowRule::EachFourth;
    if (!switched || keys.use)
      window = getOptional({"sliding_window"}, facts.slidingWindow).value_or(0);
    slides = getSlidingLayers(facts.window, keys, layers);
    if (const json::Array *types = getList("layer_types"))
      for (int64_t i = 0; i != layers; ++i)
        slides[size_t(i)] =
            i < int64_t(types->size()) &&
            (*types)[size_t(i)].getAsString() == "sliding_attention";
  }

  /// Layers whose queries only meet their own chunk (Llama 4).
  bool hasChunks(int64_t layer) {
    if (const json::Array *types = getList("layer_types"))
      return layer < int64_t(types->size()) &&
             (*types)[size_t(layer)].getAsString() == "chunked_attention";
    return facts.modelType == "llama4_text" && (layer + 1) % 4 != 0;
  }

  void readMLP(Block &block, int64_t hidden, int64_t layer) {
    bool sparse = !expertsKey.empty() && isSparse(layer);
    auto getWidth = [&](llvm::StringRef own) {
      if (int64_t width = get({own, facts.keys.intermediate}))
        return width;
      // Of gate and up together, in OLMo's first files.
      if (int64_t both = get({"mlp_hidden_size"}, get({"mlp_ratio"}) * hidden))
        return both / 2;
      return facts.mlpFactor ? facts.mlpFactor * hidden
                             : need({facts.keys.intermediate});
    };
    block.ffn = sparse ? 0 : getWidth("intermediate_size_mlp");
    if (!sparse)
      return;
    block.experts = need({expertsKey});
    block.expertsPerToken = need({"num_experts_per_tok", "moe_top_k"});
    block.expertFfn = getWidth("moe_intermediate_size");
    block.sharedFfn = get({"shared_expert_intermediate_size"},
                          get({"n_shared_experts"}) * block.expertFfn);
    if (facts.modelType == "arctic")
      block.sharedFfn = hidden; // beside the experts, on every token
    if (facts.modelType == "llama4_text")
      block.sharedFfn = block.expertFfn; // one shared expert
    if (block.expertsPerToken > block.experts)
      fail("num_experts_per_tok", "expects at most as many as there are");
  }

  bool isSparse(int64_t layer) {
    if (const json::Array *dense = getList("mlp_only_layers"))
      for (const json::Value &each : *dense)
        if (each.getAsInteger() == layer)
          return false;
    int64_t step =
        std::max<int64_t>(get({"decoder_sparse_step", "moe_layer_frequency",
                               "interleave_moe_layer_step"},
                              1),
                          1);
    if ((layer + 1) % step != 0)
      return false;
    return layer >= get({"first_k_dense_replace"}) &&
           layer % std::max<int64_t>(get({"moe_layer_freq"}, 1), 1) == 0;
  }

  const json::Object &object;
  const FamilyFacts &facts;
  llvm::StringRef expertsKey, file;
  int64_t window = 0;
  std::vector<bool> slides;
  std::string message;
};
} // namespace

/// The text decoder of a multimodal model, which is what is planned; else the
/// whole file. Adds to `where`.
static const json::Object *findDecoder(const json::Value &root,
                                       std::string &where) {
  const json::Object *object = root.getAsObject();
  const json::Object *inner =
      object ? object->getObject("text_config") : nullptr;
  if (inner)
    where += ": text_config";
  return inner ? inner : object;
}

llvm::Expected<Architecture> cleave::readSizes(llvm::StringRef text,
                                               llvm::StringRef file) {
  llvm::Expected<json::Value> root = parseJson(quoteNonFinite(text), file);
  if (!root)
    return root.takeError();
  std::string where = file.str();
  const json::Object *object = findDecoder(*root, where);
  if (!object)
    return llvm::createStringError(where + ": a config is a JSON object");
  llvm::StringRef type = object->getString("model_type").value_or("");
  for (const Family &family : families)
    if (type == family.facts.modelType)
      return SizeReader(*object, family.facts, family.experts, where).read();
  if (const FamilyFacts *facts = findFacts(type))
    return SizeReader(*object, *facts, "", where).read();
  std::vector<llvm::StringRef> types = getModelTypes();
  for (const Family &family : families)
    types.push_back(family.facts.modelType);
  const json::Value *given = object->get("model_type");
  constexpr size_t most = 60;
  std::string said = given ? llvm::formatv("{0}", *given).str() : "";
  if (said.size() > most)
    said = said.substr(0, most) + "...";
  return llvm::createStringError(
      where + ": key \"model_type\"" +
      (given ? ": value " + said + " is not supported" : " is missing") +
      "; supported are " + llvm::join(types, ", "));
}

llvm::Expected<Architecture> cleave::readArchitecture(llvm::StringRef text,
                                                      llvm::StringRef file) {
  llvm::Expected<json::Value> root = parseJson(quoteNonFinite(text), file);
  if (!root)
    return root.takeError();
  std::string decoder, where = file.str();
  const json::Object *object = findDecoder(*root, where);
  if (!object || !findFacts(object->getString("model_type").value_or("")))
    return readSizes(text, file);
  if (object != root->getAsObject()) {
    decoder = llvm::formatv("{0}", json::Value(json::Object(*object)));
    text = decoder;
  }
  llvm::Expected<Model> model = parseModel(text, where);
  if (!model)
    return model.takeError();
  return getArchitecture(*model);
}

llvm::Expected<Architecture> cleave::loadArchitecture(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = loadText(path);
  if (!text)
    return text.takeError();
  return readArchitecture((*text)->getBuffer(), path);
}
