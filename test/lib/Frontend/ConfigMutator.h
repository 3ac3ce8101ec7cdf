//===- ConfigMutator.h - Damaged configs ----------------------------------===//
#ifndef CLEAVE_TEST_LIB_FRONTEND_CONFIGMUTATOR_H
#define CLEAVE_TEST_LIB_FRONTEND_CONFIGMUTATOR_H

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace cleave::test {

/// How many damaged configs a test reads: CLEAVE_MUTANTS, or a sample.
inline int countMutants() {
  const char *given = std::getenv("CLEAVE_MUTANTS");
  return given ? std::atoi(given) : 4000;
}

/// The longest that reading one of them may take.
constexpr std::chrono::seconds mutantLimit(10);

/// All published configs under `folder` and the small ones of its golden/.
inline std::vector<nlohmann::json> readConfigs(const std::string &folder) {
  std::vector<std::filesystem::path> paths;
  for (const std::string &where : {folder, folder + "/golden"})
    for (const auto &entry : std::filesystem::directory_iterator(where))
      if (entry.path().extension() == ".json")
        paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<nlohmann::json> configs;
  for (const std::filesystem::path &path : paths) {
    // What is not JSON, for its Infinity, has a test of its own.
    std::ifstream file(path);
    nlohmann::json config = nlohmann::json::parse(file, nullptr, false);
    if (config.is_object() &&
        (config.contains("model_type") || config.contains("text_config")))
      configs.push_back(std::move(config));
  }
  return configs;
}

/// Damages a config, the same in each run.
class ConfigMutator {
public:
  explicit ConfigMutator(uint64_t seed) : random(seed) {}

  /// One to four changes, to the document or to its bytes.
  std::string mutate(nlohmann::json config,
                     const std::vector<nlohmann::json> &others) {
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
  using json = nlohmann::json;
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
    switch (pick(7)) {
    case 6: // the same, one level down
      for (json &inner : config)
        if (inner.is_object() && pick(2))
          return mutateDocument(inner, std::move(other));
      break;
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
    switch (pick(6)) {
    case 5: // a number that JSON does not know
      if (size_t digit = text.find_first_of("0123456789", at);
          digit != std::string::npos) {
        static const char *const numbers[] = {"NaN", "Infinity", "-Infinity",
                                              "1e999"};
        text.replace(digit, 1, numbers[pick(std::size(numbers))]);
      }
      break;
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

} // namespace cleave::test

#endif // CLEAVE_TEST_LIB_FRONTEND_CONFIGMUTATOR_H
