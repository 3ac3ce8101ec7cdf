// Damaged configs give a model that holds together or one line of message;
// they never crash. Meant to run under ASan and UBSan too. All of a campaign:
//   CLEAVE_MUTANTS=20000 FrontendMutations

#include "ConfigMutator.h"
#include "TestConfigs.h"
#include "gtest/gtest.h"
#include <iostream>

using namespace cleave;
using namespace cleave::test;
using nlohmann::json;

namespace {

TEST(Mutation, DamagedConfigsGiveAModelOrALine) {
  const std::vector<json> configs = readConfigs(CLEAVE_CONFIGS);
  ASSERT_GT(configs.size(), 120u);
  const int mutants = countMutants();
  ConfigMutator mutator(20240607);
  int accepted = 0;
  for (int i = 0; i < mutants; ++i) {
    const std::string text =
        mutator.mutate(configs[i % configs.size()], configs);
    SCOPED_TRACE("mutant " + std::to_string(i) + ": " + text);
    const auto start = std::chrono::steady_clock::now();
    llvm::Expected<Model> model =
        parseModel(text, "config.json", {.seqLen = i % 3 * 64});
    ASSERT_LT(std::chrono::steady_clock::now() - start, mutantLimit);
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
