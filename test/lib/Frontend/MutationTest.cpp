// Damaged configs give a model that holds together or one line of message;
// they never crash. Meant to run under ASan and UBSan too.

#include "TestConfigs.h"
#include "gtest/gtest.h"
#include <iostream>
#include <random>

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;

namespace {

constexpr int mutants = 12000;

class Mutator {
public:
  explicit Mutator(uint64_t seed) : random(seed) {}

  /// One to four changes, to the document or to its bytes.
  std::string mutate(json config, const std::vector<json> &others) {
    const size_t changes = 1 + pick(4);
    for (size_t i = 0; i < changes; ++i)
      mutateDocument(config, others[pick(others.size())]);
    std::string text = config.dump();
    if (pick(2))
      for (size_t i = 0; i < changes; ++i)
        mutateBytes(text);
    return text;
  }

private:
  std::mt19937_64 random;

  size_t pick(size_t count) { return random() % count; }

  json &pickValue(json &object) {
    auto it = object.begin();
    std::advance(it, pick(object.size()));
    return *it;
  }

  json makeValue() {
    static const json values = json::parse(R"([
      null, true, false, 0, 1, 2, 3, 7, 8, 64, 4096, 4097, -1, 1000000000,
      9223372036854775807, 18446744073709551615, -9223372036854775808, 1e3,
      0.25, 0.5, 1.5, 1e-300, 1e300, -0.0, "", "gelu", "silu", "llama",
      "phi3", "gpt_neox", "bfloat16", "yarn", "longrope", [], [1, 2, 3, 4],
      ["full_attention", "sliding_attention"], {}, {"type": "linear"},
      {"rope_type": "yarn", "factor": 4},
      {"rope_type": "yarn", "factor": 1e6, "beta_fast": 1e-300,
       "original_max_position_embeddings": 2},
      {"type": "llama3", "factor": 8, "low_freq_factor": 1e-9,
       "high_freq_factor": 1e6, "original_max_position_embeddings": 2},
      {"type": "longrope", "short_factor": [1, 2, 3, 4],
       "long_factor": [1e-9, 2, 3, 1e6]},
      {"rope_theta": 1.0000001, "rope_type": "yarn", "factor": 1}
    ])");
    return values[pick(values.size())];
  }

  std::string makeKey() {
    static const char *const keys[] = {"head_dim",
                                       "sliding_window",
                                       "use_sliding_window",
                                       "layer_types",
                                       "max_window_layers",
                                       "rope_scaling",
                                       "rope_parameters",
                                       "partial_rotary_factor",
                                       "num_key_value_heads",
                                       "n_inner",
                                       "hidden_activation",
                                       "attention_bias",
                                       "pad_token_id",
                                       "tie_word_embeddings",
                                       "dtype",
                                       "attention_dropout",
                                       "clip_qkv",
                                       "original_max_position_embeddings"};
    return keys[pick(std::size(keys))];
  }

  void mutateDocument(json &config, json other) {
    if (config.empty())
      return;
    switch (pick(6)) {
    case 0: // drop a key
      config.erase(std::next(config.begin(), pick(config.size())));
      break;
    case 1: // swap two values
      std::swap(pickValue(config), pickValue(config));
      break;
    case 2: // an extreme value
      pickValue(config) = makeValue();
      break;
    case 3: // a key of our own
      config[makeKey()] = makeValue();
      break;
    case 4: // a key of another config
      config.insert(std::next(other.begin(), pick(other.size())), other.end());
      break;
    case 5: // a number that is a little off
      if (json &value = pickValue(config); value.is_number_integer())
        value = int64_t(value.get<uint64_t>() + pick(5) - 2);
      break;
    }
  }

  void mutateBytes(std::string &text) {
    if (text.empty())
      return;
    const size_t at = pick(text.size());
    switch (pick(5)) {
    case 0:
      text[at] = char(text[at] ^ (1 << pick(8)));
      break;
    case 1:
      text[at] = char(random());
      break;
    case 2:
      text.resize(at);
      break;
    case 3:
      text.erase(at, 1 + pick(8));
      break;
    case 4:
      text.insert(at, text.substr(pick(text.size()), 8));
      break;
    }
  }
};

TEST(Mutation, DamagedConfigsGiveAModelOrALine) {
  std::vector<json> configs;
  for (const std::string &name : getGoldenCases())
    configs.push_back(readJson("golden/" + name + ".json"));
  configs.push_back(readJson("phi-4-mini-instruct.json"));
  configs.push_back(readJson("llama-3.1-8b.json"));

  Mutator mutator(20240607);
  int accepted = 0;
  for (int i = 0; i < mutants; ++i) {
    const std::string text =
        mutator.mutate(configs[i % configs.size()], configs);
    SCOPED_TRACE("mutant " + std::to_string(i) + ": " + text);
    llvm::Expected<Model> model =
        parseModel(text, "config.json", {.seqLen = i % 3 * 64});
    if (!model) {
      const std::string error = toString(model.takeError());
      ASSERT_TRUE(llvm::StringRef(error).starts_with("config.json: ")) << error;
      ASSERT_LT(error.size(), 1000u);
      for (char c : error)
        ASSERT_TRUE(c >= ' ' && c < 127) << error;
      continue;
    }
    ++accepted;
    ASSERT_EQ(checkCover(*model), "");
    ASSERT_GT(model->getParameterCount(), 0);
    for (const LayerSpec &layer : model->layers)
      ASSERT_GT(layer.attentionScale, 0);
    if (model->rope) {
      for (float frequency : model->rope->inverseFrequencies)
        ASSERT_TRUE(frequency > 0 && frequency < 1e10f) << frequency;
    }
    ASSERT_FALSE(getModelSummary(*model).empty());
  }
  // Enough of both, or the mutations miss the parser's depths.
  EXPECT_GT(accepted, mutants / 20);
  EXPECT_LT(accepted, mutants * 19 / 20);
  std::cout << mutants << " damaged configs: " << accepted
            << " accepted, the others refused\n";
}

} // namespace
