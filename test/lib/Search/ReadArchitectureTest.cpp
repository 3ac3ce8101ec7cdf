//===- ReadArchitectureTest.cpp - Sizes of published models ---------------===//
#include "cleave/Search/ReadArchitecture.h"
#include "cleave/Frontend/Facts.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <set>

using namespace cleave;

static const std::string configs = CLEAVE_TEST_DATA "/configs/";

/// test/data/configs/expected-counts.json has the parameters of the published
/// checkpoints. What is compiled is counted to the last bias; of other families
/// biases and norms of heads are left out.
TEST(ReadArchitecture, CountsPublishedParameters) {
  llvm::Expected<llvm::json::Value> counts =
      loadJson(configs + "expected-counts.json");
  ASSERT_TRUE(bool(counts));
  // Families whose sizes the reader does not know.
  const std::set<std::string> unknown = {"deepseek-v3.2",
                                         "nemotron-h-56b-base-8k"};
  std::set<std::string> types;
  int64_t read = 0, exact = 0;
  for (const auto &[name, entry] : *counts->getAsObject()) {
    const llvm::json::Object &row = *entry.getAsObject();
    std::optional<int64_t> expected = row.getInteger("parameters");
    llvm::Expected<Architecture> model =
        loadArchitecture(configs + name.str() + ".json");
    std::optional<llvm::StringRef> refused = row.getString("refused");
    EXPECT_EQ(bool(model), !unknown.count(name.str()) && !refused)
        << name.str();
    if (!model) {
      // The type that is not known, or the key that is not supported.
      std::string reason = "model_type\": value \"" +
                           row.getString("model_type")->str() +
                           "\" is not supported";
      if (refused)
        reason = refused->str() + "\": value {...} is not supported";
      EXPECT_EQ(llvm::toString(model.takeError())
                    .find(configs + name.str() + ".json: key \"" + reason),
                0u)
          << name.str();
      continue;
    }
    if (!expected)
      continue;
    ++read;
    types.insert(row.getString("model_type")->str());
    if (llvm::is_contained(getModelTypes(), *row.getString("model_type"))) {
      ++exact;
      EXPECT_EQ(model->getParameters(), double(*expected)) << name.str();
    } else {
      EXPECT_NEAR(model->getParameters() / double(*expected), 1, 1e-3)
          << name.str();
    }
  }
  EXPECT_GE(read, 80);
  EXPECT_GE(exact, 40);
  for (const char *type : {"llama", "mixtral", "deepseek_v2", "deepseek_v3",
                           "qwen2_moe", "qwen3_moe", "gpt_oss", "dbrx"})
    EXPECT_TRUE(types.count(type)) << type;
}

/// Parameters that the model cards' checkpoints have.
TEST(ReadArchitecture, ReadsOldPhi) {
  for (auto [name, parameters] :
       {std::pair("phi-2", 2779683840.), {"phi-1_5", 1418270720.}}) {
    llvm::Expected<Architecture> model =
        loadArchitecture(configs + name + ".json");
    ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
    EXPECT_NEAR(model->getParameters() / parameters, 1, 1e-3) << name;
  }
}

/// The same, of files that OLMo's own code reads.
TEST(ReadArchitecture, ReadsOldOlmo) {
  for (auto [name, parameters] :
       {std::pair("olmo-1b", 1176764416.), {"olmo-7b", 6888095744.}}) {
    llvm::Expected<Architecture> model =
        loadArchitecture(configs + name + ".json");
    ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
    EXPECT_NEAR(model->getParameters() / parameters, 1, 1e-3) << name;
    EXPECT_EQ(model->maxPositions, 2048) << name;
  }
}

namespace {
/// All that both readers say of a config, as one text.
std::string describe(const Architecture &model) {
  std::string text =
      llvm::formatv("{0} h{1} v{2} tied{3} p{4}:", model.name, model.hidden,
                    model.vocab, model.tied, model.maxPositions);
  for (const auto &[block, count] : model.blocks)
    text += llvm::formatv(" {0}x(a{1} k{2} d{3} {4} w{5} gated{6} f{7})", count,
                          block.heads, block.kvHeads, block.headDim,
                          block.valueDim, block.window, block.gated, block.ffn);
  return text;
}
} // namespace

/// Two readers say the same of each config of a compiled family: as it is,
/// without each of its keys, and with null in its place; with the windows of
/// Qwen on, too. What one refuses as missing, so does the other.
TEST(ReadArchitecture, BothReadersAgree) {
  llvm::Expected<llvm::json::Value> counts =
      loadJson(configs + "expected-counts.json");
  ASSERT_TRUE(bool(counts));
  int64_t read = 0, refused = 0;
  std::set<std::string> windows;
  auto compare = [&](const llvm::json::Object &config,
                     const std::string &what) {
    std::string text =
        llvm::formatv("{0}", llvm::json::Value(llvm::json::Object(config)));
    llvm::Expected<Model> model = parseModel(text, what);
    llvm::Expected<Architecture> sizes = readSizes(text, what);
    if (!model) {
      std::string why = llvm::toString(model.takeError());
      if (why.find("is missing") == std::string::npos)
        return llvm::consumeError(sizes.takeError());
      EXPECT_FALSE(bool(sizes)) << why;
      ++refused;
      return llvm::consumeError(sizes.takeError());
    }
    ASSERT_TRUE(bool(sizes)) << llvm::toString(sizes.takeError());
    EXPECT_EQ(describe(*sizes), describe(getArchitecture(*model))) << what;
    for (const auto &[block, count] : sizes->blocks)
      windows.insert(sizes->name + " " + std::to_string(block.window));
    ++read;
  };
  for (const auto &[name, entry] : *counts->getAsObject()) {
    const llvm::json::Object &row = *entry.getAsObject();
    if (!findFacts(*row.getString("model_type")) || row.get("refused"))
      continue;
    std::string file = configs + name.str() + ".json";
    llvm::Expected<llvm::json::Value> root = loadJson(file);
    ASSERT_TRUE(bool(root)) << llvm::toString(root.takeError());
    const llvm::json::Object &config = *root->getAsObject();
    compare(config, file);
    if (config.get("max_window_layers"))
      for (bool given : {true, false}) {
        llvm::json::Object sliding = config;
        sliding["use_sliding_window"] = true;
        if (!given)
          sliding.erase("max_window_layers");
        compare(sliding, file + " sliding");
      }
    for (const auto &[key, value] : config) {
      llvm::json::Object without = config;
      without[key] = nullptr;
      compare(without, file + " with " + key.str() + ": null");
      without.erase(key);
      compare(without, file + " without " + key.str());
    }
  }
  EXPECT_GE(read, 70 * 20);
  EXPECT_GE(refused, 70 * 5);
  // The windows that a default decides.
  for (const char *window : {"mistral 4096", "qwen2 0", "qwen2 131072"})
    EXPECT_TRUE(windows.count(window)) << window;
}

/// One default in both readers, and what transformers does with it.
TEST(ReadArchitecture, WindowsFollowTheirRules) {
  auto getWindows = [](llvm::StringRef type, llvm::StringRef keys) {
    std::string text = llvm::formatv(
        R"({{"model_type": "{0}", "hidden_size": 64, "vocab_size": 9,
            "num_hidden_layers": 32, "num_attention_heads": 4,
            "intermediate_size": 64, "num_experts": 2,
            "num_experts_per_tok": 1, "num_local_experts": 2,
            "max_position_embeddings": 128, "num_key_value_heads": 4{1}})",
        type, keys);
    llvm::Expected<Architecture> model = readSizes(text, "config.json");
    std::vector<std::pair<int64_t, int64_t>> windows;
    if (!model) {
      ADD_FAILURE() << llvm::toString(model.takeError());
      return windows;
    }
    for (const auto &[block, count] : model->blocks)
      windows.emplace_back(count, block.window);
    return windows;
  };
  using Windows = std::vector<std::pair<int64_t, int64_t>>;
  const char *on = R"(, "use_sliding_window": true, "sliding_window": 8)";
  for (const char *type : {"qwen2", "qwen3", "qwen2_moe"})
    EXPECT_EQ(getWindows(type, on), (Windows{{28, 0}, {4, 8}})) << type;
  EXPECT_EQ(getWindows("qwen3_moe", on), (Windows{{32, 8}}));
  EXPECT_EQ(getWindows("qwen3_moe", ""), (Windows{{32, 0}}));
  EXPECT_EQ(getWindows("qwen2", R"(, "use_sliding_window": true)"),
            (Windows{{28, 0}, {4, 4096}}));
  EXPECT_EQ(getWindows("mixtral", ""), (Windows{{32, 0}}));
  EXPECT_EQ(getWindows("mistral", ""), (Windows{{32, 4096}}));
  EXPECT_EQ(getWindows("mistral", R"(, "sliding_window": null)"),
            (Windows{{32, 0}}));
  EXPECT_EQ(getWindows("gemma3_text", "").front(), std::pair(5l, 4096l));
  EXPECT_EQ(getWindows("olmo3", "").front(), std::pair(3l, 4096l));
  EXPECT_EQ(getWindows("smollm3", on).front(), std::pair(3l, 0l));
  EXPECT_EQ(getWindows("gpt_oss", "").front(), std::pair(1l, 128l));
}

/// As Llama4ForCausalLM of transformers counts its parameters, for Scout and
/// with Maverick's experts; every fourth block attends beyond its chunk.
TEST(ReadArchitecture, ReadsLlama4) {
  const std::string path = configs + "llama-4-scout-17b-16e-instruct.json";
  llvm::Expected<Architecture> scout = loadArchitecture(path);
  ASSERT_TRUE(bool(scout)) << llvm::toString(scout.takeError());
  EXPECT_EQ(scout->name, "llama4_text");
  EXPECT_EQ(scout->getParameters(), 107769861120.);
  EXPECT_EQ(scout->blocks.size(), 24u);
  EXPECT_EQ(scout->blocks[0].count, 3);
  EXPECT_EQ(scout->blocks[0].block.chunk, 8192);
  EXPECT_EQ(scout->blocks[1].block.chunk, 0);
  const Block &block = scout->blocks[0].block;
  EXPECT_EQ(block.getPairs(8192), 8192. * 8193 / 2);
  EXPECT_EQ(block.getPairs(20000), 2 * 8192. * 8193 / 2 + 3616. * 3617 / 2);

  llvm::Expected<llvm::json::Value> root = loadJson(path);
  ASSERT_TRUE(bool(root));
  llvm::json::Object &text = *root->getAsObject()->getObject("text_config");
  text["num_local_experts"] = 128;
  text["interleave_moe_layer_step"] = 2;
  llvm::Expected<Architecture> maverick =
      readArchitecture(llvm::formatv("{0}", *root).str(), "maverick");
  ASSERT_TRUE(bool(maverick)) << llvm::toString(maverick.takeError());
  EXPECT_EQ(maverick->getParameters(), 400711848960.);
  EXPECT_FALSE(maverick->blocks[0].block.isSparse());
  EXPECT_TRUE(maverick->blocks[1].block.isSparse());
}

static std::string getError(llvm::StringRef text) {
  llvm::Expected<Architecture> model = readArchitecture(text, "config.json");
  return model ? "" : llvm::toString(model.takeError());
}

TEST(ReadArchitecture, NamesWhatIsWrong) {
  EXPECT_EQ(getError(R"({"model_type": "mixtral"})"),
            "config.json: key \"hidden_size\": expects a whole number from 1");
  EXPECT_EQ(getError(R"({"model_type": "mixtral", "hidden_size": -1})"),
            "config.json: key \"hidden_size\": expects a whole number from 0");
  EXPECT_EQ(getError(R"({"model_type": "mixtral", "hidden_size": 64,
                         "vocab_size": 9, "tie_word_embeddings": "yes"})"),
            "config.json: key \"tie_word_embeddings\": expects true or false");
  EXPECT_EQ(getError(R"({"model_type": "mixtral", "attn_config": 8})"),
            "config.json: key \"attn_config\": expects an object");
  EXPECT_EQ(getError(R"({"model_type": "gemma3_text", "hidden_size": 64,
                         "vocab_size": 9, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "intermediate_size": 64,
                         "sliding_window_pattern": 0})"),
            "config.json: key \"sliding_window_pattern\": expects a whole "
            "number from 1");
  // As Python writes it; no other text is.
  EXPECT_EQ(getError(R"({"model_type": "mixtral", "hidden_size": Infinity})"),
            "config.json: key \"hidden_size\": expects a whole number from 0");
  EXPECT_NE(getError("[Inf]").find("not valid JSON"), std::string::npos);
  EXPECT_NE(getError("{}").find("key \"model_type\" is missing"),
            std::string::npos);
  // Of all families: the first that is compiled, the last that is planned.
  std::string unknown = getError(R"({"model_type": "no\nthing"})");
  for (const char *part :
       {R"(config.json: key "model_type": value "no\nthing" is not supported)",
        "supported are gpt2,", "smollm3"})
    EXPECT_NE(unknown.find(part), std::string::npos) << unknown;
  EXPECT_NE(getError("[").find("config.json"), std::string::npos);
  EXPECT_EQ(getError(R"({"text_config": {"model_type": "mixtral"}})"),
            "config.json: text_config: key \"hidden_size\": expects a whole "
            "number from 1");
  EXPECT_NE(getError(R"({"text_config": {"model_type": "x"}})").find("smollm3"),
            std::string::npos);
}
