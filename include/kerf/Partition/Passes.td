//===- Passes.td - from a planned to a partitioned module --*- tablegen -*-===//
#ifndef KERF_PARTITION_PASSES_TD
#define KERF_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyPlan : Pass<"verify-plan", "::mlir::ModuleOp"> {
  let summary = "checks that a plan can be partitioned";
  let description = [{
    The contract between plan and partition: every op, argument and result of
    `@main` has its shardings, they follow from the op's sharding rule, values
    flow along the order of a step (forward to later stages, backward to earlier
    ones), and out of the micro-batches through `dist.accumulate` alone.
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def SumBeforeCrossing : Pass<"sum-before-crossing", "::mlir::ModuleOp"> {
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

def InsertReshards : Pass<"insert-reshards", "::mlir::ModuleOp"> {
  let summary = "puts a dist.reshard where a use wants another sharding";
  let description = [{
    One op per value, sharding, stage and part of the step, however many uses share
    it; the backward pass shares those of the forward pass.

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

def SplitStages : Pass<"split-stages", "::mlir::ModuleOp"> {
  let summary = "one function per stage and part of the step";
  let description = [{
    `@main` becomes a declaration; what each stage computes becomes
    `@stageN_forward`, in training also `@stageN_prologue`, `@stageN_backward` and
    `@stageN_update0`, ... (one stage: `@stage0_forward_backward` or `@stage0_step`).
    `dist.from` says what an argument is: a program input, a value of another
    stage, a value of another function of the stage or a sum over micro-batches
    so far; `dist.to` says where a result goes: program outputs, other stages,
    other functions. Channels are the `dist.channel` ops. Sources are cloned into every function that uses them.

    A value that a later function of its stage uses is kept in a slot, or computed
    again if only ops without arithmetic lie in between: the kept values are a
    minimum cut in bytes (kerf/Fusion/KeptValues.h).
  }];
  let dependentDialects = ["::kerf::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def Localize : Pass<"localize", "::mlir::ModuleOp"> {
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

def LowerReshards : Pass<"lower-reshards", "::mlir::ModuleOp"> {
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

def BuildSchedule : Pass<"build-schedule", "::mlir::ModuleOp"> {
  let summary = "the instruction list of every stage";
  let description = [{
    For inference each stage takes the micro-batches in order: receive, run,
    send. For training: the prologue, forward and backward in the order of
    `dist.schedule_kind` ("gpipe", "1f1b"), the update. A send does not wait; its
    slot stays until the receiver is known to have it (`held_until`, the number
    of an instruction).
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def VerifyPartition : Pass<"verify-after-partition", "::mlir::ModuleOp"> {
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
