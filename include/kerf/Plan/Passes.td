//===- Passes.td - passes of the plan phase ---------------*- tablegen -*-===//
#ifndef KERF_PLAN_PASSES
#define KERF_PLAN_PASSES

include "mlir/Pass/PassBase.td"

def PlanPass : Pass<"kerf-plan", "::mlir::ModuleOp"> {
  let summary = "Decide mesh, shardings and stages of @main";
  let description = [{
    Searches for the cheapest way to cut `@main` over `devices` devices and
    writes it down as attributes: a `dist.mesh`, `dist.operands` and
    `dist.results` on every op, `dist.sharding` on arguments and results,
    `dist.stage` where there is a pipeline, `dist.reshard` where several uses
    share a value in another layout than the one in which it is made. Ops are
    seen only through ShardingRuleInterface, OpCostInterface and
    SourceOpInterface.

    ```mlir
    // kerf-plan{devices=2 mesh="tp=2"}
    func.func @main(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {
      %w = nn.constant {name = "w"} dense<1.0> : tensor<8x6xf32>
      %y = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      return %y : tensor<4x6xf32>
    }
    // becomes
    dist.mesh @mesh ["tp"=2]
    func.func @main(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {} ]>})
        -> (tensor<4x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>}) {
      %w = nn.constant {dist.operands = [], dist.results = [#dist.sharding<[{}, {"tp"} ]>], ...
    ```
  }];
  let options = [
    Option<"devices", "devices", "int64_t", "1", "Number of devices">,
    Option<"mesh", "mesh", "std::string", "\"\"", "Fixed degrees: dp=2,tp=4">,
    Option<"machine", "machine", "std::string", "\"h100-8\"", "Machine preset">,
    Option<"objective", "objective", "std::string", "\"time\"", "time or volume">,
    Option<"costModel", "cost-model", "std::string", "\"ring\"", "ring or article">,
    Option<"solver", "solver", "std::string", "\"auto\"", "auto, brute-force or random">,
    Option<"seed", "seed", "uint64_t", "0", "Seed of the random solver">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "Bytes per device; 0: the machine's">,
    Option<"microBatches", "micro-batches", "int64_t", "0", "Micro-batches; 0: search">,
    Option<"schedule", "schedule", "std::string", "\"auto\"",
           "Of a pipeline that trains: auto, gpipe or 1f1b">,
    ListOption<"shard", "shard", "std::string", "Hints: REGEX=[{tp},{}]">,
  ];
  let dependentDialects = ["::kerf::dist::DistDialect"];
}

#endif // KERF_PLAN_PASSES
