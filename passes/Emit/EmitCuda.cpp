//===- EmitCuda.cpp - Kernels as NVPTX functions --------------------------===//
#include "passes/Emit/EmitCuda.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Emit/CudaEmitter.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {
/// Flat mode: one vector a thread.
class Elements : public CudaEmitter {
public:
  using CudaEmitter::CudaEmitter;

private:
  void emitSpace() override;
};
} // namespace

void Elements::emitSpace() {
  Phase &phase = info.phases.front();
  evaluateScalars(phase, uniforms);
  auto emitAt = [&](Value index) {
    IRMapping lanes = uniforms;
    loadLanes(phase.loads, lanes, inputs, index, Value());
    evaluateLanes(phase, lanes, index);
    for (auto [i, value] : llvm::enumerate(info.getYield().getValues()))
      storeLane(i, lanes.lookup(value), outputs[i], index, Value());
  };
  Value number = e.addIndex(e.mulIndex(block, layout.threads), thread);
  int64_t whole = info.rows / layout.vector;
  emitIf(e.isBelow(number, e.constant(whole)),
         [&] { emitAt(e.mulIndex(number, layout.vector)); });
  int64_t rest = info.rows % layout.vector;
  if (!rest)
    return;
  // The next threads take the last elements one by one.
  width = 0;
  Value past = arith::SubIOp::create(b, e.loc, number, e.constant(whole));
  Value isNext = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::ult,
                                       past, e.constant(rest));
  emitIf(isNext, [&] { emitAt(e.addIndex(past, whole * layout.vector)); });
}

void emit::emitCudaElements(KernelInfo &info, OpBuilder &b,
                            LLVM::LLVMFuncOp func, const CudaLayout &layout) {
  Elements(info, b, func, layout).emit();
}

/// A PTX kernel with these parameters.
static void emitEntry(KernelInfo &info, OpBuilder &b, StringRef name,
                      ArrayRef<Type> parameters, const CudaLayout &layout) {
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), parameters);
  OpBuilder::InsertionGuard guard(b);
  auto func = LLVM::LLVMFuncOp::create(b, info.kernel.getLoc(), name, type);
  func.setCConv(LLVM::CConv::PTX_Kernel);
  func.setPassthroughAttr(b.getArrayAttr(
      {b.getStrArrayAttr({"nvvm.maxntid", std::to_string(layout.threads)})}));
  switch (info.mode) {
  case exec::KernelMode::Row:
    return emitCudaRows(info, b, func, layout);
  case exec::KernelMode::Flat:
    return emitCudaElements(info, b, func, layout);
  case exec::KernelMode::Column:
    return emitCudaColumns(info, b, func, layout);
  }
}

std::string emit::getMultiSymbol(llvm::StringRef symbol) {
  return (symbol + "_multi").str();
}

FailureOr<CudaLaunch> emit::emitCudaKernel(exec::KernelOp kernel,
                                           bool isRepeated) {
  // Nothing is saved in memory: a row that is kept has it in registers, and a
  // long one computes it again.
  FailureOr<KernelInfo> info =
      KernelInfo::prepare(kernel, /*forCuda=*/true, /*maxSavedBytes=*/0);
  if (failed(info))
    return failure();
  CudaLayout layout = CudaLayout::get(*info);
  OpBuilder b(kernel);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
  size_t operands = info->inputs.size() + info->outputs.size();
  CudaLaunch launch{kernel.getSymName().str(), "",
                    unsigned(operands),        unsigned(layout.blocks),
                    unsigned(layout.threads),  uint64_t(layout.scratchBytes)};
  SmallVector<Type> types(operands, pointer);
  types.append({b.getI64Type(), b.getI64Type(), pointer});
  emitEntry(*info, b, launch.symbol, types, layout);
  // Launches whose blocks meet have memory for that one after the other.
  if (isRepeated && launch.scratchBytes == 0) {
    launch.multiSymbol = getMultiSymbol(launch.symbol);
    layout.isMulti = true;
    emitEntry(*info, b, launch.multiSymbol, {pointer, b.getI64Type()}, layout);
  }
  kernel.erase();
  return launch;
}
