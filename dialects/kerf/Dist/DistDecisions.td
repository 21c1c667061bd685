//===- DistDecisions.td - decisions about ops --------------*- tablegen -*-===//
//
// Typed values of the discardable attributes dist.plan, dist.step, dist.part,
// dist.from, dist.to, dist.local_reduction and dist.schedule_kind (see the
// dialect's description).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_DECISIONS_TD
#define KERF_DIST_DECISIONS_TD

include "kerf/Dist/DistBase.td"

def Dist_PlanAttr : Dist_Attr<"Plan", "plan"> {
  let summary = "what the planner decided about an op";
  let description = [{
    A sharding for each operand and each result, and the pipeline stage; what is
    not decided is left out. Where stages hold several chunks of the model
    (`dist.chunks`), the chunk of the stage: chunk c of stage s of p is the
    `c p + s`-th part of the model. Chunk 0 is left out.

    ```mlir
    #dist.plan<operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{"tp"}, {}>],
               results = [#dist.sharding<{"mb"}, {"tp"}>], stage = 1>
    ```

    Dumps write it by name: `#p1_mb_x--tp_x_to_mb_tp`, with chunk 2 `#p1c2_...`.

    C1: something is decided. C2: the stage is not negative. C3: as many
    shardings as operands and results. (Checked where it is attached to an op.)
    C4: the chunk is not negative, and none but 0 without a stage.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::kerf::dist::ShardingAttr">:$operands,
                        OptionalArrayRefParameter<"::kerf::dist::ShardingAttr">:$results,
                        "std::optional<int64_t>":$stage, "int64_t":$chunk);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_StepAttr : Dist_Attr<"Step", "step"> {
  let summary = "to which part of a training step an op belongs";
  let description = [{
    The phase; a number that ops of one layer share (`colocation`: they belong to
    one stage); the purpose of data that is moved for the op (`purpose`); whether
    an op of the forward phase comes after the model's own output (`loss`);
    whether the op repeats one of the forward phase for the backward phase
    (`recomputed`). An op that is recomputed is never merged with its original,
    whose result would then be held in between.

    ```mlir
    #dist.step<backward_weight, colocation 3, gradient>
    #dist.step<forward, colocation 9, statistics, loss>
    #dist.step<backward_input, colocation 3, recomputed>
    ```

    Dumps write it by name: `#backward_weight_3_gradient`. An op without it is of
    the forward phase.

    C1: it says something: a forward phase alone is left out. C2: the number is
    not negative. C3: only what is forward is of the loss. C4: only what is
    backward_input is recomputed.
  }];
  let parameters = (ins "::kerf::dist::Phase":$phase, "std::optional<int64_t>":$colocation,
                        "std::optional<::kerf::dist::Purpose>":$purpose, "bool":$loss,
                        "bool":$recomputed);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_PartAttr : Dist_Attr<"Part", "part"> {
  let summary = "what part of the model a function computes";
  let description = [{
    ```mlir
    #dist.part<stage = 1, phase = forward>
    #dist.part<stage = 1, chunk = 1, phase = forward>
    ```

    Chunk 0 is left out; a prologue and an update are of all chunks of their
    stage and have none.

    C1: the stage is not negative. C2: neither is the chunk.
  }];
  let parameters = (ins "int64_t":$stage, "int64_t":$chunk, "::kerf::dist::Phase":$phase);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_From : I32EnumAttr<"From", "where an argument of a stage's function comes from", [
    I32EnumAttrCase<"Input", 0, "input">,
    I32EnumAttrCase<"Recv", 1, "recv">,
    I32EnumAttrCase<"Kept", 2, "kept">,
    I32EnumAttrCase<"Accumulator", 3, "accumulator">]> {
  let cppNamespace = "::kerf::dist";
  let genSpecializedAttr = 0;
}
def Dist_FromAttr : Dist_Attr<"From", "from"> {
  let summary = "where an argument of a stage's function comes from";
  let description = [{
    `<input 0>` is the model's input 0, `<recv 2>` what channel 2 brings,
    `<kept 1>` the value 1 that another function of the stage keeps,
    `<accumulator 3>` the sum so far that result 3 adds to.

    ```mlir
    #dist.from<recv 2>
    ```

    C1: the number is not negative.
  }];
  let parameters = (ins "::kerf::dist::From":$kind, "int64_t":$number);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_ToAttr : Dist_Attr<"To", "to"> {
  let summary = "where a result of a stage's function goes";
  let description = [{
    `<output [0], send [1, 2], keep [0]>`: it is the model's output 0, is sent on
    channels 1 and 2, and kept as value 0 for other functions of the stage.
    Empty lists are left out.

    ```mlir
    #dist.to<output [0], send [1, 2], keep [0]>
    ```

    C1: it goes somewhere.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$output,
                        OptionalArrayRefParameter<"int64_t">:$send,
                        OptionalArrayRefParameter<"int64_t">:$keep);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_ReductionReach : I32EnumAttr<"ReductionReach", "how far sums over the batch reach", [
    I32EnumAttrCase<"Batch", 0, "batch">,
    I32EnumAttrCase<"MicroBatch", 1, "micro_batch">,
    I32EnumAttrCase<"Device", 2, "device">]> {
  let cppNamespace = "::kerf::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReductionReachAttr : EnumAttr<Dist_Dialect, Dist_ReductionReach, "reach"> {
  let assemblyFormat = "$value";
}

def Dist_ScheduleKind : I32EnumAttr<"ScheduleKind", "in which order a stage runs its micro-batches", [
    I32EnumAttrCase<"GPipe", 0, "gpipe">,
    I32EnumAttrCase<"OneFOneB", 1, "one_f_one_b">,
    I32EnumAttrCase<"Interleaved", 2, "interleaved">]> {
  let cppNamespace = "::kerf::dist";
  let genSpecializedAttr = 0;
}
def Dist_ScheduleKindAttr : EnumAttr<Dist_Dialect, Dist_ScheduleKind, "schedule_kind"> {
  let assemblyFormat = "$value";
}

#endif // KERF_DIST_DECISIONS_TD
