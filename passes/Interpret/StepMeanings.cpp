//===- StepMeanings.cpp - What state, outputs and micro-batches mean ------===//
#include "dialects/xf/Xf.h"
#include "passes/Interpret/Meaning.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::xf;

namespace {
struct GetMeaning : Meaning<GetMeaning, GetOp> {
  static LogicalResult run(GetOp op, RankView view) {
    const auto &states = view.ranks[view.rank].states;
    auto it = states.find(op.getState().str());
    if (it == states.end())
      return op.emitOpError("reads ")
             << op.getStateAttr() << ", which no rank holds";
    Array &value = view.make(op.getResult());
    if (value.size() != it->second.size())
      return op.emitOpError("reads ")
             << op.getStateAttr() << " as " << value.size()
             << " elements, a rank holds " << it->second.size();
    value.data = it->second.data;
    return success();
  }
};

struct SetMeaning : Meaning<SetMeaning, SetOp> {
  static LogicalResult run(SetOp op, RankView view) {
    view.ranks[view.rank].states[op.getState().str()].data =
        view.get(op.getValue()).data;
    return success();
  }
};

/// In a micro-batch, one value after the other, along a new first dim.
struct OutputMeaning : Meaning<OutputMeaning, OutputOp> {
  static LogicalResult run(OutputOp op, RankView view) {
    const Array &value = view.get(op.getValue());
    Array &output = view.ranks[view.rank].outputs[op.getName().str()];
    auto loop = op->getParentOfType<AccumulateOp>();
    if (!loop) {
      output = value;
      return success();
    }
    if (view.ranks.microBatch == 0) {
      output = Array();
      output.shape = {int64_t(loop.getCount())};
      llvm::append_range(output.shape, value.shape);
    }
    llvm::append_range(output.data, value.data);
    return success();
  }
};

struct AccumulateMeaning : JointMeaning<AccumulateMeaning, AccumulateOp> {
  static LogicalResult run(AccumulateOp op, SimulatedRanks &ranks) {
    Block &body = op.getBody().front();
    for (int64_t n = 0; n < int64_t(op.getCount()); ++n) {
      ranks.microBatch = n;
      for (int64_t rank = 0; rank < ranks.size(); ++rank)
        for (auto [argument, input] :
             llvm::zip(body.getArguments(), op.getInputs())) {
          const Array &whole = ranks.get(input, rank);
          Array &slice = ranks.make(argument, rank);
          for (int64_t i = 0; i < slice.size(); ++i)
            slice.data[i] = whole.data[n * slice.size() + i];
        }
      if (failed(ranks.run(body)))
        return failure();
      for (int64_t rank = 0; rank < ranks.size(); ++rank)
        for (auto [result, yielded] :
             llvm::zip(op.getResults(), body.getTerminator()->getOperands())) {
          Array &sum =
              n == 0 ? ranks.make(result, rank) : ranks.value(result, rank);
          const Array &added = ranks.get(yielded, rank);
          for (int64_t i = 0; i < sum.size(); ++i)
            sum.data[i] += added.data[i];
        }
    }
    ranks.microBatch = 0;
    return success();
  }
};
} // namespace

void cleave::attachStepMeanings(MLIRContext *context) {
  GetOp::attachInterface<GetMeaning>(*context);
  SetOp::attachInterface<SetMeaning>(*context);
  OutputOp::attachInterface<OutputMeaning>(*context);
  AccumulateOp::attachInterface<AccumulateMeaning>(*context);
}
