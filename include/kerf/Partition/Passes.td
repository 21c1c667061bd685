//===- Passes.td - from a planned to a partitioned module --*- tablegen -*-===//
#ifndef KERF_PARTITION_PASSES_TD
#define KERF_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def CloseRegions : Pass<"kerf-close-regions", "::mlir::ModuleOp"> {
  let summary = "makes constants inside of the regions that use them";
  let description = [{
    Between planning and partitioning a host may canonicalize: constants then
    leave the bodies of ops, which partitioning takes with all that they use.
    Constants, and numbers that follow from such, come back into the bodies;
    those that no plan names are gone where nothing else uses them.

    ```mlir
    #cut = #dist.sharding<{"tp"}>
    #map = affine_map<(i) -> (i)>
    func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}) -> (tensor<8xf32> {dist.sharding = #cut}) {
      %half = arith.constant 0.5 : f32
      %r = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"],
           dist.plan = #dist.plan<operands = [#cut], results = [#cut]>} outs(%x : tensor<8xf32>) {
      ^bb0(%a: f32):
        %m = arith.mulf %a, %half : f32
        linalg.yield %m : f32
      } -> tensor<8xf32>
      return %r : tensor<8xf32>
    }
    // becomes
    #cut = #dist.sharding<{"tp"}>
    #map = affine_map<(i) -> (i)>
    func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}) -> (tensor<8xf32> {dist.sharding = #cut}) {
      %r = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"],
           dist.plan = #dist.plan<operands = [#cut], results = [#cut]>} outs(%x : tensor<8xf32>) {
      ^bb0(%a: f32):
        %half = arith.constant 0.5 : f32
        %m = arith.mulf %a, %half : f32
        linalg.yield %m : f32
      } -> tensor<8xf32>
      return %r : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def VerifyPlan : Pass<"kerf-verify-plan", "::mlir::ModuleOp"> {
  let summary = "checks that a plan can be partitioned";
  let description = [{
    The contract between plan and partition: every op, argument and result of
    `@main` has its shardings, they follow from the op's sharding rule, values
    flow along the order of a step (forward to later stages, backward to earlier
    ones), and out of the micro-batches through `dist.accumulate` alone.
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def SumBeforeCrossing : Pass<"kerf-sum-before-crossing", "::mlir::ModuleOp"> {
  let summary = "sums over micro-batches before they leave their stage";
  let description = [{
    The sum over micro-batches of a + b is the sum of the two sums. If b comes
    from another stage (the gradient of a parameter that two stages use), it is
    summed there and sent once per step instead of once per micro-batch.

    ```mlir
    #cut = #dist.sharding<{"mb"}>
    #part = #dist.sharding<partial sum {"mb"}>
    #whole = #dist.sharding<>
    func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}, %y: tensor<8xf32> {dist.sharding = #cut})
        -> (tensor<f32> {dist.sharding = #whole}) {
      %a = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#cut], results = [#part], stage = 0>}
         : (tensor<8xf32>) -> tensor<f32>
      %b = nn.reduce sum %y dims [0] {dist.plan = #dist.plan<operands = [#cut], results = [#part], stage = 1>}
         : (tensor<8xf32>) -> tensor<f32>
      %s = nn.add %a, %b {dist.plan = #dist.plan<operands = [#part, #part], results = [#part], stage = 0>} : tensor<f32>
      %g = dist.accumulate %s {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 0>}
         : (tensor<f32>) -> tensor<f32>
      return %g : tensor<f32>
    }
    // becomes
    #cut = #dist.sharding<{"mb"}>
    #part = #dist.sharding<partial sum {"mb"}>
    #whole = #dist.sharding<>
    func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}, %y: tensor<8xf32> {dist.sharding = #cut})
        -> (tensor<f32> {dist.sharding = #whole}) {
      %a = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#cut], results = [#part], stage = 0>}
         : (tensor<8xf32>) -> tensor<f32>
      %b = nn.reduce sum %y dims [0] {dist.plan = #dist.plan<operands = [#cut], results = [#part], stage = 1>}
         : (tensor<8xf32>) -> tensor<f32>
      %ga = dist.accumulate %a {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 0>}
         : (tensor<f32>) -> tensor<f32>
      %gb = dist.accumulate %b {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 1>}
         : (tensor<f32>) -> tensor<f32>
      %g = nn.add %ga, %gb {dist.plan = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 0>,
           dist.step = #dist.step<update>} : tensor<f32>
      return %g : tensor<f32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def InsertReshards : Pass<"kerf-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "puts a dist.reshard where a use wants another sharding";
  let description = [{
    One op per value, sharding, stage, chunk and part of the step, however many uses
    share it; the backward pass shares those of the forward pass, and all chunks of a
    stage share what is brought once per step.

    ```mlir
    func.func @main(%x: tensor<2x4xf32> {dist.sharding = #dist.sharding<{"tp"}, {}>})
        -> (tensor<2x4xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
      %r = nn.softmax %x dim 0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {}>],
                                                       results = [#dist.sharding<{}, {}>]>}
         : tensor<2x4xf32>
      return %r : tensor<2x4xf32>
    }
    // becomes, on ["tp"=2]
    func.func @main(%x: tensor<2x4xf32> {dist.sharding = #dist.sharding<{"tp"}, {}>})
        -> (tensor<2x4xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
      %0 = dist.reshard %x to <{}, {}> : tensor<2x4xf32>
      %r = nn.softmax %0 dim 0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {}>],
                                                       results = [#dist.sharding<{}, {}>]>}
         : tensor<2x4xf32>
      return %r : tensor<2x4xf32>
    }
    ```

    If producer and use are in different stages, the value is sent in the
    producer's sharding and resharded in the stage of its use.
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def AssignInStages : Pass<"kerf-assign-in-stages", "::mlir::ModuleOp"> {
  let summary = "a new value in every stage that uses a source";
  let description = [{
    A parameter that another stage updates is a copy where it is only read: a
    `dist.assign` in each such stage gives it the new value.

    ```mlir
    #whole = #dist.sharding<{}>
    func.func @main(%x: tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole}) {
      %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#whole]>, variable} : tensor<4xf32>
      %y = nn.add %x, %w {dist.plan = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 1>}
         : tensor<4xf32>
      %n = nn.neg %w {dist.plan = #dist.plan<operands = [#whole], results = [#whole], stage = 0>} : tensor<4xf32>
      dist.assign %w, %n {dist.plan = #dist.plan<operands = [#whole, #whole], stage = 0>} : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    // becomes
    #whole = #dist.sharding<{}>
    func.func @main(%x: tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole}) {
      %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#whole]>, variable} : tensor<4xf32>
      %y = nn.add %x, %w {dist.plan = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 1>}
         : tensor<4xf32>
      %n = nn.neg %w {dist.plan = #dist.plan<operands = [#whole], results = [#whole], stage = 0>} : tensor<4xf32>
      dist.assign %w, %n {dist.plan = #dist.plan<operands = [#whole, #whole], stage = 0>} : tensor<4xf32>
      dist.assign %w, %n {dist.plan = #dist.plan<operands = [#whole, #whole], stage = 1>} : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def SplitStages : Pass<"kerf-split-stages", "::mlir::ModuleOp"> {
  let summary = "one function per stage and part of the step";
  let description = [{
    `@main` becomes a declaration; what each stage computes becomes
    `@stageN_forward`, in training also `@stageN_prologue`, `@stageN_backward` and
    `@stageN_update0`, ... (one stage: `@stage0_forward_backward` or `@stage0_step`).
    `dist.from` says what an argument is: a program input, a value of another
    stage, a value of another function of the stage or a sum over micro-batches
    so far; `dist.to` says where a result goes: program outputs, other stages,
    other functions. Channels are the `dist.channel` ops. Sources are cloned into
    every function that uses them.

    ```mlir
    #whole = #dist.sharding<{}>
    #stage0 = #dist.plan<operands = [#whole], results = [#whole], stage = 0>
    #stage1 = #dist.plan<operands = [#whole], results = [#whole], stage = 1>
    func.func @main(%x: tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole}) {
      %0 = nn.exp %x {dist.plan = #stage0} : tensor<4xf32>
      %1 = nn.neg %0 {dist.plan = #stage1} : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    // becomes, on ["pp"=2]
    #whole = #dist.sharding<{}>
    #stage0 = #dist.plan<operands = [#whole], results = [#whole], stage = 0>
    #stage1 = #dist.plan<operands = [#whole], results = [#whole], stage = 1>
    dist.channel 0 from 0 to 1 : tensor<4xf32>
    func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
    func.func @stage0_forward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #whole})
        attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
      %0 = nn.exp %x {dist.plan = #stage0} : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @stage1_forward(%h: tensor<4xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole})
        attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
      %0 = nn.neg %h {dist.plan = #stage1} : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```

    What is kept for another function is the cheapest cut in bytes below which ops
    without arithmetic are repeated.
  }];
  let dependentDialects = ["::kerf::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def Localize : Pass<"kerf-localize", "::mlir::ModuleOp"> {
  let summary = "every op on the shapes of one device";
  let description = [{
    Ops are rebuilt through `ShardingRuleInterface::buildLocal`. Operands of a
    reduction over a factor that the shards do not divide are masked with the
    identity first. Sources keep `dist.sharding` and `dist.global_type`.

    ```mlir
    #cut = #dist.sharding<{"tp"}>
    #part = #dist.sharding<partial sum {"tp"}>
    func.func @main(%x: tensor<5xf32> {dist.sharding = #cut}) -> (tensor<f32> {dist.sharding = #part}) {
      %r = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#cut], results = [#part]>}
         : (tensor<5xf32>) -> tensor<f32>
      return %r : tensor<f32>
    }
    // becomes, on ["tp"=2]
    #cut = #dist.sharding<{"tp"}>
    #part = #dist.sharding<partial sum {"tp"}>
    func.func @main(%x: tensor<3xf32> {dist.global_type = tensor<5xf32>, dist.sharding = #cut})
        -> (tensor<f32> {dist.global_type = tensor<f32>, dist.sharding = #part}) {
      %0 = dist.mask %x dim 0 size 5 over ["tp"] fill 0.0 : f32 : tensor<3xf32>
      %r = nn.reduce sum %0 dims [0] : (tensor<3xf32>) -> tensor<f32>
      return %r : tensor<f32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def LowerReshards : Pass<"kerf-lower-reshards", "::mlir::ModuleOp"> {
  let summary = "reshards become collectives";
  let description = [{
    By `decomposeReshard`, the function with which the planner computes bytes.

    ```mlir
    %r = dist.reshard %x from <{}, partial sum {"tp"}> to <{"tp"}>
       of tensor<6xf32> : tensor<6xf32> -> tensor<3xf32>
    // becomes
    %r = dist.reduce_scatter %x sum ["tp"] dim 0 : tensor<6xf32> -> tensor<3xf32>
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def BuildSchedule : Pass<"kerf-build-schedule", "::mlir::ModuleOp"> {
  let summary = "the instruction list of every stage";
  let description = [{
    For inference each stage takes the micro-batches in order: receive, run,
    send. For training: the prologue, forward and backward in the order of
    `dist.schedule_kind` (without it `one_f_one_b`), the update. `interleaved`
    runs the functions of all chunks of a stage.

    ```mlir
    #whole = #dist.sharding<{}>
    dist.channel 0 from 0 to 1 : tensor<4xf32>
    func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
    func.func @stage0_forward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #whole})
        attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
      %0 = nn.exp %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @stage1_forward(%h: tensor<4xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole})
        attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
      %0 = nn.neg %h : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    // becomes, on ["pp"=2]
    #whole = #dist.sharding<{}>
    dist.channel 0 from 0 to 1 : tensor<4xf32>
    func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
    func.func @stage0_forward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.to = #dist.to<send [0]>, dist.sharding = #whole})
        attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
      %0 = nn.exp %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @stage1_forward(%h: tensor<4xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.to = #dist.to<output [0]>, dist.sharding = #whole})
        attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
      %0 = nn.neg %h : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    dist.schedule 0 {
      %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
      %1 = dist.run @stage0_forward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %1 channel 0 micro_batch 0 : tensor<4xf32>
    }
    dist.schedule 1 {
      %0 = dist.recv channel 0 micro_batch 0 : tensor<4xf32>
      %1 = dist.run @stage1_forward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
      dist.output %1 to 0 micro_batch 0 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def JoinUpdates : Pass<"kerf-join-updates", "::mlir::ModuleOp"> {
  let summary = "the last backward pass and the update become one function";
  let description = [{
    Where a stage's first update sums gradients over devices right behind the
    last micro-batch's backward pass, and that run hands nothing on, one function
    does both: there each sum can start as soon as its gradient is complete.
    Functions that no schedule runs any more are erased.

    ```mlir
    #whole = #dist.sharding<{}>
    #part = #dist.sharding<{}, partial sum {"dp"}>
    func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
    func.func @stage0_backward(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.sharding = #part, dist.to = #dist.to<keep [0]>})
        attributes {dist.part = #dist.part<stage = 0, phase = backward_input>} {
      %0 = nn.relu %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @stage0_update0(%g: tensor<4xf32> {dist.from = #dist.from<kept 0>, dist.sharding = #part})
        -> (tensor<4xf32> {dist.sharding = #whole, dist.to = #dist.to<output [0]>})
        attributes {dist.part = #dist.part<stage = 0, phase = update>} {
      %0 = dist.all_reduce %g sum ["dp"] purpose gradient : tensor<4xf32> -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    dist.schedule 0 {
      %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
      %1 = dist.run @stage0_backward(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
      %2 = dist.run @stage0_update0(%1) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
      dist.output %2 to 0 micro_batch 0 : tensor<4xf32>
    }
    // becomes
    #whole = #dist.sharding<{}>
    func.func private @main(tensor<4xf32> {dist.sharding = #whole}) -> (tensor<4xf32> {dist.sharding = #whole})
    func.func @stage0_backward_update0(%x: tensor<4xf32> {dist.from = #dist.from<input 0>, dist.sharding = #whole})
        -> (tensor<4xf32> {dist.sharding = #whole, dist.to = #dist.to<output [0]>})
        attributes {dist.part = #dist.part<stage = 0, phase = backward_input>} {
      %0 = nn.relu %x : tensor<4xf32>
      %1 = dist.all_reduce %0 sum ["dp"] purpose gradient : tensor<4xf32> -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    dist.schedule 0 {
      %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
      %1 = dist.run @stage0_backward_update0(%0) micro_batch 0 : (tensor<4xf32>) -> tensor<4xf32>
      dist.output %1 to 0 micro_batch 0 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def HoldSends : Pass<"kerf-hold-sends", "::mlir::ModuleOp"> {
  let summary = "how long what is sent must stay";
  let description = [{
    A send does not wait: its slot stays until the receiver is known to have it,
    from a message that the receiver sent later. `held_until` is the number of
    the instruction behind which that is so; where nothing comes back, it is the
    end of the step. Inference needs none of this.

    ```mlir
    dist.channel 0 from 0 to 1 : tensor<2xf32>
    dist.channel 1 from 1 to 0 : tensor<2xf32>
    func.func @stage1_backward(%h: tensor<2xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #dist.sharding<{}>})
        -> (tensor<2xf32> {dist.to = #dist.to<send [1]>, dist.sharding = #dist.sharding<{}>})
        attributes {dist.part = #dist.part<stage = 1, phase = backward_input>} {
      return %h : tensor<2xf32>
    }
    dist.schedule 0 {
      %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
      dist.send %0 channel 0 micro_batch 0 : tensor<2xf32>
      %1 = dist.recv channel 1 micro_batch 0 : tensor<2xf32>
    }
    dist.schedule 1 {
      %0 = dist.recv channel 0 micro_batch 0 : tensor<2xf32>
      %1 = dist.run @stage1_backward(%0) micro_batch 0 : (tensor<2xf32>) -> tensor<2xf32>
      dist.send %1 channel 1 micro_batch 0 : tensor<2xf32>
    }
    // becomes, on ["pp"=2]
    dist.channel 0 from 0 to 1 : tensor<2xf32>
    dist.channel 1 from 1 to 0 : tensor<2xf32>
    func.func @stage1_backward(%h: tensor<2xf32> {dist.from = #dist.from<recv 0>, dist.sharding = #dist.sharding<{}>})
        -> (tensor<2xf32> {dist.to = #dist.to<send [1]>, dist.sharding = #dist.sharding<{}>})
        attributes {dist.part = #dist.part<stage = 1, phase = backward_input>} {
      return %h : tensor<2xf32>
    }
    dist.schedule 0 {
      %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
      dist.send %0 channel 0 micro_batch 0 held_until 2 : tensor<2xf32>
      %1 = dist.recv channel 1 micro_batch 0 : tensor<2xf32>
    }
    dist.schedule 1 {
      %0 = dist.recv channel 0 micro_batch 0 : tensor<2xf32>
      %1 = dist.run @stage1_backward(%0) micro_batch 0 : (tensor<2xf32>) -> tensor<2xf32>
      dist.send %1 channel 1 micro_batch 0 held_until 2 : tensor<2xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def VerifyPartition : Pass<"kerf-verify-after-partition", "::mlir::ModuleOp"> {
  let summary = "checks the contract between partition and what follows";
  let description = [{
    No shardings or stages on compute ops, no reshards; arguments, results and
    sources have the local types of their shardings; each stage has a schedule
    in which every channel, input and output is served once per micro-batch (or
    step); the schedules, executed together, do not deadlock.
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

#endif // KERF_PARTITION_PASSES_TD
