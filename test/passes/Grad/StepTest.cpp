//===- StepTest.cpp - Whole training steps against plain f64 code ---------===//
//
// The step that `cleave-build-step` makes of a model's forward graph is run in
// f64: its loss against the forward graph's, its gradients against difference
// quotients of that loss, its updates against AdamW written out.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Xf.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Grad/Passes.h"
#include "test/dialects/xf/Program.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
constexpr int64_t microBatches = 2;
constexpr double lr = 0.01, beta1 = 0.8, beta2 = 0.9, eps = 1e-6, decay = 0.3,
                 bound = 0.5;

class Step : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    auto buffer = llvm::MemoryBuffer::getFile(std::string(CLEAVE_TEST_MODELS) +
                                              "/" + GetParam() + ".mlir");
    ASSERT_TRUE(bool(buffer));
    text = (*buffer)->getBuffer().str();
    forward.emplace(text);
    step.emplace(text);
    ASSERT_TRUE(forward->module && step->module);

    PassManager passes(&step->context);
    BuildStepPassOptions options;
    options.microBatches = microBatches;
    options.beta1 = beta1;
    options.beta2 = beta2;
    options.eps = eps;
    options.weightDecay = decay;
    options.clip = bound;
    options.gradients = true;
    passes.addPass(createBuildStepPass(options));
    ASSERT_TRUE(succeeded(passes.run(*step->module)));

    Random random;
    for (auto op : forward->module->getOps<StateOp>()) {
      Array &array = state[op.getSymName().str()] =
          random.fill(op.getTensorType());
      for (double &x : array.data)
        x *= 0.7;
    }
    auto tokens = RankedTensorType::get({microBatches, 4, 8},
                                        IntegerType::get(&step->context, 32));
    ids = random.fillIds(tokens, 30, false);
    targets = random.fillIds(tokens, 30, true);
    for (auto op : step->module->getOps<StateOp>()) {
      std::string name = op.getSymName().str();
      if (state.count(name))
        continue;
      moments[name] = random.fill(op.getTensorType());
      if (op.getRole() == StateRole::Moment2)
        for (double &x : moments[name].data)
          x *= x;
    }
  }

  double countTargets() const {
    return double(
        llvm::count_if(targets.data, [](double t) { return t >= 0; }));
  }

  /// The mean loss of all micro-batches, by the forward graph.
  double getLoss() {
    Block &block = forward->getFunction("forward").getBody().front();
    double sum = 0;
    for (int64_t n = 0; n < microBatches; ++n) {
      Interpreter run;
      run.state = state;
      for (auto [argument, whole] :
           llvm::zip(block.getArguments(), std::array{&ids, &targets})) {
        Array &slice = run.value(argument) =
            Array::zeros(typeOf(argument).getShape());
        for (int64_t i = 0; i < slice.size(); ++i)
          slice.data[i] = whole->data[n * slice.size() + i];
      }
      run.run(block);
      sum += run.get(block.getTerminator()->getOperand(0)).data[0];
    }
    return sum / countTargets();
  }

  Interpreter runStep() {
    Interpreter run;
    run.state = state;
    run.state.insert(moments.begin(), moments.end());
    run.schedule.data = {lr, 1.7, 2.3, 0};
    Block &block = step->getFunction("step").getBody().front();
    run.value(block.getArgument(0)) = ids;
    run.value(block.getArgument(1)) = targets;
    run.run(block);
    return run;
  }

  std::string text;
  std::optional<Program> forward, step;
  std::map<std::string, Array> state, moments;
  Array ids, targets;
};
} // namespace

TEST_P(Step, LossIsTheMeanOverAllTokens) {
  Interpreter run = runStep();
  double loss = getLoss();
  EXPECT_NEAR(run.outputs.at("loss").data[0], loss, 1e-12 * loss);
  EXPECT_EQ(run.outputs.at("local_tokens").data[0], countTargets());
  EXPECT_NEAR(run.outputs.at("local_loss_sum").data[0], loss * countTargets(),
              1e-10 * loss * countTargets());
}

/// Along a random direction for each parameter.
TEST_P(Step, GradientsMatchDifferenceQuotients) {
  Interpreter run = runStep();
  Random random;
  int64_t count = 0;
  for (auto op : forward->module->getOps<StateOp>()) {
    if (op.getRole() != StateRole::Parameter)
      continue;
    std::string name = op.getSymName().str();
    Array &x = state[name];
    const Array at = x, direction = random.fill(op.getTensorType());
    auto value = [&](double offset) {
      for (int64_t i = 0; i < x.size(); ++i)
        x.data[i] = at.data[i] + offset * direction.data[i];
      return getLoss();
    };
    const double h = 1e-3;
    double slope =
        (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) /
        (12 * h);
    x = at;
    double expected = 0;
    const Array &grad = run.outputs.at("grad." + name);
    for (int64_t i = 0; i < grad.size(); ++i)
      expected += grad.data[i] * direction.data[i];
    EXPECT_NEAR(slope, expected, 1e-8 * (1 + std::abs(expected))) << name;
    // A bias of the keys adds the same to all scores of a query: it is the one
    // parameter whose gradient vanishes.
    bool vanishes = std::abs(expected) < 1e-5;
    bool isKeyBias = StringRef(name).ends_with("attn.c_attn.bias@1");
    EXPECT_TRUE(!vanishes || isKeyBias) << name;
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST_P(Step, UpdatesByAdamW) {
  Interpreter run = runStep();
  double squares = 0;
  for (auto &[name, array] : run.outputs)
    if (llvm::StringRef(name).starts_with("grad."))
      for (double x : array.data)
        squares += x * x;
  double norm = std::sqrt(squares);
  EXPECT_NEAR(run.outputs.at("grad_norm").data[0], norm, 1e-12 * norm);
  EXPECT_GT(norm, bound) << "nothing is clipped";

  int64_t decayed = 0, others = 0;
  for (auto op : forward->module->getOps<StateOp>()) {
    std::string name = op.getSymName().str();
    if (op.getRole() != StateRole::Parameter) {
      EXPECT_EQ(run.state.at(name).data, state.at(name).data) << name;
      continue;
    }
    // Matrices of the checkpoint decay, vectors do not.
    bool isMatrix = op.getPiece()->getShape().size() >= 2;
    ++(isMatrix ? decayed : others);
    const Array &grad = run.outputs.at("grad." + name);
    for (int64_t i = 0; i < grad.size(); ++i) {
      double g = grad.data[i] * bound / (norm + 1e-6);
      double m =
          beta1 * moments.at(name + "/moment1").data[i] + (1 - beta1) * g;
      double v =
          beta2 * moments.at(name + "/moment2").data[i] + (1 - beta2) * g * g;
      double w = state.at(name).data[i];
      w -= lr * (isMatrix ? decay : 0) * w;
      w -= lr * (m * 1.7) / (std::sqrt(v * 2.3) + eps);
      EXPECT_NEAR(run.state.at(name + "/moment1").data[i], m, 1e-12);
      EXPECT_NEAR(run.state.at(name + "/moment2").data[i], v, 1e-12);
      EXPECT_NEAR(run.state.at(name).data[i], w, 1e-12) << name;
    }
  }
  EXPECT_GT(decayed, 0);
  EXPECT_GT(others, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Step,
                         testing::Values("gpt2", "llama", "gpt_neox", "olmo2"));
