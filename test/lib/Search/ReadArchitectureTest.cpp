//===- ReadArchitectureTest.cpp - Sizes of published models ---------------===//
#include "cleave/Search/ReadArchitecture.h"
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
    EXPECT_EQ(bool(model), !unknown.count(name.str())) << name.str();
    if (!model) {
      EXPECT_NE(llvm::toString(model.takeError()).find(name.str()),
                std::string::npos);
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
