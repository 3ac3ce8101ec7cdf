// Rotary frequencies against an f64 transcription of the papers' formulas and
// against numbers computed by hand.

#include "TestConfigs.h"
#include "gtest/gtest.h"
#include <cmath>
#include <numbers>

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;
using Frequencies = std::vector<double>;

namespace {

// The reference: everything in f64, from the definition of a wave length on.

Frequencies getDefault(double theta, int64_t dims) {
  Frequencies frequencies;
  for (int64_t i = 0; i < dims; i += 2)
    frequencies.push_back(std::pow(theta, -double(i) / double(dims)));
  return frequencies;
}

/// https://github.com/meta-llama/llama-models, apply_scaling.
Frequencies getLlama3(double theta, int64_t dims, double factor, double low,
                      double high, double context) {
  Frequencies frequencies = getDefault(theta, dims);
  for (double &frequency : frequencies) {
    const double turns = context * frequency / (2 * std::numbers::pi);
    const double blend =
        std::min(1.0, std::max(0.0, (turns - low) / (high - low)));
    frequency *= blend + (1 - blend) / factor;
  }
  return frequencies;
}

/// Peng et al. 2023, equations 20 to 23 with the ramp over channels.
Frequencies getYarn(double theta, int64_t dims, double factor, double fast,
                    double slow, double context, bool truncate) {
  auto channelOf = [&](double turns) {
    return dims * std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = channelOf(fast), high = channelOf(slow);
  if (truncate)
    low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dims - 1.0);
  if (low == high)
    high += 0.001;
  Frequencies frequencies = getDefault(theta, dims);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp =
        std::min(1.0, std::max(0.0, (double(i) - low) / (high - low)));
    frequencies[i] *= (1 - ramp) + ramp / factor;
  }
  return frequencies;
}

void expectNear(const RopeSpec &rope, const Frequencies &expected,
                const std::string &what = "") {
  EXPECT_EQ(rope.dims, int64_t(2 * expected.size())) << what;
  ASSERT_EQ(rope.inverseFrequencies.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(rope.inverseFrequencies[i] / expected[i], 1, 1e-6)
        << what << " channel " << i;
}

RopeSpec getRope(const char *type, json changes, int64_t seqLen = 0) {
  Model model = parse(change(type, changes), {.seqLen = seqLen});
  return model.rope.value_or(RopeSpec());
}

json getScaled(double theta, int64_t headDim, const json &scaling) {
  return {
      {"rope_theta", theta}, {"head_dim", headDim}, {"rope_scaling", scaling}};
}

TEST(Rope, Default) {
  for (double theta : {10000.0, 500000.0, 999999.4420358813})
    for (int64_t dims : {2, 16, 64, 128}) {
      RopeSpec rope =
          getRope("llama", {{"rope_theta", theta}, {"head_dim", dims}});
      expectNear(rope, getDefault(theta, dims));
      EXPECT_EQ(rope.attentionScaling, 1);
      EXPECT_EQ(rope.inverseFrequencies[0], 1);
    }
  expectNear(getRope("llama", {{"rope_theta", "absent"}}),
             getDefault(10000, 8));
}

// 10000^(-2/64) in f32 as torch gives it.
TEST(Rope, IsRoundedToTheNearestFloat) {
  RopeSpec rope = getRope("llama", {{"rope_theta", 10000}, {"head_dim", 64}});
  EXPECT_EQ(rope.inverseFrequencies[8], 0.1f);
  EXPECT_EQ(rope.inverseFrequencies[16], 0.01f);
}

TEST(Rope, Linear) {
  Frequencies expected = getDefault(10000, 64);
  for (double &frequency : expected)
    frequency /= 2.5;
  expectNear(getRope("llama", getScaled(10000, 64,
                                        {{"type", "linear"}, {"factor", 2.5}})),
             expected);
}

/// emozilla's NTK scaling: the base grows with the sequence.
TEST(Rope, Dynamic) {
  auto get = [](int64_t seqLen) {
    return getRope(
        "llama",
        getScaled(10000, 64, {{"rope_type", "dynamic"}, {"factor", 2.5}}),
        seqLen);
  };
  // The model has 256 positions.
  for (int64_t seqLen : {0, 1, 256})
    expectNear(get(seqLen), getDefault(10000, 64));
  for (int64_t seqLen : {257, 512, 4096}) {
    const double excess = 2.5 * double(seqLen) / 256 - 1.5;
    expectNear(get(seqLen),
               getDefault(10000 * std::pow(excess, 64.0 / 62), 64));
  }
}

TEST(Rope, Llama3) {
  for (double factor : {8.0, 32.0})
    for (double context : {32.0, 8192.0}) {
      json scaling = {{"rope_type", "llama3"},
                      {"factor", factor},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", context}};
      scaling["original_max_position_embeddings"] = int64_t(context);
      RopeSpec rope = getRope("llama", getScaled(500000, 128, scaling));
      expectNear(rope, getLlama3(500000, 128, factor, 1, 4, context));
      EXPECT_EQ(rope.attentionScaling, 1);
    }
}

/// Llama-3.1-8B by hand: wave 28 is 1,956 tokens long (below 8192 / 4, kept),
/// 29 and 34 lie between, 35 is 8,219 long (above 8192, slowed eightfold).
TEST(Rope, Llama31ByHand) {
  Model model = parse(readJson("llama-3.1-8b.json"));
  const std::vector<float> &f = model.rope->inverseFrequencies;
  ASSERT_EQ(f.size(), 64u);
  const std::pair<size_t, double> expected[] = {{0, 1.0},
                                                {1, 0.8146172338565447},
                                                {28, 0.003211445994752591},
                                                {29, 0.002166570763503359},
                                                {32, 0.0005248461609929547},
                                                {34, 0.0001785078127679964},
                                                {35, 9.556212353964683e-05},
                                                {63, 3.068925988914511e-07}};
  for (auto [i, value] : expected)
    EXPECT_NEAR(f[i] / value, 1, 1e-6) << i;
}

TEST(Rope, Yarn) {
  for (bool truncate : {true, false})
    for (double factor : {1.0, 4.0, 32.0})
      for (int64_t context : {16, 4096, 32768}) {
        json scaling = {{"rope_type", "yarn"},
                        {"factor", factor},
                        {"beta_fast", 24},
                        {"beta_slow", 2.5},
                        {"truncate", truncate},
                        {"original_max_position_embeddings", context}};
        RopeSpec rope = getRope("qwen3", getScaled(1e6, 64, scaling));
        expectNear(rope, getYarn(1e6, 64, factor, 24, 2.5, context, truncate));
        EXPECT_DOUBLE_EQ(rope.attentionScaling, 0.1 * std::log(factor) + 1);
      }
}

/// Qwen's YaRN to 131,072: the ramp goes from channel 23 to 40.
TEST(Rope, QwenYarnByHand) {
  json scaling = {{"type", "yarn"},
                  {"factor", 4.0},
                  {"original_max_position_embeddings", 32768}};
  RopeSpec rope = getRope("qwen3", getScaled(1e6, 128, scaling));
  const std::pair<size_t, double> expected[] = {{0, 1.0},
                                                {20, 0.01333521432163324},
                                                {23, 0.006978305848598663},
                                                {24, 0.005375321490790102},
                                                {30, 0.001064360981247002},
                                                {40, 4.445698525097307e-05},
                                                {63, 3.102344401879299e-07}};
  for (auto [i, value] : expected)
    EXPECT_NEAR(rope.inverseFrequencies[i] / value, 1, 1e-6) << i;
  EXPECT_DOUBLE_EQ(rope.attentionScaling, 1.138629436111989);
}

TEST(Rope, YarnAttentionFactors) {
  auto getScaling = [](json scaling) {
    scaling["type"] = "yarn";
    scaling["original_max_position_embeddings"] = 64;
    return getRope("llama", getScaled(10000, 32, scaling)).attentionScaling;
  };
  EXPECT_EQ(getScaling({{"factor", 40}, {"attention_factor", 0.75}}), 0.75);
  EXPECT_EQ(getScaling({{"factor", 40}, {"mscale", 1}, {"mscale_all_dim", 1}}),
            1);
  EXPECT_DOUBLE_EQ(
      getScaling({{"factor", 40}, {"mscale", 1}, {"mscale_all_dim", 0.5}}),
      (0.1 * std::log(40) + 1) / (0.05 * std::log(40) + 1));
  // One of the two alone, or zero, has no effect.
  EXPECT_DOUBLE_EQ(getScaling({{"factor", 40}, {"mscale", 0.5}}),
                   0.1 * std::log(40) + 1);
  EXPECT_DOUBLE_EQ(
      getScaling({{"factor", 40}, {"mscale", 0.5}, {"mscale_all_dim", 0}}),
      0.1 * std::log(40) + 1);
  // 256 positions now, 64 before.
  EXPECT_DOUBLE_EQ(getScaling({{"factor", nullptr}}), 0.1 * std::log(4) + 1);
}

TEST(Rope, YarnTakesTheModelsMaximumForItsOriginal) {
  json scaling = {{"type", "yarn"}, {"factor", 4}};
  expectNear(getRope("llama", getScaled(10000, 64, scaling)),
             getYarn(10000, 64, 4, 32, 1, 256, true));
}

/// Phi-3.5-mini by hand.
TEST(Rope, Phi35LongropeByHand) {
  const json config = readJson("phi-3.5-mini-instruct.json");
  auto get = [&](int64_t seqLen) {
    return *parse(config, {.seqLen = seqLen}).rope;
  };
  for (int64_t seqLen : {0, 1, 2048, 4096}) { // 0: 1024
    RopeSpec rope = get(seqLen);
    EXPECT_EQ(rope.dims, 96);
    EXPECT_NEAR(rope.inverseFrequencies[1] / 0.8092198046104523, 1, 1e-6);
    EXPECT_NEAR(rope.inverseFrequencies[24] / 0.005025126507136654, 1, 1e-6);
    EXPECT_NEAR(rope.inverseFrequencies[47] / 4.2659433051390916e-05, 1, 1e-6);
    EXPECT_DOUBLE_EQ(rope.attentionScaling, 1.1902380714238083);
  }
  for (int64_t seqLen : {4097, 131072}) {
    RopeSpec rope = get(seqLen);
    EXPECT_NEAR(rope.inverseFrequencies[0] / 0.9259258891329368, 1, 1e-6);
    EXPECT_NEAR(rope.inverseFrequencies[24] / 0.00019864916988283863, 1, 1e-6);
    EXPECT_NEAR(rope.inverseFrequencies[47] / 1.8684881663397117e-06, 1, 1e-6);
    EXPECT_DOUBLE_EQ(rope.attentionScaling, 1.1902380714238083);
  }
}

/// Phi-4-mini rotates 96 of 128 channels.
TEST(Rope, Phi4RotatesAPart) {
  Model model = parse(readJson("phi-4-mini-instruct.json"), {.seqLen = 1024});
  EXPECT_EQ(model.headDim, 128);
  EXPECT_EQ(model.rope->dims, 96);
  EXPECT_NEAR(model.rope->inverseFrequencies[1] / 0.8254041852680185, 1, 1e-6);
  EXPECT_NEAR(model.rope->inverseFrequencies[47] / 0.00012115276586285887, 1,
              1e-6);
}

TEST(Rope, LongropeFactors) {
  auto get = [](json scaling) {
    scaling["short_factor"] = {1, 2, 3, 4};
    scaling["long_factor"] = {5, 6, 7, 8};
    scaling["type"] = "su";
    return getRope(
        "phi3",
        {{"rope_scaling", scaling}, {"original_max_position_embeddings", 64}},
        32);
  };
  EXPECT_DOUBLE_EQ(get(json::object()).attentionScaling,
                   std::sqrt(1 + std::log(4) / std::log(64)));
  EXPECT_DOUBLE_EQ(get({{"factor", 2}}).attentionScaling,
                   std::sqrt(1 + std::log(2) / std::log(64)));
  EXPECT_EQ(get({{"factor", 1}}).attentionScaling, 1);
  EXPECT_EQ(get({{"attention_factor", 1.5}}).attentionScaling, 1.5);
  Frequencies expected = getDefault(10000, 8);
  for (size_t i = 0; i < 4; ++i)
    expected[i] /= double(i + 1);
  expectNear(get(json::object()), expected);
}

TEST(Rope, GPTNeoXRotatesAPart) {
  expectNear(getRope("gpt_neox", {{"rotary_pct", "absent"}}),
             getDefault(10000, 4));
  expectNear(getRope("gpt_neox", {{"rotary_pct", 1}}), getDefault(10000, 16));
  expectNear(
      getRope("gpt_neox", {{"rotary_pct", 0.5}, {"rotary_emb_base", 100}}),
      getDefault(100, 8));
  // Saved by transformers 4.50 and 5.
  expectNear(getRope("gpt_neox", {{"rotary_pct", 0.5},
                                  {"partial_rotary_factor", 0.5},
                                  {"rope_theta", 10000}}),
             getDefault(10000, 8));
  expectNear(getRope("gpt_neox", {{"rotary_pct", "absent"},
                                  {"rotary_emb_base", "absent"},
                                  {"rope_parameters",
                                   {{"rope_type", "default"},
                                    {"rope_theta", 500},
                                    {"partial_rotary_factor", 0.5}}}}),
             getDefault(500, 8));
}

/// As transformers 5.3 saves a Phi-3 that rotates a part.
TEST(Rope, WhatIsInsideWinsOverADefaultBesideIt) {
  json inside = {{"rope_type", "default"},
                 {"rope_theta", 500},
                 {"partial_rotary_factor", 0.5}};
  json config = {{"rope_scaling", "absent"},
                 {"rope_theta", 10000},
                 {"partial_rotary_factor", 1.0},
                 {"rope_parameters", inside}};
  expectNear(getRope("phi3", config), getDefault(500, 4));
}

/// 0.2 of 16 channels are 3: frequencies over 3, of 4 channels.
TEST(Rope, OddPartsAreRoundedUp) {
  RopeSpec rope = getRope("gpt_neox", {{"rotary_pct", 0.2}});
  EXPECT_EQ(rope.dims, 4);
  expectNear(rope, {1, std::pow(10000, -2.0 / 3)});
}

TEST(Rope, OldAndNewSpellingsAgree) {
  const json parameters = {
      {"rope_type", "llama3"}, {"rope_theta", 500000},
      {"factor", 8},           {"low_freq_factor", 1},
      {"high_freq_factor", 4}, {"original_max_position_embeddings", 32}};
  json scaling = parameters;
  scaling.erase("rope_theta");
  scaling["type"] = scaling["rope_type"];
  scaling.erase("rope_type");
  RopeSpec fresh = getRope("llama", {{"rope_theta", "absent"},
                                     {"rope_parameters", parameters},
                                     {"rope_scaling", "absent"},
                                     {"head_dim", 64}});
  RopeSpec old = getRope("llama", getScaled(500000, 64, scaling));
  EXPECT_EQ(fresh.inverseFrequencies, old.inverseFrequencies);
  expectNear(fresh, getLlama3(500000, 64, 8, 1, 4, 32));
}

TEST(Rope, Phi3OriginalLengthIsTheClassDefaultUnlessBesideTheScaling) {
  Model model =
      parse(change("phi3", {{"original_max_position_embeddings", "absent"},
                            {"rope_scaling",
                             {{"type", "longrope"},
                              {"short_factor", {1, 1, 1, 1}},
                              {"long_factor", {2, 2, 2, 2}},
                              {"original_max_position_embeddings", 16}}}}),
            {.seqLen = 64});
  expectNear(*model.rope, getDefault(10000, 8));
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_NE(model.notes[0].find("4096 is used"), std::string::npos);
}

} // namespace
