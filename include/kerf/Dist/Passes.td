//===- Passes.td - passes over what several phases hold ----*- tablegen -*-===//
#ifndef KERF_DIST_PASSES_TD
#define KERF_DIST_PASSES_TD

include "mlir/Pass/PassBase.td"

def MergeEqualOps : Pass<"kerf-merge-equal-ops"> {
  let summary = "one op for several that compute the same";
  let description = [{
    Two ops of a block without effects are equal if name, operands, types and
    attributes are, except `dist.step` and `dist.plan`: the part of a step to
    which an op belongs does not change what it computes. The first one stays,
    and keeps its step. Ops that are `recomputed` merge with each other alone.
    (`cse` compares all attributes, so equal ops of forward
    and backward would not merge.) Ops without uses are removed as well.

    ```mlir
    %a = nn.relu %x : tensor<4xf32>
    %b = nn.relu %x {dist.step = #dist.step<backward_input>} : tensor<4xf32>
    %c = nn.add %a, %b : tensor<4xf32>
    // becomes
    %a = nn.relu %x : tensor<4xf32>
    %c = nn.add %a, %a : tensor<4xf32>
    ```
  }];
}

def SeparatePrograms : Pass<"kerf-separate-programs", "::mlir::ModuleOp"> {
  let summary = "a module of its own for each program";
  let description = [{
    A program is a public function with a body. Each of several gets a nested
    module of its name, in which it is planned and partitioned by itself; what it
    uses (private functions, constants, the mesh) is there as well, once for each
    program. A public function that another one calls is a private one there.

    ```mlir
    module {
      func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = arith.addf %x, %x : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
        return %x : tensor<4xf32>
      }
    }
    // becomes
    module {
      module @f {
        func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = arith.addf %x, %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
      }
      module @g {
        func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
          return %x : tensor<4xf32>
        }
      }
    }
    ```

    A variable that several programs use would be one for each of them, so it is
    an error.
  }];
}

def JoinPrograms : Pass<"kerf-join-programs", "::mlir::ModuleOp"> {
  let summary = "the programs of nested modules in one module";
  let description = [{
    The inverse of `kerf-separate-programs`, for programs that are lowered as far
    as `kerf-call-runtime` does. Private symbols get other names where theirs are
    taken; declarations that are equal become one.

    ```mlir
    module {
      module @f {
        func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> {
          return %x : tensor<4xf32>
        }
        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = call @part(%x) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
      }
      module @g {
        func.func private @part(%x: tensor<8xf32>) -> tensor<8xf32> {
          return %x : tensor<8xf32>
        }
        func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
          %0 = call @part(%x) : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }
      }
    }
    // becomes
    module {
      func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> {
        return %x : tensor<4xf32>
      }
      func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = call @part(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func private @part_0(%x: tensor<8xf32>) -> tensor<8xf32> {
        return %x : tensor<8xf32>
      }
      func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = call @part_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
    }
    ```
  }];
}

#endif // KERF_DIST_PASSES_TD
