#ifndef CLEAVE_DIALECTS_EXEC_DIALECT_TD
#define CLEAVE_DIALECTS_EXEC_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::cleave::exec";
  let summary = "Segments of instructions over one arena, and their runs";
  let description = [{
    What the runtime executes: kernels, library calls and collectives on byte
    ranges of one arena per rank. Shapes are local and static.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def Exec_OrderAttr : AttrDef<Exec_Dialect, "Order"> {
  let mnemonic = "order";
  let summary = "what an instruction runs beside, and what it waits for";
  let description = [{
    The attribute `exec.order` of an instruction. Instructions of one `stream` run
    one after the other, as they are listed; those of different streams at the
    same time. One that records an `event` (a number from 1 to 2^24 - 1, which no
    other records; 0 for none) lets others wait for it: before an instruction
    begins, of each event in `waits` the latest record before it is done, in the
    order of runs and of the list. Without the attribute: stream 0, and no waits.

    ```mlir
    exec.all_gather(%w) -> (%g) {..., exec.order = #exec.order<1, event = 3>}
    exec.gemm(%x, %g) -> (%y) {..., exec.order = #exec.order<0, event = 0, waits = [3]>}
    ```
  }];
  let parameters = (ins "int64_t":$stream, "int64_t":$event,
                        OptionalArrayRefParameter<"int64_t">:$waits);
  let assemblyFormat = [{
    `<` $stream `,` `event` `=` $event (`,` `waits` `=` `[` $waits^ `]`)? `>`
  }];
  let genVerifyDecl = 1;
}

def Exec_Buffer : TypeDef<Exec_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a range of bytes of the rank's arena";
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

#endif
