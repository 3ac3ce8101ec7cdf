//===- CheckMeaningTest.cpp - What the check says of wrong passes ---------===//
#include "MeaningFixture.h"
#include "dialects/xf/Xf.h"

using namespace mlir;
using namespace cleave;

namespace {
class CheckMeaning : public MeaningFixture {
protected:
  CheckMeaning() {
    module = parseSourceFile<ModuleOp>(
        std::string(CLEAVE_TEST_MODELS) + "/llama.mlir", &context);
  }

  /// Makes the step, then changes it.
  void run(std::function<void(ModuleOp)> change, bool makesStep = true) {
    MeaningFixture::run(change, [&](PassManager &pm) {
      if (makesStep)
        pm.addPass(createBuildStepPass());
    });
  }
};
} // namespace

TEST_F(CheckMeaning, TakesWhatChangesNothing) {
  run([](ModuleOp) {});
  EXPECT_FALSE(result.failed) << messages;
  EXPECT_EQ(result.passes, 1);
}

TEST_F(CheckMeaning, TakesAnotherOrder) {
  run([](ModuleOp module) {
    module.walk([](xf::AddOp add) {
      SmallVector<Value> inputs(llvm::reverse(add.getInputs()));
      if (inputs.front().getType() == add.getType())
        add->setOperands(inputs);
    });
  });
  EXPECT_FALSE(result.failed) << messages;
  EXPECT_EQ(result.passes, 2);
}

TEST_F(CheckMeaning, NamesThePassAndTheOp) {
  run([](ModuleOp module) {
    module.walk([](xf::AttentionOp attention) {
      attention.setScaleAttr(
          FloatAttr::get(Float64Type::get(attention.getContext()), 0.25));
    });
  });
  EXPECT_TRUE(result.failed);
  EXPECT_NE(messages.find("after 'change': state \""), std::string::npos)
      << messages;
  // The first token has one key, whatever the scale: 8 heads of 4 channels.
  EXPECT_NE(messages.find("'xf.attention' is the first that parts: result 0, "
                          "micro-batch 0, rank 0, element 32 is"),
            std::string::npos)
      << messages;
}

TEST_F(CheckMeaning, SeesAnUpdateThatIsLeftOut) {
  run([](ModuleOp module) {
    Operation *last = nullptr;
    module.walk([&](xf::SetOp set) { last = set; });
    last->erase();
  });
  EXPECT_TRUE(result.failed);
  EXPECT_NE(messages.find("after 'change': state \"model.norm.weight"),
            std::string::npos)
      << messages;
}

TEST_F(CheckMeaning, LeavesLocationsAsTheyWere) {
  run([](ModuleOp) {}, /*makesStep=*/false);
  OpPrintingFlags flags;
  flags.enableDebugInfo();
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, flags);
  EXPECT_EQ(text.find("\"#"), std::string::npos) << text;
}

/// A gradient that misses one of its parts is not the loss's slope.
TEST_F(CheckMeaning, HoldsGradientsToDifferenceQuotients) {
  OwningOpRef<ModuleOp> forward = module->clone();
  PassManager pm(&context);
  pm.addPass(createBuildStepPass());
  ASSERT_TRUE(succeeded(pm.run(*module)));
  FailureOr<StepInputs> inputs = StepRunner(*module).makeInputs(1);
  ASSERT_TRUE(succeeded(inputs));
  EXPECT_TRUE(succeeded(checkGradients(*forward, *module, *inputs)))
      << messages;
  module->walk([](xf::RMSNormGradOp grad) {
    grad.getResult().replaceAllUsesWith(grad.getDy());
  });
  EXPECT_TRUE(failed(checkGradients(*forward, *module, *inputs)));
  EXPECT_NE(messages.find("'xf.adamw' op updates @model.embed_tokens.weight by "
                          "a gradient of"),
            std::string::npos)
      << messages;
}
