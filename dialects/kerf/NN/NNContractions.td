//===- NNContractions.td - matmul, convolution, pooling ---*- tablegen -*-===//
#ifndef KERF_NN_CONTRACTIONS_TD
#define KERF_NN_CONTRACTIONS_TD

include "kerf/NN/NNBase.td"

def NN_MatmulOp : NN_RuleOp<"matmul", [NN_Kernel<"Contraction">, NN_Infer, NN_Gradient, NN_SumOfProducts, Kerf_OperandRoleInterface]> {
  let summary = "batched matrix product";
  let description = [{
    `result[b, m, n] = sum_k lhs[b, m, k] rhs[b, k, n]`. Leading (batch)
    dimensions are right-aligned and broadcast. `transpose_lhs` and
    `transpose_rhs` swap the two last dimensions of an operand first.
    Accumulates in f32 (f64 for f64). `2 b m n k` floating-point operations.

    Factors: `([b, m, k], [b, k, n]) -> ([b, m, n]) {k: sum}`.

    ```mlir
    %r = nn.matmul %a, %b {transpose_rhs}
       : (tensor<5x2x3xf32>, tensor<4x3xf32>) -> tensor<5x2x4xf32>
    ```

    C1: ranks are at least 2. C2: the contracted sizes agree. C3: batch
    dimensions broadcast. C4: one element type.
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, UnitAttr:$transpose_lhs,
                       UnitAttr:$transpose_rhs);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Learned">.method;
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Matmul", [{
          2 * results[0].getNumElements()
          * operands[0].getDimSize(operands[0].getRank() - (getTransposeLhs() ? 2 : 1))}],
          "::kerf::libraryWorkOn(getType(), ::kerf::LibraryWork::Product)">.definition;
}

def NN_ConvOp : NN_RuleOp<"conv", [NN_Kernel<"Contraction">, NN_Infer, NN_Gradient, NN_SumOfProducts, Kerf_OperandRoleInterface]> {
  let summary = "convolution, NHWC activations and OIHW weights";
  let description = [{
    `result[n, p..., o] = sum_{r..., c} x[n, p*stride + r*dilation - low, g*C + c] w[o, c, r...]`
    for one, two or three spatial dimensions; `groups` divides input and output
    channels. Reads outside the image are zero.

    ```mlir
    %r = nn.conv %x, %w kernel 3x3 strides 2x2 pad 1x1 : tensor<1x8x8x3xf32> -> tensor<1x4x4x4xf32>
    ```

    The window is written as in all ops that have one: strides and dilations of 1
    and a padding of 0 are left out, `pad` is both `low` and `high` where they are
    equal. So is one group, and the type of the weights, which the types of both
    images, the kernel and `groups` give. All of it:

    ```mlir
    %r = nn.conv %x, %w kernel 3x3 strides 1x2 low 1x0 high 0x1 dilations 1x2 groups 2
       : tensor<1x8x8x4xf32> -> tensor<1x7x3x6xf32>
    ```

    C1: one stride, dilation, low and high per spatial dimension. C2: channels
    are divisible by `groups` and agree with the weights. C3: the result is not empty.
  }];
  let arguments = (ins NN_Float:$x, NN_Float:$weights, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Learned">.method;
  let results = (outs NN_Float:$result);
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = NN_Cost<"Convolution", [{
          2 * results[0].getNumElements() * ::llvm::product_of(operands[1].getShape().drop_front())}],
          "windowLibraryWork(::kerf::libraryWorkOn(getType(), ::kerf::LibraryWork::Product), getType())">.definition;
}

class NN_PoolOp<string mnemonic, list<Trait> traits = []>
    : NN_RuleOp<mnemonic, !listconcat(traits, [NN_Kernel<"Window">, NN_Infer, NN_Gradient])> {
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $x custom<Window>($kernel, $strides, $low, $high, $dilations) attr-dict
    `:` functional-type(operands, results)
  }];
  dag window = (ins NN_Tensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                    DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                    DenseI64ArrayAttr:$dilations);
  let extraClassDefinition = NN_Cost<"Row", [{
          ::llvm::product_of(getKernel()) * results[0].getNumElements()}]>.definition;
}

def NN_MaxPoolOp : NN_PoolOp<"max_pool"> {
  let summary = "maximum over windows, NHWC";
  let description = [{
    `result[n, p..., c] = max_r x[n, p*stride + r*dilation - low, c]` over the
    positions inside the image. `high` may be enlarged by the importer for
    ONNX's ceil_mode.

    ```mlir
    %r = nn.max_pool %x kernel 3x3 strides 2x2 pad 1x1 : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
    ```

    C1: one entry of each attribute per spatial dimension. C2: not empty.
  }];
  let arguments = window;
}

def NN_AvgPoolOp : NN_PoolOp<"avg_pool", [NN_SumOfProducts]> {
  let summary = "mean over windows, NHWC";
  let description = [{
    The sum over a window divided by the number of its positions inside the
    image, or with `count_include_pad` inside the image or its padding
    (`count_low`, `count_high` where they differ from `low`, `high`: ceil_mode
    windows that hang over the padded edge do not count what hangs over). 0 where
    there is none, as a dilated window can step over a small image.

    ```mlir
    %r = nn.avg_pool %x kernel 2x2 strides 2x2 {count_include_pad} : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
    ```

    C1: one entry of each attribute per spatial dimension. C2: not empty.
  }];
  let arguments = !con(window, (ins UnitAttr:$count_include_pad,
                                    OptionalAttr<DenseI64ArrayAttr>:$count_high));
}

#endif // KERF_NN_CONTRACTIONS_TD
