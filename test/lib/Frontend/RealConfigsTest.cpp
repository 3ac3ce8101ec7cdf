// Published configs: each imports with the exact parameter count of its
// published checkpoint, or is refused by the name of what is not supported.
// What few of them have that no code reads is in a note.

#include "TestConfigs.h"
#include "llvm/ADT/StringRef.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <map>
#include <set>

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;

namespace {

const std::set<std::string> supported = {
    "gpt2",  "gpt_neox", "llama", "mistral", "qwen2",      "qwen3",
    "olmo2", "phi3",     "gemma", "granite", "starcoder2", "opt"};

std::vector<std::string> getNames() {
  std::vector<std::string> names;
  const json all = readJson("expected-counts.json");
  for (const auto &[name, expected] : all.items())
    names.push_back(name);
  return names;
}

class RealConfig : public testing::TestWithParam<std::string> {
protected:
  const json expected = readJson("expected-counts.json")[GetParam()];
  const std::string modelType = expected["model_type"];
  const std::string path =
      std::string(CLEAVE_CONFIGS) + "/" + GetParam() + ".json";
};

TEST_P(RealConfig, ImportsWithItsPublishedCountOrIsRefusedByName) {
  llvm::Expected<Model> model = loadModel(path);
  if (expected.contains("refused")) {
    ASSERT_FALSE(bool(model));
    const std::string key = expected["refused"].dump();
    EXPECT_EQ(toString(model.takeError()).find(path + ": key " + key), 0u);
  } else if (supported.count(modelType)) {
    ASSERT_TRUE(bool(model)) << toString(model.takeError());
    EXPECT_EQ(model->modelType, modelType);
    EXPECT_EQ(model->getParameterCount(), expected["parameters"]);
    EXPECT_EQ(checkCover(*model), "");
  } else {
    ASSERT_FALSE(bool(model));
    EXPECT_EQ(toString(model.takeError()),
              path + ": key \"model_type\": value \"" + modelType +
                  "\" is not supported; supported are gpt2, gpt_neox, llama, "
                  "mistral, qwen2, qwen3, olmo2, phi3, gemma, granite, "
                  "starcoder2, opt");
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealConfig, testing::ValuesIn(getNames()),
                         [](const auto &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             if (!isalnum(c))
                               c = '_';
                           return name;
                         });

TEST(RealConfigs, AllAreListed) {
  const json all = readJson("expected-counts.json");
  size_t imported = 0;
  for (const json &expected : all)
    imported += supported.count(expected["model_type"]) &&
                !expected.contains("refused");
  EXPECT_EQ(all.size(), 112u);
  EXPECT_EQ(imported, 70u);

  // All files but the two that are about them.
  std::set<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(CLEAVE_CONFIGS))
    if (entry.path().extension() == ".json")
      files.insert(entry.path().stem());
  EXPECT_EQ(files.erase("expected-counts") + files.erase("read-keys"), 2u);
  const std::vector<std::string> names = getNames();
  EXPECT_EQ(files, std::set<std::string>(names.begin(), names.end()));
}

/// The keys of published configs that no code reads, each looked up in the
/// family's code in transformers.
TEST(RealConfigs, FewKeysAreReadByNobody) {
  std::map<std::string, std::string> ignored;
  const json all = readJson("expected-counts.json");
  for (const auto &[name, expected] : all.items()) {
    llvm::Expected<Model> model =
        loadModel(std::string(CLEAVE_CONFIGS) + "/" + name + ".json");
    if (!model) {
      llvm::consumeError(model.takeError());
      continue;
    }
    for (const std::string &note : model->notes) {
      auto [before, keys] = llvm::StringRef(note).split(" are ignored: ");
      if (!keys.empty())
        ignored[name] = keys.split("; --strict").first.str();
    }
  }
  const std::map<std::string, std::string> known = {
      {"llama-30b", R"("max_sequence_length")"},
      {"starcoder2-7b",
       R"("activation_function", "attention_softmax_in_fp32", )"
       R"("layer_norm_epsilon", "scale_attention_softmax_in_fp32", )"
       R"("scale_attn_weights")"}};
  EXPECT_EQ(ignored, known);
}

} // namespace
