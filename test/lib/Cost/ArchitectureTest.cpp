//===- ArchitectureTest.cpp - Weights and FLOPs of published models -------===//
#include "cleave/Cost/Work.h"
#include "test/lib/Cost/Llama8B.h"
#include "gtest/gtest.h"

using namespace cleave;
using namespace cleave::test;

namespace {

Architecture makeDeepSeekV3() {
  Architecture model;
  model.hidden = 7168;
  model.vocab = 129280;
  Block dense;
  dense.heads = dense.kvHeads = 128;
  dense.headDim = 192;
  dense.valueDim = 128;
  dense.queryRank = 1536;
  dense.latentRank = 512;
  dense.sharedKeyDim = 64;
  dense.ffn = 18432;
  Block sparse = dense;
  sparse.ffn = 0;
  sparse.experts = 256;
  sparse.expertsPerToken = 8;
  sparse.expertFfn = sparse.sharedFfn = 2048;
  model.blocks = {{dense, 3}, {sparse, 58}};
  return model;
}

TEST(ArchitectureTest, ParametersAsPublished) {
  // 8,030,261,248 in the checkpoint's own index.
  EXPECT_EQ(makeLlama8B().getParameters(), 8030261248.);
  // 671 billion (arXiv:2412.19437); the index leaves out small norms.
  EXPECT_NEAR(makeDeepSeekV3().getParameters() / 671e9, 1, 0.001);
}

/// Kaplan's 6 N for each token, the embedding's lookup left out.
TEST(ArchitectureTest, SixFlopsPerParameter) {
  Architecture model = makeLlama8B();
  double products =
      model.getParameters() - double(model.vocab) * 4096 - 65 * 4096;
  EXPECT_NEAR(model.getFlopsPerToken(1), 6 * products + 12. * 32 * 4096,
              1e-6 * products);
  // A causal sequence adds 6 layers x hidden x length.
  EXPECT_NEAR(model.getFlopsPerToken(8191) - model.getFlopsPerToken(1),
              6. * 32 * 4096 * 8190, 1e-6 * products);
}

TEST(ArchitectureTest, SparseFlopsAreOfActiveWeights) {
  // 37 billion active, of which the head's lookup side is none.
  double flops = makeDeepSeekV3().getFlopsPerToken(1);
  EXPECT_NEAR(flops / 6, 37e9, 0.03 * 37e9);
}

TEST(ArchitectureTest, CausalPairs) {
  EXPECT_EQ(getCausalPairs(4, 0), 10);
  EXPECT_EQ(getCausalPairs(4, 8), 10);
  // 1 + 2 + 2 + 2.
  EXPECT_EQ(getCausalPairs(4, 2), 7);
  // Twice 1 + 2 + 3, and 1 + 2.
  EXPECT_EQ(getChunkedPairs(8, 3), 15);
  EXPECT_EQ(getChunkedPairs(4, 8), 10);
}

} // namespace
