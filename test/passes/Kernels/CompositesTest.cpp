//===- CompositesTest.cpp - Ops that other ops compute --------------------===//
//
// A matrix of known singular vectors and values is orthogonalized, by the op
// and by the ops that take its place: of the vectors it keeps all, of the
// values it makes what the polynomial says.
//
//===----------------------------------------------------------------------===//
#include "dialects/xf/Provenance.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Kernels/Lowerings.h"
#include "passes/Kernels/Passes.h"
#include "test/dialects/xf/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
/// A matrix, by the shape of its tensor and its dims of rows.
struct Matrix {
  const char *name, *type;
  int64_t leading, rows, columns;
};

// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Matrix &one, std::ostream *out) { *out << one.name; }

class Orthogonalize : public testing::TestWithParam<Matrix> {};

/// An orthogonal matrix: a reflection along a vector at random.
std::vector<std::vector<double>> reflect(Random &random, int64_t size) {
  std::vector<double> u(static_cast<size_t>(size));
  double squares = 0;
  for (double &x : u) {
    x = random.next();
    squares += x * x;
  }
  std::vector<std::vector<double>> h(u.size(), std::vector<double>(u.size()));
  for (size_t i = 0; i < u.size(); ++i)
    for (size_t j = 0; j < u.size(); ++j)
      h[i][j] = double(i == j) - 2 * u[i] * u[j] / squares;
  return h;
}
} // namespace

TEST_P(Orthogonalize, BringsSingularValuesNearOne) {
  const Matrix &matrix = GetParam();
  std::string type = matrix.type;
  Program program(
      "func.func @f(%x: " + type + ") -> " + type +
      " {\n  %y = xf.orthogonalize %x {rows = " +
      std::to_string(matrix.leading) +
      " : i64, steps = 5 : i64, a = 3.4445 : f64, b = -4.775 : f64, c = "
      "2.0315 : f64, eps = 1.0e-7 : f64, xf.provenance = "
      "#xf.provenance<optimizer>} : (" +
      type + ") -> " + type + "\n  return %y : " + type + "\n}");
  ASSERT_TRUE(program.module);

  // From the largest value to one of a thousandth.
  Random random;
  auto left = reflect(random, matrix.rows);
  auto right = reflect(random, matrix.columns);
  size_t rank = size_t(std::min(matrix.rows, matrix.columns));
  std::vector<double> values, wanted;
  double squares = 0;
  for (size_t k = 0; k < rank; ++k) {
    values.push_back(std::pow(1e-3, double(k) / double(rank - 1)));
    squares += values.back() * values.back();
  }
  for (double value : values) {
    double s = value / std::sqrt(squares);
    for (int step = 0; step < 5; ++step)
      s = 3.4445 * s - 4.775 * std::pow(s, 3) + 2.0315 * std::pow(s, 5);
    // As far as five steps bring them.
    EXPECT_TRUE(value < 0.01 || (s > 0.6 && s < 1.3)) << value << " to " << s;
    wanted.push_back(s);
  }
  Block *block = &program.getFunction("f").getBody().front();
  Array x = Array::zeros(typeOf(block->getArgument(0)).getShape()), y = x;
  for (int64_t i = 0; i < matrix.rows; ++i)
    for (int64_t j = 0; j < matrix.columns; ++j)
      for (size_t k = 0; k < rank; ++k) {
        double both = left[size_t(i)][k] * right[size_t(j)][k];
        x.data[size_t(i * matrix.columns + j)] += both * values[k];
        y.data[size_t(i * matrix.columns + j)] += both * wanted[k];
      }
  auto expectResult = [&] {
    Interpreter run;
    run.value(block->getArgument(0)) = x;
    run.run(*block);
    const Array &got = run.get(block->getTerminator()->getOperand(0));
    ASSERT_EQ(got.size(), y.size());
    for (size_t i = 0; i < y.data.size(); ++i)
      EXPECT_NEAR(got.data[i], y.data[i], 1e-10) << i;
  };
  expectResult();
  double flops = 0, parts = 0;
  program.module->walk(
      [&](CostOpInterface op) { flops += op.getFlops().executed; });

  DialectRegistry registry;
  registerLoweringExternalModels(registry);
  program.context.appendDialectRegistry(registry);
  PassManager passes(&program.context);
  passes.addPass(createExpandCompositesPass());
  ASSERT_TRUE(succeeded(passes.run(*program.module)));
  expectResult();
  program.module->walk([&](Operation *op) {
    EXPECT_FALSE(isa<OrthogonalizeOp>(op));
    if (auto cost = dyn_cast<CostOpInterface>(op)) {
      parts += cost.getFlops().executed;
      EXPECT_EQ(getPhase(op), Phase::Optimizer);
    }
  });
  // Two products of the shorter side with the longer one, one with itself.
  double s = double(rank), l = double(std::max(matrix.rows, matrix.columns));
  EXPECT_EQ(parts, 5 * (2 * 2 * s * s * l + 2 * s * s * s));
  EXPECT_EQ(flops, parts);
}

INSTANTIATE_TEST_SUITE_P(
    Matrices, Orthogonalize,
    testing::Values(Matrix{"square", "tensor<5x5xf32>", 1, 5, 5},
                    Matrix{"wide", "tensor<4x9xf32>", 1, 4, 9},
                    Matrix{"tall", "tensor<9x4xf32>", 1, 9, 4},
                    Matrix{"heads", "tensor<2x3x4xf32>", 2, 6, 4},
                    Matrix{"heads_of_inputs", "tensor<4x2x3xf32>", 1, 4, 6}),
    [](const auto &info) { return info.param.name; });
