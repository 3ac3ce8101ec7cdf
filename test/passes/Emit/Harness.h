//===- Harness.h - Compiles, loads and runs sample kernels ----------------===//
#ifndef CLEAVE_TEST_PASSES_EMIT_HARNESS_H
#define CLEAVE_TEST_PASSES_EMIT_HARNESS_H

#include "Samples.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Interpret/InterpretKernel.h"
#include "runtime/abi/Kernel.h"
#include <memory>
#include <span>

namespace cleave::test {

using Operand = KernelOperand;

/// Bytes that end at an unreadable page, so that reading past them faults; the
/// start is 64-byte aligned, so up to 63 bytes may follow them.
class GuardedBuffer {
public:
  explicit GuardedBuffer(size_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer &&other) noexcept;
  GuardedBuffer(const GuardedBuffer &) = delete;
  GuardedBuffer &operator=(const GuardedBuffer &) = delete;

  char *data() const { return start; }
  size_t size() const { return bytes; }
  /// Whether the bytes around the buffer are as they were made.
  bool isIntact() const;

private:
  char *mapping, *start;
  size_t mapped, bytes;
};

/// A parsed module of samples, and their compiled form.
class CompiledSamples {
public:
  /// `cpu` as in emit::ObjectOptions. Aborts where a step fails.
  CompiledSamples(std::vector<Sample> samples, const std::string &cpu);
  ~CompiledSamples();

  std::vector<Sample> samples;
  mlir::ModuleOp getModule() { return *module; }
  exec::KernelOp getKernel(const std::string &name);
  CleaveKernelFn getFunction(const std::string &name);
  std::span<const unsigned char> getProgram();

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  void *library = nullptr;
};

/// Links an ELF object into the shared library `path`. It may not refer to
/// anything outside itself, or, with `mayImport`, to what a program exports.
void linkObject(llvm::ArrayRef<char> object, const std::string &path,
                bool mayImport);
/// Links an ELF object into this process.
void *loadObject(llvm::ArrayRef<char> object, bool mayImport);

/// The samples as one module.
mlir::OwningOpRef<mlir::ModuleOp> parse(const std::vector<Sample> &samples,
                                        mlir::MLIRContext &context);

/// Operands of `sample` with pseudo-random inputs, as they would be stored.
/// Outputs hold something too.
std::vector<Operand> makeOperands(exec::KernelOp kernel, const Sample &sample,
                                  unsigned seed);

/// The access of operand `i`, inputs then outputs.
exec::AccessAttr getAccess(exec::KernelOp kernel, size_t i);

/// To and from storage.
GuardedBuffer toBytes(const Operand &operand, mlir::Type type);
Operand fromBytes(const GuardedBuffer &bytes, mlir::Type type);

/// The largest deviation of `got` from `want`, relative to the size of the
/// element plus the root mean square of all plus `scale`: what is lost where
/// terms of that size cancel.
double getDeviation(const Operand &got, const Operand &want, double scale);

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_EMIT_HARNESS_H
