//===- ExecAttributes.td - attributes of calls -------------*- tablegen -*-===//
#ifndef KERF_EXEC_ATTRIBUTES_TD
#define KERF_EXEC_ATTRIBUTES_TD

include "kerf/Exec/ExecBase.td"

class Exec_Attr<string name, string attrMnemonic> : AttrDef<Exec_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Exec_ViewAttr : Exec_Attr<"View", "view"> {
  let summary = "where the elements of an operand lie in its buffer";
  let description = [{
    Element i of the operand is element `offset + sum_d i_d strides_d` of the
    buffer. A stride of 0 repeats; without strides the elements are dense. Where
    an operand has no view it is dense from the first element on.

    ```mlir
    #exec.view<strides [60, 4, 12, 1] offset 24>
    ```

    C1: strides and offset are not negative. C2: it says something: there are
    strides or an offset.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$strides, "int64_t":$offset);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Exec_WindowAttr : Exec_Attr<"Window", "window"> {
  let summary = "the windows of a convolution or pool";
  let description = [{
    Per spatial dimension: sizes of the image and of the result (of the forward
    where it is a gradient), window, steps, padding on both sides, and the
    distance of a window's elements (1: dense). With room = in + low + high -
    ((kernel - 1) dilation + 1) the result has room / stride + 1 elements.

    ```mlir
    #exec.window<in [8, 9] out [4, 5] kernel [3, 3] strides [2, 2] low [1, 1] high [1, 1] dilations [1, 1]>
    ```

    C1: one to three dimensions, the same number of each. C2: sizes and padding
    are not negative, kernel, strides and dilations positive.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$in, ArrayRefParameter<"int64_t">:$out,
                        ArrayRefParameter<"int64_t">:$kernel, ArrayRefParameter<"int64_t">:$strides,
                        ArrayRefParameter<"int64_t">:$low, ArrayRefParameter<"int64_t">:$high,
                        ArrayRefParameter<"int64_t">:$dilations);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// What the formula gives for `out`.
    ::llvm::SmallVector<int64_t> getExpectedOut() const;
  }];
}

def Exec_AttentionSizesAttr : Exec_Attr<"AttentionSizes", "attention"> {
  let summary = "sizes of attention";
  let description = [{
    ```mlir
    #exec.attention<batch = 1, heads = 12, key_heads = 12, queries = 128, keys = 128,
                    head_size = 64, value_size = 64>
    ```

    C1: `key_heads` is positive and divides `heads`. C2: there is a key, and no size is negative.
  }];
  let parameters = (ins "int64_t":$batch, "int64_t":$heads, "int64_t":$key_heads, "int64_t":$queries,
                        "int64_t":$keys, "int64_t":$head_size, "int64_t":$value_size);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

def Exec_PostOpKind : Exec_Enum<"PostOpKind", "what a library does before it stores a result", [
    I32EnumAttrCase<"Relu", 0, "relu">, I32EnumAttrCase<"Tanh", 1, "tanh">,
    I32EnumAttrCase<"Sigmoid", 2, "sigmoid">, I32EnumAttrCase<"GeluErf", 3, "gelu_erf">,
    I32EnumAttrCase<"GeluTanh", 4, "gelu_tanh">, I32EnumAttrCase<"Abs", 5, "abs">,
    I32EnumAttrCase<"Linear", 6, "linear">,       // alpha x + beta
    // With a second tensor, on the right:
    I32EnumAttrCase<"Add", 7, "add">, I32EnumAttrCase<"Sub", 8, "sub">,
    I32EnumAttrCase<"Mul", 9, "mul">, I32EnumAttrCase<"Div", 10, "div">,
    // Times the slope of GELU's tanh form at the second tensor.
    I32EnumAttrCase<"GeluTanhGradient", 11, "gelu_tanh_gradient">,
    // Adds what the destination held before.
    I32EnumAttrCase<"Sum", 12, "sum">]>;

def Exec_PostOpAttr : Exec_Attr<"PostOp", "post_op"> {
  let summary = "one step of a call's epilogue";
  let description = [{
    The kinds are those of `docs/Package.md`. `linear` has the two numbers alpha
    and beta; those with a second tensor have, if it is not dense, its view over
    the dimensions of the destination. In an op the tensor stands behind the kind.

    ```mlir
    #exec.post_op<linear(0.125, 0.0)>
    #exec.post_op<add strides [0, 1]>
    ```

    C1: numbers for `linear` alone. C2: a view only where there is a second tensor.
  }];
  let parameters = (ins "::kerf::exec::PostOpKind":$kind,
                        OptionalParameter<"::mlir::FloatAttr">:$alpha,
                        OptionalParameter<"::mlir::FloatAttr">:$beta,
                        OptionalParameter<"::kerf::exec::ViewAttr">:$view);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether it takes a second tensor, the next of the call's.
    bool hasOperand() const { return kerf::exec::takesOperand(getKind()); }
  }];
}
def Exec_PostOps : TypedArrayAttrBase<Exec_PostOpAttr, "an epilogue">;

//===----------------------------------------------------------------------===//
// What a product could do beside
//===----------------------------------------------------------------------===//

def Exec_Side : Exec_Enum<"Side", "an operand of a product", [
    I32EnumAttrCase<"Lhs", 0, "lhs">, I32EnumAttrCase<"Rhs", 1, "rhs">]>;

def Exec_BiasGradientAttr : Exec_Attr<"BiasGradient", "bias_gradient"> {
  let summary = "sums of an operand that a product could write besides";
  let description = [{
    Kernel number `kernel` sums operand `of` over k into `rows` rows of partial
    sums. The product may do that instead: the sums in the first row, zeros in
    the others. See `docs/Package.md`.

    ```mlir
    #exec.bias_gradient<of = rhs, rows = 128, kernel = 22>
    ```

    C1: at least one row.
  }];
  let parameters = (ins EnumParameter<Exec_Side>:$of, "int64_t":$rows, "int64_t":$kernel);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Exec_ReluGradientAttr : Exec_Attr<"ReluGradient", "relu_gradient"> {
  let summary = "a kernel on a product's result that the product could do";
  let description = [{
    Kernel number `kernel` works in place over the product's result and keeps an
    element where that of call number `forward`, a product that ends with `relu`,
    is positive. See `docs/Package.md`.

    ```mlir
    #exec.relu_gradient<forward = 1, kernel = 6>
    ```
  }];
  let parameters = (ins "int64_t":$forward, "int64_t":$kernel);
  let assemblyFormat = "`<` struct(params) `>`";
}

//===----------------------------------------------------------------------===//
// Code for GPUs
//===----------------------------------------------------------------------===//

def Exec_GpuBatchAttr : Exec_Attr<"GpuBatch", "gpu_batch"> {
  let summary = "the entry that computes several kernels of one form together";
  let description = [{
    ```mlir
    #exec.gpu_batch<entry = "kerf_b3", elements = 4096, chunk = 1024, threads = 256>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$entry, "int64_t":$elements, "int64_t":$chunk,
                        "int64_t":$threads);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_GpuKernelAttr : Exec_Attr<"GpuKernel", "gpu_kernel"> {
  let summary = "how a kernel's code for GPUs is launched";
  let description = [{
    The entry of the PTX, its grid and block, and the bytes of its buffers, the
    first `reads` of which are read and the others written. `arguments`: which of
    a call's buffers these are, where they are not all in order. `fails`: it
    records out of range indices. `batch`: it can be computed with others.

    ```mlir
    #exec.gpu_kernel<"kerf_k0" grid [96, 1, 1] block [256, 1, 1] bytes [393216, 3072, 393216] reads 2>
    ```

    C1: grid and block have three dimensions. C2: `reads` is at most the number
    of buffers.
  }];
  let parameters = (ins StringRefParameter<>:$entry, ArrayRefParameter<"int64_t">:$grid,
                        ArrayRefParameter<"int64_t">:$block, OptionalArrayRefParameter<"int64_t">:$bytes,
                        "int64_t":$reads, OptionalArrayRefParameter<"int64_t">:$arguments,
                        "bool":$fails, OptionalParameter<"::kerf::exec::GpuBatchAttr">:$batch);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // KERF_EXEC_ATTRIBUTES_TD
