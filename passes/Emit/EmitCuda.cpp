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

FailureOr<CudaLaunch> emit::emitCudaKernel(exec::KernelOp kernel) {
  // Nothing is saved in memory: a row that is kept has it in registers, and a
  // long one computes it again.
  FailureOr<KernelInfo> info =
      KernelInfo::prepare(kernel, /*forCuda=*/true, /*maxSavedBytes=*/0);
  if (failed(info))
    return failure();
  CudaLayout layout = CudaLayout::get(*info);
  OpBuilder b(kernel);
  MLIRContext *context = b.getContext();
  size_t operands = info->inputs.size() + info->outputs.size();
  SmallVector<Type> types(operands, LLVM::LLVMPointerType::get(context, 1));
  types.append(2, b.getI64Type());
  types.push_back(LLVM::LLVMPointerType::get(context, 1));
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  auto func =
      LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getSymName(), type);
  func.setCConv(LLVM::CConv::PTX_Kernel);
  func.setPassthroughAttr(b.getArrayAttr(
      {b.getStrArrayAttr({"nvvm.maxntid", std::to_string(layout.threads)})}));
  switch (info->mode) {
  case exec::KernelMode::Row:
    emitCudaRows(*info, b, func, layout);
    break;
  case exec::KernelMode::Flat:
    emitCudaElements(*info, b, func, layout);
    break;
  case exec::KernelMode::Column:
    emitCudaColumns(*info, b, func, layout);
    break;
  }
  CudaLaunch launch{kernel.getSymName().str(), unsigned(operands),
                    unsigned(layout.blocks), unsigned(layout.threads),
                    uint64_t(layout.scratchBytes)};
  kernel.erase();
  return launch;
}
