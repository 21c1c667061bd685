//===- PreparePasses.td - tensors as lowering wants them --*- tablegen -*-===//
//
// Passes over a function of tensor ops that come before it is decided what is
// computed together (lib/Lower/Prepare). docs/Exec.md has their order and why.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_PREPAREPASSES
#define KERF_LOWER_PREPAREPASSES

include "mlir/Pass/PassBase.td"

class PreparePass<string name> : Pass<name, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect", "::kerf::dist::DistDialect"];
}

def UnifyMutableSources : PreparePass<"kerf-unify-mutable-sources"> {
  let summary = "Make all uses of what steps change one op";
  let description = [{
    A parameter or a state that a training step assigns is one piece of memory,
    however often the function names it. A source whose value is assigned to
    another one, or that is returned, is copied: it is read before either is
    written.

    ```mlir
    %0 = nn.state "m" {init = 0.0 : f32} : tensor<4xf32>
    %1 = nn.state "m" {init = 0.0 : f32} : tensor<4xf32>
    %2 = nn.add %0, %1 : tensor<4xf32>
    // becomes
    %0 = nn.state "m" {init = 0.0 : f32} : tensor<4xf32>
    %2 = nn.add %0, %0 : tensor<4xf32>
    ```
  }];
}

def ExpandAccumulate : PreparePass<"kerf-expand-accumulate"> {
  let summary = "Turn sums over micro-batches into additions";
  let description = [{
    ```mlir
    %1 = dist.accumulate %g into %sum : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // becomes
    %1 = nn.add %sum, %g : tensor<4xf32>
    ```
  }];
}

def DropPlanAttributes : PreparePass<"kerf-drop-plan-attributes"> {
  let summary = "Take what the planner decided from nn ops";
  let description = [{
    Place and time of an op are settled now. Of its `dist.step` only the phase
    stays, for traces.

    ```mlir
    %0 = nn.relu %x {dist.step = #dist.step<backward_input, colocation 0>} : tensor<4xf32>
    // becomes
    %0 = nn.relu %x {dist.step = #dist.step<backward_input>} : tensor<4xf32>
    ```
  }];
}

def ExpandOptimizerUpdates : PreparePass<"kerf-expand-optimizer-updates"> {
  let summary = "Turn updates of optimizers into elementwise ops";
  let description = [{
    One kernel per parameter computes them in one pass over memory; the
    attribute `exec.update` says which ops they are.

    ```mlir
    %1 = nn.sgd_update %w, %g, %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    // becomes
    %0 = nn.mul %g, %lr {exec.update} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = nn.sub %w, %0 {exec.update} : tensor<4xf32>
    ```
  }];
}

def CancelCasts : PreparePass<"kerf-cancel-casts"> {
  let summary = "Take away casts that undo each other";
  let description = [{
    A widening that is rounded back, also behind ops that move elements, and a
    transfer cast (`kerf.transfer_cast`) where nothing is sent.

    ```mlir
    %0 = nn.cast %x : (tensor<2x3xbf16>) -> tensor<2x3xf32>
    %1 = nn.transpose %0 perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %2 = nn.cast %1 : (tensor<3x2xf32>) -> tensor<3x2xbf16>
    // becomes
    %2 = nn.transpose %x perm [1, 0] : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
    ```
  }];
}

def ExpandRankOps : PreparePass<"kerf-expand-rank-ops"> {
  let summary = "Turn masks, slices and packing of a rank into nn ops";
  let description = [{
    `dist.mask` and `dist.all_slice` become `nn` ops over `dist.shard_index`,
    `dist.pack` and `dist.unpack` a concatenation and slices, so that they fuse
    with what surrounds them.

    ```mlir
    %r = dist.all_slice %x ["tp"] dim 0 : tensor<8xf32> -> tensor<4xf32>
    // becomes
    %0 = nn.iota dim 0 : tensor<4xi64>
    %1 = dist.shard_index ["tp"] scale 1 : tensor<i64>
    %2 = nn.constant dense<4> : tensor<i64>
    %3 = nn.mul %1, %2 : tensor<i64>
    %4 = nn.add %0, %3 : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
    %r = nn.gather %x, %4 dim 0 {partial} : (tensor<8xf32>, tensor<4xi64>) -> tensor<4xf32>
    ```
  }];
}

def FoldSplats : PreparePass<"kerf-fold-splats"> {
  let summary = "Compute what is made of constants of one number";
  let description = [{
    ```mlir
    %0 = nn.constant dense<4.0> : tensor<f32>
    %1 = nn.rsqrt %0 : tensor<f32>
    // becomes
    %1 = nn.constant dense<0.5> : tensor<f32>
    ```
  }];
}

def FoldBatchNorm : PreparePass<"kerf-fold-batch-norm"> {
  let summary = "Fold batch norms into convolutions, or make them x s + t";
  let description = [{
    With `s = scale / sqrt(variance + epsilon)` and `t = bias - mean s`: where
    these depend on parameters alone, the convolution in front gets the weights
    `w s`, and `t` is added behind it. A bias added in between is scaled, too.

    ```mlir
    %w = nn.weight "w" file 0 at 0 : tensor<8x3x3x3xf32>
    %s = nn.weight "scale" file 0 at 864 : tensor<8xf32>
    %b = nn.weight "bias" file 0 at 896 : tensor<8xf32>
    %m = nn.weight "mean" file 0 at 928 : tensor<8xf32>
    %v = nn.weight "variance" file 0 at 960 : tensor<8xf32>
    %0 = nn.conv %x, %w kernel 3x3 : tensor<1x6x6x3xf32> -> tensor<1x4x4x8xf32>
    %y = nn.batch_norm %0, %s, %b, %m, %v epsilon 0.5 : tensor<1x4x4x8xf32>, tensor<8xf32>
    // becomes
    %w = nn.weight "w" file 0 at 0 : tensor<8x3x3x3xf32>
    %s = nn.weight "scale" file 0 at 864 : tensor<8xf32>
    %b = nn.weight "bias" file 0 at 896 : tensor<8xf32>
    %m = nn.weight "mean" file 0 at 928 : tensor<8xf32>
    %v = nn.weight "variance" file 0 at 960 : tensor<8xf32>
    %epsilon = nn.constant dense<0.5> : tensor<8xf32>
    %0 = nn.add %v, %epsilon : tensor<8xf32>
    %1 = nn.rsqrt %0 : tensor<8xf32>
    %factor = nn.mul %s, %1 : tensor<8xf32>
    %2 = nn.mul %m, %factor : tensor<8xf32>
    %shift = nn.sub %b, %2 : tensor<8xf32>
    %3 = nn.reshape %factor : (tensor<8xf32>) -> tensor<8x1x1x1xf32>
    %4 = nn.mul %w, %3 : (tensor<8x3x3x3xf32>, tensor<8x1x1x1xf32>) -> tensor<8x3x3x3xf32>
    %5 = nn.conv %x, %4 kernel 3x3 : tensor<1x6x6x3xf32> -> tensor<1x4x4x8xf32>
    %y = nn.add %5, %shift : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xf32>
    ```
  }];
}

def WidenProducts : PreparePass<"kerf-widen-products"> {
  let summary = "Products of float16 in float32, where the library has no others";
  let description = [{
    Operands stay rounded to float16; a result that is cast to float32 is not
    rounded in between. No effect if the target has `half_products`.

    ```mlir
    %0 = nn.matmul %x, %w : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
    // becomes
    %1 = nn.cast %x : (tensor<2x3xf16>) -> tensor<2x3xf32>
    %2 = nn.cast %w : (tensor<3x4xf16>) -> tensor<3x4xf32>
    %3 = nn.matmul %1, %2 : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %0 = nn.cast %3 : (tensor<2x4xf32>) -> tensor<2x4xf16>
    ```
  }];
}

def MoveScale : PreparePass<"kerf-move-scale"> {
  let summary = "Move factors behind the products of two activations";
  let description = [{
    A library call applies a factor to its result at no cost. If an operand is a
    parameter the factor stays in front, since the bias comes next. Squares and
    cubes become products.

    ```mlir
    %root = nn.constant dense<2.0> : tensor<f32>
    %0 = nn.div %q, %root : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
    %1 = nn.matmul %0, %k {transpose_rhs} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
    // becomes
    %0 = nn.matmul %q, %k {transpose_rhs} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
    %half = nn.constant dense<0.5> : tensor<f32>
    %1 = nn.mul %0, %half : (tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
    ```
  }];
}

def NarrowStorage : PreparePass<"kerf-narrow-storage"> {
  let summary = "Store in 16 bits what follows products of 16 bits";
  let description = [{
    If the target is `memory_bound`: the result of a 16-bit product (with a bias;
    for a convolution also with an addend and relu) is stored in 16 bits and
    widened by its readers. A sum with a wide tensor behind a matmul, gradients
    of weights and the function's results stay wide.

    ```mlir
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xbf16>
    %0 = nn.matmul %x, %w : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
    %1 = nn.cast %0 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %2 = nn.add %1, %bias : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %y = nn.exp %2 : tensor<2x4xf32>
    // becomes, on #exec.target<cuda>
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xbf16>
    %0 = nn.matmul %x, %w : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
    %1 = nn.cast %0 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %2 = nn.cast %bias : (tensor<4xf32>) -> tensor<4xbf16>
    %3 = nn.cast %2 : (tensor<4xbf16>) -> tensor<4xf32>
    %4 = nn.add %1, %3 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %5 = nn.cast %4 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %6 = nn.cast %5 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %y = nn.exp %6 : tensor<2x4xf32>
    ```
  }];
}

def PadProducts : PreparePass<"kerf-pad-products"> {
  let summary = "Give 16-bit products rows that begin where the library is fast";
  let description = [{
    If the target's `row_bytes` is more than an element: products whose rows do
    not begin at multiples of it are computed with additional columns, from a
    weight with additional rows of zeros, and the ops behind them work on wide
    rows. See PadProducts.cpp.

    ```mlir
    %v = nn.weight "v" file 0 at 0 : tensor<37x16xf32>
    %w = nn.cast %v : (tensor<37x16xf32>) -> tensor<37x16xbf16>
    %0 = nn.matmul %x, %w {transpose_rhs, exec.stored} : (tensor<24x16xbf16>, tensor<37x16xbf16>) -> tensor<24x37xbf16>
    %y = nn.cast %0 : (tensor<24x37xbf16>) -> tensor<24x37xf32>
    // becomes, on #exec.target<cuda>
    %v = nn.weight "v" file 0 at 0 : tensor<37x16xf32>
    %w = nn.cast %v : (tensor<37x16xf32>) -> tensor<37x16xbf16>
    %0 = nn.pad %w by [0:3, 0] value 0.0 : bf16 : (tensor<37x16xbf16>) -> tensor<40x16xbf16>
    %1 = nn.matmul %x, %0 {transpose_rhs, exec.stored} : (tensor<24x16xbf16>, tensor<40x16xbf16>) -> tensor<24x40xbf16>
    %2 = nn.slice %1 from [0, 0] : (tensor<24x40xbf16>) -> tensor<24x37xbf16>
    %y = nn.cast %2 : (tensor<24x37xbf16>) -> tensor<24x37xf32>
    ```
  }];
}

def DropTransferCasts : PreparePass<"kerf-drop-transfer-casts"> {
  let summary = "Take away kerf.transfer_cast";
  let description = [{
    No later pass needs to know which casts are transfer casts, and without the
    attribute equal casts merge.

    ```mlir
    %0 = nn.cast %g {kerf.transfer_cast} : (tensor<4xf32>) -> tensor<4xbf16>
    // becomes
    %0 = nn.cast %g : (tensor<4xf32>) -> tensor<4xbf16>
    ```
  }];
}

def EraseDeadOps : PreparePass<"kerf-erase-dead-ops"> {
  let summary = "Remove ops that nothing uses";
  let description = [{
    Rewrites leave ops behind that they no longer read.

    ```mlir
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
      %1 = nn.relu %x : tensor<2x3xf32>
      return %1 : tensor<2x3xf32>
    }
    // becomes
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %1 = nn.relu %x : tensor<2x3xf32>
      return %1 : tensor<2x3xf32>
    }
    ```
  }];
}

def StoreAttentionTransposed : PreparePass<"kerf-store-attention-transposed"> {
  let summary = "Store what attention gives as a transpose of it that is read";
  let description = [{
    Other readers read the stored transpose with strides. It gets the attribute
    `exec.stored`.

    ```mlir
    %0, %stats = nn.attention %q, %k, %v scale 0.25
       : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
    %1 = nn.relu %0 : tensor<2x4x8x16xf32>
    %2 = nn.transpose %0 perm [0, 2, 1, 3] : (tensor<2x4x8x16xf32>) -> tensor<2x8x4x16xf32>
    // becomes
    %0, %stats = nn.attention %q, %k, %v scale 0.25
       : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
    %2 = nn.transpose %0 perm [0, 2, 1, 3] {exec.stored} : (tensor<2x4x8x16xf32>) -> tensor<2x8x4x16xf32>
    %3 = nn.transpose %2 perm [0, 2, 1, 3] : (tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32>
    %1 = nn.relu %3 : tensor<2x4x8x16xf32>
    ```
  }];
}

def StoreSlicesTogether : PreparePass<"kerf-store-slices-together"> {
  let summary = "Store what the steps of a loop read and write so that each part is contiguous";
  let description = [{
    The steps of an unrolled loop read a product of all steps: the dimension of
    which each slice takes one element comes first. Rows stay rows, so a library
    stores it for nothing. The transpose gets the attribute `exec.stored`. So do
    many parts of a concatenation, each one element of a dimension, whose result
    is then read through a transpose.

    ```mlir
    %0 = nn.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x16xf32>) -> tensor<2x3x16xf32>
    %1 = nn.slice %0 from [0, 1, 0] : (tensor<2x3x16xf32>) -> tensor<2x1x16xf32>
    %2 = nn.slice %0 from [0, 2, 0] : (tensor<2x3x16xf32>) -> tensor<2x1x16xf32>
    // becomes
    %0 = nn.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x16xf32>) -> tensor<2x3x16xf32>
    %3 = nn.transpose %0 perm [1, 0, 2] {exec.stored} : (tensor<2x3x16xf32>) -> tensor<3x2x16xf32>
    %4 = nn.slice %3 from [1, 0, 0] : (tensor<3x2x16xf32>) -> tensor<1x2x16xf32>
    %1 = nn.reshape %4 : (tensor<1x2x16xf32>) -> tensor<2x1x16xf32>
    %5 = nn.slice %3 from [2, 0, 0] : (tensor<3x2x16xf32>) -> tensor<1x2x16xf32>
    %2 = nn.reshape %5 : (tensor<1x2x16xf32>) -> tensor<2x1x16xf32>
    ```
  }];
}

def SplitReductions : PreparePass<"kerf-split-reductions"> {
  let summary = "Cut long reductions to few elements in two";
  let description = [{
    One over parts, which several threads compute, and one over their results.
    The number of parts depends only on the shape and the kind of device.

    ```mlir
    %y = nn.reduce sum %x dims [0] : (tensor<65536x4xf32>) -> tensor<4xf32>
    // becomes
    %0 = nn.reshape %x : (tensor<65536x4xf32>) -> tensor<64x1024x4xf32>
    %1 = nn.reduce sum %0 dims [1] : (tensor<64x1024x4xf32>) -> tensor<64x4xf32>
    %y = nn.reduce sum %1 dims [0] : (tensor<64x4xf32>) -> tensor<4xf32>
    ```
  }];
}

def SinkShapeOps : PreparePass<"kerf-sink-shape-ops"> {
  let summary = "Give every reader of a shape op or small constant its own";
  let description = [{
    From then on a reshape, transpose, slice or broadcast belongs to its reader,
    which computes it while reading. On `memory_bound` targets so does a widening
    cast.

    ```mlir
    %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %1 = nn.relu %0 : tensor<3x2xf32>
    %2 = nn.neg %0 : tensor<3x2xf32>
    // becomes
    %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %1 = nn.relu %0 : tensor<3x2xf32>
    %3 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %2 = nn.neg %3 : tensor<3x2xf32>
    ```
  }];
}

#endif // KERF_LOWER_PREPAREPASSES
