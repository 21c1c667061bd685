//===- GroupPasses.td - passes that form groups ------------*- tablegen -*-===//
//
// Passes that say on tensors what is computed together, in which order, and
// where it is written (lib/Lower/Library, lib/Lower/Fusion), in their order.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GROUPPASSES
#define KERF_LOWER_GROUPPASSES

include "mlir/Pass/PassBase.td"

class FusionPass<string name> : Pass<name, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect"];
}

def MarkAtLoad : FusionPass<"kerf-mark-at-load"> {
  let summary = "Mark what depends on nothing but parameters";
  let description = [{
    Such ops get `exec.at_load`: they are computed once, before the first step.
    A shape op that another op reads is left to its reader, which computes it.

    ```mlir
    %b = nn.weight "b" file 0 at 0 : tensor<4xf32>
    %0 = nn.exp %b : tensor<4xf32>
    %1 = nn.add %x, %0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // becomes
    %b = nn.weight "b" file 0 at 0 : tensor<4xf32>
    %0 = nn.exp %b {exec.at_load} : tensor<4xf32>
    %1 = nn.add %x, %0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
  }];
}

def MergeUpdateViews : FusionPass<"kerf-merge-update-views"> {
  let summary = "Make a view that updates read once";
  let description = [{
    `kerf-sink-shape-ops` copied the view for each of its users.

    ```mlir
    %0 = nn.slice %x from [0] : (tensor<8xf32>) -> tensor<4xf32>
    %1 = nn.relu %0 {exec.update} : tensor<4xf32>
    %2 = nn.slice %x from [0] : (tensor<8xf32>) -> tensor<4xf32>
    %3 = nn.exp %2 {exec.update} : tensor<4xf32>
    // becomes
    %0 = nn.slice %x from [0] : (tensor<8xf32>) -> tensor<4xf32>
    %1 = nn.relu %0 {exec.update} : tensor<4xf32>
    %3 = nn.exp %0 {exec.update} : tensor<4xf32>
    ```
  }];
}

def SelectLibraryCalls : FusionPass<"kerf-select-library-calls"> {
  let summary = "Let the device's library compute products, with what it can take in";
  let description = [{
    Products, convolutions, attention and gradients that the target's library
    supports become calls of it, which take in a bias, an activation, a residual
    and a scale behind them, and reshapes and transposes around them as strides.
    The result gets memory of its own; a sum over micro-batches is written over
    its argument. See Library/LibraryCall.h.

    ```mlir
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
    %b = nn.weight "b" file 0 at 48 : tensor<4xf32>
    %0 = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = nn.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %2 = nn.relu %1 : tensor<2x4xf32>
    // becomes
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
    %b = nn.weight "b" file 0 at 48 : tensor<4xf32>
    %0 = exec.empty : tensor<2x4xf32>
    %2 = exec.matmul 0 "" m 2 n 4 k 3 lhs(%x : tensor<2x3xf32>) rhs(%w : tensor<3x4xf32>)
        bias(%b : tensor<4xf32>) dst(%0 : tensor<2x4xf32>) then [relu] : tensor<2x4xf32>
    ```
  }];
}

def JoinParts : FusionPass<"kerf-join-parts"> {
  let summary = "Let parts of a concatenation be computed where they lie in it";
  let description = [{
    Where parts lie one behind the other in memory, and calls or kernels store
    them anyway, nobody has to bring them together: `kerf-write-in-place` has
    them written where they belong. So does a concatenation of many parts, the
    steps of an unrolled loop, not become one kernel that is as long as the loop.
    See Fusion/JoinParts.cpp.

    ```mlir
    %0 = nn.exp %x : tensor<1x16xf32>
    %1 = nn.sqrt %0 : tensor<1x16xf32>
    %2 = nn.concat %0, %1 dim 0 : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<2x16xf32>
    // becomes
    %0 = nn.exp %x : tensor<1x16xf32>
    %1 = nn.sqrt %0 : tensor<1x16xf32>
    %e = exec.empty : tensor<2x16xf32>
    %2 = exec.join %0, %1 into(%e : tensor<2x16xf32>) : tensor<1x16xf32>, tensor<1x16xf32>
    ```
  }];
}

def FormKernels : FusionPass<"kerf-form-kernels"> {
  let summary = "Group what one generated kernel computes";
  let description = [{
    Tensor ops become groups, as few as code generation allows; views stay
    outside. Ops that depend on parameters alone form groups of their own. On
    `memory_bound` targets a group may recompute values of another group.
    See Fusion/FusionGroup.h and Fusion/Recompute.cpp.

    ```mlir
    func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %0 = nn.exp %x : tensor<2x4xf32>
      %1 = nn.mul %0, %x : tensor<2x4xf32>
      return %1 : tensor<2x4xf32>
    }
    // becomes
    func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %e = exec.empty : tensor<2x4xf32>
      %1 = exec.group 0 "" (%a = %x : tensor<2x4xf32>) into(%e : tensor<2x4xf32>) {
        %2 = nn.exp %a : tensor<2x4xf32>
        %3 = nn.mul %2, %a : tensor<2x4xf32>
        exec.yield %3 : tensor<2x4xf32>
      }
      return %1 : tensor<2x4xf32>
    }
    ```
  }];
}

def WriteInPlace : FusionPass<"kerf-write-in-place"> {
  let summary = "Write new values over the old ones";
  let description = [{
    A value that a step assigns is computed directly over the old value, if all
    readers of the old one can run before; a part of `exec.join` in its place.
    See Fusion/WriteInPlace.cpp.

    ```mlir
    func.func @main() {
      %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
      %e = exec.empty : tensor<4xf32>
      %0 = exec.group 0 "" (%a = %w : tensor<4xf32>) into(%e : tensor<4xf32>) {
        %1 = nn.exp %a : tensor<4xf32>
        exec.yield %1 : tensor<4xf32>
      }
      dist.assign %w, %0 : tensor<4xf32>
      return
    }
    // becomes
    func.func @main() {
      %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
      %0 = exec.group 0 "" (%a = %w : tensor<4xf32>) into(%w : tensor<4xf32>) {
        %1 = nn.exp %a : tensor<4xf32>
        exec.yield %1 : tensor<4xf32>
      }
      dist.assign %w, %0 : tensor<4xf32>
      return
    }
    ```
  }];
}

def OfferBiasGradients : FusionPass<"kerf-offer-bias-gradients"> {
  let summary = "Note sums of a kernel that a product could write besides";
  let description = [{
    For GPUs. The product names the memory of the sums, and their readers run
    behind both the product and the kernel; which of the two computes them is
    decided at load. See Fusion/OfferBiasGradients.cpp.

    ```mlir
    func.func @main(%x: tensor<8x3xf32>, %dy: tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
      %e = exec.empty : tensor<3x4xf32>
      %g = exec.matmul 0 "" m 3 n 4 k 8 lhs(%x : tensor<8x3xf32> strides [1, 3]) rhs(%dy : tensor<8x4xf32>)
          dst(%e : tensor<3x4xf32>) : tensor<3x4xf32>
      %s = exec.empty : tensor<4xf32>
      %b = exec.group 0 "" (%a = %dy : tensor<8x4xf32>) into(%s : tensor<4xf32>) {
        %0 = nn.reduce sum %a dims [0] : (tensor<8x4xf32>) -> tensor<4xf32>
        exec.yield %0 : tensor<4xf32>
      }
      return %g, %b : tensor<3x4xf32>, tensor<4xf32>
    }
    // becomes, on #exec.target<cuda>
    func.func @main(%x: tensor<8x3xf32>, %dy: tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
      %e = exec.empty : tensor<3x4xf32>
      %s = exec.empty : tensor<4xf32>
      %g = exec.matmul 0 "" m 3 n 4 k 8 lhs(%x : tensor<8x3xf32> strides [1, 3]) rhs(%dy : tensor<8x4xf32>)
          dst(%e : tensor<3x4xf32>) sums(%s : tensor<4xf32>) <of = rhs, rows = 1, kernel = 0> : tensor<3x4xf32>
      %b = exec.group 0 "" (%a = %dy : tensor<8x4xf32>) into(%s : tensor<4xf32>) {
        %0 = nn.reduce sum %a dims [0] : (tensor<8x4xf32>) -> tensor<4xf32>
        exec.yield %0 : tensor<4xf32>
      }
      return %g, %b : tensor<3x4xf32>, tensor<4xf32>
    }
    ```
  }];
}

def OrderGroups : Pass<"kerf-order-groups", "::mlir::ModuleOp"> {
  let summary = "Put groups, calls and collectives into the order in which they run";
  let description = [{
    Program order where dependences allow it, except for updates, which run as
    soon as they can, on GPUs many at a time. Kernels and library calls get the
    numbers that they have in the package. See Fusion/OrderGroups.cpp.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
      %e = exec.empty : tensor<4xf32>
      %0 = exec.group 0 "" (%a = %x : tensor<4xf32>) into(%e : tensor<4xf32>) {
        %2 = nn.exp %a : tensor<4xf32>
        exec.yield %2 : tensor<4xf32>
      }
      %1 = exec.group 1 "" (%a = %w : tensor<4xf32>) into(%w : tensor<4xf32>) {
        %2 = nn.neg %a : tensor<4xf32>
        exec.yield %2 : tensor<4xf32>
      }
      dist.assign %w, %1 : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    // becomes
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = nn.weight "w" file 0 at 0 {variable} : tensor<4xf32>
      %0 = exec.group 0 "" (%a = %w : tensor<4xf32>) into(%w : tensor<4xf32>) {
        %2 = nn.neg %a : tensor<4xf32>
        exec.yield %2 : tensor<4xf32>
      }
      %e = exec.empty : tensor<4xf32>
      %1 = exec.group 1 "" (%a = %x : tensor<4xf32>) into(%e : tensor<4xf32>) {
        %2 = nn.exp %a : tensor<4xf32>
        exec.yield %2 : tensor<4xf32>
      }
      dist.assign %w, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect"];
}

def OfferReluGradients : FusionPass<"kerf-offer-relu-gradients"> {
  let summary = "Note kernels for ReLU's gradient that a product could do";
  let description = [{
    For GPUs, behind `kerf-order-groups`. The kernel works in place over the product's
    result; the product names the earlier product whose ReLU it masks by. See
    Fusion/OfferReluGradients.cpp.

    ```mlir
    func.func @main(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %dz: tensor<4x4xf32>, %v: tensor<4x4xf32>)
        -> tensor<4x4xf32> {
      %e = exec.empty : tensor<4x4xf32>
      %y = exec.matmul 0 "" m 4 n 4 k 3 lhs(%x : tensor<4x3xf32>) rhs(%w : tensor<3x4xf32>)
          dst(%e : tensor<4x4xf32>) then [relu] : tensor<4x4xf32>
      %f = exec.empty : tensor<4x4xf32>
      %g = exec.matmul 1 "" m 4 n 4 k 4 lhs(%dz : tensor<4x4xf32>) rhs(%v : tensor<4x4xf32>)
          dst(%f : tensor<4x4xf32>) : tensor<4x4xf32>
      %h = exec.empty : tensor<4x4xf32>
      %dy = exec.group 0 "" (%a = %y : tensor<4x4xf32>, %b = %g : tensor<4x4xf32>)
          into(%h : tensor<4x4xf32>) {
        %zero = nn.constant dense<0.0> : tensor<f32>
        %0 = nn.less_equal %a, %zero : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi1>
        %1 = nn.select %0, %zero, %b
            : (tensor<4x4xi1>, tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        exec.yield %1 : tensor<4x4xf32>
      }
      %i = exec.empty : tensor<4x4xf32>
      %dx = exec.matmul 2 "" m 4 n 4 k 4 lhs(%dy : tensor<4x4xf32>) rhs(%v : tensor<4x4xf32>)
          dst(%i : tensor<4x4xf32>) : tensor<4x4xf32>
      return %dx : tensor<4x4xf32>
    }
    // becomes, on #exec.target<cuda>
    func.func @main(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %dz: tensor<4x4xf32>, %v: tensor<4x4xf32>)
        -> tensor<4x4xf32> {
      %e = exec.empty : tensor<4x4xf32>
      %y = exec.matmul 0 "" m 4 n 4 k 3 lhs(%x : tensor<4x3xf32>) rhs(%w : tensor<3x4xf32>)
          dst(%e : tensor<4x4xf32>) then [relu] : tensor<4x4xf32>
      %f = exec.empty : tensor<4x4xf32>
      %g = exec.matmul 1 "" m 4 n 4 k 4 lhs(%dz : tensor<4x4xf32>) rhs(%v : tensor<4x4xf32>)
          dst(%f : tensor<4x4xf32>) relu_gradient <forward = 0, kernel = 0> : tensor<4x4xf32>
      %dy = exec.group 0 "" (%a = %y : tensor<4x4xf32>, %b = %g : tensor<4x4xf32>)
          into(%g : tensor<4x4xf32>) {
        %zero = nn.constant dense<0.0> : tensor<f32>
        %0 = nn.less_equal %a, %zero : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi1>
        %1 = nn.select %0, %zero, %b
            : (tensor<4x4xi1>, tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        exec.yield %1 : tensor<4x4xf32>
      }
      %i = exec.empty : tensor<4x4xf32>
      %dx = exec.matmul 2 "" m 4 n 4 k 4 lhs(%dy : tensor<4x4xf32>) rhs(%v : tensor<4x4xf32>)
          dst(%i : tensor<4x4xf32>) : tensor<4x4xf32>
      return %dx : tensor<4x4xf32>
    }
    ```
  }];
}

#endif // KERF_LOWER_GROUPPASSES
