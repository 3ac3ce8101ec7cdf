// A dialect of one op, outside of Cleave: the recurrence of a state-space layer.
include "dialects/xf/XfInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Scan_Dialect : Dialect {
  let name = "scan";
  let cppNamespace = "::scan";
}

def Scan_LinearOp
    : Op<Scan_Dialect, "linear",
         [Pure, SameOperandsAndResultShape,
          DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
          DeclareOpInterfaceMethods<CostOpInterface, ["getBytes"]>]> {
  let summary = "h[t] = gate[t] * h[t - 1] + x[t] along the sequence";
  let description = [{
    Of tensors `[batch, sequence, hidden]`; h[-1] is zero.

    ```mlir
    %h = scan.linear %x, %gate : (tensor<8x128x64xf32>, tensor<8x128x64xf32>) -> tensor<8x128x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gate);
  let results = (outs AnyRankedTensor:$h);
  let assemblyFormat =
      "$x `,` $gate attr-dict `:` functional-type(operands, results)";
}
