//===- CudaEmitter.cpp - What all modes of CUDA kernels share -------------===//
#include "passes/Emit/CudaEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

//===----------------------------------------------------------------------===//
// Hardware
//===----------------------------------------------------------------------===//

Value CudaEmitter::call(StringRef intrinsic, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, e.loc, result,
                                       b.getStringAttr(intrinsic), operands)
      .getResult(0);
}

/// A special register, as i64.
Value CudaEmitter::getRegister(StringRef name) {
  Value narrow = call(("llvm.nvvm.read.ptx.sreg." + name).str(), b.getI32Type(),
                      ValueRange());
  return arith::ExtUIOp::create(b, e.loc, b.getI64Type(), narrow);
}

void CudaEmitter::barrier() {
  LLVM::CallIntrinsicOp::create(
      b, e.loc, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
      ValueRange{e.constantInt(0)});
}

void CudaEmitter::allocateShared(int64_t elements) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(func);
  auto type = LLVM::LLVMArrayType::get(b.getF32Type(), unsigned(elements));
  shared = LLVM::GlobalOp::create(
      b, e.loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
      (func.getName() + "_shared").str(), Attribute(), /*alignment=*/16,
      /*addrSpace=*/3);
}

Value CudaEmitter::sharedAddress(Value index) {
  Value base = LLVM::AddressOfOp::create(b, e.loc, shared);
  return e.address(base, index, b.getF32Type());
}

Value CudaEmitter::isZero(Value value) {
  return arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::eq, value,
                               e.constant(0));
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

void CudaEmitter::emitPrologue() {
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  size_t inputCount = info.inputs.size();
  size_t count = inputCount + info.outputs.size();
  for (size_t i = 0; i < count; ++i)
    (i < inputCount ? inputs : outputs)
        .push_back(entry->getArgument(unsigned(i)));
  setParameters([&] { return entry->getArgument(unsigned(count)); },
                [&] { return entry->getArgument(unsigned(count) + 1); });
  scratch = entry->getArgument(unsigned(count) + 2);
  thread = getRegister("tid.x");
  block = getRegister("ctaid.x");
}

void CudaEmitter::emit() {
  emitPrologue();
  loadScalars(uniforms, /*uniform=*/true, Value());
  emitSpace();
  LLVM::ReturnOp::create(b, e.loc, ValueRange());
}
