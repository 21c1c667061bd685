//===- Passes.td - passes of the plan phase ---------------*- tablegen -*-===//
#ifndef KERF_PLAN_PASSES
#define KERF_PLAN_PASSES

include "mlir/Pass/PassBase.td"

def PlanPass : Pass<"kerf-plan", "::mlir::ModuleOp"> {
  let summary = "Decide mesh, shardings and stages of a function";
  let description = [{
    Searches for the cheapest way to cut a function (`@main`, or the only public
    one with a body) over `devices` devices and writes it into the module: a `dist.mesh`, `dist.plan` on every op (with a
    stage if there is a pipeline), `dist.sharding` on arguments and results,
    `dist.reshard` if several uses share a value in another layout than the one
    in which it is made. Ops are seen only through ShardingRuleInterface,
    OpCostInterface and SourceOpInterface. An op without a sharding rule is
    computed whole by every device, and a remark says what bringing it its
    operands sends. Values that are no tensors (scalars, indices, shapes) are
    the same on all devices. Functions that are called are left as they are
    (`kerf-flatten` inlines them).

    ```mlir
    func.func @main(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {
      %w = nn.constant {name = "w"} dense<1.0> : tensor<8x6xf32>
      %y = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return %y : tensor<4x6xf32>
    }
    // becomes, with devices=2 mesh="tp=2"
    #whole = #dist.sharding<{}, {}>
    #columns = #dist.sharding<{}, {"tp"}>
    dist.mesh @mesh ["tp"=2]
    func.func @main(%x: tensor<4x8xf32> {dist.sharding = #whole}) -> (tensor<4x6xf32> {dist.sharding = #columns}) {
      %w = nn.constant {name = "w", dist.plan = #dist.plan<results = [#columns]>} dense<1.0> : tensor<8x6xf32>
      %y = nn.matmul %x, %w {dist.plan = #dist.plan<operands = [#whole, #columns], results = [#columns]>}
         : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return %y : tensor<4x6xf32>
    }
    ```
  }];
  let options = [
    Option<"devices", "devices", "int64_t", "1", "Number of devices">,
    Option<"mesh", "mesh", "std::string", "\"\"", "Fixed degrees: dp=2,tp=4">,
    Option<"machine", "machine", "std::string", "\"h100-8\"", "Machine preset, or machine.json">,
    Option<"objective", "objective", "::kerf::plan::Objective", "::kerf::plan::Objective::Time",
           "What is made least", [{::llvm::cl::values(
             clEnumValN(::kerf::plan::Objective::Time, "time", "predicted seconds of a step"),
             clEnumValN(::kerf::plan::Objective::Volume, "volume", "bytes sent"))}]>,
    Option<"costModel", "cost-model", "::kerf::cost::VolumeModel", "::kerf::cost::VolumeModel::Ring",
           "What a collective sends", [{::llvm::cl::values(
             clEnumValN(::kerf::cost::VolumeModel::Ring, "ring", "as ring algorithms do"),
             clEnumValN(::kerf::cost::VolumeModel::Article, "article", "as the article counts"))}]>,
    Option<"solver", "solver", "::kerf::plan::SolverKind", "::kerf::plan::SolverKind::Auto",
           "How a plan is looked for", [{::llvm::cl::values(
             clEnumValN(::kerf::plan::SolverKind::Auto, "auto", "with a proven bound"),
             clEnumValN(::kerf::plan::SolverKind::BruteForce, "brute-force", "every assignment, for tests"),
             clEnumValN(::kerf::plan::SolverKind::Random, "random", "any legal plan, for tests"))}]>,
    Option<"seed", "seed", "uint64_t", "0", "Seed of the random solver">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "Bytes per device; 0: the machine's">,
    ListOption<"rejected", "rejected", "int64_t",
               "Bytes that the plans before took where they were laid out, more than the limit">,
    Option<"deadline", "deadline", "double", "0", "Seconds that the search may take; 0: none">,
    ListOption<"batchDims", "batch-dim", "std::string", "Where an input has the batch, whatever its kerf.batch_dim says: NAME=DIM">,
    Option<"microBatches", "micro-batches", "int64_t", "0", "Micro-batches; 0: search">,
    Option<"schedule", "schedule", "std::string", "\"auto\"",
           "Of a pipeline that trains: auto, gpipe, 1f1b or interleaved">,
    Option<"chunks", "chunks", "int64_t", "0",
           "Chunks of the model in each stage of an interleaved schedule; 0: 2, 3 or 4">,
    Option<"recompute", "recompute", "std::string", "\"none\"",
           "Of a step, blocks to compute again: none, or auto: where the memory limit binds">,
    Option<"zero", "zero", "std::string", "\"none\"",
           "Of a step, what lies in parts over dp: none, 1, 2, 3, or auto: where the memory limit binds">,
    ListOption<"shard", "shard", "std::string", "Hints: REGEX=[{tp},{}]">,
  ];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def Flatten : Pass<"kerf-flatten", "::mlir::ModuleOp"> {
  let summary = "Make functions one flat block, as planning needs them";
  let description = [{
    Planning decides op by op, over the operands of each op. In public functions

    - calls of functions of one block are inlined (not where either says
      `no_inline`), so each call is planned by itself;
    - numbers that the program is given or gives (`f32`, `index`) become tensors
      without dimensions (`tensor<f32>`, `tensor<i64>`), unless it is called;
    - numbers that follow from constants and types (`tensor.dim`) are folded;
    - constants that a region uses from outside are repeated inside; other
      numbers that it uses become operands, where the op has the
      `CaptureInterface` (`linalg.generic`, `linalg.map`, `linalg.reduce`);
    - an op whose region uses more than that, and loops and branches that give
      tensors (`scf.for`, `scf.if`), become a call of a private function that has
      these values as arguments. Such a call is cut along dimensions of which
      nothing in it needs the whole, else every device computes all of it. After
      partitioning it can be inlined again.

    ```mlir
    func.func private @half(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = nn.tanh %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = func.call @half(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %z = func.call @half(%y) : (tensor<4xf32>) -> tensor<4xf32>
      return %z : tensor<4xf32>
    }
    // becomes
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = nn.tanh %x : tensor<4xf32>
      %z = nn.tanh %y : tensor<4xf32>
      return %z : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::tensor::TensorDialect"];
}

def Propagate : Pass<"kerf-propagate", "::mlir::ModuleOp"> {
  let summary = "Let shardings of a few values decide about all others";
  let description = [{
    A plan without a search: the module has a `dist.mesh`, and some arguments and
    results of its function a `dist.sharding`, some ops a `dist.plan`; a
    `dist.reshard` says how a value is cut from there on. Axes spread over the
    sharding rules of the ops, forward and backward, first over ops that reduce
    nothing. Arguments, results of ops and reshards that are annotated stay as
    they are; what the function returns and what an op with a plan takes is where
    these values start. `dist.priority` beside an annotation, one number or
    one for each dimension (`array<i64: 0, 2>`), orders them: what has smaller
    numbers spreads before the rest is seen. Where operands and results
    of an op disagree, the annotation of the smaller number decides, else the first
    (of results, then operands); a remark names both annotations, and the others
    are brought to its sharding. Another says of an op without a rule what bringing
    its operands to every device sends. What `kerf-partition` takes comes out.

    ```mlir
    #columns = #dist.sharding<{}, {"tp"}>
    dist.mesh @mesh ["tp"=2]
    func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32> {dist.sharding = #columns})
        -> tensor<4x6xf32> {
      %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    // becomes
    #whole = #dist.sharding<{}, {}>
    #columns = #dist.sharding<{}, {"tp"}>
    dist.mesh @mesh ["tp"=2]
    func.func @main(%x: tensor<4x8xf32> {dist.sharding = #whole},
                    %w: tensor<8x6xf32> {dist.sharding = #columns})
        -> (tensor<4x6xf32> {dist.sharding = #columns}) {
      %0 = nn.matmul %x, %w {dist.plan = #dist.plan<operands = [#whole, #columns], results = [#columns]>}
         : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def ApplyPlan : Pass<"kerf-apply-plan", "::mlir::ModuleOp"> {
  let summary = "Write down a plan that a file has";
  let description = [{
    What kerf-plan would write, as a `plan.json` says it: the mesh, `dist.plan` on
    every op that the file names by the names of its results, shardings of
    arguments and results, reshards. The plan is checked against the ops' sharding
    rules and priced again on `machine`. With the plan.json of the example of
    kerf-plan the result is the same:

    ```
    kerf-opt --pass-pipeline='builtin.module(kerf-apply-plan{plan=plan.json machine=h100-8 devices=2})'
    ```
  }];
  let options = [
    Option<"plan", "plan", "std::string", "\"\"", "A plan.json">,
    Option<"devices", "devices", "int64_t", "1", "Number of devices">,
    Option<"machine", "machine", "std::string", "\"h100-8\"", "Machine preset, or machine.json">,
  ];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

def Recompute : Pass<"kerf-recompute", "::mlir::ModuleOp"> {
  let summary = "Compute blocks of a training step again for its backward pass";
  let description = [{
    Activation checkpointing: of each `every`-th block of the forward pass only
    what goes into it and what comes out of it is held. What the backward pass
    reads besides is computed again in front of it, by ops that are `recomputed`
    (`dist.step`). Blocks are found from what repeats in the function, else from
    where one value alone crosses. All ops of a block get one colocation, so they
    lie in one stage.

    ```mlir
    #forward0 = #dist.step<forward, colocation 0>
    #forward1 = #dist.step<forward, colocation 1>
    #forward2 = #dist.step<forward, colocation 2>
    #loss = #dist.step<forward, colocation 3, loss>
    #gradient1 = #dist.step<backward_input, colocation 1>
    func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<f32>, tensor<8x4xf32>) {
      %h = nn.matmul %x, %w {dist.step = #forward0} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %y = nn.gelu %h {dist.step = #forward1} : tensor<8x4xf32>
      %z = nn.tanh %y {dist.step = #forward2} : tensor<8x4xf32>
      %l = nn.reduce sum %z dims [0, 1] {dist.step = #loss} : (tensor<8x4xf32>) -> tensor<f32>
      %d = nn.mul %h, %y {dist.step = #gradient1} : tensor<8x4xf32>
      return %l, %d : tensor<f32>, tensor<8x4xf32>
    }
    // becomes
    #forward0 = #dist.step<forward, colocation 0>
    #forward2 = #dist.step<forward, colocation 2>
    #loss = #dist.step<forward, colocation 3, loss>
    #recomputed0 = #dist.step<backward_input, colocation 0, recomputed>
    #gradient0 = #dist.step<backward_input, colocation 0>
    func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<f32>, tensor<8x4xf32>) {
      %h = nn.matmul %x, %w {dist.step = #forward0} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %y = nn.gelu %h {dist.step = #forward0} : tensor<8x4xf32>
      %z = nn.tanh %y {dist.step = #forward2} : tensor<8x4xf32>
      %l = nn.reduce sum %z dims [0, 1] {dist.step = #loss} : (tensor<8x4xf32>) -> tensor<f32>
      %again = nn.matmul %x, %w {dist.step = #recomputed0} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %d = nn.mul %again, %y {dist.step = #gradient0} : tensor<8x4xf32>
      return %l, %d : tensor<f32>, tensor<8x4xf32>
    }
    ```
  }];
  let options = [
    Option<"every", "every", "int64_t", "1", "Every how many blocks one is computed again; 0: none">,
  ];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

#endif // KERF_PLAN_PASSES
