//===- StepTest.cpp - Whole training steps against plain f64 code ---------===//
//
// The step that `cleave-build-step` makes of a model's forward graph is run in
// f64: its loss against the forward graph's, its gradients against difference
// quotients of that loss, its updates against each optimizer written out.
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
                 momentum = 0.7, bound = 0.5;

struct Case {
  const char *model, *optimizer;
};

class Step : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    auto buffer = llvm::MemoryBuffer::getFile(std::string(CLEAVE_TEST_MODELS) +
                                              "/" + GetParam().model + ".mlir");
    ASSERT_TRUE(bool(buffer));
    text = (*buffer)->getBuffer().str();
    forward.emplace(text);
    step.emplace(text);
    ASSERT_TRUE(forward->module && step->module);

    PassManager passes(&step->context);
    BuildStepPassOptions options;
    options.microBatches = microBatches;
    options.schedule = "constant";
    options.lr = lr;
    options.beta1 = beta1;
    options.beta2 = beta2;
    options.eps = eps;
    options.momentum = momentum;
    options.optimizer = GetParam().optimizer;
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
      run.state() = state;
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
    run.state() = state;
    run.state().insert(moments.begin(), moments.end());
    run.setStep(2);
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
  EXPECT_NEAR(run.outputs().at("loss").data[0], loss, 1e-12 * loss);
  EXPECT_EQ(run.outputs().at("local_tokens").data[0], countTargets());
  EXPECT_NEAR(run.outputs().at("local_loss_sum").data[0], loss * countTargets(),
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
    const Array &grad = run.outputs().at("grad." + name);
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

/// A parameter and the states that an optimizer keeps of it.
using Values = std::vector<double>;

/// The optimizers, each from its paper: what becomes of `x` under the clipped
/// gradient g.
static Values update(StringRef optimizer, const Values &x, double g,
                     double decay) {
  double w = x[0], m = x[1];
  if (optimizer == "adamw") {
    m = beta1 * m + (1 - beta1) * g;
    double v = beta2 * x[2] + (1 - beta2) * g * g;
    w -= lr * decay * w;
    // The third step.
    double m1 = m / (1 - beta1 * beta1 * beta1),
           v1 = v / (1 - beta2 * beta2 * beta2);
    return {w - lr * m1 / (std::sqrt(v1) + eps), m, v};
  }
  if (optimizer == "sgd") {
    m = momentum * m + (g + decay * w);
    return {w - lr * m, m};
  }
  if (optimizer == "lion") {
    double direction = beta1 * m + (1 - beta1) * g;
    w -= lr * ((direction > 0 ? 1 : direction < 0 ? -1 : 0) + decay * w);
    return {w, beta2 * m + (1 - beta2) * g};
  }
  ADD_FAILURE() << "unknown optimizer";
  return x;
}

/// Five of Newton and Schulz's steps with Jordan's coefficients on `x`, of so
/// many columns, scaled as Moonshot has it; element by element.
static Values orthogonalize(Values x, size_t columns) {
  size_t rows = x.size() / columns;
  double squares = 0;
  for (double each : x)
    squares += each * each;
  for (double &each : x)
    each /= std::sqrt(squares);
  for (int step = 0; step < 5; ++step) {
    Values gram(columns * columns), square(columns * columns), next(x.size());
    for (size_t i = 0; i < columns; ++i)
      for (size_t j = 0; j < columns; ++j)
        for (size_t k = 0; k < rows; ++k)
          gram[i * columns + j] += x[k * columns + i] * x[k * columns + j];
    for (size_t i = 0; i < columns; ++i)
      for (size_t j = 0; j < columns; ++j)
        for (size_t k = 0; k < columns; ++k)
          square[i * columns + j] +=
              gram[i * columns + k] * gram[k * columns + j];
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        double &to = next[i * columns + j];
        to = 3.4445 * x[i * columns + j];
        for (size_t k = 0; k < columns; ++k)
          to += x[i * columns + k] * (-4.7750 * gram[k * columns + j] +
                                      2.0315 * square[k * columns + j]);
      }
    x = next;
  }
  for (double &each : x)
    each *= 0.2 * std::sqrt(double(std::max(rows, columns)));
  return x;
}

/// What becomes of a matrix and its moment under the clipped gradient, by
/// Jordan's and Moonshot's accounts of Muon.
static std::array<Values, 2> updateMatrix(Values w, Values m, const Values &g,
                                          size_t columns) {
  Values u(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    m[i] = momentum * m[i] + g[i];
    u[i] = g[i] + momentum * m[i];
  }
  u = orthogonalize(u, columns);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] -= lr * (u[i] + decay * w[i]);
  return {w, m};
}

/// The columns of a matrix between hidden vectors, which is all that is on the
/// other side of "hidden" than its rows; 0 of other parameters.
static size_t countColumns(StateOp op) {
  auto names = llvm::to_vector(op.getDims()->getAsValueRange<StringAttr>());
  ArrayRef<int64_t> shape = op.getTensorType().getShape();
  bool isTable = names.front() == "vocab" || names.front() == "positions";
  if (isTable || !llvm::is_contained(names, "hidden") || names.size() < 2)
    return 0;
  return size_t(names.front() == "hidden" ? llvm::product_of(shape.drop_front())
                                          : shape.back());
}

TEST_P(Step, UpdatesAsTheOptimizerSays) {
  Interpreter run = runStep();
  double squares = 0;
  for (auto &[name, array] : run.outputs())
    if (llvm::StringRef(name).starts_with("grad."))
      for (double x : array.data)
        squares += x * x;
  double norm = std::sqrt(squares);
  EXPECT_NEAR(run.outputs().at("grad_norm").data[0], norm, 1e-12 * norm);
  EXPECT_GT(norm, bound) << "nothing is clipped";

  static const std::map<std::string, std::vector<std::string>> suffixes = {
      {"adamw", {"", "/moment1", "/moment2"}},
      {"sgd", {"", "/momentum"}},
      {"lion", {"", "/lion"}},
      {"muon", {"", "/muon"}}};
  std::map<std::string, Array> old = state;
  old.insert(moments.begin(), moments.end());
  EXPECT_EQ(run.state().size(), old.size());
  int64_t decayed = 0, others = 0, orthogonal = 0;
  for (auto op : forward->module->getOps<StateOp>()) {
    std::string name = op.getSymName().str();
    if (op.getRole() != StateRole::Parameter) {
      EXPECT_EQ(run.state().at(name).data, state.at(name).data) << name;
      continue;
    }
    // Matrices of the checkpoint decay, vectors do not.
    bool isMatrix = op.getPiece()->getShape().size() >= 2;
    ++(isMatrix ? decayed : others);
    const Array &grad = run.outputs().at("grad." + name);
    StringRef optimizer = GetParam().optimizer;
    if (size_t columns = countColumns(op); columns && optimizer == "muon") {
      ++orthogonal;
      Values clipped = grad.data;
      for (double &g : clipped)
        g *= bound / (norm + 1e-6);
      auto expected = updateMatrix(
          old.at(name).data, old.at(name + "/muon").data, clipped, columns);
      for (auto [suffix, values] : llvm::zip(suffixes.at("muon"), expected))
        for (auto [x, y] :
             llvm::zip_equal(run.state().at(name + suffix).data, values))
          EXPECT_NEAR(x, y, 1e-12) << name << suffix;
      continue;
    }
    if (optimizer == "muon")
      optimizer = "adamw";
    for (int64_t i = 0; i < grad.size(); ++i) {
      Values before, after;
      for (const std::string &suffix : suffixes.at(optimizer.str())) {
        before.push_back(old.at(name + suffix).data[i]);
        after.push_back(run.state().at(name + suffix).data[i]);
      }
      Values expected =
          update(optimizer, before, grad.data[i] * bound / (norm + 1e-6),
                 isMatrix ? decay : 0);
      ASSERT_EQ(after.size(), expected.size());
      for (auto [x, y] : llvm::zip(after, expected))
        EXPECT_NEAR(x, y, 1e-12) << name;
    }
  }
  EXPECT_GT(decayed, 0);
  EXPECT_GT(others, 0);
  EXPECT_EQ(orthogonal > 0, StringRef(GetParam().optimizer) == "muon");
}

INSTANTIATE_TEST_SUITE_P(
    Models, Step,
    testing::Values(Case{"gpt2", "adamw"}, Case{"llama", "adamw"},
                    Case{"gpt_neox", "adamw"}, Case{"olmo2", "adamw"},
                    Case{"gpt2", "sgd"}, Case{"llama", "sgd"},
                    Case{"gpt2", "lion"}, Case{"llama", "lion"},
                    Case{"gpt2", "muon"}, Case{"llama", "muon"},
                    Case{"gpt_neox", "muon"}, Case{"olmo2", "muon"}),
    [](const auto &info) {
      return std::string(info.param.model) + "_" + info.param.optimizer;
    });
