// What each family fixes, what it reads, and what an absent key means: the
// defaults of the HuggingFace configuration classes.

#include "TestConfigs.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;

namespace {

/// The windows of the layers, e.g. "0 16".
std::string getWindows(const json &config) {
  std::string windows;
  for (const LayerSpec &layer : parse(config).layers) {
    windows += windows.empty() ? "" : " ";
    windows += std::to_string(layer.window);
  }
  return windows;
}

TEST(Families, Norms) {
  struct Case {
    const char *type, *key;
    NormKind kind;
    double defaultEps, offset;
    bool inF32, bias;
  };
  const Case cases[] = {
      {"gpt2", "layer_norm_epsilon", NormKind::LayerNorm, 1e-5, 0, true, true},
      {"gpt_neox", "layer_norm_eps", NormKind::LayerNorm, 1e-5, 0, true, true},
      {"opt", "", NormKind::LayerNorm, 1e-5, 0, true, true},
      {"starcoder2", "norm_epsilon", NormKind::LayerNorm, 1e-5, 0, true, true},
      {"llama", "rms_norm_eps", NormKind::RMSNorm, 1e-6, 0, false, false},
      {"mistral", "rms_norm_eps", NormKind::RMSNorm, 1e-6, 0, false, false},
      {"qwen2", "rms_norm_eps", NormKind::RMSNorm, 1e-6, 0, false, false},
      {"qwen3", "rms_norm_eps", NormKind::RMSNorm, 1e-6, 0, false, false},
      {"olmo2", "rms_norm_eps", NormKind::RMSNorm, 1e-5, 0, true, false},
      {"phi3", "rms_norm_eps", NormKind::RMSNorm, 1e-5, 0, false, false},
      {"gemma", "rms_norm_eps", NormKind::RMSNorm, 1e-6, 1, true, false},
      {"granite", "rms_norm_eps", NormKind::RMSNorm, 1e-6, 0, false, false}};
  for (const Case &c : cases) {
    json config = getSmallConfig(c.type);
    if (*c.key)
      config[c.key] = 0.25;
    NormSpec norm = parse(config).norm;
    EXPECT_EQ(norm.kind, c.kind) << c.type;
    EXPECT_EQ(norm.eps, *c.key ? 0.25 : 1e-5) << c.type;
    EXPECT_EQ(norm.weightOffset, c.offset) << c.type;
    EXPECT_EQ(norm.weightInF32, c.inF32) << c.type;
    EXPECT_EQ(norm.bias, c.bias) << c.type;
    config.erase(c.key);
    EXPECT_EQ(parse(config).norm.eps, c.defaultEps) << c.type;
  }
}

TEST(Families, TyingIfTheKeyIsAbsent) {
  const std::pair<const char *, bool> cases[] = {
      {"gpt2", true},     {"gpt_neox", false},  {"llama", false},
      {"mistral", false}, {"qwen2", false},     {"qwen3", false},
      {"olmo2", false},   {"phi3", false},      {"gemma", true},
      {"granite", false}, {"starcoder2", true}, {"opt", true}};
  for (auto [type, tied] : cases) {
    EXPECT_EQ(parse(change(type, {{"tie_word_embeddings", "absent"}})).tied,
              tied)
        << type;
    for (bool given : {false, true}) {
      Model model = parse(change(type, {{"tie_word_embeddings", given}}));
      EXPECT_EQ(model.tied, given) << type;
      EXPECT_EQ(model.head.has_value(), !given) << type;
    }
  }
}

TEST(Families, BlockForms) {
  auto getForm = [](const json &config) { return parse(config).form; };
  EXPECT_EQ(getForm(getSmallConfig("llama")), BlockForm::PreNorm);
  EXPECT_EQ(getForm(getSmallConfig("olmo2")), BlockForm::PostNorm);
  EXPECT_EQ(getForm(change("gpt_neox", {{"use_parallel_residual", "absent"}})),
            BlockForm::Parallel);
  EXPECT_EQ(getForm(change("gpt_neox", {{"use_parallel_residual", false}})),
            BlockForm::PreNorm);
  EXPECT_EQ(getForm(getSmallConfig("opt")), BlockForm::PreNorm);
  EXPECT_EQ(getForm(change("opt", {{"do_layer_norm_before", false}})),
            BlockForm::NormedSum);
}

TEST(Families, KeyValueHeadsIfTheKeyIsAbsentOrNull) {
  auto getKV = [](const char *type, const json &value, int64_t heads) {
    json config = change(type, {{"num_key_value_heads", value},
                                {"num_attention_heads", heads},
                                {"hidden_size", heads * 16}});
    return parse(config).kvHeads;
  };
  for (const char *type : {"llama", "olmo2", "phi3", "granite"})
    EXPECT_EQ(getKV(type, "absent", 64), 64) << type;
  EXPECT_EQ(getKV("mistral", "absent", 64), 8);
  EXPECT_EQ(getKV("qwen2", "absent", 64), 32);
  EXPECT_EQ(getKV("qwen3", "absent", 64), 32);
  EXPECT_EQ(getKV("gemma", "absent", 64), 16);
  EXPECT_EQ(getKV("starcoder2", "absent", 64), 2);
  for (const char *type : {"llama", "mistral", "qwen2", "qwen3"})
    EXPECT_EQ(getKV(type, nullptr, 64), 64) << type;
}

TEST(Families, HeadDims) {
  EXPECT_EQ(parse(change("llama", {{"head_dim", "absent"}})).headDim, 8);
  EXPECT_EQ(parse(change("llama", {{"head_dim", nullptr}})).headDim, 8);
  EXPECT_EQ(parse(change("llama", {{"head_dim", 24}})).headDim, 24);
  EXPECT_EQ(parse(change("qwen3", {{"head_dim", "absent"}})).headDim, 128);
  EXPECT_EQ(parse(change("gemma", {{"head_dim", "absent"}})).headDim, 256);
  // A head dim of its own frees the hidden size from the heads.
  EXPECT_EQ(
      parse(change("llama", {{"head_dim", 8}, {"hidden_size", 100}})).hidden,
      100);
}

TEST(Families, AttentionScales) {
  auto expect = [](const json &config, double first, double second) {
    Model model = parse(config);
    ASSERT_EQ(model.layers.size(), 2u);
    EXPECT_DOUBLE_EQ(model.layers[0].attentionScale, first);
    EXPECT_DOUBLE_EQ(model.layers[1].attentionScale, second);
  };
  expect(getSmallConfig("llama"), 1 / std::sqrt(8.0), 1 / std::sqrt(8.0));
  expect(getSmallConfig("qwen3"), 0.25, 0.25);
  expect(getSmallConfig("gpt2"), 0.25, 0.25);
  expect(change("gpt2", {{"scale_attn_weights", false}}), 1, 1);
  json byLayer = {{"scale_attn_by_inverse_layer_idx", true}};
  expect(change("gpt2", byLayer), 0.25, 0.125);
  byLayer["scale_attn_weights"] = false;
  expect(change("gpt2", byLayer), 1, 0.5);
}

TEST(Families, GraniteMultipliers) {
  Model model = parse(getSmallConfig("granite"));
  EXPECT_EQ(model.embeddingScale, 6);
  EXPECT_EQ(model.layers.back().attentionScale, 0.11);
  EXPECT_EQ(model.residualScale, 0.4);
  EXPECT_EQ(model.logitScale, 0.25);
  model = parse(change("granite", {{"embedding_multiplier", "absent"},
                                   {"attention_multiplier", "absent"},
                                   {"residual_multiplier", "absent"},
                                   {"logits_scaling", "absent"}}));
  EXPECT_EQ(model.embeddingScale, 1);
  EXPECT_EQ(model.layers.back().attentionScale, 1);
  EXPECT_EQ(model.residualScale, 1);
  EXPECT_EQ(model.logitScale, 1);
}

TEST(Families, GemmaScalesItsEmbedding) {
  EXPECT_EQ(parse(getSmallConfig("gemma")).embeddingScale, 8);
  EXPECT_EQ(parse(getSmallConfig("llama")).embeddingScale, 1);
}

TEST(Families, Activations) {
  const std::pair<const char *, Activation> names[] = {
      {"gelu", Activation::GeluErf},
      {"gelu_python", Activation::GeluErf},
      {"gelu_new", Activation::GeluTanh},
      {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"gelu_python_tanh", Activation::GeluTanh},
      {"gelu_accurate", Activation::GeluTanh},
      {"gelu_fast", Activation::GeluFast},
      {"quick_gelu", Activation::QuickGelu},
      {"silu", Activation::Silu},
      {"swish", Activation::Silu},
      {"relu", Activation::Relu},
      {"relu2", Activation::Relu2}};
  for (auto [name, activation] : names) {
    EXPECT_EQ(parse(change("llama", {{"hidden_act", name}})).activation,
              activation);
    EXPECT_EQ(parse(change("gpt2", {{"activation_function", name}})).activation,
              activation);
  }
  auto getDefault = [](const char *type, const char *key) {
    return parse(change(type, {{key, "absent"}})).activation;
  };
  EXPECT_EQ(getDefault("gpt2", "activation_function"), Activation::GeluTanh);
  EXPECT_EQ(getDefault("gpt_neox", "hidden_act"), Activation::GeluErf);
  EXPECT_EQ(getDefault("opt", "activation_function"), Activation::Relu);
  EXPECT_EQ(getDefault("starcoder2", "hidden_act"), Activation::GeluTanh);
  EXPECT_EQ(getDefault("qwen3", "hidden_act"), Activation::Silu);
}

TEST(Families, GemmaMeansTanhGeluByGelu) {
  auto get = [](const json &act, const json &activation) {
    return parse(change(
        "gemma", {{"hidden_act", act}, {"hidden_activation", activation}}));
  };
  for (const json &unset : {json("absent"), json(nullptr)}) {
    Model model = get("gelu", unset);
    EXPECT_EQ(model.activation, Activation::GeluTanh);
    ASSERT_EQ(model.notes.size(), 1u);
    EXPECT_NE(model.notes[0].find("gelu_pytorch_tanh"), std::string::npos);
    EXPECT_EQ(get("silu", unset).activation, Activation::Silu);
    EXPECT_EQ(get("absent", unset).activation, Activation::GeluTanh);
  }
  EXPECT_EQ(get("gelu", "gelu_pytorch_tanh").activation, Activation::GeluTanh);
  EXPECT_EQ(get("relu", "relu").activation, Activation::Relu);
}

TEST(Families, Windows) {
  EXPECT_EQ(getWindows(getSmallConfig("llama")), "0 0");
  EXPECT_EQ(getWindows(getSmallConfig("mistral")), "16 16");
  EXPECT_EQ(getWindows(change("mistral", {{"sliding_window", "absent"}})),
            "4096 4096");
  EXPECT_EQ(getWindows(change("mistral", {{"sliding_window", nullptr}})),
            "0 0");
  EXPECT_EQ(getWindows(change("phi3", {{"sliding_window", 2047}})),
            "2047 2047");
  EXPECT_EQ(getWindows(change("phi3", {{"sliding_window", "absent"}})), "0 0");
  EXPECT_EQ(getWindows(change("starcoder2", {{"sliding_window", "absent"}})),
            "0 0");
}

TEST(Families, QwenWindowsNeedTheirSwitch) {
  for (const char *type : {"qwen2", "qwen3"}) {
    auto get = [&](json changes) {
      changes["num_hidden_layers"] = 4;
      return getWindows(change(type, changes));
    };
    EXPECT_EQ(get({{"sliding_window", 8}, {"max_window_layers", 1}}),
              "0 0 0 0");
    json on = {{"use_sliding_window", true},
               {"sliding_window", 8},
               {"max_window_layers", 3}};
    EXPECT_EQ(get(on), "0 0 0 8");
    on["max_window_layers"] = 0;
    EXPECT_EQ(get(on), "8 8 8 8");
    on["sliding_window"] = nullptr;
    EXPECT_EQ(get(on), "0 0 0 0");
    on["sliding_window"] = "absent";
    EXPECT_EQ(get(on), "4096 4096 4096 4096");
    on["layer_types"] = {"sliding_attention", "full_attention",
                         "full_attention", "sliding_attention"};
    EXPECT_EQ(get(on), "4096 0 0 4096");
    on["layer_types"] = {"full_attention", "full_attention", "full_attention",
                         "full_attention"};
    EXPECT_EQ(get(on), "0 0 0 0");
  }
}

TEST(Families, LayerTypesMayRepeatWhatTheFamilyDoes) {
  EXPECT_EQ(
      getWindows(change(
          "llama", {{"layer_types", {"full_attention", "full_attention"}}})),
      "0 0");
  EXPECT_EQ(getWindows(change(
                "mistral",
                {{"layer_types", {"sliding_attention", "sliding_attention"}}})),
            "16 16");
}

TEST(Families, PositionsAndPadding) {
  Model gpt2 = parse(getSmallConfig("gpt2"));
  EXPECT_EQ(gpt2.positions->tensorShape, (std::vector<int64_t>{128, 64}));
  EXPECT_EQ(gpt2.positionOffset, 0);
  EXPECT_FALSE(gpt2.rope);
  EXPECT_FALSE(parse(change("gpt2", {{"pad_token_id", 3}})).paddingToken);

  Model opt = parse(getSmallConfig("opt"));
  EXPECT_EQ(opt.positions->tensorShape, (std::vector<int64_t>{130, 64}));
  EXPECT_EQ(opt.positionOffset, 2);
  EXPECT_EQ(opt.maxPositions, 128);
  EXPECT_EQ(opt.paddingToken, 1);

  auto getPadding = [](const char *type, const json &value) {
    return parse(change(type, {{"pad_token_id", value}})).paddingToken;
  };
  EXPECT_EQ(getPadding("llama", "absent"), std::nullopt);
  EXPECT_EQ(getPadding("llama", 7), 7);
  EXPECT_EQ(getPadding("llama", -1), 330);
  EXPECT_EQ(getPadding("gemma", "absent"), 0);
  EXPECT_EQ(getPadding("gemma", nullptr), std::nullopt);
  EXPECT_EQ(getPadding("olmo2", "absent"), 1);
}

TEST(Families, OPTMayEndWithoutNorm) {
  EXPECT_TRUE(parse(getSmallConfig("opt")).finalNorm);
  Model model = parse(change("opt", {{"_remove_final_layer_norm", true}}));
  EXPECT_FALSE(model.finalNorm);
  EXPECT_EQ(checkCover(model), "");
}

TEST(Families, OPTThatNormsAfterHasNoFinalNorm) {
  Model model = parse(change("opt", {{"do_layer_norm_before", false}}));
  EXPECT_FALSE(model.finalNorm);
  EXPECT_EQ(checkCover(model), "");
}

TEST(Families, OPTMayEmbedInAWidthOfItsOwn) {
  auto get = [](const json &width) {
    return parse(change("opt", {{"word_embed_proj_dim", width},
                                {"tie_word_embeddings", false}}));
  };
  Model model = get(24);
  EXPECT_EQ(model.embedding.getShape(), (std::vector<int64_t>{331, 24}));
  EXPECT_EQ(model.head->weight.getShape(), (std::vector<int64_t>{331, 24}));
  ASSERT_TRUE(model.projectIn && model.projectOut);
  EXPECT_EQ(model.projectIn->weight.tensor, "model.decoder.project_in.weight");
  EXPECT_EQ(model.projectIn->weight.getShape(), (std::vector<int64_t>{64, 24}));
  EXPECT_EQ(model.projectOut->weight.tensor,
            "model.decoder.project_out.weight");
  EXPECT_EQ(model.projectOut->weight.getShape(),
            (std::vector<int64_t>{24, 64}));
  EXPECT_EQ(checkCover(model), "");
  for (const json &same : {json(64), json(nullptr), json("absent")}) {
    model = get(same);
    EXPECT_FALSE(model.projectIn || model.projectOut);
    EXPECT_EQ(model.embedding.getShape(), (std::vector<int64_t>{331, 64}));
  }
}

TEST(Families, GPT2TakesTheCommonKeys) {
  Model own = parse(getSmallConfig("gpt2"));
  Model common = parse(change("gpt2", {{"n_embd", "absent"},
                                       {"hidden_size", 64},
                                       {"n_layer", "absent"},
                                       {"num_hidden_layers", 2},
                                       {"n_head", "absent"},
                                       {"num_attention_heads", 4},
                                       {"n_positions", "absent"},
                                       {"max_position_embeddings", 128}}));
  EXPECT_EQ(getModelSummary(own), getModelSummary(common));
  EXPECT_EQ(own.headDim, common.headDim);
}

/// Linears of GPT-2 are [in, out], but its head is as the embedding.
TEST(Families, GPT2HeadIsNotTransposed) {
  Model model = parse(change("gpt2", {{"tie_word_embeddings", false}}));
  EXPECT_TRUE(model.layers[0].up.inputsFirst);
  EXPECT_FALSE(model.head->inputsFirst);
  EXPECT_EQ(model.head->weight.tensor, "lm_head.weight");
  EXPECT_EQ(model.head->weight.tensorShape, (std::vector<int64_t>{331, 64}));
}

TEST(Families, GPT2InnerWidth) {
  EXPECT_EQ(parse(change("gpt2", {{"n_inner", "absent"}})).intermediate, 256);
  EXPECT_EQ(parse(change("gpt2", {{"n_inner", nullptr}})).intermediate, 256);
  EXPECT_EQ(parse(change("gpt2", {{"n_inner", 96}})).intermediate, 96);
}

TEST(Families, InitializerRange) {
  EXPECT_EQ(
      parse(change("llama", {{"initializer_range", 0.5}})).initializerRange,
      0.5);
  EXPECT_EQ(parse(change("opt", {{"init_std", 0.006}})).initializerRange,
            0.006);
  EXPECT_EQ(parse(getSmallConfig("starcoder2")).initializerRange, 0.018042);
  EXPECT_EQ(parse(getSmallConfig("llama")).initializerRange, 0.02);
}

TEST(Families, DropoutIsNotedNotRefused) {
  EXPECT_EQ(parse(getSmallConfig("gpt2")).notes.size(), 0u);
  Model model = parse(change("gpt2", {{"resid_pdrop", 0.1}}));
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_EQ(model.notes[0], "key \"resid_pdrop\": dropout 0.1 is not applied; "
                            "training runs without dropout");
}

TEST(Families, KeepTheTextOfTheConfig) {
  const std::string text = getSmallConfig("llama").dump(1);
  llvm::Expected<Model> model = parseModel(text, "config.json");
  ASSERT_TRUE(bool(model));
  EXPECT_EQ(model->configText, text);
}

} // namespace
