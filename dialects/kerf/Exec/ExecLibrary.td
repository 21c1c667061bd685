//===- ExecLibrary.td - calls into the device's library ----*- tablegen -*-===//
//
// An operand stands behind the name of its role as
//   (%x : memref<2x3xf32> strides [1, 2] offset 6)
// and is dense where it has no view. Before there are buffers, operands are
// tensors, and the op has a result for each that it writes (ExecGroups.td).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EXEC_LIBRARY_TD
#define KERF_EXEC_LIBRARY_TD

include "kerf/Exec/ExecAttributes.td"
include "kerf/Exec/ExecCalls.td"
include "kerf/Exec/ExecInterfaces.td"

class Exec_LibraryOp<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [Exec_LibraryCallInterface,
                                             ParentOneOf<["FuncOp", "::mlir::func::FuncOp"]>])> {
  dag call = (ins I64Attr:$index, StrAttr:$node, OptionalAttr<Exec_PhaseAttr>:$phase);
  dag destination = (ins Exec_Place:$dst);
  dag launch = (ins OptionalAttr<Exec_GpuKernelAttr>:$cuda);
  // "/fc" phase forward
  string head = "custom<Int>($index) $node (`phase` `` $phase^)?";
  string tail = " (`cuda` $cuda^)? attr-dict (`:` type($results)^)?";
  let results = (outs Variadic<Exec_Tensor>:$results);
  string roles = "::llvm::SmallVector<::kerf::exec::Role> getRoles();";
  let extraClassDeclaration = roles;
}

// A call for which GPUs have a kernel of ours.
class Exec_KernelCallOp<string mnemonic> : Exec_LibraryOp<mnemonic> {
  string rolesAndKernel = roles # " bool hasGpuKernel() { return true; }";
  let extraClassDeclaration = rolesAndKernel;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products and convolutions
//===----------------------------------------------------------------------===//

class Exec_EpilogueOp<string mnemonic, list<Trait> traits = []>
    : Exec_LibraryOp<mnemonic, !listconcat(traits, [AttrSizedOperandSegments])> {
  dag epilogueOperands = (ins Optional<Exec_Operand>:$bias, OptionalAttr<Exec_ViewAttr>:$bias_view,
                              Variadic<Exec_Operand>:$post_operands,
                              OptionalAttr<Exec_PostOps>:$post_ops);
  string epilogue = [{
    (`bias` `` custom<Role>($bias, type($bias), $bias_view)^)?
    `dst` `` custom<Role>($dst, type($dst), $dst_view)
    (`then` custom<Epilogue>($post_ops, $post_operands, type($post_operands))^)?
  }];
  let extraClassDeclaration = roles # [{
    ::llvm::SmallVector<::kerf::exec::PostOpAttr> getEpilogue() {
      return ::kerf::exec::epilogueOf(getPostOpsAttr());
    }
    ::mlir::OperandRange getEpilogueOperands() { return getPostOperands(); }
    bool takesWeights() { return true; }
    bool packs(::mlir::OpOperand &operand) { return operand.getOperandNumber() != 0; }
  }];
  let hasVerifier = 1;
}

def Exec_MatmulOp : Exec_EpilogueOp<"matmul"> {
  let summary = "a product of matrices";
  let description = [{
    `dst[b.., m, n] = post(sum_k lhs[b.., m, k] rhs[b.., k, n] + bias[n])`, where
    the views of `lhs`, `rhs` and `dst` are over these dimensions. `batch` is
    empty where it is not given. What follows `then` is done in that order.

    ```mlir
    exec.matmul 0 "/fc" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : !exec.weight<4x3xf32> strides [1, 3])
        bias(%b : !exec.weight<4xf32>) dst(%y : memref<2x4xf32>) then [add(%r : memref<2x4xf32>), relu]
    ```

    On GPUs the attributes `bias_gradient` (with the buffer `sums`) and
    `relu_gradient` are offers: what the call could compute besides.

    C1: operands lie within their buffers, at most four batch dimensions. C2: one
    element type of lhs and rhs, one of dst, bias and second tensors. C3: a bias
    has no strides. C4: as many second tensors as the epilogue takes; `sum`
    stands first. C5: `sums` and `bias_gradient` are given together; what else
    the call could do is offered by plain products alone, one thing at most; a
    tensor of sums is the destination of a group.
  }];
  let arguments = !con(call, (ins
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$batch, I64Attr:$m, I64Attr:$n, I64Attr:$k,
      Exec_Operand:$lhs, OptionalAttr<Exec_ViewAttr>:$lhs_view,
      Exec_Operand:$rhs, OptionalAttr<Exec_ViewAttr>:$rhs_view), epilogueOperands, destination, (ins
      OptionalAttr<Exec_ViewAttr>:$dst_view,
      Optional<Exec_Place>:$sums, OptionalAttr<Exec_BiasGradientAttr>:$bias_gradient,
      OptionalAttr<Exec_ReluGradientAttr>:$relu_gradient), launch);
  let assemblyFormat = head # [{
    (`batch` $batch^)? `m` custom<Int>($m) `n` custom<Int>($n) `k` custom<Int>($k)
    `lhs` `` custom<Role>($lhs, type($lhs), $lhs_view) `rhs` `` custom<Role>($rhs, type($rhs), $rhs_view)
  }] # epilogue # [{
    (`sums` `(` $sums^ `:` type($sums) `)` $bias_gradient)? (`relu_gradient` $relu_gradient^)?
  }] # tail;
}

class Exec_ConvolutionOp<string mnemonic, list<Trait> traits = []>
    : Exec_EpilogueOp<mnemonic, traits> {
  dag sizes = (ins I64Attr:$batch, I64Attr:$in_channels, I64Attr:$out_channels, I64Attr:$groups,
                   Exec_WindowAttr:$window);
  string shape = [{
    `batch` custom<Int>($batch) `channels` custom<Int>($in_channels) `to` custom<Int>($out_channels)
    `groups` custom<Int>($groups) `window` $window
  }];
}

def Exec_ConvOp : Exec_ConvolutionOp<"conv"> {
  let summary = "a convolution";
  let description = [{
    As `nn.conv`: `src` and `dst` are channels last, `weights` `[out, in / groups,
    kernel..]`. Views of src and dst are over `[batch, spatial.., channel]`.

    ```mlir
    exec.conv 1 "/conv1" batch 1 channels 3 to 8 groups 1
        window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
        src(%x : memref<1x8x3xf32>) weights(%w : !exec.weight<8x3x3xf32>) bias(%b : !exec.weight<8xf32>)
        dst(%y : memref<1x8x8xf32>) then [relu]
    ```

    C1: operands lie within their buffers. C2: one element type of src and
    weights, one of dst, bias and second tensors. C3: a bias has no strides. C4:
    as many second tensors as the epilogue takes; no `sum`. C5: the groups divide
    the channels, the result has the sizes that the window gives.
  }];
  let arguments = !con(call, sizes, (ins
      Exec_Operand:$src, OptionalAttr<Exec_ViewAttr>:$src_view,
      Exec_Operand:$weights, OptionalAttr<Exec_ViewAttr>:$weights_view),
      epilogueOperands, destination, (ins OptionalAttr<Exec_ViewAttr>:$dst_view), launch);
  let assemblyFormat = head # shape # [{
    `src` `` custom<Role>($src, type($src), $src_view)
    `weights` `` custom<Role>($weights, type($weights), $weights_view)
  }] # epilogue # tail;
}

class Exec_ConvolutionGradientOp<string mnemonic>
    : Exec_LibraryOp<mnemonic> {
  let extraClassDeclaration = roles # "bool takesWeights() { return true; }";
  dag sizes = (ins I64Attr:$batch, I64Attr:$in_channels, I64Attr:$out_channels, I64Attr:$groups,
                   Exec_WindowAttr:$window);
  string shape = [{
    `batch` custom<Int>($batch) `channels` custom<Int>($in_channels) `to` custom<Int>($out_channels)
    `groups` custom<Int>($groups) `window` $window
  }];
  let hasVerifier = 1;
}

def Exec_ConvInputGradientOp : Exec_ConvolutionGradientOp<"conv_input_gradient"> {
  let summary = "the gradient of a convolution's image";
  let description = [{
    `diff` is the gradient of the result; sizes and window are those of the
    convolution. All dense.

    ```mlir
    exec.conv_input_gradient 2 "/conv1" batch 1 channels 3 to 8 groups 1
        window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
        diff(%dy : memref<1x8x8xf32>) weights(%w : !exec.weight<8x3x3xf32>) dst(%dx : memref<1x8x3xf32>)
    ```

    C1: operands lie within their buffers. C2: one element type of diff and
    weights. C3: the groups divide the channels.
  }];
  let arguments = !con(call, sizes, (ins Exec_Operand:$diff, Exec_Operand:$weights), destination, launch);
  let extraClassDeclaration = roles # [{
    bool takesWeights() { return true; }
    bool packs(::mlir::OpOperand &operand) { return operand.getOperandNumber() == 1; }
  }];
  let assemblyFormat = head # shape # [{
    `diff` `` custom<Dense>($diff, type($diff)) `weights` `` custom<Dense>($weights, type($weights))
    `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
}

def Exec_ConvWeightGradientOp : Exec_ConvolutionGradientOp<"conv_weight_gradient"> {
  let summary = "the gradient of a convolution's weights";
  let description = [{
    As `exec.conv_input_gradient`; `dst` is `[out, in / groups, kernel..]`.

    ```mlir
    exec.conv_weight_gradient 3 "/conv1" batch 1 channels 3 to 8 groups 1
        window <in [8] out [8] kernel [3] strides [1] low [1] high [1] dilations [1]>
        src(%x : memref<1x8x3xf32>) diff(%dy : memref<1x8x8xf32>) dst(%dw : memref<8x3x3xf32>)
    ```

    C1: operands lie within their buffers. C2: one element type of src and diff.
    C3: the groups divide the channels.
  }];
  let arguments = !con(call, sizes, (ins Exec_Operand:$src, Exec_Operand:$diff), destination, launch);
  let assemblyFormat = head # shape # [{
    `src` `` custom<Dense>($src, type($src)) `diff` `` custom<Dense>($diff, type($diff))
    `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
}

//===----------------------------------------------------------------------===//
// Pools and sums of rows
//===----------------------------------------------------------------------===//

class Exec_PoolOp<string mnemonic> : Exec_KernelCallOp<mnemonic> {
  dag sizes = (ins I64Attr:$batch, I64Attr:$channels, Exec_WindowAttr:$window);
  string shape = [{
    `batch` custom<Int>($batch) `channels` custom<Int>($channels) `window` $window
  }];
}

def Exec_MaxPoolGradientOp : Exec_PoolOp<"max_pool_gradient"> {
  let summary = "the gradient of a maximum over windows";
  let description = [{
    Each element of `diff` goes to the first largest element of its window of
    `src`. All dense, channels last, of f32.

    ```mlir
    exec.max_pool_gradient 4 "/pool" batch 1 channels 3
        window <in [8] out [4] kernel [2] strides [2] low [0] high [0] dilations [1]>
        src(%x : memref<1x8x3xf32>) diff(%dy : memref<1x4x3xf32>) dst(%dx : memref<1x8x3xf32>)
    ```

    C1: operands lie within their buffers. C2: elements are f32.
  }];
  let arguments = !con(call, sizes, (ins Exec_Place:$src, Exec_Place:$diff), destination, launch);
  let assemblyFormat = head # shape # [{
    `src` `` custom<Dense>($src, type($src)) `diff` `` custom<Dense>($diff, type($diff))
    `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
}

def Exec_AvgPoolGradientOp : Exec_PoolOp<"avg_pool_gradient"> {
  let summary = "the gradient of a mean over windows";
  let description = [{
    Each element of `diff` is shared among the elements of its window: those of
    the image, with `count_padding` also those of the padding, of which
    `count_high` are behind the image where that is not the window's `high`.

    ```mlir
    exec.avg_pool_gradient 5 "/pool" batch 1 channels 3
        window <in [8] out [4] kernel [3] strides [2] low [0] high [1] dilations [1]> count_padding
        diff(%dy : memref<1x4x3xf32>) dst(%dx : memref<1x8x3xf32>)
    ```

    C1: operands lie within their buffers. C2: elements are f32. C3: one entry of
    `count_high` per dimension.
  }];
  let arguments = !con(call, sizes, (ins UnitAttr:$count_padding,
      OptionalAttr<DenseI64ArrayAttr>:$count_high, Exec_Place:$diff), destination, launch);
  let assemblyFormat = head # shape # [{
    (`count_padding` $count_padding^)? (`count_high` $count_high^)?
    `diff` `` custom<Dense>($diff, type($diff)) `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
}

def Exec_ScatterAddOp : Exec_KernelCallOp<"scatter_add"> {
  let summary = "sums of rows by index";
  let description = [{
    `dst[outer, rows, inner] = base` (zeros where there is none; it may be the
    buffer of dst) plus, for each i in order, row i of `updates[outer, count,
    inner]` at row `indices[i]`. Negative indices count from the end unless
    `partial`; those outside contribute nothing. All dense.

    ```mlir
    exec.scatter_add 6 "/wte" outer 1 rows 10 inner 4 count 6
        indices(%i : memref<6xi64>) updates(%u : memref<6x4xf32>) dst(%y : memref<10x4xf32>)
    ```

    C1: operands lie within their buffers. C2: indices are i64 or i32, updates,
    base and dst of one type, f32 or f64.
  }];
  let arguments = !con(call, (ins I64Attr:$outer, I64Attr:$rows, I64Attr:$inner, I64Attr:$count,
      UnitAttr:$partial, Exec_Place:$indices, Exec_Place:$updates, Optional<Exec_Place>:$base),
      destination, launch);
  let assemblyFormat = head # [{
    `outer` custom<Int>($outer) `rows` custom<Int>($rows) `inner` custom<Int>($inner)
    `count` custom<Int>($count) (`partial` $partial^)?
    `indices` `` custom<Dense>($indices, type($indices)) `updates` `` custom<Dense>($updates, type($updates))
    (`base` `` custom<Dense>($base, type($base))^)? `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
  let extraClassDeclaration = rolesAndKernel # [{
    ::mlir::OpOperand *getInPlaceOperand() {
      return getBase() ? &*getBaseMutable().begin() : nullptr;
    }
    ::mlir::Type getInputType() { return getUpdates().getType().getElementType(); }
  }];
}

def Exec_ScatterKind : Exec_Enum<"ScatterKind", "what a scatter does with an element and its update", [
    I32EnumAttrCase<"Set", 0, "set">, I32EnumAttrCase<"Add", 1, "add">, I32EnumAttrCase<"Mul", 2, "mul">,
    I32EnumAttrCase<"Min", 3, "min">, I32EnumAttrCase<"Max", 4, "max">]>;
def Exec_ScatterKindAttr : EnumAttr<Exec_Dialect, Exec_ScatterKind, "scatter_kind"> {
  let summary = "what a scatter does with an element and its update";
  let assemblyFormat = "$value";
}

def Exec_ScatterOp : Exec_KernelCallOp<"scatter"> {
  let summary = "rows changed by index";
  let description = [{
    `dst[outer, rows, inner] = base` (it may be the buffer of dst), in which for
    each i in order row `indices[outer, i]` becomes row i of
    `updates[outer, count, inner]`, or its sum, product, minimum or maximum with
    that. Negative indices count from the end unless `partial`; those outside
    change nothing. All dense.

    ```mlir
    exec.scatter 6 "/cache" set outer 2 rows 10 inner 4 count 3
        indices(%i : memref<2x3xi64>) updates(%u : memref<2x3x4xf32>)
        base(%x : memref<2x10x4xf32>) dst(%y : memref<2x10x4xf32>)
    ```

    C1: operands lie within their buffers. C2: indices are i64 or i32, updates,
    base and dst of one type, f32, f64, i32 or i64.
  }];
  let arguments = !con(call, (ins Exec_ScatterKindAttr:$update, I64Attr:$outer, I64Attr:$rows,
      I64Attr:$inner, I64Attr:$count, UnitAttr:$partial, Exec_Place:$indices, Exec_Place:$updates,
      Exec_Place:$base), destination, launch);
  let assemblyFormat = head # [{
    $update `outer` custom<Int>($outer) `rows` custom<Int>($rows) `inner` custom<Int>($inner)
    `count` custom<Int>($count) (`partial` $partial^)?
    `indices` `` custom<Dense>($indices, type($indices)) `updates` `` custom<Dense>($updates, type($updates))
    `base` `` custom<Dense>($base, type($base)) `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
  let extraClassDeclaration = rolesAndKernel # [{
    ::mlir::OpOperand *getInPlaceOperand() { return &getBaseMutable(); }
    ::mlir::Type getInputType() { return getUpdates().getType().getElementType(); }
  }];
}

def Exec_TopKOp : Exec_KernelCallOp<"top_k"> {
  let summary = "indices of the largest or smallest elements of rows";
  let description = [{
    `dst[outer, count]` are the indices of the `count` largest (or smallest)
    elements of each row of `src[outer, rows]`, from the largest (smallest) on;
    of equal elements the lower index comes first, and NaN is larger than every
    number. All dense.

    ```mlir
    exec.top_k 3 "/router" outer 4 rows 8 count 2
        src(%x : memref<4x8xf32>) dst(%y : memref<4x2xi64>)
    ```

    C1: operands lie within their buffers. C2: src is f32, f64, i32 or i64, dst
    i64. C3: `count` is at most `rows`.
  }];
  let arguments = !con(call, (ins I64Attr:$outer, I64Attr:$rows, I64Attr:$count,
      UnitAttr:$smallest, Exec_Place:$src), destination, launch);
  let assemblyFormat = head # [{
    `outer` custom<Int>($outer) `rows` custom<Int>($rows) `count` custom<Int>($count)
    (`smallest` $smallest^)?
    `src` `` custom<Dense>($src, type($src)) `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
  let extraClassDeclaration = rolesAndKernel # [{
    ::mlir::Type getInputType() { return getSrc().getType().getElementType(); }
  }];
}

def Exec_GreedySuppressOp : Exec_KernelCallOp<"greedy_suppress"> {
  let summary = "boxes that no better one overlaps";
  let description = [{
    `dst[outer, classes, count]` are the numbers of the boxes of
    `boxes[outer, rows, 4]` that are kept in each class, from the best on, by
    `scores[outer, classes, rows]`: see `nn.greedy_suppress`. All dense.

    ```mlir
    exec.greedy_suppress 3 "/nms" outer 4 classes 2 rows 8 count 3
        boxes(%b : memref<4x8x4xf32>) scores(%s : memref<4x2x8xf32>) threshold(%t : memref<f32>)
        most(%m : memref<i64>) dst(%y : memref<4x2x3xi64>)
    ```

    C1: operands lie within their buffers. C2: boxes, scores and threshold are
    f32, most and dst i64. C3: `count` is at most `rows`.
  }];
  let arguments = !con(call, (ins I64Attr:$outer, I64Attr:$classes, I64Attr:$rows, I64Attr:$count,
      Exec_Place:$boxes, Exec_Place:$scores, Exec_Place:$threshold, Exec_Place:$most), destination, launch);
  let assemblyFormat = head # [{
    `outer` custom<Int>($outer) `classes` custom<Int>($classes) `rows` custom<Int>($rows) `count` custom<Int>($count)
    `boxes` `` custom<Dense>($boxes, type($boxes)) `scores` `` custom<Dense>($scores, type($scores))
    `threshold` `` custom<Dense>($threshold, type($threshold)) `most` `` custom<Dense>($most, type($most))
    `dst` `` custom<Dense>($dst, type($dst))
  }] # tail;
  let extraClassDeclaration = rolesAndKernel # [{
    ::mlir::Type getInputType() { return getBoxes().getType().getElementType(); }
  }];
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

class Exec_AttentionCall<string mnemonic> : Exec_KernelCallOp<mnemonic> {
  dag sizes = (ins Exec_AttentionSizesAttr:$sizes, F64Attr:$scale, UnitAttr:$causal);
  string shape = "`sizes` $sizes `scale` custom<Real>($scale) (`causal` $causal^)?";
}

def Exec_AttentionOp : Exec_AttentionCall<"attention"> {
  let summary = "attention with its statistics";
  let description = [{
    The formulas are those of `nn.attention`. Views of q, k, v and dst are over
    `[batch, heads or key_heads, queries or keys, head_size or value_size]`, that
    of bias over `[batch, heads, queries, keys]`; `stats`, f32, is dense.

    ```mlir
    exec.attention 7 "/attn" sizes <batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8,
        value_size = 8> scale 0.125 causal q(%q : memref<1x2x4x8xf32>) k(%k : memref<1x2x4x8xf32>)
        v(%v : memref<1x2x4x8xf32>) dst(%y : memref<1x4x2x8xf32> strides [64, 8, 16, 1]) stats(%s : memref<1x2x4xf32>)
    ```

    C1: operands lie within their buffers. C2: q, k, v and dst are of one type,
    bias of that or f32, stats f32.
  }];
  let arguments = !con(call, sizes, (ins
      Exec_Place:$q, OptionalAttr<Exec_ViewAttr>:$q_view, Exec_Place:$k, OptionalAttr<Exec_ViewAttr>:$k_view,
      Exec_Place:$v, OptionalAttr<Exec_ViewAttr>:$v_view,
      Optional<Exec_Place>:$bias, OptionalAttr<Exec_ViewAttr>:$bias_view), destination, (ins
      OptionalAttr<Exec_ViewAttr>:$dst_view, Exec_Place:$stats), launch);
  let assemblyFormat = head # shape # [{
    `q` `` custom<Role>($q, type($q), $q_view) `k` `` custom<Role>($k, type($k), $k_view)
    `v` `` custom<Role>($v, type($v), $v_view) (`bias` `` custom<Role>($bias, type($bias), $bias_view)^)?
    `dst` `` custom<Role>($dst, type($dst), $dst_view) `stats` `` custom<Dense>($stats, type($stats))
  }] # tail;
}

def Exec_AttentionGradientOp : Exec_AttentionCall<"attention_gradient"> {
  let summary = "the gradients of attention";
  let description = [{
    Reads what `exec.attention` read and wrote and the gradient `diff` of its
    result; writes those of q (`dst`), k and v. Views as there.

    ```mlir
    exec.attention_gradient 8 "/attn" sizes <batch = 1, heads = 2, key_heads = 2, queries = 4, keys = 4, head_size = 8,
        value_size = 8> scale 0.125 q(%q : memref<1x2x4x8xf32>) k(%k : memref<1x2x4x8xf32>) v(%v : memref<1x2x4x8xf32>)
        out(%y : memref<1x2x4x8xf32>) stats(%s : memref<1x2x4xf32>) diff(%dy : memref<1x2x4x8xf32>)
        dst(%dq : memref<1x2x4x8xf32>) dk(%dk : memref<1x2x4x8xf32>) dv(%dv : memref<1x2x4x8xf32>)
    ```

    C1: operands lie within their buffers. C2: all are of the type of q, but for
    bias, which may be f32, and stats, which is f32.
  }];
  let arguments = !con(call, sizes, (ins
      Exec_Place:$q, OptionalAttr<Exec_ViewAttr>:$q_view, Exec_Place:$k, OptionalAttr<Exec_ViewAttr>:$k_view,
      Exec_Place:$v, OptionalAttr<Exec_ViewAttr>:$v_view,
      Exec_Place:$out, OptionalAttr<Exec_ViewAttr>:$out_view, Exec_Place:$stats,
      Exec_Place:$diff, OptionalAttr<Exec_ViewAttr>:$diff_view,
      Optional<Exec_Place>:$bias, OptionalAttr<Exec_ViewAttr>:$bias_view), destination, (ins
      OptionalAttr<Exec_ViewAttr>:$dst_view, Exec_Place:$dk, OptionalAttr<Exec_ViewAttr>:$dk_view,
      Exec_Place:$dv, OptionalAttr<Exec_ViewAttr>:$dv_view), launch);
  let assemblyFormat = head # shape # [{
    `q` `` custom<Role>($q, type($q), $q_view) `k` `` custom<Role>($k, type($k), $k_view)
    `v` `` custom<Role>($v, type($v), $v_view) `out` `` custom<Role>($out, type($out), $out_view)
    `stats` `` custom<Dense>($stats, type($stats)) `diff` `` custom<Role>($diff, type($diff), $diff_view)
    (`bias` `` custom<Role>($bias, type($bias), $bias_view)^)?
    `dst` `` custom<Role>($dst, type($dst), $dst_view) `dk` `` custom<Role>($dk, type($dk), $dk_view)
    `dv` `` custom<Role>($dv, type($dv), $dv_view)
  }] # tail;
}

#endif // KERF_EXEC_LIBRARY_TD
