//===- KernelTest.cpp - Generated kernels against what their ops mean -----===//
//
// Each op that becomes a generated kernel says which elements its kernel walks
// and gives a scalar program. Here both are executed in f64, element by
// element, on the values that the interpreter of the ops' descriptions has for
// the op's operands; the results must be the interpreter's. What is left of
// them are the constants, which a kernel has in f32.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Grad/ReverseMode.h"
#include "passes/Kernels/Lowerings.h"
#include "test/dialects/xf/Cases.h"
#include "test/dialects/xf/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
class Kernel : public testing::TestWithParam<Case> {};
} // namespace

/// Lets `context` lower the ops of xf.
static void addLowerings(MLIRContext &context) {
  DialectRegistry registry;
  registerLoweringExternalModels(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<XfDialect, arith::ArithDialect, math::MathDialect,
                      exec::ExecDialect>();
}

/// Compares what `op`'s kernel computes with the interpreter's results.
static void expectSame(Operation *op, const Interpreter &reference,
                       int64_t shard = 0) {
  SmallVector<Array> operands;
  for (Value operand : op->getOperands())
    operands.push_back(reference.get(operand));
  SmallVector<Array> results =
      runKernel(cast<KernelOpInterface>(op), operands, shard);
  for (auto [result, array] : llvm::zip(op->getResults(), results)) {
    const Array &expected = reference.get(result);
    ASSERT_EQ(array.size(), expected.size());
    for (int64_t i = 0; i < array.size(); ++i)
      EXPECT_NEAR(array.data[i], expected.data[i],
                  2e-7 * (1 + std::abs(expected.data[i])))
          << op->getName().getStringRef().str() << ": element " << i
          << " of result " << result.getResultNumber();
  }
}

TEST_P(Kernel, ComputesWhatTheOpMeans) {
  const Case &one = GetParam();
  Program program(one.text);
  ASSERT_TRUE(program.module);
  addLowerings(program.context);
  Block &block = program.getFunction("f").getBody().front();
  Operation *terminator = block.getTerminator();
  Value result = terminator->getOperand(0);

  Random random;
  Interpreter interpreter;
  SmallVector<Value> leaves;
  for (BlockArgument argument : block.getArguments()) {
    RankedTensorType type = typeOf(argument);
    bool ids = type.getElementType().isInteger(32);
    interpreter.value(argument) =
        ids ? random.fillIds(type, one.ids, one.ignore) : random.fill(type);
    if (!ids)
      leaves.push_back(argument);
  }
  Value seed = block.addArgument(result.getType(), result.getLoc());
  interpreter.value(seed) = random.fill(typeOf(result));
  bool hasGradient = true;
  for (Operation &op : block.without_terminator())
    hasGradient &= isa<GradientOpInterface>(op);
  if (hasGradient) {
    // The ops of the gradient too.
    OpBuilder builder(terminator);
    terminator->moveBefore(&block, block.end());
    SmallVector<Value> wanted;
    for (Value leaf : leaves)
      if (!isa<RopeOp>(*leaf.user_begin()) || leaf == leaves[0])
        wanted.push_back(leaf);
    ASSERT_TRUE(
        succeeded(buildReverseMode(builder, block, wanted, result, seed)));
  }
  interpreter.run(block);
  for (Operation &op : block)
    if (isa<KernelOpInterface>(op))
      expectSame(&op, interpreter);
}

/// With limits of f32, as a run has that asks for none, only what is no number
/// and what is infinite is bad.
TEST(GuardKernel, KnowsWhatIsNoNumber) {
  Program program(R"(
    func.func @f(%f: tensor<f32>, %l: tensor<f32>, %n: tensor<f32>,
                 %s: tensor<5xf32>) -> tensor<f32> {
      %y = xf.guard %f, %l, %n, %s : (tensor<f32>, tensor<f32>, tensor<f32>,
                                      tensor<5xf32>) -> tensor<f32>
      return %y : tensor<f32>
    }
  )");
  ASSERT_TRUE(program.module);
  addLowerings(program.context);
  Block &block = program.getFunction("f").getBody().front();
  Operation &guard = block.front();
  constexpr double most = std::numeric_limits<float>::max(),
                   nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  for (double loss : {0.0, 11.0, 3e38, most, infinity, nan})
    for (double norm : {0.0, 11.0, 3e38, most, infinity, nan}) {
      Interpreter run;
      Array scalar = Array::zeros({});
      auto set = [&](unsigned i, double value) {
        scalar.data[0] = value;
        run.value(block.getArgument(i)) = scalar;
      };
      set(0, 0.75);
      set(1, loss);
      set(2, norm);
      Array limits = Array::zeros({5});
      limits.data = {0.1, 1, 1, most, most};
      run.value(block.getArgument(3)) = limits;
      run.run(block);
      bool isGood = loss < most && norm < most;
      EXPECT_EQ(run.get(guard.getResult(0)).data[0], isGood ? 0.75 : 0)
          << loss << " " << norm;
      expectSame(&guard, run);
    }
}

INSTANTIATE_TEST_SUITE_P(Differentiable, Kernel,
                         testing::ValuesIn(getDifferentiable()),
                         [](const auto &info) { return info.param.name; });

static std::string getTestName(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.name;
  llvm::replace(name, '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Others, Kernel, testing::ValuesIn(getOthers()),
                         getTestName);

/// Every op that becomes a kernel is among the cases or their gradients.
TEST(KernelCases, AreComplete) {
  llvm::StringMap<bool> seen;
  std::vector<Case> cases = getDifferentiable();
  llvm::append_range(cases, getOthers());
  for (const Case &one : cases) {
    Program program(one.text);
    program.module->walk(
        [&](Operation *op) { seen[op->getName().getStringRef()] = true; });
  }
  for (const char *gradient :
       {"xf.rms_norm_grad", "xf.layer_norm_grad", "xf.norm_weight_grad",
        "xf.reduce_leading", "xf.activation_grad", "xf.glu_grad", "xf.pad_rows",
        "xf.cross_entropy_grad"})
    seen[gradient] = true;
  MLIRContext context;
  addLowerings(context);
  int count = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<KernelOpInterface>()) {
      ++count;
      EXPECT_TRUE(seen.contains(name.getStringRef()))
          << name.getStringRef().str();
    }
  EXPECT_GE(count, 25);
}

/// Every op that computes has one lowering, but the one that is taken apart.
TEST(Lowerings, AreComplete) {
  MLIRContext context;
  addLowerings(context);
  int count = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<ShardingRuleOpInterface>()) {
      ++count;
      int lowerings = name.hasInterface<KernelOpInterface>() +
                      name.hasInterface<LibraryOpInterface>() +
                      name.hasInterface<CompositeOpInterface>();
      EXPECT_EQ(lowerings, name.getStringRef() != "xf.cross_entropy")
          << name.getStringRef().str();
    }
  EXPECT_GE(count, 30);
}

//===----------------------------------------------------------------------===//
// Shards of a vocabulary
//===----------------------------------------------------------------------===//

namespace {
/// Logits of 6 columns, 5 of which are the vocabulary's, and their two halves.
constexpr const char *halves = R"(
  func.func @f(%x: tensor<4x6xf32>, %t: tensor<4xi32>, %d: tensor<f32>,
               %h: tensor<4x3xf32>) -> tensor<4xf32> {
    %m = xf.row_max %x {vocab = 5 : i64} : (tensor<4x6xf32>) -> tensor<4xf32>
    %z = xf.sum_exp %x, %m {vocab = 5 : i64}
        : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4xf32>
    %p = xf.pick %x, %t : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4xf32>
    %l, %lse = xf.token_loss %m, %z, %p, %t
        : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>)
       -> (tensor<4xf32>, tensor<4xf32>)
    %g = xf.cross_entropy_grad %x, %lse, %t, %d {vocab = 5 : i64}
        : (tensor<4x6xf32>, tensor<4xf32>, tensor<4xi32>, tensor<f32>)
       -> tensor<4x6xf32>
    %hm = xf.row_max %h {vocab = 5 : i64} : (tensor<4x3xf32>) -> tensor<4xf32>
    %hz = xf.sum_exp %h, %m {vocab = 5 : i64}
        : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4xf32>
    %hp = xf.pick %h, %t : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<4xf32>
    %hg = xf.cross_entropy_grad %h, %lse, %t, %d {vocab = 5 : i64}
        : (tensor<4x3xf32>, tensor<4xf32>, tensor<4xi32>, tensor<f32>)
       -> tensor<4x3xf32>
    return %l : tensor<4xf32>
  })";
} // namespace

/// The ops that number the whole vocabulary, each on a shard of it: their
/// results are the parts of the whole's.
TEST(KernelShards, AreThePartsOfTheWhole) {
  Program program(halves);
  ASSERT_TRUE(program.module);
  addLowerings(program.context);
  Block &block = program.getFunction("f").getBody().front();
  Random random;
  Interpreter whole;
  for (BlockArgument argument : block.getArguments())
    whole.value(argument) = random.fill(typeOf(argument));
  // A target in each half, an ignored one, one in the last column that counts.
  whole.value(block.getArgument(1)).data = {1, 3, -100, 4};
  SmallVector<Operation *> wholes, parts;
  for (Operation &op : block.without_terminator()) {
    if (llvm::is_contained(op.getOperands(), block.getArgument(3))) {
      parts.push_back(&op);
      continue;
    }
    whole.run(&op);
    if (!isa<TokenLossOp>(op))
      wholes.push_back(&op);
  }
  ASSERT_EQ(wholes.size(), parts.size());

  const Array x = whole.get(block.getArgument(0));
  SmallVector<SmallVector<Array>> results(2);
  for (int64_t shard : {0, 1}) {
    Array &half = whole.value(block.getArgument(3));
    for (int64_t r = 0; r < 4; ++r)
      for (int64_t c = 0; c < 3; ++c)
        half.data[r * 3 + c] = x.data[r * 6 + shard * 3 + c];
    for (Operation *op : parts) {
      SmallVector<Array> operands;
      for (Value operand : op->getOperands())
        operands.push_back(whole.get(operand));
      results[shard].push_back(
          runKernel(cast<KernelOpInterface>(op), operands, shard)[0]);
    }
  }
  for (auto [i, op] : llvm::enumerate(wholes)) {
    const Array &expected = whole.get(op->getResult(0));
    const Array &low = results[0][i], &high = results[1][i];
    for (int64_t j = 0; j < expected.size(); ++j) {
      double value = isa<RowMaxOp>(op) ? std::max(low.data[j], high.data[j])
                     : !isa<CrossEntropyGradOp>(op) ? low.data[j] + high.data[j]
                     : j % 6 < 3 ? low.data[j / 6 * 3 + j % 6]
                                 : high.data[j / 6 * 3 + j % 6 - 3];
      EXPECT_NEAR(value, expected.data[j], 1e-7)
          << op->getName().getStringRef().str() << ": element " << j;
    }
  }
}
