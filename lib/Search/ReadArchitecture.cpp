//===- ReadArchitecture.cpp - The sizes that a config.json says -----------===//
#include "cleave/Search/ReadArchitecture.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

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
    block.window = layer.window;
    block.gated = layer.gate.has_value();
    block.ffn = model.intermediate;
    block.vectors = getSize(layer.norm1) + getSize(layer.norm2) +
                    getBiases({&layer.q, &layer.k, &layer.v, &layer.o,
                               at(layer.gate), &layer.up, &layer.down}) -
                    2 * model.hidden;
    for (const auto &norm : {layer.qNorm, layer.kNorm})
      if (norm)
        block.vectors += getSize(*norm);
    addBlock(result, block);
  }
  return result;
}

namespace {
/// Where a family's config.json says what, if it is not the usual key.
struct Family {
  llvm::StringRef type;
  bool tied = false; ///< if the file does not say
  bool gated = true;
  llvm::StringRef experts; ///< key of their number; empty: there are none
};
} // namespace

static constexpr Family families[] = {
    {"arctic", false, true, "num_local_experts"},
    {"bloom", true, false, ""},
    {"dbrx", false, true, "moe_num_experts"},
    {"deepseek", false, true, "n_routed_experts"},
    {"deepseek_v2", false, true, "n_routed_experts"},
    {"deepseek_v3", false, true, "n_routed_experts"},
    {"falcon", true, false, ""},
    {"gemma2", true, true, ""},
    {"gemma3_text", true, true, ""},
    {"glm4_moe", false, true, "n_routed_experts"},
    {"gpt_oss", false, true, "num_local_experts"},
    {"granitemoe", false, true, "num_local_experts"},
    {"kimi_k2", false, true, "n_routed_experts"},
    {"llama4_text", false, true, "num_local_experts"},
    {"mixtral", false, true, "num_local_experts"},
    {"nemotron", false, false, ""},
    {"olmo", false, true, ""},
    {"olmo3", false, true, ""},
    {"olmoe", false, true, "num_experts"},
    {"phi", false, false, ""},
    {"phi-msft", false, false, ""},
    {"phimoe", false, true, "num_local_experts"},
    {"qwen2_moe", false, true, "num_experts"},
    {"qwen3_moe", false, true, "num_experts"},
    {"smollm3", true, true, ""},
};

namespace {
class SizeReader {
public:
  SizeReader(const json::Object &object, const Family &family,
             llvm::StringRef file)
      : object(object), family(family), file(file) {}

  llvm::Expected<Architecture> read() {
    Architecture model;
    model.name = family.type.str();
    model.hidden = need({"hidden_size", "d_model", "n_embed", "n_embd"});
    model.vocab = need({"vocab_size"});
    model.tied = getSwitch("tie_word_embeddings", family.tied);
    model.maxPositions =
        get({"max_position_embeddings", "max_seq_len", "n_positions"});
    int64_t layers = need({"num_hidden_layers", "n_layers", "n_layer"});
    Block block = readAttention(model.hidden);
    if (message.empty() && (layers > 4096 || block.heads > model.hidden))
      fail("num_hidden_layers", "expects at most 4096 layers and as many heads "
                                "as channels");
    for (int64_t i = 0; message.empty() && i != layers; ++i) {
      Block layer = block;
      layer.window = hasWindow(i) ? get({"sliding_window"}) : 0;
      layer.chunk = hasChunks(i) ? get({"attention_chunk_size"}) : 0;
      readMLP(layer, model.hidden, i);
      addBlock(model, layer);
    }
    if (!message.empty())
      return llvm::createStringError(message);
    return model;
  }

private:
  /// The first of these keys that is there, here or one level below.
  int64_t get(std::initializer_list<llvm::StringRef> keys, int64_t absent = 0) {
    for (llvm::StringRef key : keys)
      for (const json::Object *at :
           {&object, getObject("attn_config"), getObject("ffn_config")}) {
        const json::Value *value = at ? at->get(key) : nullptr;
        if (!value || value->kind() == json::Value::Null)
          continue;
        std::optional<int64_t> number = value->getAsInteger();
        if (number && *number >= 0 && *number <= (int64_t(1) << 31))
          return *number;
        fail(key, "expects a whole number from 0");
      }
    return absent;
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
    block.gated = family.gated;
    block.heads = need({"num_attention_heads", "n_heads", "n_head"});
    block.headDim = get({"head_dim"}, hidden / block.heads);
    block.valueDim = block.headDim;
    block.kvHeads =
        get({"num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv"},
            block.heads);
    if (family.type == "falcon" && getSwitch("multi_query", true) &&
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

  /// Layers with a sliding window, by the file or by the family's pattern.
  bool hasWindow(int64_t layer) {
    if (const json::Array *types = getList("layer_types"))
      return layer < int64_t(types->size()) &&
             (*types)[size_t(layer)].getAsString() == "sliding_attention";
    if (family.type == "gemma2" || family.type == "gpt_oss")
      return layer % 2 == 0;
    if (family.type == "gemma3_text")
      return (layer + 1) % get({"sliding_window_pattern"}, 6) != 0;
    if (family.type == "olmo3")
      return (layer + 1) % 4 != 0;
    if (family.type == "mixtral" || family.type == "phimoe")
      return true;
    return getSwitch("use_sliding_window", false) &&
           layer >= get({"max_window_layers"});
  }

  /// Layers whose queries only meet their own chunk (Llama 4).
  bool hasChunks(int64_t layer) {
    if (const json::Array *types = getList("layer_types"))
      return layer < int64_t(types->size()) &&
             (*types)[size_t(layer)].getAsString() == "chunked_attention";
    return family.type == "llama4_text" && (layer + 1) % 4 != 0;
  }

  void readMLP(Block &block, int64_t hidden, int64_t layer) {
    int64_t width = get({"intermediate_size", "ffn_hidden_size", "n_inner"});
    bool sparse = !family.experts.empty() && isSparse(layer);
    block.ffn =
        sparse ? 0
               : get({"intermediate_size_mlp"}, width > 0 ? width : 4 * hidden);
    if (!sparse)
      return;
    block.experts = need({family.experts});
    block.expertsPerToken = need({"num_experts_per_tok", "moe_top_k"});
    block.expertFfn =
        get({"moe_intermediate_size"}, width > 0 ? width : 4 * hidden);
    block.sharedFfn = get({"shared_expert_intermediate_size"},
                          get({"n_shared_experts"}) * block.expertFfn);
    if (family.type == "arctic")
      block.sharedFfn = hidden; // beside the experts, on every token
    if (family.type == "llama4_text")
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
  const Family &family;
  llvm::StringRef file;
  std::string message;
};
} // namespace

llvm::Expected<Architecture> cleave::readArchitecture(llvm::StringRef text,
                                                      llvm::StringRef file) {
  llvm::Expected<json::Value> root = parseJson(text, file);
  if (!root)
    return root.takeError();
  std::string decoder, where = file.str();
  if (const json::Object *object = root->getAsObject()) {
    // Of a multimodal model its text decoder is planned.
    if (const json::Value *inner = object->get("text_config");
        inner && inner->getAsObject()) {
      decoder = llvm::formatv("{0}", *inner);
      text = decoder;
      where += ": text_config";
      object = inner->getAsObject();
    }
    std::optional<llvm::StringRef> type = object->getString("model_type");
    const Family *family = llvm::find_if(
        families, [&](const Family &each) { return type == each.type; });
    if (family != std::end(families))
      return SizeReader(*object, *family, where).read();
    std::vector<llvm::StringRef> types = getModelTypes();
    if (type && !llvm::is_contained(types, *type)) {
      for (const Family &each : families)
        types.push_back(each.type);
      return llvm::createStringError(llvm::formatv(
          "{0}: key \"model_type\": value {1} is not supported; supported are "
          "{2}",
          where, json::Value(*type), llvm::join(types, ", ")));
    }
  }
  llvm::Expected<Model> model = parseModel(text, where);
  if (!model)
    return model.takeError();
  return getArchitecture(*model);
}

llvm::Expected<Architecture> cleave::loadArchitecture(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(path + ": " + buffer.getError().message());
  if ((*buffer)->getBufferSize() > (16 << 20))
    return llvm::createStringError(path + ": is larger than 16 MiB");
  return readArchitecture((*buffer)->getBuffer(), path);
}
