//===- StagesTest.cpp - What the check says of pipeline stages ------------===//
#include "MeaningFixture.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Interpret/CompareSteps.h"

using namespace mlir;
using namespace cleave;

namespace {
/// A step of two ops that are going to be in two stages.
constexpr StringLiteral step = R"(
dist.mesh @mesh [#dist.axis<"pp" = 2>, #dist.axis<"dp" = 2>] stages "pp"
xf.state @w parameter : tensor<4xf32, #dist.on<@mesh, [{dp}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
xf.state @v parameter : tensor<4xf32, #dist.on<@mesh, [{dp}]>> {
  init = #xf.init<zeros, 0.0 : f64>}
func.func @step(%ids: tensor<2x2xi32>, %targets: tensor<2x2xi32>) {
  %w = xf.get @w : tensor<2xf32>
  xf.accumulate 2 (%ids) : (tensor<2x2xi32>) -> () {
  ^bb0(%slice: tensor<2xi32>):
    %n = xf.count_tokens %slice : (tensor<2xi32>) -> tensor<f32>
    %x = xf.add %w, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %y = xf.scale %x {factor = 3.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
    xf.output "y", %y {global = tensor<4xf32, #dist.on<@mesh, [{dp}]>>}
        : tensor<2xf32>
    xf.yield
  }
  %z = xf.scale %w {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  xf.set @v, %z : tensor<2xf32>
  return
})";

class Stages : public MeaningFixture {
protected:
  Stages() { module = parseSourceString<ModuleOp>(step, &context); }
};

template <typename Op>
Op findOp(func::FuncOp function) {
  Op found;
  function.walk([&](Op op) {
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

/// Stage 0 has the sum, which it sends, and the state; stage 1 the output.
std::array<func::FuncOp, 2> cut(ModuleOp module) {
  auto whole = module.lookupSymbol<func::FuncOp>("step");
  func::FuncOp first = whole, second = whole.clone();
  first.setName("stage_0");
  second.setName("stage_1");
  module.push_back(second);

  auto sum = findOp<xf::AddOp>(first);
  OpBuilder b(sum->getNextNode());
  dist::SendOp::create(b, sum.getLoc(), sum.getResult(), 1, 0);
  findOp<xf::OutputOp>(first).erase();
  findOp<xf::ScaleOp>(first).erase();

  sum = findOp<xf::AddOp>(second);
  b.setInsertionPoint(sum);
  Value received =
      dist::RecvOp::create(b, sum.getLoc(), sum.getType(), 0, 0).getResult();
  sum.getResult().replaceAllUsesWith(received);
  sum.erase();
  findOp<xf::CountTokensOp>(second).erase();
  findOp<xf::SetOp>(second).erase();
  SmallVector<xf::ScaleOp> scales;
  second.walk([&](xf::ScaleOp scale) { scales.push_back(scale); });
  scales.back().erase();
  return {first, second};
}
} // namespace

TEST_F(Stages, TakesWhatIsCutRightly) {
  run([](ModuleOp module) { cut(module); });
  EXPECT_FALSE(result.failed) << messages;
  EXPECT_EQ(result.passes, 1);
}

TEST_F(Stages, TakesAChangeOfStagesThatChangesNothing) {
  cut(*module);
  run([](ModuleOp module) {
    module.walk([](xf::AddOp add) {
      OpBuilder b(add);
      auto one =
          xf::ScaleOp::create(b, add.getLoc(), add.getType(),
                              add.getInputs().front(), b.getF64FloatAttr(1));
      add->setOperand(0, one);
    });
  });
  EXPECT_FALSE(result.failed) << messages;
  EXPECT_EQ(result.passes, 1);
}

TEST_F(Stages, NamesTheOpOfAStage) {
  run([](ModuleOp module) {
    findOp<xf::ScaleOp>(cut(module)[1])
        .setFactorAttr(Builder(module.getContext()).getF64FloatAttr(4));
  });
  EXPECT_TRUE(result.failed);
  // The first rank of stage 1 is rank 2.
  EXPECT_TRUE(says("after 'change': output \"y\": element 0 is")) << messages;
  EXPECT_TRUE(says("'xf.scale' is the first that parts: result 0, micro-batch "
                   "0, rank 2, element 0 is"))
      << messages;
}

TEST_F(Stages, NamesTheMessageThatIsAnother) {
  run([](ModuleOp module) {
    func::FuncOp first = cut(module)[0];
    findOp<dist::SendOp>(first)->setOperand(0, findOp<xf::GetOp>(first));
  });
  EXPECT_TRUE(result.failed);
  EXPECT_TRUE(says("'dist.recv' is the first that parts: result 0, micro-batch "
                   "0, rank 2, element 0 is"))
      << messages;
}

TEST_F(Stages, NamesTheOpBetweenStages) {
  cut(*module);
  run([](ModuleOp module) {
    auto first = module.lookupSymbol<func::FuncOp>("stage_0");
    auto sum = findOp<xf::AddOp>(first);
    sum.getInputsMutable().append(sum.getInputs().back());
  });
  EXPECT_TRUE(result.failed);
  EXPECT_TRUE(says("'xf.add' is the first that parts: result 0, micro-batch 0, "
                   "rank 0, element 0 is"))
      << messages;
}

TEST_F(Stages, NamesTheStateOfWhichStagesDiffer) {
  run([](ModuleOp module) {
    func::FuncOp second = cut(module)[1];
    OpBuilder b(findOp<func::ReturnOp>(second));
    xf::GetOp get = findOp<xf::GetOp>(second);
    if (!get) {
      b.setInsertionPointToStart(&second.getBody().front());
      get = xf::GetOp::create(b, second.getLoc(),
                              findOp<dist::RecvOp>(second).getType(), "w");
      b.setInsertionPoint(findOp<func::ReturnOp>(second));
    }
    xf::SetOp::create(b, second.getLoc(), "v", get);
  });
  EXPECT_TRUE(result.failed);
  EXPECT_TRUE(says("after 'change': state \"v\" differs between stages 0 and "
                   "1: element 0 is"))
      << messages;
}

TEST_F(Stages, SaysWhatNeverComes) {
  run([](ModuleOp module) { findOp<dist::SendOp>(cut(module)[0]).erase(); });
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(messages, "after 'change': 'dist.recv' op waits for a message of "
                      "stage 0 over channel 0, which never comes\n");
}

TEST_F(Stages, SaysWhatNobodyTakes) {
  run([](ModuleOp module) {
    auto send = findOp<dist::SendOp>(cut(module)[0]);
    OpBuilder b(send);
    auto other = cast<dist::SendOp>(b.clone(*send));
    other.setChannel(1);
  });
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(messages,
            "after 'change': 'dist.send' op sends to stage 1 over channel 1 "
            "what nothing receives, for micro-batch 0\n");
}

/// Of programs whose runs have another order, each run is compared with that
/// for the same micro-batch.
TEST_F(Stages, ComparesRunsOfOneMicroBatch) {
  constexpr StringLiteral programs = R"(
dist.mesh @mesh [#dist.axis<"pp" = 2>] stages "pp"
!tokens = tensor<2x4xi32, #dist.on<@mesh, [{}, {}]>>
xf.state @w parameter : tensor<8x1xf32, #dist.on<@mesh, [{}, {}]>> {
  dims = ["vocab", "hidden"], init = #xf.init<zeros, 0.0 : f64>}
exec.program @stage_0 threads 1 {
  %w = exec.buffer "parameters" 32 of @w : !exec.buffer
  %ids = exec.buffer "data" 32 {data = "ids", global = !tokens} : !exec.buffer
  %x = exec.buffer "activations" 16 : !exec.buffer
  exec.segment @forward {
    %i = exec.view %ids 16 places 2 : !exec.buffer
    exec.embedding(%i, %w) -> (%x) {rows = 4 : i64, width = 1 : i64,
        table_rows = 8 : i64, type_table = f32, type_out = f32}
    exec.send(%x) -> () {stage = 1 : i64, channel = 0 : i64}
  }
  exec.segment @backward {
    exec.recv() -> (%x) {stage = 1 : i64, channel = 1 : i64}
  }
  exec.run @forward 0 first
  exec.run @backward 0 first
  exec.run @forward 1
  exec.run @backward 1
}
exec.program @stage_1 threads 1 {
  %w = exec.buffer "parameters" 32 of @w : !exec.buffer
  %targets = exec.buffer "data" 32 {data = "targets", global = !tokens} : !exec.buffer
  %x = exec.buffer "activations" 16 : !exec.buffer
  %e = exec.buffer "activations" 16 : !exec.buffer
  %y = exec.buffer "activations" 16 : !exec.buffer
  exec.output "y" %y : tensor<4xf32>
  exec.segment @all {
    exec.recv() -> (%x) {stage = 0 : i64, channel = 0 : i64}
    %t = exec.view %targets 16 places 2 : !exec.buffer
    exec.embedding(%t, %w) -> (%e) {rows = 4 : i64, width = 1 : i64,
        table_rows = 8 : i64, type_table = f32, type_out = f32}
    exec.copy(%e) -> (%y)
    exec.send(%x) -> () {stage = 0 : i64, channel = 1 : i64}
  }
  exec.run @all 0 first
  exec.run @all 1
})";
  module = parseSourceString<ModuleOp>(programs, &context);
  ASSERT_TRUE(module);
  auto reorder = [](ModuleOp module) {
    auto runs =
        module.lookupSymbol<exec::ProgramOp>("stage_0").getOps<exec::RunOp>();
    exec::RunOp backward = *std::next(runs.begin()),
                forward = *std::next(runs.begin(), 2);
    forward->moveBefore(backward);
  };
  run(reorder);
  EXPECT_FALSE(result.failed) << messages;
  EXPECT_EQ(result.passes, 1);
  run([&](ModuleOp module) {
    module.walk([](exec::CopyOp copy) {
      auto recv = *copy->getBlock()->getOps<exec::RecvOp>().begin();
      copy->setOperand(0, recv.getOutputs()[0]);
    });
  });
  EXPECT_TRUE(result.failed);
  EXPECT_TRUE(says("'exec.copy' is the first that parts: result 0, micro-batch "
                   "0, rank 1, element "))
      << messages;
}
