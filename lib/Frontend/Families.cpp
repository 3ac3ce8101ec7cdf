// One table entry per model_type, and the few functions that read what only
// one family has. Sources: configuration_<type>.py and modeling_<type>.py of
// HuggingFace transformers 5.

#include "Family.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <cmath>

using namespace cleave;
using namespace cleave::frontend;
using llvm::StringRef;

namespace {

constexpr NormSpec layerNorm = {.kind = NormKind::LayerNorm,
                                .eps = 1e-5,
                                .weightOffset = 0,
                                .weightInF32 = true,
                                .bias = true};

constexpr NormSpec rmsNorm(double eps) {
  return {.kind = NormKind::RMSNorm, .eps = eps};
}

/// Multipliers are positive; the bound keeps f32 far from overflow.
constexpr NumberRange multiplierRange = {0, 1e6};

void adjustGPT2(ObjectReader &config, Model &model, LayoutOptions &) {
  const bool scaled = config.getBool("scale_attn_weights", true);
  const bool byLayer = config.getBool("scale_attn_by_inverse_layer_idx", false);
  for (auto [i, layer] : llvm::enumerate(model.layers)) {
    if (!scaled)
      layer.attentionScale = 1;
    if (byLayer)
      layer.attentionScale /= double(i + 1);
  }
  // Computes scores and softmax in f32, which is done here in any case.
  config.getBool("reorder_and_upcast_attn", false);
}

void adjustGPTNeoX(ObjectReader &config, Model &model, LayoutOptions &) {
  if (!config.getBool("use_parallel_residual", true))
    model.form = BlockForm::PreNorm;
}

void adjustGemma(ObjectReader &config, Model &model, LayoutOptions &) {
  model.embeddingScale = std::sqrt(double(model.hidden));
  // Gemma was trained with tanh-GELU, whatever the first published configs say
  // in "hidden_act"; "hidden_activation" was added to say it right. Later
  // versions of transformers ignore that one, so it may only agree.
  const bool said = config.has("hidden_activation");
  if (config.getString("hidden_act", "") == "gelu") {
    model.activation = Activation::GeluTanh;
    model.notes.push_back(
        "key \"hidden_act\": \"gelu\" is read as \"gelu_pytorch_tanh\", which "
        "Gemma was trained with, as transformers 4.47 and 5.23 do; 4.57 to 5.3 "
        "compute the exact GELU, which \"gelu_python\" names here");
  }
  if (said &&
      readActivation(config, "hidden_activation", "") != model.activation)
    config.fail("hidden_activation", "contradicts \"hidden_act\"");
}

void adjustGranite(ObjectReader &config, Model &model, LayoutOptions &) {
  auto read = [&](StringRef key) {
    return config.getNumber(key, multiplierRange, 1);
  };
  model.embeddingScale = read("embedding_multiplier");
  const double attention = read("attention_multiplier");
  for (LayerSpec &layer : model.layers)
    layer.attentionScale = attention;
  model.residualScale = read("residual_multiplier");
  model.logitScale = 1 / read("logits_scaling");
}

/// Reports `key` unless it is absent or the only value that is supported.
void expectBool(ObjectReader &config, StringRef key, bool legal) {
  if (config.getBool(key, legal) != legal)
    config.fail(key, llvm::Twine("is not supported; legal: ") +
                         (legal ? "true" : "false"));
}

void expectString(ObjectReader &config, StringRef key, StringRef legal) {
  if (config.getString(key, legal) != legal)
    config.fail(key, "is not supported; legal: \"" + legal + "\"");
}

void adjustStarcoder2(ObjectReader &config, Model &, LayoutOptions &) {
  expectString(config, "mlp_type", "default");
  expectString(config, "norm_type", "layer_norm");
}

void adjustOPT(ObjectReader &config, Model &model, LayoutOptions &layout) {
  expectBool(config, "layer_norm_elementwise_affine", true);
  layout.finalNorm = !config.getBool("_remove_final_layer_norm", false);
  if (!config.getBool("do_layer_norm_before", true)) {
    model.form = BlockForm::NormedSum;
    layout.finalNorm = false;
  }
  layout.embeddingWidth =
      config.getInteger("word_embed_proj_dim", {1, int64_t(1) << 20}, 0)
          .value_or(0);
}

const StringRef harmlessGPT2[] = {"n_ctx",
                                  "n_special",
                                  "predict_special_tokens",
                                  "summary_activation",
                                  "summary_first_dropout",
                                  "summary_last_dropout",
                                  "summary_proj_to_labels",
                                  "summary_type",
                                  "summary_use_proj"};
// Splits matrix products in parts; the result is the same.
const StringRef harmlessLlama[] = {"is_llama_config", "pretraining_tp"};
// What masked scores are set to; exp of it is zero.
const StringRef harmlessQwen2[] = {"mask_value"};
// Rotates another number of channels than the heads have.
const StringRef numericsGPTNeoX[] = {"head_dim"};
const StringRef numericsGemma[] = {"use_bidirectional_attention"};
const StringRef harmlessOPT[] = {"output_projection", "weight_path"};

const std::vector<Family> &getFamilies() {
  static const std::vector<Family> families = {
      {.facts = {.modelType = "gpt2",
                 .keys = {.hidden = "n_embd",
                          .layers = "n_layer",
                          .heads = "n_head",
                          .intermediate = "n_inner",
                          .positions = "n_positions",
                          .normEps = "layer_norm_epsilon",
                          .activation = "activation_function"},
                 .commonKeys = true,
                 .tied = true,
                 .mlp = MLPLayout::Plain,
                 .mlpFactor = 4,
                 .groupedQuery = false,
                 .readsHeadDim = false,
                 .learnedPositions = true},
       .names = {.embedding = "transformer.wte",
                 .positions = "transformer.wpe",
                 .layer = "transformer.h.",
                 .norm1 = "ln_1",
                 .norm2 = "ln_2",
                 .qkv = "attn.c_attn",
                 .o = "attn.c_proj",
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .finalNorm = "transformer.ln_f"},
       .norm = layerNorm,
       .qkv = QKVLayout::TransposedColumns,
       .attentionBias = {"", true},
       .mlpBias = {"", true},
       .paddingRow = false,
       .activation = "gelu_new",
       .harmless = harmlessGPT2,
       .adjust = adjustGPT2},

      {.facts = {.modelType = "gpt_neox",
                 .keys = {.normEps = "layer_norm_eps"},
                 .mlp = MLPLayout::Plain,
                 .groupedQuery = false,
                 .readsHeadDim = false},
       .names = {.embedding = "gpt_neox.embed_in",
                 .layer = "gpt_neox.layers.",
                 .qkv = "attention.query_key_value",
                 .o = "attention.dense",
                 .up = "mlp.dense_h_to_4h",
                 .down = "mlp.dense_4h_to_h",
                 .finalNorm = "gpt_neox.final_layer_norm",
                 .head = "embed_out"},
       .norm = layerNorm,
       .form = BlockForm::Parallel,
       .qkv = QKVLayout::RowsPerHead,
       .attentionBias = {"attention_bias", true},
       .mlpBias = {"", true},
       .rope = {.theta = "rotary_emb_base",
                .fraction = "rotary_pct",
                .defaultFraction = 0.25,
                .partial = true},
       .paddingRow = false,
       .activation = "gelu",
       .numerics = numericsGPTNeoX,
       .adjust = adjustGPTNeoX},

      {.facts = {.modelType = "llama"},
       .norm = rmsNorm(1e-6),
       .attentionBias = {"attention_bias", false},
       .mlpBias = {"mlp_bias", false},
       .harmless = harmlessLlama},

      {.facts = {.modelType = "mistral",
                 .kvHeads = 8,
                 .positions = 131072,
                 .window = WindowRule::All,
                 .slidingWindow = 4096},
       .norm = rmsNorm(1e-6)},

      {.facts = {.modelType = "qwen2",
                 .kvHeads = 32,
                 .positions = 32768,
                 .window = WindowRule::Qwen,
                 .slidingWindow = 4096},
       .norm = rmsNorm(1e-6),
       .attentionBias = {"", true},
       .outputBias = false,
       .harmless = harmlessQwen2},

      {.facts = {.modelType = "qwen3",
                 .kvHeads = 32,
                 .headDim = 128,
                 .positions = 32768,
                 .window = WindowRule::Qwen,
                 .slidingWindow = 4096},
       .norm = rmsNorm(1e-6),
       .qkNorm = QKNorm::PerHead,
       .attentionBias = {"attention_bias", false}},

      {.facts = {.modelType = "olmo2"},
       .names = {.norm1 = "post_attention_layernorm",
                 .norm2 = "post_feedforward_layernorm"},
       .norm = {.kind = NormKind::RMSNorm, .eps = 1e-5, .weightInF32 = true},
       .form = BlockForm::PostNorm,
       .qkNorm = QKNorm::FullWidth,
       .attentionBias = {"attention_bias", false},
       .paddingToken = 1},

      {.facts = {.modelType = "phi3",
                 .mlp = MLPLayout::FusedGate,
                 .positions = 4096,
                 .window = WindowRule::All},
       .names = {.qkv = "self_attn.qkv_proj", .up = "mlp.gate_up_proj"},
       .norm = rmsNorm(1e-5),
       .qkv = QKVLayout::Rows,
       .rope = {.partial = true,
                .longropeOnly = true,
                .originalPositions = 4096},
       .paddingToken = 32000},

      {.facts = {.modelType = "gemma",
                 .tied = true,
                 .kvHeads = 16,
                 .headDim = 256,
                 .positions = 8192},
       .norm = {.kind = NormKind::RMSNorm,
                .eps = 1e-6,
                .weightOffset = 1,
                .weightInF32 = true},
       .attentionBias = {"attention_bias", false},
       .paddingToken = 0,
       .activation = "gelu_pytorch_tanh",
       .numerics = numericsGemma,
       .adjust = adjustGemma},

      {.facts = {.modelType = "granite"},
       .norm = rmsNorm(1e-6),
       .attentionBias = {"attention_bias", false},
       .mlpBias = {"mlp_bias", false},
       .adjust = adjustGranite},

      {.facts = {.modelType = "starcoder2",
                 .keys = {.normEps = "norm_epsilon"},
                 .tied = true,
                 .mlp = MLPLayout::Plain,
                 .kvHeads = 2,
                 .positions = 4096,
                 .window = WindowRule::All},
       .names = {.up = "mlp.c_fc", .down = "mlp.c_proj"},
       .norm = layerNorm,
       .attentionBias = {"use_bias", true},
       .mlpBias = {"use_bias", true},
       .activation = "gelu_pytorch_tanh",
       .initializerRange = 0.018042,
       .adjust = adjustStarcoder2},

      {.facts = {.modelType = "opt",
                 .keys = {.intermediate = "ffn_dim",
                          .normEps = "",
                          .activation = "activation_function",
                          .initializer = "init_std"},
                 .tied = true,
                 .mlp = MLPLayout::Plain,
                 .groupedQuery = false,
                 .readsHeadDim = false,
                 .learnedPositions = true},
       .names = {.embedding = "model.decoder.embed_tokens",
                 .positions = "model.decoder.embed_positions",
                 .layer = "model.decoder.layers.",
                 .norm1 = "self_attn_layer_norm",
                 .norm2 = "final_layer_norm",
                 .o = "self_attn.out_proj",
                 .up = "fc1",
                 .down = "fc2",
                 .finalNorm = "model.decoder.final_layer_norm",
                 .projectIn = "model.decoder.project_in",
                 .projectOut = "model.decoder.project_out"},
       .norm = layerNorm,
       .attentionBias = {"enable_bias", true},
       .mlpBias = {"enable_bias", true},
       .positionOffset = 2,
       .paddingToken = 1,
       .activation = "relu",
       .harmless = harmlessOPT,
       .adjust = adjustOPT},
  };
  return families;
}

} // namespace

const Family *cleave::frontend::findFamily(StringRef modelType) {
  for (const Family &family : getFamilies())
    if (family.facts.modelType == modelType)
      return &family;
  return nullptr;
}

const FamilyFacts *cleave::findFacts(StringRef modelType) {
  const Family *family = findFamily(modelType);
  return family ? &family->facts : nullptr;
}

std::vector<bool> cleave::getSlidingLayers(WindowRule rule,
                                           const WindowKeys &keys,
                                           int64_t layers) {
  auto slides = [&](int64_t layer) {
    switch (rule) {
    case WindowRule::None:
      return false;
    case WindowRule::All:
      return true;
    case WindowRule::Switched:
      return keys.use;
    case WindowRule::Qwen:
      return keys.use && layer >= keys.firstSliding;
    case WindowRule::Even:
      return layer % 2 == 0;
    case WindowRule::Pattern:
      return (layer + 1) % keys.pattern != 0;
    case WindowRule::AllButFourth:
      return (layer + 1) % 4 != 0;
    case WindowRule::EachFourth:
      return keys.use && (layer + 1) % 4 == 0;
    }
    llvm_unreachable("all rules are above");
  };
  std::vector<bool> all;
  for (int64_t layer = 0; layer != layers; ++layer)
    all.push_back(slides(layer));
  return all;
}

std::vector<llvm::StringRef> cleave::getModelTypes() {
  std::vector<llvm::StringRef> types;
  for (const Family &family : getFamilies())
    types.push_back(family.facts.modelType);
  return types;
}

std::string cleave::frontend::listFamilies() {
  return llvm::join(getModelTypes(), ", ");
}
