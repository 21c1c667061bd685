//===- ExecStages.td - slots and instructions of stages ----*- tablegen -*-===//
#ifndef KERF_EXEC_STAGES_TD
#define KERF_EXEC_STAGES_TD

include "kerf/Exec/ExecBase.td"
include "mlir/IR/RegionKindInterface.td"

def Exec_StageOp : Exec_Op<"stage", [HasParent<"::mlir::ModuleOp">, IsolatedFromAbove, NoTerminator,
                                     SingleBlock, NoRegionArguments]> {
  let summary = "the slots and instructions of one stage";
  let description = [{
    What the ranks of stage `index` do in one step: slots, which are parts of one
    arena, then instructions, which run in order. Slots may overlap where their
    lives do not. Once it is planned, `arena` is the size in bytes, with the
    functions' scratch memory first; `lower_bound` is the least size that any
    placement could have.

    ```mlir
    exec.stage 0 {
      %x = exec.slot "x" : memref<2x3xf32>
      %y = exec.slot "y" : memref<2x3xf32>
      exec.input 0 to %x micro_batch 0 : memref<2x3xf32>
      exec.run @stage0_forward(%x, %y) micro_batch 0 : memref<2x3xf32>, memref<2x3xf32>
      exec.output %y to 0 micro_batch 0 : memref<2x3xf32>
    }
    ```

    C1: only slots and instructions inside. C2: with `arena`, every slot has an
    offset and ends within it.
  }];
  let arguments = (ins I64Attr:$index, OptionalAttr<I64Attr>:$arena, OptionalAttr<I64Attr>:$lower_bound);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<Int>($index) (`arena` custom<Int>($arena)^)? (`lower_bound` custom<Int>($lower_bound)^)? $body attr-dict
  }];
  let hasVerifier = 1;
}

class Exec_StageMember<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [HasParent<"StageOp">])>;

def Exec_SlotOp : Exec_StageMember<"slot"> {
  let summary = "a buffer in a stage's arena";
  let description = [{
    ```mlir
    %x = exec.slot "x" at 128 : memref<2x3xf32>
    ```

    C1: the offset is a non-negative multiple of 64.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "$name (`at` custom<Int>($offset)^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Exec_InputOp : Exec_StageMember<"input"> {
  let summary = "copies this rank's part of an input into a slot";
  let description = [{
    The part of input number `index`, cut by that input's sharding, or by this
    one's where the function reads another part.

    ```mlir
    exec.input 0 to %x micro_batch 1 : memref<2x3xf32>
    ```

    C1: a sharding has the rank of the slot.
  }];
  let arguments = (ins I64Attr:$index, Exec_Buffer:$slot, I64Attr:$micro_batch, OptionalAttr<Exec_Sharding>:$sharding);
  let assemblyFormat = [{
    custom<Int>($index) `to` $slot `micro_batch` custom<Int>($micro_batch) (`sharding` $sharding^)? attr-dict
    `:` type($slot)
  }];
  let hasVerifier = 1;
}

def Exec_OutputOp : Exec_StageMember<"output"> {
  let summary = "hands out a slot as this rank's part of an output";
  let description = [{
    ```mlir
    exec.output %y to 0 micro_batch 1 : memref<2x3xf32>
    ```
  }];
  let arguments = (ins Exec_Buffer:$slot, I64Attr:$index, I64Attr:$micro_batch);
  let assemblyFormat = [{
    $slot `to` custom<Int>($index) `micro_batch` custom<Int>($micro_batch) attr-dict `:` type($slot)
  }];
}

def Exec_RunOp : Exec_StageMember<"run", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a function on slots";
  let description = [{
    A sum over micro-batches is one slot that stands twice: as an argument and as
    a result.

    ```mlir
    exec.run @stage0_forward(%x, %y) micro_batch 0 : memref<2x3xf32>, memref<2x3xf32>
    ```

    C1: the function exists and has arguments of these types.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Exec_Buffer>:$slots, I64Attr:$micro_batch);
  let assemblyFormat = [{
    $callee `(` $slots `)` `micro_batch` custom<Int>($micro_batch) attr-dict (`:` type($slots)^)?
  }];
}

def Exec_ZeroOp : Exec_StageMember<"zero"> {
  let summary = "makes the bytes of a slot zero";
  let description = [{
    Where a sum over micro-batches begins.

    ```mlir
    exec.zero %sum : memref<2x3xf32>
    ```
  }];
  let arguments = (ins Exec_Buffer:$slot);
  let assemblyFormat = "$slot attr-dict `:` type($slot)";
}

def Exec_SendOp : Exec_StageMember<"send"> {
  let summary = "hands a slot to the same coordinates of another stage";
  let description = [{
    Returns at once. The slot is not overwritten before instruction number
    `held_until`, when the sender knows that the receiver has the value.

    ```mlir
    exec.send %h channel 0 micro_batch 1 held_until 7 : memref<2x3xf32>
    ```
  }];
  let arguments = (ins Exec_Buffer:$slot, I64Attr:$channel, I64Attr:$micro_batch, OptionalAttr<I64Attr>:$held_until);
  let assemblyFormat = [{
    $slot `channel` custom<Int>($channel) `micro_batch` custom<Int>($micro_batch)
    (`held_until` custom<Int>($held_until)^)? attr-dict `:` type($slot)
  }];
}

def Exec_RecvOp : Exec_StageMember<"recv"> {
  let summary = "takes a slot from the same coordinates of another stage";
  let description = [{
    ```mlir
    exec.recv %h channel 0 micro_batch 1 : memref<2x3xf32>
    ```
  }];
  let arguments = (ins Exec_Buffer:$slot, I64Attr:$channel, I64Attr:$micro_batch);
  let assemblyFormat = [{
    $slot `channel` custom<Int>($channel) `micro_batch` custom<Int>($micro_batch) attr-dict `:` type($slot)
  }];
}

#endif // KERF_EXEC_STAGES_TD
