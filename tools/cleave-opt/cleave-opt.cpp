//===- cleave-opt.cpp - Run any pass or stage on a file -------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, cleave::exec::ExecDialect,
                  cleave::dist::DistDialect, cleave::xf::XfDialect,
                  mlir::arith::ArithDialect, mlir::math::MathDialect>();
  mlir::registerTransformsPasses();
  cleave::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Cleave optimizer driver\n", registry));
}
