//===- MeaningFixture.h - Passes to check, and what is said of them -------===//
#ifndef CLEAVE_TEST_PASSES_INTERPRET_MEANINGFIXTURE_H
#define CLEAVE_TEST_PASSES_INTERPRET_MEANINGFIXTURE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Interpret/CheckMeaning.h"
#include "passes/Pipelines/Pipelines.h"
#include "gtest/gtest.h"

namespace cleave {

/// A pass that does to the module what it is told.
class Change
    : public mlir::PassWrapper<Change, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Change)
  explicit Change(std::function<void(mlir::ModuleOp)> change)
      : change(change) {}
  llvm::StringRef getArgument() const override { return "change"; }
  void runOnOperation() override { change(getOperation()); }

private:
  std::function<void(mlir::ModuleOp)> change;
};

/// A context, and the errors that it is told of.
class MeaningFixture : public testing::Test {
protected:
  MeaningFixture()
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          llvm::raw_string_ostream stream(messages);
          if (auto name =
                  mlir::dyn_cast<mlir::NameLoc>(diagnostic.getLocation()))
            stream << name.getName().getValue() << ": ";
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            stream << diagnostic << "\n";
          return mlir::success();
        }) {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
  }

  /// Changes the module, after what `addPasses` adds, with the check around
  /// each.
  void run(std::function<void(mlir::ModuleOp)> change,
           std::function<void(mlir::PassManager &)> addPasses = {}) {
    ASSERT_TRUE(module);
    mlir::PassManager pm(&context);
    if (addPasses)
      addPasses(pm);
    pm.addPass(std::make_unique<Change>(change));
    pm.addInstrumentation(std::make_unique<MeaningCheck>(result));
    EXPECT_TRUE(succeeded(pm.run(*module)));
  }

  bool says(llvm::StringRef text) const {
    return messages.find(text.str()) != std::string::npos;
  }

  mlir::MLIRContext context;
  std::string messages;
  mlir::ScopedDiagnosticHandler handler;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  MeaningCheck::Result result;
};

} // namespace cleave

#endif // CLEAVE_TEST_PASSES_INTERPRET_MEANINGFIXTURE_H
