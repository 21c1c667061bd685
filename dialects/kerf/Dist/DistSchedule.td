//===- DistSchedule.td - instruction lists of stages -------*- tablegen -*-===//
#ifndef KERF_DIST_SCHEDULE_TD
#define KERF_DIST_SCHEDULE_TD

include "kerf/Dist/DistPlacement.td"
include "mlir/IR/RegionKindInterface.td"

def Dist_ScheduleOp : Op<Dist_Dialect, "schedule", [NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "the static instruction list of one stage";
  let description = [{
    Every rank of the stage runs the instructions in this order. Each tensor is a
    slot from its definition to its last use; lowering gives slots offsets in the
    stage's arena. In a pipeline several micro-batches are under way at once.

    ```mlir
    dist.schedule 0 {
      %x = dist.input 0 micro_batch 0 : tensor<2x8xf32>
      %h = dist.run @stage0(%x) micro_batch 0 : (tensor<2x8xf32>) -> tensor<2x4xf32>
      dist.send %h channel 0 micro_batch 0 : tensor<2x4xf32>
    }
    ```

    C1: only instructions inside. C2: one schedule per stage.
  }];
  let arguments = (ins I64Attr:$stage);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<Int>($stage) $body attr-dict";
  let hasVerifier = 1;
}

class Dist_Instruction<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, !listconcat(traits, [HasParent<"ScheduleOp">])>;

def Dist_InputOp : Dist_Instruction<"input"> {
  let summary = "this rank's part of a program input";
  let description = [{
    The part of input number `index` for a micro-batch, cut by its sharding.

    ```mlir
    %x = dist.input 0 micro_batch 1 : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins I64Attr:$index, I64Attr:$micro_batch);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "custom<Int>($index) `micro_batch` custom<Int>($micro_batch) attr-dict `:` type($result)";
}

def Dist_OutputOp : Dist_Instruction<"output"> {
  let summary = "hands out this rank's part of a program output";
  let description = [{
    ```mlir
    dist.output %y to 0 micro_batch 1 : tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$x, I64Attr:$index, I64Attr:$micro_batch);
  let assemblyFormat = "$x `to` custom<Int>($index) `micro_batch` custom<Int>($micro_batch) attr-dict `:` type($x)";
}

def Dist_RunOp : Dist_Instruction<"run"> {
  let summary = "runs a function on a micro-batch";
  let description = [{
    ```mlir
    %h = dist.run @stage0(%x) micro_batch 1 : (tensor<2x8xf32>) -> tensor<2x4xf32>
    ```

    C1: the function exists and has these types.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Dist_Tensor>:$operands, I64Attr:$micro_batch);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let assemblyFormat = [{
    $callee `(` $operands `)` `micro_batch` custom<Int>($micro_batch) attr-dict `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
}

def Dist_ZeroOp : Dist_Instruction<"zero"> {
  let summary = "a slot of zeros";
  let description = [{
    Where the sum over micro-batches begins (see `dist.accumulate`).

    ```mlir
    %acc = dist.zero : tensor<3x4xf32>
    ```
  }];
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

class Dist_Transfer<string mnemonic> : Dist_Instruction<mnemonic> {
  dag transfer = (ins I64Attr:$channel, I64Attr:$micro_batch,
                      OptionalAttr<Dist_PurposeAttr>:$purpose);
}

def Dist_SendOp : Dist_Transfer<"send"> {
  let summary = "hands a tensor to the same coordinates of another stage";
  let description = [{
    Returns at once. The k-th send of a channel meets its k-th receive; both are
    of the same micro-batch. Bytes: `|x|`, by the sender.

    ```mlir
    dist.send %h channel 0 micro_batch 1 : tensor<2x4xf32>

    //  stage 0: h ---->  stage 1: h
    ```

    In training the slot is not overwritten before instruction `held_until` of
    the schedule, when the sender knows that the receiver has the value:

    ```mlir
    dist.send %h channel 0 micro_batch 1 held_until 7 : tensor<2x4xf32>
    ```

    C1: the channel exists and leaves this stage, with this type.
  }];
  let arguments = !con((ins Dist_Tensor:$x), transfer, (ins OptionalAttr<I64Attr>:$held_until));
  let assemblyFormat = [{
    $x `channel` custom<Int>($channel) `micro_batch` custom<Int>($micro_batch) (`purpose` `` $purpose^)?
    (`held_until` custom<Int>($held_until)^)? attr-dict `:` type($x)
  }];
}

def Dist_RecvOp : Dist_Transfer<"recv"> {
  let summary = "takes a tensor from the same coordinates of another stage";
  let description = [{
    ```mlir
    %h = dist.recv channel 0 micro_batch 1 : tensor<2x4xf32>
    ```

    C1: the channel exists and enters this stage, with this type.
  }];
  let arguments = transfer;
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    `channel` custom<Int>($channel) `micro_batch` custom<Int>($micro_batch) (`purpose` `` $purpose^)? attr-dict `:` type($result)
  }];
}

def Dist_ChannelOp : Op<Dist_Dialect, "channel"> {
  let summary = "a numbered way from one stage to another";
  let description = [{
    One tensor value that crosses from a stage to another, once per micro-batch.
    It joins ranks of equal coordinates on all other axes.

    ```mlir
    dist.channel 0 from 0 to 1 : tensor<2x4xf32>
    ```

    C1: two different stages of the mesh. C2: numbers are distinct.
  }];
  let arguments = (ins I64Attr:$number, I64Attr:$from, I64Attr:$to, TypeAttr:$type,
                       OptionalAttr<Dist_PurposeAttr>:$purpose,
                       OptionalAttr<Dist_PhaseAttr>:$phase);
  let assemblyFormat = [{
    custom<Int>($number) `from` custom<Int>($from) `to` custom<Int>($to)
    (`purpose` `` $purpose^)? (`phase` `` $phase^)? `:` $type attr-dict
  }];
  let hasVerifier = 1;
}

#endif // KERF_DIST_SCHEDULE_TD
