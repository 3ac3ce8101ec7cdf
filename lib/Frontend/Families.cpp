// One table entry per model_type, and the few functions that read what only
// one family has. Sources: configuration_<type>.py and modeling_<type>.py of
// HuggingFace transformers 5.

#include "Family.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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


void adjustGPT2(ObjectReader &config, Model &model) {
  if (!config.getBool("scale_attn_weights", true))
    model.attentionScale = 1;
  if (config.getBool("scale_attn_by_inverse_layer_idx", false))
    config.fail("scale_attn_by_inverse_layer_idx",
                "is not supported; legal: false");
  // Computes scores and softmax in f32, as is always done here.
  config.getBool("reorder_and_upcast_attn", false);
}

const StringRef harmlessGPT2[] = {
    "n_ctx",        "n_special",        "predict_special_tokens",
    "summary_type", "summary_use_proj", "summary_activation",
    "summary_proj_to_labels", "summary_first_dropout"};

const StringRef harmlessLlama[] = {"pretraining_tp", "is_llama_config"};

const std::vector<Family> &getFamilies() {
  static const std::vector<Family> families = {
      {.modelType = "gpt2",
       .keys = {.hidden = "n_embd",
                .layers = "n_layer",
                .heads = "n_head",
                .intermediate = "n_inner",
                .positions = "n_positions",
                .normEps = "layer_norm_epsilon",
                .activation = "activation_function"},
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
       .mlp = MLPLayout::Plain,
       .attentionBias = {"", true},
       .mlpBias = {"", true},
       .groupedQuery = false,
       .readsHeadDim = false,
       .rotary = false,
       .positions = 1024,
       .activation = "gelu_new",
       .tied = true,
       .harmless = harmlessGPT2,
       .adjust = adjustGPT2},

      {.modelType = "llama",
       .norm = rmsNorm(1e-6),
       .attentionBias = {"attention_bias", false},
       .mlpBias = {"mlp_bias", false},
       .harmless = harmlessLlama},
  };
  return families;
}

} // namespace

const Family *cleave::frontend::findFamily(StringRef modelType) {
  for (const Family &family : getFamilies())
    if (family.modelType == modelType)
      return &family;
  return nullptr;
}

std::string cleave::frontend::listFamilies() {
  return llvm::join(llvm::map_range(getFamilies(),
                                    [](const Family &family) {
                                      return family.modelType;
                                    }),
                    ", ");
}
