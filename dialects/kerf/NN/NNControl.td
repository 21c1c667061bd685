//===- NNControl.td - loops -------------------------------*- tablegen -*-===//
#ifndef KERF_NN_CONTROL_TD
#define KERF_NN_CONTROL_TD

include "kerf/NN/NNBase.td"

def NN_LoopOp : Op<NN_Dialect, "loop", [
    Pure, IsolatedFromAbove, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<Kerf_OpCostInterface, ["getBytesTouched"]>,
    DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface, ["buildLocal"]>]> {
  let summary = "a loop whose number of iterations is computed";
  let description = [{
    `for (count = 0; count < trip && condition; ++count)`: the body gets the
    number of the iteration, the carried values (first `inits`) and `captures`,
    which are the same in each; it yields the condition, the carried values, and
    any number of tensors that are stacked. The results are the number of
    iterations, the carried values, and of each stacked tensor those of all
    iterations, one behind the other in a new first dimension of size `limit`;
    what lies behind them is 0. `limit`, the most iterations there can be, ends
    the loop, too.

    ```mlir
    %count, %y = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>)
        from(%x : tensor<4xf32>) with(%w : tensor<4xf32>) {
    ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %b: tensor<4xf32>):
      %0 = nn.mul %a, %b : tensor<4xf32>
      %1 = nn.reduce max %0 dims [0] : (tensor<4xf32>) -> tensor<f32>
      %2 = nn.constant dense<1.0> : tensor<f32>
      %3 = nn.less %1, %2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      nn.yield %3, %0 : tensor<i1>, tensor<4xf32>
    } : tensor<i64>, tensor<4xf32>
    ```

    A dimension may be cut if the body computes along it without any
    communication: all that is cut together in it are dimensions by which its ops
    have parallel factors. The condition never depends on such a dimension, so
    all devices take the same number of iterations.

    C1: the body has an argument for the iteration, for each carried value and
    each capture, of their types. C2: it yields an i1 and the carried values of
    the same types. C3: results have the types that follow; what is stacked has a
    limit, which is not negative. C4: ops of the body have no side effects, and
    none is a parameter.
  }];
  let arguments = (ins StaticShapeTensorOf<[I64]>:$trip, NN_Bool:$condition,
                       Variadic<NN_AnyTensor>:$inits, Variadic<NN_AnyTensor>:$captures,
                       OptionalAttr<I64Attr>:$limit);
  let results = (outs StaticShapeTensorOf<[I64]>:$count, Variadic<NN_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`limit` $limit^)? `trip` `(` $trip `:` type($trip) `)` `while` `(` $condition `:` type($condition) `)`
    (`from` `(` $inits^ `:` type($inits) `)`)? (`with` `(` $captures^ `:` type($captures) `)`)?
    $body attr-dict `:` type($count) (`,` type($results)^)?
  }];
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    unsigned getNumCarried() { return getInits().size(); }
    /// Of the body: its arguments, and what it yields.
    ::mlir::Value getIteration() { return getBlock().getArgument(0); }
    ::mlir::ValueRange getCarried() {
      return getBlock().getArguments().slice(1, getInits().size());
    }
    ::mlir::ValueRange getCaptured() {
      return getBlock().getArguments().drop_front(1 + getInits().size());
    }
    ::mlir::OperandRange getYielded() { return getBlock().getTerminator()->getOperands(); }
    ::mlir::OperandRange getNextCarried() { return getYielded().slice(1, getInits().size()); }
    ::mlir::OperandRange getStacked() { return getYielded().drop_front(1 + getInits().size()); }
    ::mlir::ResultRange getFinals() { return getResults().take_front(getInits().size()); }
    ::mlir::ResultRange getStacks() { return getResults().drop_front(getInits().size()); }
  }];
  let hasVerifier = 1;
}

def NN_YieldOp : Op<NN_Dialect, "yield", [Pure, Terminator, HasParent<"LoopOp">]> {
  let summary = "what an iteration gives";
  let description = [{
    The end of the body of `nn.loop`: a condition, the carried values and what is
    stacked.

    ```mlir
    %count = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) {
    ^bb0(%i: tensor<i64>):
      %c = nn.constant dense<true> : tensor<i1>
      nn.yield %c : tensor<i1>
    } : tensor<i64>
    ```
  }];
  let arguments = (ins Variadic<NN_AnyTensor>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif // KERF_NN_CONTROL_TD
