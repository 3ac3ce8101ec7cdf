#ifndef CLEAVE_DIALECTS_EXEC_KERNEL_TD
#define CLEAVE_DIALECTS_EXEC_KERNEL_TD

include "dialects/exec/ExecDialect.td"

//===----------------------------------------------------------------------===//
// The kernel description: one scalar program, lowered for every target.
//===----------------------------------------------------------------------===//

def Exec_KernelMode : I32EnumAttr<"KernelMode", "how a kernel's space is walked", [
    I32EnumAttrCase<"Row", 0, "row">,
    I32EnumAttrCase<"Flat", 1, "flat">,
    I32EnumAttrCase<"Column", 2, "column">]> {
  let cppNamespace = "::cleave::exec";
}

def Exec_AccessAttr : AttrDef<Exec_Dialect, "Access"> {
  let mnemonic = "access";
  let summary = "where a kernel finds the element of an operand";
  let description = [{
    The element at row `r` and column `c` of the iteration space lies, in
    elements of `type` from the operand's start, at

        offset + ((r / rowDiv) mod rowMod) * rowStride + c * colStride

    where `rowMod` 0 means no modulus. So, with N columns,
    `<f32, 0, 1, 0, N, 1>` is a full tensor, `<f32, 0, 1, 0, 1, 0>` one value
    a row, `<f32, 0, 1, 1, 0, 1>` a vector along the columns, and
    `<f32, 0, 1, 1, 0, 0>` a scalar. `colStride` is 0 or 1.
    In `flat` mode the space is one-dimensional: r is the element, c is 0.
  }];
  let parameters = (ins "::mlir::Type":$type, "int64_t":$offset,
                        "int64_t":$rowDiv, "int64_t":$rowMod,
                        "int64_t":$rowStride, "int64_t":$colStride);
  let assemblyFormat = [{
    `<` $type `,` `offset` `=` $offset `,` `row` `=` `(` $rowDiv `,` $rowMod `,`
        $rowStride `)` `,` `col` `=` $colStride `>`
  }];
}

def Exec_KernelOp : Exec_Op<"kernel", [IsolatedFromAbove, Symbol,
                                       SingleBlock, NoTerminator]> {
  let summary = "a fused kernel as a scalar program over rows and columns";
  let description = [{
    The body computes with one element: f32 for floating-point operands
    whatever their storage type (bf16 is widened on load and rounded on
    store), i32 for integers. It holds arith and math ops on scalars, and the
    `exec` ops below. One argument for each input access, one yielded value for
    each output access, in the order of the launch's operands.

    - `row`: space `rows x columns`; `exec.row_reduce` folds over the columns of
      a row; its result is the same for the whole row. An output with
      colStride 0 is written once a row and must not depend on the column.
      Parallel over rows.
    - `flat`: space `rows` (columns = 1), no reductions; vectorized along the
      rows. Parallel over rows.
    - `column`: each output (colStride 1, rowMod 1, rowStride 0) is the sum of the
      yielded value over all rows; no row reductions. Parallel over columns:
      the launch's range counts columns. By `accumulate` the sum is added
      to what the output holds: never, always, or after_first (not in the first
      run of those that add to the same sums).

    `accumulate` means the same for the outputs of the other modes.

    ```mlir
    // y = x * rsqrt(mean(x^2) + eps) * w
    exec.kernel @rms_norm mode = row, rows = 256, columns = 768,
        inputs = [#exec.access<f32, offset = 0, row = (1, 0, 768), col = 1>,
                  #exec.access<f32, offset = 0, row = (1, 1, 0), col = 1>],
        outputs = [#exec.access<f32, offset = 0, row = (1, 0, 768), col = 1>] {
    ^bb0(%x: f32, %w: f32):
      %xx = arith.mulf %x, %x : f32
      %sum = exec.row_reduce sum %xx : f32
      %n = arith.constant 768.0 : f32
      %mean = arith.divf %sum, %n : f32
      %eps = arith.constant 1.0e-6 : f32
      %shifted = arith.addf %mean, %eps : f32
      %r = math.rsqrt %shifted : f32
      %xr = arith.mulf %x, %r : f32
      %y = arith.mulf %xr, %w : f32
      exec.yield %y : f32
    }
    ```

    Constraints:
    1. The block has one argument per input, one yielded value per output.
    2. An argument or yielded value is f32 where the access's type is a float,
       i32 where it is i32.
    3. colStride is 0 or 1, rowDiv is at least 1, rowMod, offset and rowStride at
       least 0; elements are f32, bf16 or i32.
    4. `flat` has one column and no `exec.row_reduce`; `column` has none either,
       and its outputs are vectors along the columns.
    5. There is at least one row and one column, and no more elements than the
       largest arena has bytes.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Exec_KernelMode:$mode,
                       I64Attr:$rows, I64Attr:$columns,
                       TypedArrayAttrBase<Exec_AccessAttr, "accesses">:$inputs,
                       TypedArrayAttrBase<Exec_AccessAttr, "accesses">:$outputs,
                       DefaultValuedAttr<Exec_AccumulateAttr,
                           "::cleave::exec::Accumulate::Never">:$accumulate);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `mode` `=` $mode `,` `rows` `=` $rows `,` `columns` `=` $columns
    `,` `inputs` `=` $inputs `,` `outputs` `=` $outputs
    (`,` `accumulate` `=` $accumulate^)? custom<KernelBody>($body) attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_RowReduceOp : Exec_Op<"row_reduce", [Pure, SameOperandsAndResultType]> {
  let summary = "fold a value over the columns of its row";
  let description = [{
    ```mlir
    %sum = exec.row_reduce sum %x : f32
    ```
  }];
  let arguments = (ins Exec_ReductionAttr:$kind, F32:$value);
  let results = (outs F32:$result);
  let assemblyFormat = "$kind $value attr-dict `:` type($value)";
}

def Exec_ColumnOp : Exec_Op<"column", [Pure]> {
  let summary = "the column of the current element, i32";
  let description = [{
    ```mlir
    %c = exec.column : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Exec_ShardIndexOp : Exec_Op<"shard_index", [Pure]> {
  let summary = "this rank's shard index along the launch's axes, i32";
  let description = [{
    The first of the kernel's parameters (`params[0]` of the kernel ABI).

    ```mlir
    %s = exec.shard_index : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "the values a kernel stores";
  let description = [{
    ```mlir
    exec.yield %y, %rstd : f32, f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
