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
    A collective `with_next` begins together with the next instruction, in one
    bucket, which starts up once: another collective of its kind, group and stream
    that touches nothing which it writes, nor writes what it touches.

    ```mlir
    exec.all_gather(%w) -> (%g) {..., exec.order = #exec.order<1, event = 3>}
    exec.gemm(%x, %g) -> (%y) {..., exec.order = #exec.order<0, event = 0, waits = [3]>}
    exec.all_gather(%u) -> (%h) {..., exec.order = #exec.order<1, event = 0 with_next = true>}
    ```
  }];
  let parameters = (ins "int64_t":$stream, "int64_t":$event,
                        OptionalArrayRefParameter<"int64_t">:$waits,
                        DefaultValuedParameter<"bool", "false">:$withNext);
  let assemblyFormat = [{
    `<` $stream `,` `event` `=` $event (`,` `waits` `=` `[` $waits^ `]`)?
    (`with_next` `=` $withNext^)? `>`
  }];
  let builders = [AttrBuilder<(ins "int64_t":$stream, "int64_t":$event,
                                   "::llvm::ArrayRef<int64_t>":$waits), [{
    return $_get($_ctxt, stream, event, waits, /*withNext=*/false);
  }]>];
  let genVerifyDecl = 1;
}

def Exec_Buffer : TypeDef<Exec_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a range of bytes of the rank's arena";
}

// Enums of program.fbs, by the same names and numbers.

def Exec_Accumulate : I32EnumAttr<"Accumulate",
    "how an output meets what its buffer holds", [
    I32EnumAttrCase<"Never", 0, "never">,
    I32EnumAttrCase<"Always", 1, "always">,
    I32EnumAttrCase<"AfterFirst", 2, "after_first">]> {
  let cppNamespace = "::cleave::exec";
  let genSpecializedAttr = 0;
}

def Exec_Reduction : I32EnumAttr<"Reduction", "how values combine", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::cleave::exec";
  let genSpecializedAttr = 0;
}

def Exec_LRSchedule : I32EnumAttr<"LRSchedule", "shape of the learning rate", [
    I32EnumAttrCase<"Constant", 0, "constant">,
    I32EnumAttrCase<"Cosine", 1, "cosine">,
    I32EnumAttrCase<"Linear", 2, "linear">,
    I32EnumAttrCase<"WarmupStableDecay", 3, "warmup_stable_decay">]> {
  let cppNamespace = "::cleave::exec";
  let genSpecializedAttr = 0;
}

// As `after_first` in an op's own syntax, `#exec<accumulate after_first>` else.
def Exec_AccumulateAttr
    : EnumAttr<Exec_Dialect, Exec_Accumulate, "accumulate">;
def Exec_ReductionAttr : EnumAttr<Exec_Dialect, Exec_Reduction, "reduction">;
def Exec_LRScheduleAttr
    : EnumAttr<Exec_Dialect, Exec_LRSchedule, "lr_schedule">;

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

#endif
