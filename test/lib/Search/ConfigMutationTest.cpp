// Damaged configs give the planner an architecture or one line of message; they
// never crash. All of a campaign:
//   CLEAVE_MUTANTS=20000 SearchTest --gtest_filter='ConfigMutation.*'

#include "cleave/Search/ReadArchitecture.h"
#include "test/lib/Frontend/ConfigMutator.h"
#include "gtest/gtest.h"
#include <cmath>
#include <iostream>

using namespace cleave;
using namespace cleave::test;

TEST(ConfigMutation, DamagedConfigsGiveAnArchitectureOrALine) {
  const std::vector<nlohmann::json> configs =
      readConfigs(CLEAVE_TEST_DATA "/configs");
  const int mutants = countMutants();
  ConfigMutator mutator(20240608);
  int accepted = 0;
  for (int i = 0; i < mutants; ++i) {
    const std::string text =
        mutator.mutate(configs[i % configs.size()], configs);
    SCOPED_TRACE("mutant " + std::to_string(i) + ": " + text);
    const auto start = std::chrono::steady_clock::now();
    // The reader of sizes alone, too, which has other families by heart.
    for (auto *read : {readArchitecture, readSizes}) {
      llvm::Expected<Architecture> model = read(text, "config.json");
      if (!model) {
        const std::string error = toString(model.takeError());
        ASSERT_TRUE(llvm::StringRef(error).starts_with("config.json: "))
            << error;
        ASSERT_LT(error.size(), 1000u);
        for (char c : error)
          ASSERT_TRUE(c >= ' ' && c < 127) << error;
        continue;
      }
      ++accepted;
      ASSERT_GT(model->hidden, 0);
      ASSERT_GT(model->vocab, 0);
      ASSERT_FALSE(model->blocks.empty());
      ASSERT_TRUE(std::isfinite(model->getParameters()));
      ASSERT_GT(model->getParameters(), 0);
      for (const auto &[block, count] : model->blocks) {
        ASSERT_GT(count, 0);
        ASSERT_GT(block.heads, 0);
        ASSERT_GT(block.kvHeads, 0);
        ASSERT_GT(block.headDim, 0);
        ASSERT_GE(block.window, 0);
      }
    }
    ASSERT_LT(std::chrono::steady_clock::now() - start, mutantLimit);
  }
  // Enough of both, or the mutations miss the reader's depths.
  EXPECT_GT(accepted, 2 * mutants / 20);
  EXPECT_LT(accepted, 2 * mutants * 19 / 20);
  std::cout << mutants << " damaged configs, by two readers: " << accepted
            << " accepted, the others refused\n";
}
