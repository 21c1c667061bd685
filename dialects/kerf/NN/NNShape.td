//===- NNShape.td - ops that move elements ----------------*- tablegen -*-===//
#ifndef KERF_NN_SHAPE_TD
#define KERF_NN_SHAPE_TD

include "kerf/NN/NNBase.td"

def NN_ReshapeOp : NN_RuleOp<"reshape", [NN_Kernel<"Shape">, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "the same elements in row-major order, another shape";
  let description = [{
    ```mlir
    %r = nn.reshape %x : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
    ```

    C1: operand and result have the same element type and number of elements.
  }];
  let arguments = (ins NN_AnyTensor:$x);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Through">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = NN_Cost<"View", "0">.definition;
}

def NN_TransposeOp : NN_RuleOp<"transpose", [NN_Kernel<"Shape">, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "permutation of dimensions";
  let description = [{
    `result[i_perm[0], ..., i_perm[n]] = x[i_0, ..., i_n]`: dimension `d` of the
    result is dimension `perm[d]` of the operand.

    ```mlir
    %r = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ```

    C1: `perm` is a permutation of the operand's dimensions.
  }];
  let arguments = (ins NN_AnyTensor:$x, DenseI64ArrayAttr:$perm);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Through">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$x `perm` $perm attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let extraClassDefinition = NN_Cost<"Elementwise", "0">.definition;
}

def NN_BroadcastOp : NN_RuleOp<"broadcast", [NN_Kernel<"Shape">, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "repetition along new dimensions and dimensions of size 1";
  let description = [{
    Right-aligned: each operand dimension equals the result's or is 1.

    ```mlir
    %r = nn.broadcast %x : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
    ```

    C1: the operand broadcasts to the result's shape.
  }];
  let arguments = (ins NN_AnyTensor:$x);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Through">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"Elementwise", "0">.definition;
}

def NN_ConcatOp : NN_RuleOp<"concat", [NN_Kernel<"Concat">, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "operands one after another along a dimension";
  let description = [{
    ```mlir
    %r = nn.concat %a, %b dim 0 : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
    ```

    C1: operands agree in element type and in every dimension but `dim`.
  }];
  let arguments = (ins Variadic<NN_AnyTensor>:$inputs, I64Attr:$dim);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Element">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Elementwise", "0", "::kerf::LibraryWork::None",
                                     "EpilogueStep::None", "getDim()">.definition;
}

def NN_SliceOp : NN_LocalOp<"slice", [NN_Kernel<"Shape">, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "a strided box of a tensor";
  let description = [{
    `result[i] = x[starts + i * strides]`; strides may be negative.

    ```mlir
    %r = nn.slice %x from [0, 1] : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %s = nn.slice %x from [1, 2] strides [1, -2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
    ```

    The sizes are those of the result; strides that are all 1 are left out.

    C1: one start, size and stride per dimension. C2: the box lies inside `x`.
  }];
  let arguments = (ins NN_AnyTensor:$x, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Through">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $x `from` custom<SliceStarts>($starts, $strides) attr-dict
    `:` custom<SliceTypes>($sizes, type($x), type($result))
  }];
  let extraClassDefinition = NN_Cost<"Elementwise", "0">.definition;
}

def NN_PadOp : NN_RuleOp<"pad", [NN_Kernel<"Pad">, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "a constant border";
  let description = [{
    `low[d]` elements of `value` before and `high[d]` after dimension `d`.

    ```mlir
    %r = nn.pad %x by [1:0] value 0.0 : f32 : (tensor<3xf32>) -> tensor<4xf32>
    ```

    C1: one non-negative `low` and `high` per dimension.
  }];
  let arguments = (ins NN_AnyTensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       TypedAttrInterface:$value);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Through">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$x `by` custom<Borders>($low, $high) `value` $value attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Elementwise", "0">.definition;
}

def NN_GatherOp : NN_LocalOp<"gather", [NN_Kernel<"Gather">, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "slices of a tensor selected by indices along a dimension";
  let description = [{
    `result[a..., i..., b...] = data[a..., indices[i...], b...]` where `a` has
    `dim` dimensions. Negative indices count from the end; an index outside
    `[-n, n)` is a run-time error that names the node.

    Sharding `dim` gives partial sums: each device contributes the rows that it
    holds and zero for the others (a vocabulary-parallel embedding). The attribute
    `partial` marks such a local gather: indices that it does not hold give zero,
    those that no device holds (kerf/NN/Rules/Rows.h) are the same error.

    ```mlir
    %r = nn.gather %table, %ids dim 0
       : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
    ```

    With `batched`, each row of `data` has indices of its own, `[a..., i...]`:
    `result[a..., i..., b...] = data[a..., indices[a..., i...], b...]`.

    ```mlir
    %s = nn.gather %x, %places dim 1 {batched}
       : (tensor<2x10xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
    ```

    C1: `dim` is a dimension of `data`. C2: `batched` indices begin with the
    dimensions of `data` before `dim`.
  }];
  let arguments = (ins NN_AnyTensor:$data, NN_Integer:$indices, I64Attr:$dim, UnitAttr:$partial,
                       UnitAttr:$batched);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Table">.method;
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$data `,` $indices `dim` $dim attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Gather", "0">.definition;
}

def NN_ScatterKind : I64EnumAttr<"ScatterKind", "what a scatter does with an element and its update", [
    I64EnumAttrCase<"Set", 0, "set">, I64EnumAttrCase<"Add", 1, "add">, I64EnumAttrCase<"Mul", 2, "mul">,
    I64EnumAttrCase<"Min", 3, "min">, I64EnumAttrCase<"Max", 4, "max">]> {
  let cppNamespace = "::kerf::nn";
}

def NN_ScatterOp : NN_LocalOp<"scatter", [NN_Infer, NN_Gradient]> {
  let summary = "a tensor with slices changed that are selected by indices";
  let description = [{
    `data`, in which for each `i`, in row-major order,
    `result[a..., indices[a..., i...], b...]` becomes `updates[a..., i..., b...]`
    (`set`), or its sum, product, minimum or maximum with that; `a` has `dim`
    dimensions. So of several updates to one place `set` keeps the last. Negative
    indices count from the end of `dim`; an index outside `[-n, n)` changes
    nothing. NaN is the minimum and the maximum of itself and any number.

    Sharding `dim` leaves each device its rows. The attribute `partial` marks
    that local form: its indices are relative to the device's first row, negative
    ones do not wrap and, like those past the end, change nothing.

    Factors: `([a..., j, b...], [a..., i...], [a..., i..., b...]) -> ([a..., j, b...])`,
    of which `i` is never cut.

    ```mlir
    %r = nn.scatter add %x, %places, %u dim 1
       : (tensor<2x10x4xf32>, tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<2x10x4xf32>
    ```

    C1: `dim` is a dimension of `data`. C2: a batched `nn.gather` of `data` by
    `indices` has the type of `updates`.
  }];
  let arguments = (ins NN_Tensor:$data, NN_Integer:$indices, NN_Tensor:$updates,
                       NN_ScatterKind:$kind, I64Attr:$dim, UnitAttr:$partial);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $kind $data `,` $indices `,` $updates `dim` $dim attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDefinition = NN_Cost<"Row", "operands[2].getNumElements()",
          "indexedLibraryWork(getType())">.definition;
}

#endif // KERF_NN_SHAPE_TD
