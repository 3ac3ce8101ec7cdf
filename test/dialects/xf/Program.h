//===- Program.h - A function to run in f64 -------------------------------===//
#ifndef CLEAVE_TEST_DIALECTS_XF_PROGRAM_H
#define CLEAVE_TEST_DIALECTS_XF_PROGRAM_H

#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "passes/Interpret/Meanings.h"
#include "passes/Interpret/SimulatedRanks.h"
#include "gtest/gtest.h"
#include <random>

namespace cleave::xf {

/// A module in a context of its own.
struct Program {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  explicit Program(llvm::StringRef text) {
    mlir::DialectRegistry registry;
    registerInterpretableExternalModels(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<XfDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
  }
  mlir::func::FuncOp getFunction(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }
};

/// The meaning of ops in f64, on one rank.
class Interpreter {
public:
  using Values = std::map<std::string, Array>;

  Array &value(mlir::Value value) { return ranks.value(value, 0); }
  const Array &get(mlir::Value value) const { return ranks.get(value, 0); }
  /// State by name; `xf.get` reads it, `xf.set` writes it.
  Values &state() { return ranks[0].states; }
  /// What `xf.output` was given.
  Values &outputs() { return ranks[0].outputs; }
  /// The step's number, from 0.
  void setStep(int64_t step) { ranks.step = step; }

  void run(mlir::Block &block) {
    ASSERT_TRUE(mlir::succeeded(ranks.run(block)));
  }
  void run(mlir::Operation *op) {
    ASSERT_TRUE(mlir::succeeded(ranks.run(*op)));
  }

private:
  SimulatedRanks ranks;
};

/// Numbers that are the same in every run.
class Random {
public:
  /// Away from 0, where some activations have a kink.
  double next() {
    double x = std::uniform_real_distribution<double>(0.05, 1)(engine);
    return engine() % 2 ? x : -x;
  }
  /// In [0, below).
  int64_t nextInt(int64_t below) { return int64_t(engine() % below); }

  Array fill(mlir::RankedTensorType type) {
    Array array = Array::zeros(type.getShape());
    for (double &x : array.data)
      x = next();
    return array;
  }
  /// Ids below `below`; one in four is -100 if `ignore`.
  Array fillIds(mlir::RankedTensorType type, int64_t below, bool ignore) {
    Array array = Array::zeros(type.getShape());
    for (double &x : array.data)
      x = ignore && nextInt(4) == 0 ? -100 : double(nextInt(below));
    return array;
  }

private:
  std::mt19937_64 engine{20240229};
};

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace cleave::xf

#endif // CLEAVE_TEST_DIALECTS_XF_PROGRAM_H
