//===- space.cpp - Every layout of the planner's space
//------------------------===//
//
// usage: space CONFIG CLUSTER SEQ_LEN GLOBAL_BATCH
//
// Prints each legal layout, in the order of enumeration, as `cleave plan`
// writes the layout of a plan: one JSON object a line. space.py compiles them.
//
//===----------------------------------------------------------------------===//
#include "cleave/Search/Print.h"
#include "cleave/Search/ReadArchitecture.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"

using namespace cleave;

static llvm::ExitOnError check;

int main(int argc, char **argv) {
  int64_t seqLen = 0, globalBatch = 0;
  if (argc != 5 || !llvm::to_integer(argv[3], seqLen) ||
      !llvm::to_integer(argv[4], globalBatch)) {
    llvm::errs() << "usage: space CONFIG CLUSTER SEQ_LEN GLOBAL_BATCH\n";
    return 2;
  }
  Architecture model = check(loadArchitecture(argv[1]));
  Machine machine = check(getMachine(argv[2]));
  SearchRequest request;
  request.work = {seqLen, globalBatch, DType::BF16};
  enumerateLayouts(model, machine, request, [&](const TrainLayout &layout) {
    llvm::outs() << llvm::json::Value(toJSON(layout)) << "\n";
  });
}
