//===- Passes.td - fewer and cheaper collectives -----------*- tablegen -*-===//
#ifndef KERF_COLLECTIVES_PASSES_TD
#define KERF_COLLECTIVES_PASSES_TD

include "mlir/Pass/PassBase.td"

def SimplifyCollectives : Pass<"kerf-simplify-collectives", "::mlir::func::FuncOp"> {
  let summary = "removes collectives that do nothing or undo each other";
  let description = [{
    * groups of one rank, permutes that keep every block in place;
    * a slice of a gather over the same axes and dimension is the source;
    * the same collective of the same value is done once;
    * results that nothing uses.

    ```mlir
    %g = dist.all_gather %x ["tp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
    %s = dist.all_slice %g ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
    %r = nn.relu %s : tensor<2xf32>
    // becomes
    %r = nn.relu %x : tensor<2xf32>
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def FormReduceScatter : Pass<"kerf-form-reduce-scatter", "::mlir::func::FuncOp"> {
  let summary = "an all-reduce of which each rank keeps a part";
  let description = [{
    Where every use of an all-reduce is the same slice over some of its axes,
    those axes are reduce-scattered (half the bytes) and the rest is reduced on
    the smaller tensor.

    ```mlir
    %r = dist.all_reduce %x sum ["dp", "tp"] : tensor<4xf32> -> tensor<4xf32>
    %s = dist.all_slice %r ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
    // becomes
    %0 = dist.reduce_scatter %x sum ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
    %s = dist.all_reduce %0 sum ["dp"] : tensor<2xf32> -> tensor<2xf32>
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def BucketCollectives : Pass<"kerf-bucket-collectives", "::mlir::func::FuncOp"> {
  let summary = "several small all-reduces at once";
  let description = [{
    All-reduces of the same kind over the same axes, none of which needs the
    result of another, become one in one buffer: the same bytes, one latency. A
    bucket is reduced before the first use of a result.

    Gradients (`purpose gradient`) are reduced as soon as they are made, in
    reverse order of the layers: those of at most `packed-bytes` are collected
    until a bucket has `gradient-bytes`, larger ones are sent alone and not
    copied.

    ```mlir
    %0 = dist.all_reduce %a sum ["tp"] : tensor<2xf32> -> tensor<2xf32>
    %1 = dist.all_reduce %b sum ["tp"] : tensor<3xf32> -> tensor<3xf32>
    // becomes
    %p = dist.pack %a, %b : tensor<2xf32>, tensor<3xf32> -> tensor<5xf32>
    %r = dist.all_reduce %p sum ["tp"] : tensor<5xf32> -> tensor<5xf32>
    %0, %1 = dist.unpack %r : tensor<5xf32> -> tensor<2xf32>, tensor<3xf32>
    ```
  }];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "16384",
                        "largest collective that is put in a bucket">,
                 Option<"gradientBytes", "gradient-bytes", "int64_t", "0",
                        "what a bucket of gradients needs to travel; 0: none">,
                 Option<"packedBytes", "packed-bytes", "int64_t", "0",
                        "largest gradient that is copied into one; 0: below gradient-bytes">];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def OverlapCollectives : Pass<"kerf-overlap-collectives", "::mlir::func::FuncOp"> {
  let summary = "starts collectives early and waits for them late";
  let description = [{
    Each collective is split into a start, right after its source is made, and a
    `dist.wait` right before its first use, if another op lies between them. At
    most `max-started` are under way at once. With `only-gradients` no other
    collective is touched and no start is moved: collectives of purpose gradient
    are split, and when too many are under way the oldest is waited for.

    ```mlir
    %r = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
    %y = nn.exp %z : tensor<4xf32>
    %s = nn.add %r, %y : tensor<4xf32>
    // becomes
    %p = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
    %y = nn.exp %z : tensor<4xf32>
    %r = dist.wait %p : !dist.pending<tensor<4xf32>>
    %s = nn.add %r, %y : tensor<4xf32>
    ```
  }];
  let options = [Option<"maxStarted", "max-started", "int64_t", "16",
                        "most collectives under way at once">,
                 Option<"onlyGradients", "only-gradients", "bool", "false",
                        "leave everything but gradients as it is">];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

#endif // KERF_COLLECTIVES_PASSES_TD
