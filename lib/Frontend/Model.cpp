#include "cleave/Frontend/Model.h"
#include "Builder.h"
#include "Family.h"
#include "Rope.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::frontend;
using llvm::StringRef;
using nlohmann::json;

namespace {

// No count of parameters overflows: the largest legal model has 4096 layers of
// 4 x 2^14 x 2^14 x 2^20 weights in attention and 3 x 2^24 x 2^20 in the MLP,
// which is below 2^63.
constexpr IntRange vocabRange = {1, int64_t(1) << 24};
constexpr IntRange widthRange = {1, int64_t(1) << 20};
constexpr IntRange intermediateRange = {1, int64_t(1) << 24};
constexpr IntRange layerRange = {1, 4096};
constexpr IntRange headRange = {1, 1 << 14};
constexpr IntRange headDimRange = {1, 1 << 14};
constexpr IntRange positionRange = {1, int64_t(1) << 31};
constexpr IntRange learnedPositionRange = {1, int64_t(1) << 24};
constexpr NumberRange epsRange = {0, 1};

/// Keys that say nothing about what a training step computes: names, tokens,
/// generation, file bookkeeping, heads of other tasks.
const StringRef harmlessKeys[] = {"_attn_implementation",
                                  "_attn_implementation_autoset",
                                  "_commit_hash",
                                  "_name_or_path",
                                  "architectures",
                                  "attn_implementation",
                                  "auto_map",
                                  "bad_words_ids",
                                  "begin_suppress_tokens",
                                  "bos_token_id",
                                  "classifier_dropout",
                                  "decoder_start_token_id",
                                  "diversity_penalty",
                                  "do_sample",
                                  "early_stopping",
                                  "encoder_no_repeat_ngram_size",
                                  "eos_token_id",
                                  "exponential_decay_length_penalty",
                                  "finetuning_task",
                                  "forced_bos_token_id",
                                  "forced_eos_token_id",
                                  "gradient_checkpointing",
                                  "id2label",
                                  "is_decoder",
                                  "keys_to_ignore_at_inference",
                                  "label2id",
                                  "length_penalty",
                                  "max_length",
                                  "min_length",
                                  "no_repeat_ngram_size",
                                  "num_beam_groups",
                                  "num_beams",
                                  "num_labels",
                                  "num_return_sequences",
                                  "output_attentions",
                                  "output_hidden_states",
                                  "output_past",
                                  "output_scores",
                                  "prefix",
                                  "problem_type",
                                  "remove_invalid_values",
                                  "repetition_penalty",
                                  "return_dict",
                                  "return_dict_in_generate",
                                  "sep_token_id",
                                  "suppress_tokens",
                                  "task_specific_params",
                                  "temperature",
                                  "tokenizer_class",
                                  "torchscript",
                                  "top_k",
                                  "top_p",
                                  "transformers.js_config",
                                  "transformers_version",
                                  "typical_p",
                                  "unk_token_id",
                                  "unsloth_fixed",
                                  "unsloth_version",
                                  "use_cache"};

/// Keys by which transformers changes the weights or the graph of any model.
const StringRef numericKeys[] = {
    "add_cross_attention", "compression_config", "cross_attention_hidden_size",
    "is_encoder_decoder",  "per_layer_config",   "quantization_config",
    "tie_encoder_decoder", "unpadded_vocab_size"};

/// Keys that would change something, at the one value at which they do not.
struct NoOp {
  StringRef key;
  const char *value;
};
const NoOp noOps[] = {{"chunk_size_feed_forward", "0"},
                      {"full_attn_mod", "1"},
                      {"interpolate_factor", "1"},
                      {"is_causal", "true"},
                      {"pruned_heads", "{}"}};

const StringRef dropoutKeys[] = {
    "activation_dropout", "attention_dropout", "attention_probs_dropout_prob",
    "attn_pdrop",         "dropout",           "embd_pdrop",
    "embedding_dropout",  "hidden_dropout",    "hidden_dropout_prob",
    "layerdrop",          "resid_pdrop",       "residual_dropout"};

std::optional<Activation> parseActivation(StringRef name) {
  return llvm::StringSwitch<std::optional<Activation>>(name)
      .Cases({"gelu", "gelu_python"}, Activation::GeluErf)
      .Cases({"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh",
              "gelu_accurate"},
             Activation::GeluTanh)
      .Case("gelu_fast", Activation::GeluFast)
      .Case("quick_gelu", Activation::QuickGelu)
      .Cases({"silu", "swish"}, Activation::Silu)
      .Case("relu", Activation::Relu)
      .Case("relu2", Activation::Relu2)
      .Default(std::nullopt);
}

bool readSwitch(ObjectReader &config, const Switch &rule) {
  return rule.key.empty() ? rule.otherwise
                          : config.getBool(rule.key, rule.otherwise);
}

std::string readDtype(ObjectReader &config) {
  const std::string old = config.getString("torch_dtype", "");
  const std::string name =
      config.getString("dtype", old.empty() ? "float32" : old);
  if (!old.empty() && old != name)
    config.fail("torch_dtype",
                "contradicts \"dtype\" (" + printValue(json(name)) + ")");
  StringRef dtype = llvm::StringSwitch<StringRef>(name)
                        .Case("float32", "F32")
                        .Case("bfloat16", "BF16")
                        .Case("float16", "F16")
                        .Case("float64", "F64")
                        .Default("");
  if (dtype.empty())
    config.fail(config.has("dtype") ? "dtype" : "torch_dtype",
                "is not supported; supported are float32, bfloat16, float16, "
                "float64");
  return dtype.str();
}

/// Real configs carry the dropout of their pre-training; it is off here.
void readDropouts(ObjectReader &config, Model &model) {
  for (StringRef key : dropoutKeys) {
    if (!config.has(key))
      continue;
    double rate = config.getNumber(key, {0, 1, /*closed=*/true}, 0);
    if (rate > 0)
      model.notes.push_back(("key \"" + key + "\": dropout " +
                             printValue(json(rate)) +
                             " is not applied; training runs without dropout")
                                .str());
  }
}

/// The keys of the family, or the common ones where the config has those.
Keys chooseKeys(ObjectReader &config, const Family &family) {
  Keys keys = family.facts.keys;
  if (!family.facts.commonKeys)
    return keys;
  for (StringRef Keys::*key :
       {&Keys::hidden, &Keys::layers, &Keys::heads, &Keys::positions}) {
    const StringRef own = keys.*key, common = Keys().*key;
    const json *given = config.find(common);
    if (!given)
      continue;
    if (const json *other = config.find(own); other && *other != *given)
      config.fail(common,
                  "contradicts \"" + own + "\" (" + printValue(*other) + ")");
    keys.*key = common;
  }
  return keys;
}

/// Heads, head dim and everything whose size follows from them.
void readAttention(ObjectReader &config, const Family &family, const Keys &keys,
                   Model &model) {
  model.heads = config.getInteger(keys.heads, headRange);
  model.kvHeads = model.heads;
  if (family.facts.groupedQuery)
    model.kvHeads =
        config
            .getInteger("num_key_value_heads", headRange, family.facts.kvHeads)
            .value_or(model.heads);
  if (model.heads % model.kvHeads)
    config.fail(keys.heads, "is not divisible by \"num_key_value_heads\" (" +
                                llvm::Twine(model.kvHeads) + ")");

  std::optional<int64_t> headDim;
  if (family.facts.readsHeadDim)
    headDim = config.getInteger("head_dim", headDimRange, family.facts.headDim);
  if (!headDim && model.hidden % model.heads)
    config.fail(keys.hidden, "is not divisible by \"" + keys.heads + "\" (" +
                                 llvm::Twine(model.heads) + ")");
  model.headDim = headDim ? *headDim : model.hidden / model.heads;
  for (LayerSpec &layer : model.layers)
    layer.attentionScale = 1 / std::sqrt(double(model.headDim));
}

/// "layer_types": whether each layer slides, if the key is there.
std::optional<std::vector<bool>> readLayerTypes(ObjectReader &config,
                                                size_t layers) {
  const StringRef key = "layer_types";
  if (const json *list = config.find(key); list && !list->is_null()) {
    std::vector<bool> slides;
    if (!list->is_array() || list->size() != layers) {
      config.fail(key,
                  "is not a list of " + llvm::Twine(layers) + " layer types");
      return std::nullopt;
    }
    for (const json &type : *list) {
      if (type != "full_attention" && type != "sliding_attention") {
        config.fail(key, "has element " + printValue(type) +
                             "; legal: \"full_attention\", "
                             "\"sliding_attention\"");
        return std::nullopt;
      }
      slides.push_back(type == "sliding_attention");
    }
    return slides;
  }
  return std::nullopt;
}

/// The window of every layer.
void readWindows(ObjectReader &config, const Family &family, Model &model) {
  const size_t count = model.layers.size();
  const WindowRule rule = family.facts.window;
  int64_t window = 0;
  WindowKeys keys;
  if (rule != WindowRule::None)
    window = config
                 .getInteger("sliding_window", positionRange,
                             family.facts.slidingWindow)
                 .value_or(0);
  if (rule == WindowRule::Qwen) {
    keys.use = config.getBool("use_sliding_window", keys.use);
    keys.firstSliding =
        config.getInteger("max_window_layers", {0, 4096}, keys.firstSliding)
            .value_or(keys.firstSliding);
    if (!keys.use)
      window = 0;
  }
  std::vector<bool> slides(count);
  if (window)
    slides = getSlidingLayers(rule, keys, int64_t(count));

  if (std::optional<std::vector<bool>> types = readLayerTypes(config, count)) {
    const bool possible = rule == WindowRule::Qwen
                              ? window || !llvm::is_contained(*types, true)
                              : *types == slides;
    if (!possible)
      config.fail("layer_types",
                  "contradicts the sliding window of the model (" +
                      (window ? std::to_string(window) : "none") + ")");
    slides = *types;
  }
  for (auto [layer, slide] : llvm::zip_equal(model.layers, slides))
    layer.window = slide ? window : 0;
}

/// The row of the embedding without gradient. Like torch, counts from the end
/// if negative.
void readPaddingToken(ObjectReader &config, const Family &family,
                      Model &model) {
  const StringRef key = "pad_token_id";
  if (!family.paddingRow) {
    config.find(key);
    return;
  }
  const bool given = config.has(key);
  std::optional<int64_t> token = config.getInteger(
      key, {-model.vocab, model.vocab - 1},
      family.paddingToken < model.vocab ? family.paddingToken : std::nullopt);
  if (token && *token < 0 && given)
    *token += model.vocab;
  model.paddingToken = token;
}

/// One note for all keys that nobody reads.
void noteIgnored(llvm::ArrayRef<std::string> keys, Model &model) {
  constexpr size_t most = 20;
  if (keys.empty())
    return;
  std::string names;
  for (const std::string &key : keys.take_front(most))
    names += (names.empty() ? "" : ", ") + printValue(json(key));
  if (keys.size() > most)
    names += " and " + std::to_string(keys.size() - most) + " more";
  model.notes.push_back("keys that no code of \"" + model.modelType +
                        "\" reads are ignored: " + names +
                        "; --strict refuses them");
}

void readModel(ObjectReader &config, const Family &family, Model &model,
               const FrontendOptions &options) {
  const Keys keys = chooseKeys(config, family);
  model.modelType = family.facts.modelType.str();
  model.vocab = config.getInteger("vocab_size", vocabRange);
  model.hidden = config.getInteger(keys.hidden, widthRange);
  model.layers.resize(config.getInteger(keys.layers, layerRange));
  readAttention(config, family, keys, model);
  if (family.facts.mlpFactor)
    model.intermediate =
        config.getInteger(keys.intermediate, intermediateRange, std::nullopt)
            .value_or(family.facts.mlpFactor * model.hidden);
  else
    model.intermediate =
        config.getInteger(keys.intermediate, intermediateRange);
  model.maxPositions =
      !family.facts.learnedPositions
          ? config
                .getInteger(keys.positions, positionRange,
                            family.facts.positions)
                .value_or(family.facts.positions)
          : config.getInteger(keys.positions, learnedPositionRange);

  model.norm = family.norm;
  if (!keys.normEps.empty())
    model.norm.eps = config.getNumber(keys.normEps, epsRange, model.norm.eps);
  model.activation = readActivation(config, keys.activation, family.activation);
  model.form = family.form;
  model.qkNorm = family.qkNorm;
  model.tied = config.getBool("tie_word_embeddings", family.facts.tied);
  model.initializerRange = config.getNumber(
      keys.initializer, {0, 1e3, /*closed=*/true}, family.initializerRange);
  model.positionOffset = family.positionOffset;
  model.checkpointDtype = readDtype(config);
  readDropouts(config, model);
  readWindows(config, family, model);
  readPaddingToken(config, family, model);

  LayoutOptions layout;
  layout.attentionBias = readSwitch(config, family.attentionBias);
  layout.outputBias = layout.attentionBias && family.outputBias;
  layout.mlpBias = readSwitch(config, family.mlpBias);
  if (config.failed())
    return;
  if (!family.facts.learnedPositions) {
    model.rope = readRope(config, family, model, options.seqLen, model.notes);
    if (options.seqLen > model.maxPositions)
      model.notes.push_back(("sequences of " + llvm::Twine(options.seqLen) +
                             " tokens are longer than the " +
                             llvm::Twine(model.maxPositions) +
                             " positions that the model is for")
                                .str());
  } else {
    layout.positionRows = model.maxPositions + model.positionOffset;
    if (options.seqLen > model.maxPositions)
      config.fail(keys.positions, "is less than the sequence length (" +
                                      llvm::Twine(options.seqLen) + ")");
  }
  if (family.adjust)
    family.adjust(config, model, layout);
  for (const NoOp &noOp : noOps)
    if (const json *value = config.find(noOp.key);
        value && !value->is_null() && *value != json::parse(noOp.value))
      config.fail(noOp.key,
                  llvm::Twine("is not supported; legal: ") + noOp.value);
  auto concat = [](llvm::ArrayRef<StringRef> all,
                   llvm::ArrayRef<StringRef> own) {
    std::vector<StringRef> keys(all);
    keys.insert(keys.end(), own.begin(), own.end());
    return keys;
  };
  config.checkUnread(concat(harmlessKeys, family.harmless),
                     concat(numericKeys, family.numerics));
  if (config.failed())
    return;
  noteIgnored(config.getDiagnostic().ignored, model);

  buildLayout(model, family, layout);
}

} // namespace

Activation cleave::frontend::readActivation(ObjectReader &config, StringRef key,
                                            StringRef otherwise) {
  std::optional<Activation> activation =
      parseActivation(config.getString(key, otherwise));
  if (!activation)
    config.fail(key, "is not supported; supported are gelu, gelu_python, "
                     "gelu_new, gelu_pytorch_tanh, gelu_python_tanh, "
                     "gelu_accurate, gelu_fast, quick_gelu, silu, swish, "
                     "relu, relu2");
  return activation.value_or(Activation::Silu);
}

std::vector<int64_t> Piece::getShape() const {
  std::vector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(sizes))
    if (!llvm::is_contained(drop, int64_t(dim)))
      shape.push_back(size);
  return shape;
}

int64_t Model::getDefaultSeqLen() const {
  constexpr int64_t most = 1024;
  return maxPositions ? std::min(maxPositions, most) : most;
}

int64_t Model::getParameterCount() const {
  int64_t total = 0;
  for (const CheckpointTensor &tensor : tensors) {
    int64_t size = 1;
    for (int64_t dim : tensor.shape)
      size *= dim;
    total += size;
  }
  return total;
}

llvm::Expected<Model> cleave::parseModel(StringRef text, StringRef file,
                                         const FrontendOptions &options) {
  llvm::Expected<json> document = frontend::parseJson(text, file);
  if (!document)
    return document.takeError();
  Diagnostic diagnostic(file, options.strict);
  if (!document->is_object()) {
    diagnostic.report("a config is a JSON object, not " +
                      printValue(*document));
    return diagnostic.takeError();
  }
  ObjectReader config(*document, "", diagnostic);
  if (!config.has("model_type"))
    config.failKey("model_type", "is missing; supported are " + listFamilies());
  const std::string modelType = config.getString("model_type", "");
  const Family *family = findFamily(modelType);
  if (!family)
    config.fail("model_type",
                "is not supported; supported are " + listFamilies());
  Model model;
  if (!diagnostic.failed())
    readModel(config, *family, model, options);
  if (diagnostic.failed())
    return diagnostic.takeError();
  model.configText = text.str();
  return model;
}

llvm::Expected<Model> cleave::loadModel(StringRef path,
                                        const FrontendOptions &options) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = loadText(path);
  if (!text)
    return text.takeError();
  return parseModel((*text)->getBuffer(), path, options);
}

std::string cleave::getModelSummary(const Model &model) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const CheckpointTensor &tensor : model.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"dtype", model.checkpointDtype}});
  nlohmann::ordered_json summary = {{"model_type", model.modelType},
                                    {"parameters", model.getParameterCount()},
                                    {"tensors", std::move(tensors)}};
  return summary.dump(2);
}
