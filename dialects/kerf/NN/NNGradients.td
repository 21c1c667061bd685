//===- NNGradients.td - ops that only training has --------*- tablegen -*-===//
//
// Gradients that libraries do well as a whole, and random numbers. (Inference has
// one of them, as ONNX's ConvTranspose.) All other
// vector-Jacobian products are composed of the ops of inference (Gradients*.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_GRADIENTS_TD
#define KERF_NN_GRADIENTS_TD

include "kerf/NN/NNBase.td"

class NN_ConvGradientOp<string mnemonic, list<Trait> traits = []> : NN_RuleOp<mnemonic, traits> {
  let results = (outs NN_Float:$result);
  dag window = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low,
                    DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilations,
                    I64Attr:$groups);
  let hasVerifier = 1;
  let hasCustomAssemblyFormat = 1;
}

def NN_ConvInputGradientOp
    : NN_ConvGradientOp<"conv_input_gradient", [NN_Gradient, NN_SumOfProducts, Kerf_OperandRoleInterface]> {
  let summary = "gradient of a convolution with respect to its image, or transposed convolution";
  let description = [{
    The transpose of `nn.conv` as a linear map of its image: with `y = conv(x, w)`
    and the attributes of that op, the result has the shape of `x` and

    `result[n, q..., g*C + c] = sum_{o in g, p..., r... : p*stride + r*dilation - low = q} dy[n, p..., o] w[o, c, r...]`

    A model that has a transposed convolution (ONNX's ConvTranspose) has it as
    this. Positions of the image that no window reads are zero. Accumulates in f32
    (f64 for f64). Floating-point operations as the convolution.

    Factors (one group): `([n, p..., o], [o, c, r...]) -> ([n, q..., c]) {o: sum}`;
    several groups: only `n`.

    ```mlir
    %dx = nn.conv_input_gradient %dy, %w kernel 3x3 strides 2x2 pad 1x1 : tensor<1x4x4x4xf32> -> tensor<1x8x8x3xf32>
    ```

    C1: `nn.conv` of the result's type and `weights` has the type of `dy`.
  }];
  let arguments = !con((ins NN_Float:$dy, NN_Float:$weights), window);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Learned">.method;
  let extraClassDefinition = NN_Cost<"Convolution", [{
          2 * operands[0].getNumElements() * ::llvm::product_of(operands[1].getShape().drop_front())}],
          "windowLibraryWork(::kerf::libraryWorkOn(getType(), ::kerf::LibraryWork::Call), getType())">.definition;
}

def NN_ConvWeightGradientOp : NN_ConvGradientOp<"conv_weight_gradient", [NN_SumOfProducts]> {
  let summary = "gradient of a convolution with respect to its weights";
  let description = [{
    With `y = conv(x, w)` and the attributes of that op, the result has the shape
    of `w` (OIHW) and

    `result[o, c, r...] = sum_{n, p...} x[n, p*stride + r*dilation - low, g*C + c] dy[n, p..., o]`

    where `g` is the group of `o`; reads outside the image are zero. Accumulates
    in f32 (f64 for f64). Floating-point operations as the convolution.

    Factors (one group): `([n, q..., c], [n, p..., o]) -> ([o, c, r...]) {n: sum}`;
    several groups: only `n`.

    ```mlir
    %dw = nn.conv_weight_gradient %x, %dy kernel 3x3 strides 2x2 pad 1x1 : tensor<1x8x8x3xf32>, tensor<1x4x4x4xf32>
    ```

    C1: `nn.conv` of `x` and the result's type has the type of `dy`.
  }];
  let arguments = !con((ins NN_Float:$x, NN_Float:$dy), window);
  let extraClassDefinition = NN_Cost<"Convolution", [{
          2 * operands[1].getNumElements() * ::llvm::product_of(results[0].getShape().drop_front())}],
          "windowLibraryWork(::kerf::libraryWorkOn(getType(), ::kerf::LibraryWork::Call), getType())">.definition;
}

class NN_PoolGradientOp<string mnemonic, list<Trait> traits = []>
    : NN_RuleOp<mnemonic, traits> {
  let results = (outs NN_Float:$result);
  dag window = (ins DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                    DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                    DenseI64ArrayAttr:$dilations);
}

def NN_MaxPoolGradientOp : NN_PoolGradientOp<"max_pool_gradient", [NN_Infer]> {
  let summary = "gradient of a maximum over windows";
  let description = [{
    Each element of `dy` is added to the position of `x` that is the maximum of
    its window in `nn.max_pool` with the same attributes; of several maxima the
    first in row-major order. NaN counts as the largest number. Overlapping
    windows add up in row-major order of `dy`.

    ```mlir
    %dx = nn.max_pool_gradient %x, %dy kernel 2 strides 2
       : (tensor<1x8x3xf32>, tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
    ```

    C1: `nn.max_pool` of `x` has the type of `dy`.
  }];
  let arguments = !con((ins NN_Float:$x, NN_Float:$dy), window);
  let assemblyFormat = [{
    $x `,` $dy custom<Window>($kernel, $strides, $low, $high, $dilations) attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDefinition = NN_Cost<"Row", [{
          ::llvm::product_of(getKernel()) * operands[1].getNumElements()}],
          [{windowLibraryWork(getType().getElementType().isF32() ? ::kerf::LibraryWork::Call
                                                                : ::kerf::LibraryWork::None, getType())}]>.definition;
}

def NN_AvgPoolGradientOp : NN_PoolGradientOp<"avg_pool_gradient", [NN_SumOfProducts]> {
  let summary = "gradient of a mean over windows";
  let description = [{
    Each element of `dy`, divided by what `nn.avg_pool` with the same attributes
    divides by, is added to every position of its window inside the image. The
    result has the shape of the image.

    ```mlir
    %dx = nn.avg_pool_gradient %dy kernel 2 strides 2 : (tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
    ```

    C1: `nn.avg_pool` of the result's type has the type of `dy`.
  }];
  let arguments = !con((ins NN_Float:$dy), window,
                       (ins UnitAttr:$count_include_pad,
                            OptionalAttr<DenseI64ArrayAttr>:$count_high));
  let assemblyFormat = [{
    $dy custom<Window>($kernel, $strides, $low, $high, $dilations) attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"Row", [{
          ::llvm::product_of(getKernel()) * operands[0].getNumElements()}],
          [{windowLibraryWork(getType().getElementType().isF32() ? ::kerf::LibraryWork::Call
                                                                : ::kerf::LibraryWork::None, getType())}]>.definition;
}

def NN_ScatterAddOp : NN_LocalOp<"scatter_add", [NN_SumOfProducts]> {
  let summary = "sums of slices that go to one index, the gradient of nn.gather";
  let description = [{
    `result[a..., j, b...] = sum of updates[a..., i..., b...] over i with indices[i...] = j`
    where `a` has `dim` dimensions; in row-major order of `i`, in f32 (f64 for
    f64). Rows that no index names are zero. Negative indices count from the end
    of `dim`; an index outside `[-n, n)` contributes nothing.

    Sharding `dim` of the result leaves each device its rows. The attribute
    `partial` marks that local form: its indices are relative to the device's
    first row, negative ones do not wrap and, like those past the end,
    contribute nothing.

    Factors: `([i...], [a..., i..., b...]) -> ([a..., j, b...]) {i: sum}`.

    ```mlir
    %dt = nn.scatter_add %ids, %dy dim 0
       : (tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<10x4xf32>
    ```

    C1: `nn.gather` of the result's type and `indices` has the type of `updates`.
  }];
  let arguments = (ins NN_Integer:$indices, NN_Float:$updates, I64Attr:$dim, UnitAttr:$partial);
  let results = (outs NN_Float:$result);
  let assemblyFormat = "$indices `,` $updates `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"Row", "operands[1].getNumElements()",
          "getType().getElementTypeBitWidth() >= 32 ? ::kerf::LibraryWork::Sum : ::kerf::LibraryWork::None">.definition;
}

def NN_PhiloxOp : NN_ElementwiseOp<"philox", "{}", 80, [NN_Infer, NN_Kernel<"Elementwise">]> {
  let summary = "uniform random numbers, a function of index, seed and step";
  let description = [{
    `result[i] = (philox(counter, key)[0] >> 8) * 2^-24`, in `[0, 1)`, with
    Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3,
    2011); of its four words of output the first is used. In words of 32 bits,
    low word first:

        counter = [low(index[i]), high(index[i]), low(step), stream]
        key     = [low(seed), high(seed)]

    `index` is the number of the element in the global tensor, made of
    `nn.iota`, so that every sharding draws the same numbers. Each random op of a
    model has its own `stream` in `[0, 2^32)`.

    ```mlir
    %u = nn.philox %index, %seed, %step {stream = 0 : i64}
       : (tensor<2x3xi64>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
    ```

    C1: `seed` and `step` are scalars; `stream` is in `[0, 2^32)`.
  }];
  let arguments = (ins StaticShapeTensorOf<[I64]>:$index, StaticShapeTensorOf<[I64]>:$seed,
                       StaticShapeTensorOf<[I64]>:$step, I64Attr:$stream);
  let interval = "{0, 1}";
}

def NN_DropoutOp : NN_ElementwiseOp<"dropout", "{{0}}", 1, [], "{}",
                                    "::kerf::OperandRole::Through"> {
  let summary = "zeroes elements at random in training";
  let description = [{
    In training each element is zero with probability `ratio` and else divided by
    `1 - ratio`. Stands between import and autodiff only, which draws the mask
    with nn.philox.

    ```mlir
    %r = nn.dropout %x {ratio = 0.1 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    ```

    C1: `ratio` is in `[0, 1]`. C2: operand and result have one type.
  }];
  let arguments = (ins NN_Float:$x, F64Attr:$ratio);
  let hasVerifier = 1;
}

#endif // KERF_NN_GRADIENTS_TD
