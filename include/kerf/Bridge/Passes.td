//===- Passes.td - to and from upstream's shard dialect ----*- tablegen -*-===//
#ifndef KERF_BRIDGE_PASSES_TD
#define KERF_BRIDGE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DistToShard : Pass<"kerf-dist-to-shard", "::mlir::ModuleOp"> {
  let summary = "Say shardings and collectives in upstream's shard dialect";
  let description = [{
    What `dist` says of a module is said in MLIR's `shard`, for passes of others
    (`shard-partition`, `convert-shard-to-mpi`):

    - `dist.mesh` becomes `shard.grid`; names of axes that are not `axis0`,
      `axis1`, ... stay in its attribute `dist.axes`;
    - shardings of arguments, results, `dist.plan` and `dist.reshard` become
      `shard.shard`: a value's own one, and one with `annotate_for_users` for
      each use;
    - a partitioned program of one stage becomes one function on local types,
      `dist` collectives those of `shard`.

    A linalg op that leaves partial sums is annotated with the sharding of the
    sum, which `shard-partition` adds up behind the op. What `shard` cannot say is
    an error at the op that says it: sub-axes, parts that are not equal, a partial
    sum that is used as one, stages, micro-batches, started collectives, priorities.

    ```mlir
    #rows = #dist.sharding<{"tp"}, {}>
    dist.mesh @mesh ["tp"=2]
    func.func @f(%x: tensor<4x6xf32> {dist.sharding = #rows}) -> tensor<4x6xf32> {
      %0 = tosa.tanh %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    // becomes
    module {
    shard.grid @mesh(shape = 2) {dist.axes = ["tp"]}
    func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
      %rows = shard.sharding @mesh split_axes = [[0]] : !shard.sharding
      %y = shard.shard %x to %rows : tensor<4x6xf32>
      %0 = tosa.tanh %y : (tensor<4x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    }
    ```
  }];
  let dependentDialects = ["::mlir::shard::ShardDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ShardToDist : Pass<"kerf-shard-to-dist", "::mlir::ModuleOp"> {
  let summary = "Take shardings and collectives from upstream's shard dialect";
  let description = [{
    The inverse of `kerf-dist-to-shard`, also for what upstream's passes and others
    write. A `shard.shard` says

    - of an argument how it comes, of an operand of the return how the function
      gives it: `dist.sharding`;
    - of an op, if all its tensor operands and results have one and its sharding
      rule allows them together, how it is cut: `dist.plan`. Where the operands cut
      what the op adds up, the result is a partial sum;
    - of any other value, how it is cut from there on: `dist.reshard`.

    `kerf-propagate` completes what is not annotated. `shard` collectives become
    those of `dist`. What `dist` cannot say is an error at the op that says it:
    halos, parts of given sizes that are not equal but for the last, sizes that are
    not known, several grids, averages.

    ```mlir
    module {
    shard.grid @mesh(shape = 2)
    func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
      %rows = shard.sharding @mesh split_axes = [[0]] : !shard.sharding
      %y = shard.shard %x to %rows : tensor<4x6xf32>
      %0 = tosa.tanh %y : (tensor<4x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    }
    // becomes
    #rows = #dist.sharding<{"axis0"}, {}>
    dist.mesh @mesh ["axis0"=2]
    func.func @f(%x: tensor<4x6xf32> {dist.sharding = #rows}) -> tensor<4x6xf32> {
      %0 = tosa.tanh %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::dist::DistDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // KERF_BRIDGE_PASSES_TD
