//===- Meanings.cpp - What the ops of our dialects mean, in f64 -----------===//
#include "passes/Interpret/Meanings.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "passes/Interpret/Meaning.h"

using namespace mlir;
using namespace cleave;

void cleave::registerInterpretableExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, xf::XfDialect *) {
    attachForwardMeanings(context);
    attachBackwardMeanings(context);
    attachOptimizerMeanings(context);
    attachStepMeanings(context);
  });
  registry.addExtension(+[](MLIRContext *context, dist::DistDialect *) {
    attachCollectiveMeanings(context);
  });
  registry.addExtension(+[](MLIRContext *context, exec::ExecDialect *) {
    attachInstructionMeanings(context);
  });
}
