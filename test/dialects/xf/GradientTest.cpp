//===- GradientTest.cpp - Gradients against finite differences ------------===//
//
// For each op, the Grad pass builds the gradient of `sum(seed * result)`; the
// graph is run in f64 by an interpreter of the ops' descriptions, and each
// derivative is compared with a difference quotient of the forward function.
//
//===----------------------------------------------------------------------===//
#include "Cases.h"
#include "Program.h"
#include "mlir/IR/Verifier.h"
#include "passes/Grad/ReverseMode.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
class Gradient : public testing::TestWithParam<Case> {};

/// d f / d x at x by the five-point rule, whose error is of order step^4.
template <typename F>
double differentiate(F f, double &x) {
  const double step = 1e-3, at = x;
  auto value = [&](double offset) {
    x = at + offset;
    return f();
  };
  double slope = (8 * (value(step) - value(-step)) -
                  (value(2 * step) - value(-2 * step))) /
                 (12 * step);
  x = at;
  return slope;
}
} // namespace

TEST_P(Gradient, MatchesFiniteDifferences) {
  const Case &one = GetParam();
  Program program(one.text);
  ASSERT_TRUE(program.module);
  func::FuncOp function = program.getFunction("f");
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  Value result = terminator->getOperand(0);

  Random random;
  Interpreter inputs;
  SmallVector<Value> leaves;
  for (BlockArgument argument : block.getArguments()) {
    RankedTensorType type = typeOf(argument);
    bool ids = type.getElementType().isInteger(32);
    inputs.value(argument) =
        ids ? random.fillIds(type, one.ids, one.ignore) : random.fill(type);
    if (!ids && !function.getArgAttr(argument.getArgNumber(), "func.constant"))
      leaves.push_back(argument);
  }
  ASSERT_FALSE(leaves.empty());

  Interpreter forward = inputs;
  ASSERT_TRUE(succeeded(function.insertArgument(
      block.getNumArguments(), result.getType(), {}, result.getLoc())));
  Value seed = block.getArguments().back();
  Array weights = random.fill(typeOf(result));
  auto evaluate = [&] {
    Interpreter run = forward;
    run.run(block);
    double sum = 0;
    for (auto [weight, y] : llvm::zip(weights.data, run.get(result).data))
      sum += weight * y;
    return sum;
  };
  // The quotients first, of the forward ops alone.
  std::vector<std::vector<double>> expected;
  for (Value leaf : leaves) {
    expected.emplace_back();
    for (double &x : forward.value(leaf).data)
      expected.back().push_back(differentiate(evaluate, x));
  }

  OpBuilder builder(terminator);
  terminator->moveBefore(&block, block.end());
  FailureOr<SmallVector<Value>> grads =
      buildReverseMode(builder, block, leaves, result, seed);
  ASSERT_TRUE(succeeded(grads));
  ASSERT_TRUE(succeeded(mlir::verify(*program.module)));
  Interpreter backward = inputs;
  backward.value(seed) = weights;
  backward.run(block);
  for (auto [leaf, grad, numbers] : llvm::zip(leaves, *grads, expected)) {
    ASSERT_TRUE(grad);
    EXPECT_EQ(typeOf(grad).getShape(), typeOf(leaf).getShape());
    for (auto [i, number] : llvm::enumerate(numbers))
      EXPECT_NEAR(backward.get(grad).data[i], number,
                  1e-9 * (1 + std::abs(number)))
          << "element " << i << " of argument "
          << cast<BlockArgument>(leaf).getArgNumber();
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, testing::ValuesIn(getDifferentiable()),
                         [](const auto &info) { return info.param.name; });

/// Every op that has a gradient is among the cases.
TEST(GradientCases, AreComplete) {
  llvm::StringMap<bool> seen;
  for (const Case &one : getDifferentiable()) {
    Program program(one.text);
    program.module->walk(
        [&](Operation *op) { seen[op->getName().getStringRef()] = true; });
  }
  MLIRContext context;
  context.loadDialect<XfDialect>();
  int count = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<GradientOpInterface>()) {
      ++count;
      EXPECT_TRUE(seen.contains(name.getStringRef()))
          << name.getStringRef().str();
    }
  EXPECT_GE(count, 13);
}

TEST(ReverseMode, GivesNothingForLeavesThatDoNotReachTheResult) {
  Program program(R"(
    func.func @f(%x: tensor<2xf32>, %w: tensor<2xf32>) -> tensor<2xf32> {
      %y = xf.scale %x {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
      %z = xf.scale %w {factor = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
      return %y : tensor<2xf32>
    })");
  Block &block = program.getFunction("f").getBody().front();
  Value result = block.getTerminator()->getOperand(0);
  OpBuilder builder(block.getTerminator());
  auto grads = buildReverseMode(builder, block, block.getArguments(), result,
                                block.getArgument(0));
  ASSERT_TRUE(succeeded(grads));
  EXPECT_TRUE((*grads)[0]);
  EXPECT_FALSE((*grads)[1]);
}

TEST(ReverseMode, NamesAnOpWithoutAGradient) {
  Program program(R"(
    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = xf.mul %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %y : tensor<2xf32>
    })");
  Block &block = program.getFunction("f").getBody().front();
  Value result = block.getTerminator()->getOperand(0);
  OpBuilder builder(block.getTerminator());
  std::string message;
  ScopedDiagnosticHandler handler(&program.context, [&](Diagnostic &error) {
    message = error.str();
    return success();
  });
  EXPECT_TRUE(failed(buildReverseMode(builder, block, block.getArguments(),
                                      result, block.getArgument(0))));
  EXPECT_EQ(message, "'xf.mul' op has no gradient");
}
