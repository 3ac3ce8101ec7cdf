//===- Interpreter.h - What each xf op means, in f64 ----------------------===//
//
// One obvious loop nest per op, written from the op's description and from the
// papers it names. Storage types are ignored: everything is f64, ids included,
// so that differences to what the compiler makes are its own.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_DIALECTS_XF_INTERPRETER_H
#define CLEAVE_TEST_DIALECTS_XF_INTERPRETER_H

#include "dialects/xf/Xf.h"
#include <map>
#include <string>
#include <vector>

namespace cleave::xf {

struct Array {
  std::vector<int64_t> shape;
  std::vector<double> data;

  static Array zeros(llvm::ArrayRef<int64_t> shape);
  int64_t size() const { return int64_t(data.size()); }
  /// Product of dims [begin, end).
  int64_t count(size_t begin, size_t end) const;
};

class Interpreter {
public:
  /// State by name; `xf.get` reads it, `xf.set` writes it.
  std::map<std::string, Array> state;
  /// What `xf.output` was given.
  std::map<std::string, Array> outputs;
  /// What `xf.schedule` gives.
  Array schedule = Array::zeros({4});
  Array &value(mlir::Value value) { return values[value.getAsOpaquePointer()]; }

  /// Runs the ops of a block. Fails the test on an op that it does not know.
  void run(mlir::Block &block);
  void run(mlir::Operation *op);

  const Array &get(mlir::Value value) const {
    return values.at(value.getAsOpaquePointer());
  }

private:
  void runForward(mlir::Operation *op);
  void runBackward(mlir::Operation *op);
  void runOptimizer(mlir::Operation *op);
  void runStructure(mlir::Operation *op);
  void runAttention(AttentionOp op);
  void runAttentionGrad(AttentionGradOp op);
  void runAccumulate(AccumulateOp op);

  /// A new value of the op's result type.
  Array &make(mlir::Value result);

  /// Stays where it is when others are added.
  std::map<void *, Array> values;
  bool known = false; ///< whether the op at hand has been run
};

/// A function and its derivative at x, the latter by the rules of arithmetic.
std::pair<double, double> activate(ActivationKind kind, double x);

} // namespace cleave::xf

#endif // CLEAVE_TEST_DIALECTS_XF_INTERPRETER_H
