//===- CostsTest.cpp - The graph of a step against the planner's counts ---===//
//
// Every published config that the importer reads becomes a training step, whose
// ops are asked for their costs. The planner counts the same from a handful of
// sizes; both are said to be of one truth, and here it is seen.
//
//===----------------------------------------------------------------------===//
#include "cleave/Cost/CostModel.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Json/Json.h"
#include "cleave/Search/ReadArchitecture.h"
#include "dialects/xf/Provenance.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Grad/Passes.h"
#include "passes/Import/BuildModel.h"
#include "passes/Plan/ReadGraph.h"
#include "gtest/gtest.h"
#include <set>

using namespace cleave;
using namespace mlir;

namespace {

constexpr int64_t microBatches = 2, samples = 3;

std::string getPath(const std::string &name) {
  return CLEAVE_TEST_DATA "/configs/" + name + ".json";
}

/// The configs of families that are compiled.
std::vector<std::string> getNames() {
  llvm::json::Value counts =
      llvm::cantFail(loadJson(getPath("expected-counts")));
  std::vector<std::string> names;
  for (const auto &[name, entry] : *counts.getAsObject())
    if (const llvm::json::Object &known = *entry.getAsObject();
        llvm::is_contained(getModelTypes(), *known.getString("model_type")) &&
        !known.get("refused"))
      names.push_back(name.str());
  return names;
}

class Costs : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    llvm::Expected<Model> read = loadModel(getPath(GetParam()));
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    model = std::move(*read);
    architecture = getArchitecture(model);
    // Longer than Mistral's window.
    seqLen = std::min<int64_t>(model.maxPositions, 6144);
    build(/*bf16=*/false);
  }

  void build(bool bf16, const char *moments = "f32") {
    BuildOptions options;
    options.batch = samples;
    options.seqLen = seqLen;
    options.bf16 = bf16;
    auto module = buildModel(&context, model, options);
    ASSERT_TRUE(bool(module)) << llvm::toString(module.takeError());
    owner = std::move(*module);
    PassManager passes(&context);
    BuildStepPassOptions step;
    step.microBatches = microBatches;
    step.moments = moments;
    passes.addPass(createBuildStepPass(step));
    ASSERT_TRUE(succeeded(passes.run(*owner)));
  }

  /// Adds up what `cost` says of each op, as often as a step runs it.
  double sum(llvm::function_ref<double(xf::CostOpInterface)> cost) {
    double total = 0;
    owner->walk([&](xf::CostOpInterface op) {
      bool repeated = op->getParentOfType<xf::AccumulateOp>() != nullptr;
      total += cost(op) * (repeated ? microBatches : 1);
    });
    return total;
  }

  /// Bytes that the backward pass of a micro-batch reads of its forward one.
  double getKept() {
    double bytes = 0;
    owner->walk([&](xf::AccumulateOp loop) {
      for (Operation &op : loop.getBody().front())
        for (Value value : op.getResults())
          if (xf::getPhase(&op) == xf::Phase::Forward &&
              llvm::any_of(value.getUsers(), [&](Operation *user) {
                return xf::getPhase(user) == xf::Phase::Backward &&
                       !isa<xf::YieldOp>(user);
              })) {
            auto type = cast<RankedTensorType>(value.getType());
            bytes += double(type.getNumElements()) *
                     double(type.getElementTypeBitWidth()) / 8;
          }
    });
    return bytes;
  }

  double getTokens() const { return double(samples) * double(seqLen); }

  MLIRContext context;
  OwningOpRef<ModuleOp> owner;
  Model model;
  Architecture architecture;
  int64_t seqLen = 0;
};

TEST_P(Costs, ModelFlopsOfAStep) {
  double flops =
      sum([](xf::CostOpInterface op) { return op.getFlops().model; });
  EXPECT_NEAR(flops / (architecture.getFlopsPerToken(seqLen) * getTokens() *
                       microBatches),
              1, 1e-12);
}

/// The scores, once more for each pair and channel of queries.
TEST_P(Costs, ExecutedFlopsRepeatTheScores) {
  double repeated = sum([](xf::CostOpInterface op) {
    return op.getFlops().executed - op.getFlops().model;
  });
  double scores = 0;
  for (const auto &[block, count] : architecture.blocks) {
    // Of each query, the keys up to it, at most those of the window.
    double pairs = 0;
    for (int64_t i = 0; i != seqLen; ++i)
      pairs += double(block.window > 0 ? std::min(i + 1, block.window) : i + 1);
    scores += 2 * double(count * block.heads * block.headDim) * pairs;
  }
  EXPECT_NEAR(repeated / (scores * samples * microBatches), 1, 1e-12);
}

TEST_P(Costs, Parameters) {
  double parameters = 0, bytes = 0;
  for (auto state : owner->getOps<xf::StateOp>())
    if (state.getRole() == xf::StateRole::Parameter) {
      RankedTensorType type = state.getTensorType();
      parameters += double(type.getNumElements());
      bytes +=
          double(type.getNumElements()) * type.getElementTypeBitWidth() / 8.;
    }
  EXPECT_EQ(parameters, architecture.getParameters());
  // Weights are kept in f32, as the planner says of that type.
  EXPECT_EQ(bytes, architecture.getParameters() *
                       Workload{.dtype = DType::F32}.getParameterBytes());
}

/// What an update moves; scalars and the schedule are left out.
TEST_P(Costs, OptimizerBytes) {
  for (DType moments : {DType::F32, DType::BF16}) {
    if (moments != DType::F32)
      build(/*bf16=*/false, "bf16");
    double bytes = 0, scalars = 0, kept = 0;
    owner->walk([&](Operation *op) {
      if (isa<xf::SquareSumOp, xf::AdamWOp>(op)) {
        bytes += xf::getTensorBytes(op);
        scalars += isa<xf::AdamWOp>(op) ? 4 + 20 : 4;
      } else if (auto state = dyn_cast<xf::StateOp>(op);
                 state && (state.getRole() == xf::StateRole::Moment1 ||
                           state.getRole() == xf::StateRole::Moment2)) {
        RankedTensorType type = state.getTensorType();
        kept +=
            double(type.getNumElements()) * type.getElementTypeBitWidth() / 8.;
      }
    });
    const Workload work{.dtype = DType::F32, .moments = moments};
    EXPECT_EQ(kept, architecture.getParameters() * work.getStateBytes());
    EXPECT_EQ(bytes - scalars,
              architecture.getParameters() * work.getOptimizerTraffic());
    EXPECT_EQ(bytes - scalars, sum([](xf::CostOpInterface op) {
                return isa<xf::SquareSumOp, xf::AdamWOp>(op) ? op.getBytes()
                                                             : 0;
              }));
    // What the optimizer keeps is not what products are in.
    Workload read =
        llvm::cantFail(readWorkload(owner->lookupSymbol<func::FuncOp>("step")))
            .work;
    EXPECT_EQ(read.dtype, DType::F32);
    EXPECT_EQ(read.moments, moments);
  }
}

/// The formulas count what pointwise ops read and write: each operand and
/// result once, but a rotation's tables.
TEST_P(Costs, PointwiseBytes) {
  int64_t seen = 0;
  owner->walk([&](xf::CostOpInterface op) {
    if (isa<xf::ActivationOp, xf::ActivationGradOp, xf::GluOp, xf::GluGradOp>(
            *op)) {
      ++seen;
      EXPECT_EQ(op.getBytes(), xf::getTensorBytes(op));
    } else if (auto rope = dyn_cast<xf::RopeOp>(*op)) {
      EXPECT_EQ(op.getBytes(),
                xf::getTensorBytes(op) -
                    8. * double(rope.getCos().getType().getNumElements()));
    }
  });
  EXPECT_EQ(seen, 2 * architecture.getNumBlocks());
}

/// What a micro-batch keeps. The graph has besides: the statistics of each
/// norm's rows and of the loss's, and the inputs of projections from and to the
/// embedding's width; and it has one input less where both branches of a block
/// read one, or without a last norm.
TEST_P(Costs, KeptActivations) {
  Machine machine = llvm::cantFail(getMachine("h100-sxm:1"));
  machine.device.matrix[size_t(DType::F32)] =
      machine.device.getMatrix(DType::BF16);
  Profile profile;
  profile.vocabMultiple = 0;
  double blocks = double(architecture.getNumBlocks());
  double rows = 2 * blocks + (model.finalNorm ? 1 : 0), more = 0;
  if (model.qkNorm != QKNorm::None) {
    bool perHead = model.qkNorm == QKNorm::PerHead;
    rows += blocks * (perHead ? double(model.heads + model.kvHeads) : 2);
  }
  double statistics = model.norm.kind == NormKind::LayerNorm ? 2 : 1;
  if (model.form == BlockForm::Parallel)
    more -= blocks * double(model.hidden);
  more += double(2 * architecture.embeddingWidth);
  if (!model.finalNorm)
    more -= double(model.hidden);
  for (DType dtype : {DType::F32, DType::BF16}) {
    build(dtype == DType::BF16);
    // Of two: gradients take the places of a single one.
    CostModel costs(architecture, machine, {seqLen, 2 * samples, dtype},
                    profile);
    double planned =
        costs.getMemory(TrainLayout{.microBatch = samples}).activations;
    EXPECT_EQ(getKept(), planned + getTokens() * (getBytes(dtype) * more +
                                                  4 * (rows * statistics + 1)))
        << getName(dtype).str();
  }
}

/// What cleave-choose-plan reads from the step is what the planner reads from
/// the configuration.
TEST_P(Costs, TheStepSaysWhatTheConfigSays) {
  llvm::Expected<StepGraph> read = readGraph(*owner);
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  const Architecture &got = read->model;
  EXPECT_EQ(got.hidden, architecture.hidden);
  EXPECT_EQ(got.vocab, architecture.vocab);
  EXPECT_EQ(got.tied, architecture.tied);
  EXPECT_EQ(got.positions, architecture.positions);
  EXPECT_EQ(got.vectors, architecture.vectors);
  ASSERT_EQ(got.blocks.size(), architecture.blocks.size());
  for (auto [a, b] : llvm::zip(got.blocks, architecture.blocks)) {
    EXPECT_EQ(a.count, b.count);
    EXPECT_TRUE(a.block == b.block);
  }
  EXPECT_EQ(got.getParameters(), architecture.getParameters());
  EXPECT_EQ(got.getFlopsPerToken(seqLen),
            architecture.getFlopsPerToken(seqLen));
  EXPECT_EQ(read->microBatches, microBatches);
  EXPECT_EQ(read->work.seqLen, seqLen);
  EXPECT_EQ(read->work.globalBatch, microBatches * samples);
  EXPECT_EQ(read->work.dtype, DType::F32);
}

INSTANTIATE_TEST_SUITE_P(Published, Costs, testing::ValuesIn(getNames()),
                         [](const auto &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

/// The list has what the counts may depend on.
TEST(CostsTest, EveryKindOfModel) {
  std::set<std::string> types;
  bool grouped = false, single = false, gated = false, plain = false,
       tied = false, untied = false, window = false;
  for (const std::string &name : getNames()) {
    Model model = llvm::cantFail(loadModel(getPath(name)));
    types.insert(model.modelType);
    grouped |= model.kvHeads > 1 && model.kvHeads < model.heads;
    single |= model.kvHeads == 1;
    gated |= model.layers.front().gate.has_value();
    plain |= !model.layers.front().gate;
    tied |= model.tied;
    untied |= !model.tied;
    window |=
        model.layers.front().window > 0 && model.layers.front().window < 6144;
  }
  EXPECT_EQ(types.size(), getModelTypes().size());
  EXPECT_TRUE(grouped && single && gated && plain && tied && untied && window);
}

} // namespace
