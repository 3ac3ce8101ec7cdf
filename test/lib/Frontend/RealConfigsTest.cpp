// Published configs: each imports with the exact parameter count of its
// published checkpoint, or is refused by the name of what is not supported.

#include "TestConfigs.h"
#include "gtest/gtest.h"
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
  if (supported.count(modelType)) {
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
    imported += supported.count(expected["model_type"]);
  EXPECT_EQ(all.size(), 107u);
  EXPECT_EQ(imported, 66u);
}

} // namespace
