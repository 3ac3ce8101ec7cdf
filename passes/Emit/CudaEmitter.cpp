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

/// `arguments`: the operands, the shard index, the micro-batch, and the scratch
/// memory of those that have any.
void CudaEmitter::setArguments(ValueRange arguments) {
  size_t inputCount = info.inputs.size();
  size_t count = inputCount + info.outputs.size();
  llvm::append_range(inputs, arguments.take_front(inputCount));
  llvm::append_range(outputs, arguments.slice(inputCount, count - inputCount));
  setParameters([&] { return arguments[count]; },
                [&] { return arguments[count + 1]; });
  if (arguments.size() > count + 2)
    scratch = arguments[count + 2];
}

/// Of the launch that this block belongs to, by its row of the table.
SmallVector<Value> CudaEmitter::loadArguments(Value table, Value microBatch) {
  int64_t operands = int64_t(info.inputs.size() + info.outputs.size());
  Type pointer = table.getType();
  Value row = e.address(table, e.mulIndex(getRegister("ctaid.y"), operands + 1),
                        b.getI64Type());
  SmallVector<Value> arguments;
  for (int64_t i = 0; i <= operands; ++i)
    arguments.push_back(
        LLVM::LoadOp::create(b, e.loc, i < operands ? pointer : b.getI64Type(),
                             e.address(row, e.constant(i), b.getI64Type())));
  arguments.push_back(microBatch);
  return arguments;
}

void CudaEmitter::emitPrologue() {
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  if (layout.isMulti)
    setArguments(loadArguments(entry->getArgument(0), entry->getArgument(1)));
  else
    setArguments(entry->getArguments());
  thread = getRegister("tid.x");
  block = getRegister("ctaid.x");
}

void CudaEmitter::emit() {
  emitPrologue();
  loadScalars(uniforms, /*uniform=*/true, Value());
  emitSpace();
  LLVM::ReturnOp::create(b, e.loc, ValueRange());
}
