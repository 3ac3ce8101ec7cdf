#ifndef CLEAVE_PASSES_INTERPRET_INTERPRETABLE_TD
#define CLEAVE_PASSES_INTERPRET_INTERPRETABLE_TD

include "mlir/IR/OpBase.td"

def InterpretableOpInterface : OpInterface<"InterpretableOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    What an op means, in f64, on simulated ranks: one obvious loop nest, written
    from the op's description and the papers that it names, never from its
    lowering. Storage types are ignored, so nothing is rounded.

    It is attached from outside, by `registerInterpretableExternalModels`, for the
    ops of xf, dist and exec; another dialect's op may bring its own.
  }];
  let methods = [
    InterfaceMethod<[{
        Computes the results of every rank from the operands. Fails, with an
        error, on what no rank can do, such as an id that no table has.
      }], "::llvm::LogicalResult", "interpret",
      (ins "::cleave::SimulatedRanks &":$ranks)>,
  ];
}

#endif
