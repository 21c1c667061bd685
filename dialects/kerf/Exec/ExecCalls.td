//===- ExecCalls.td - buffers and calls --------------------*- tablegen -*-===//
#ifndef KERF_EXEC_CALLS_TD
#define KERF_EXEC_CALLS_TD

include "kerf/Exec/ExecBase.td"

class Exec_CallOp<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [HasParent<"FuncOp">])>;

def Exec_ParamOp : Exec_CallOp<"param", [Pure]> {
  let summary = "this rank's part of a parameter";
  let description = [{
    `result = params[index]`. Read-only, unless the parameter is mutable: then each
    rank has its own, and what a call writes into it is there in the next step.

    ```mlir
    %w = exec.param 3 : memref<3xf32>
    ```

    C1: `index` is not negative.
  }];
  let arguments = (ins I64Attr:$index);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "$index attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Exec_WeightOp : Exec_CallOp<"weight", [Pure]> {
  let summary = "this rank's part of a parameter, for library calls";
  let description = [{
    Parameter number `index`, which library calls refer to by its number: they
    pack it once at load if that is faster. Not for parameters that steps change.

    ```mlir
    %w = exec.weight 7 : !exec.weight<4x3xf32>
    ```

    C1: `index` is not negative.
  }];
  let arguments = (ins I64Attr:$index);
  let results = (outs Exec_WeightType:$result);
  let assemblyFormat = "custom<Int>($index) attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Exec_ArenaOp : Exec_CallOp<"arena", [Pure]> {
  let summary = "a buffer in the function's scratch memory";
  let description = [{
    `result = scratch + offset`. Without an offset: not yet planned. The buffer is
    live from the first call that uses it or a view of it to the last; buffers
    whose lives meet do not overlap.

    ```mlir
    %t = exec.arena at 128 : memref<2x3xf32>
    ```

    C1: the offset is a non-negative multiple of 64.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Exec_ViewOp : Exec_CallOp<"view", [Pure]> {
  let summary = "part of a buffer as a buffer of another type";
  let description = [{
    `result = source + byte_offset`: contiguous elements, nothing is copied. It
    may start anywhere that the element type allows.

    ```mlir
    %row = exec.view %x at 12 : memref<2x3xf32> to memref<3xf32>
    ```

    C1: it lies within the source. C2: one element type, whose size divides the offset.
  }];
  let arguments = (ins Exec_Buffer:$source, I64Attr:$byte_offset);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "$source `at` $byte_offset attr-dict `:` type($source) `to` type($result)";
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_CallOp<"launch", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a generated kernel on the rank's threads";
  let description = [{
    Buffers are handed over inputs first. An output may be the buffer of an input
    (in place) when the kernel reads each element of it before it writes the same
    element, and no other.

    ```mlir
    exec.launch @add_relu(%x, %b) -> (%y) : (memref<2x3xf32>, memref<3xf32>) -> memref<2x3xf32>
    ```

    C1: buffers have the shapes and element types of the kernel's arguments and results.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Exec_Buffer>:$inputs,
                       Variadic<Exec_Buffer>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `->` `(` $outputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

class Exec_CollectiveCall<string mnemonic> : Exec_CallOp<mnemonic> {
  let arguments = (ins I64Attr:$index, Exec_CollectiveKind:$kind, OptionalAttr<Exec_Reduction>:$reduction,
                       Exec_Axes:$axes, OptionalAttr<I64Attr>:$dim, OptionalAttr<I64Attr>:$split,
                       OptionalAttr<I64Attr>:$concat, OptionalAttr<I64Attr>:$root,
                       OptionalAttr<DenseI64ArrayAttr>:$pairs, Exec_Buffer:$src, Exec_Buffer:$dst,
                       I64Attr:$group_bytes, Exec_Purpose:$purpose, Exec_PhaseAttr:$phase, StrAttr:$node);
  let assemblyFormat = [{
    custom<Int>($index) custom<Kind>($kind, $reduction) $axes (`dim` custom<Int>($dim)^)?
    (`split` custom<Int>($split)^)? (`concat` custom<Int>($concat)^)? (`root` custom<Int>($root)^)?
    (`pairs` $pairs^)? $src `->` $dst `bytes` custom<Int>($group_bytes) `purpose` `` $purpose
    `phase` `` $phase `node` $node attr-dict `:` type($src) `->` type($dst)
  }];
  let hasVerifier = 1;
}

def Exec_CollectiveOp : Exec_CollectiveCall<"collective"> {
  let summary = "a collective over some mesh axes";
  let description = [{
    Entry `index` of the manifest's `collectives`: what the op of `dist` of that
    name does, from `src` to `dst`. `bytes` is the planned number that the ranks
    of a group send in one execution. An all_reduce or broadcast may have one
    buffer for both.

    ```mlir
    exec.collective 0 reduce_scatter sum ["tp"] dim 1 %x -> %y bytes 384 purpose activation phase forward node "/fc"
        : memref<4x24xf32> -> memref<4x12xf32>
    ```

    C1: axes are in the module's mesh, in space. C2: a reduction for all_reduce
    and reduce_scatter, `dim` for reduce_scatter and all_gather, `split` and
    `concat` for all_to_all, `root` for broadcast, `pairs` for permute, and
    nothing else; they lie in the shapes and in the group. C3: the shapes of src
    and dst are those of the op of `dist`. C4: one buffer for both only for
    all_reduce and broadcast. C5: `bytes` is not negative.
  }];
}

def Exec_CollectiveStartOp : Exec_CollectiveCall<"collective_start"> {
  let summary = "starts a collective";
  let description = [{
    As `exec.collective`, but returns at once. Until the event has been waited
    for, `src` is not written and `dst` neither read nor written.

    ```mlir
    %e = exec.collective_start 0 all_reduce sum ["dp"] %x -> %y bytes 48 purpose gradient phase backward node "/fc"
       : memref<2x3xf32> -> memref<2x3xf32>
    ```

    C1 to C5: as on `exec.collective`.
  }];
  let results = (outs Exec_Event:$event);
}

def Exec_CollectiveWaitOp : Exec_CallOp<"collective_wait"> {
  let summary = "waits for a collective that has been started";
  let description = [{
    ```mlir
    %e = exec.collective_start 0 all_reduce sum ["dp"] %x -> %y bytes 48 purpose gradient phase backward node "/fc"
       : memref<2x3xf32> -> memref<2x3xf32>
    exec.collective_wait %e
    ```

    C1: the event comes from `exec.collective_start` and is waited for once.
  }];
  let arguments = (ins Exec_Event:$event);
  let assemblyFormat = "$event attr-dict";
  let hasVerifier = 1;
}

def Exec_ShardIndexOp : Exec_CallOp<"shard_index"> {
  let summary = "stores this rank's position over some mesh axes";
  let description = [{
    `dst[] =` the linear index (major to minor) over the axes of entry `index` of
    the manifest's `shard_indices`, which is `axes`.

    ```mlir
    exec.shard_index 0 ["tp"] -> %i : memref<i64>
    ```

    C1: `dst` is a memref<i64>. C2: the axes are in the module's mesh.
  }];
  let arguments = (ins I64Attr:$index, Exec_Axes:$axes, Exec_Buffer:$dst);
  let assemblyFormat = "custom<Int>($index) $axes `->` $dst attr-dict `:` type($dst)";
  let hasVerifier = 1;
}

def Exec_CopyOp : Exec_CallOp<"copy"> {
  let summary = "copies a buffer";
  let description = [{
    `dst[i] = src[i]`; they do not overlap.

    ```mlir
    exec.copy %x -> %y : memref<2x3xf32> -> memref<6xf32>
    ```

    C1: same element type and number of elements.
  }];
  let arguments = (ins Exec_Buffer:$src, Exec_Buffer:$dst);
  let assemblyFormat = "$src `->` $dst attr-dict `:` type($src) `->` type($dst)";
  let hasVerifier = 1;
}

def Exec_LoopOp : Exec_Op<"loop", [
    AttrSizedOperandSegments, ParentOneOf<["FuncOp", "::mlir::func::FuncOp"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a function until a condition is false";
  let description = [{
    `nn.loop` whose body is a function: its inputs are the number of the
    iteration, the carried values and the captured ones, its results the
    condition, the carried values, and what is stacked.

    ```mlir
    func.func @main(%n: tensor<i64>, %go: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
      %0:2 = exec.loop @main_loop0 trip(%n : tensor<i64>) while(%go : tensor<i1>)
          from(%x : tensor<4xf32>) : tensor<i64>, tensor<4xf32>
      return %0#1 : tensor<4xf32>
    }
    func.func private @main_loop0(tensor<i64>, tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>)
    ```

    On buffers the results are operands: the number of iterations, the carried
    values and the stacks. Behind them stand what the loop needs besides: the
    buffers of the iteration and of the condition, a second one for each carried
    value, one for each tensor that is stacked, and the memory in which the body's
    own buffers lie. Iterations read the carried values from one set of buffers
    and write the other. The condition is read by the host in each iteration.

    ```mlir
    exec.func @main(%n: memref<i64>, %go: memref<i1>, %x: memref<4xf32>, %count: memref<i64>, %y: memref<4xf32>)
        attributes {num_inputs = 3 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      %i = exec.arena : memref<i64>
      %c = exec.arena : memref<i1>
      %z = exec.arena : memref<4xf32>
      exec.loop @main_loop0 trip(%n : memref<i64>) while(%go : memref<i1>) from(%x : memref<4xf32>)
          into(%count, %y : memref<i64>, memref<4xf32>)
          temporary(%i, %c, %z : memref<i64>, memref<i1>, memref<4xf32>)
      exec.return
    }
    exec.func @main_loop0(%i: memref<i64>, %a: memref<4xf32>, %c: memref<i1>, %b: memref<4xf32>)
        attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      exec.copy %a -> %b : memref<4xf32> -> memref<4xf32>
      exec.return
    }
    ```

    C1: the function has these inputs and results. C2: results have the types
    that follow from it; what is stacked has a limit. C3: on buffers there are
    those named above, of the types of the function.
  }];
  let arguments = (ins FlatSymbolRefAttr:$body, OptionalAttr<I64Attr>:$limit, Exec_Place:$trip,
                       Exec_Place:$condition, Variadic<Exec_Place>:$inits, Variadic<Exec_Place>:$captures,
                       Variadic<Exec_Place>:$outs, Variadic<Exec_Place>:$temporaries);
  let results = (outs Variadic<Exec_Tensor>:$results);
  let assemblyFormat = [{
    $body (`limit` custom<Int>($limit)^)? `trip` `(` $trip `:` type($trip) `)`
    `while` `(` $condition `:` type($condition) `)` (`from` `(` $inits^ `:` type($inits) `)`)?
    (`with` `(` $captures^ `:` type($captures) `)`)? (`into` `(` $outs^ `:` type($outs) `)`)?
    (`temporary` `(` $temporaries^ `:` type($temporaries) `)`)? attr-dict (`:` type($results)^)?
  }];
}

#endif // KERF_EXEC_CALLS_TD
