// RUN: kerf-opt %s --split-input-file --verify-diagnostics --kerf-shard-to-dist
// REQUIRES: kerf-opt

// What dist cannot say is an error at what says it.

// expected-error @below {{the module has no shard.grid}}
module {
}

// -----

// expected-note @below {{the first one}}
shard.grid @a(shape = 2)
// expected-error @below {{is a second grid, where dist has one mesh}}
shard.grid @b(shape = 4)

// -----

// expected-error @below {{axis 1 has a size that is not known}}
shard.grid @grid(shape = 2x?)

// -----

// expected-error @below {{dist.axes has 1 names, expected 2}}
shard.grid @grid(shape = 2x4) {dist.axes = ["a"]}

// -----

// expected-error @below {{has an axis of the name "pp", which numbers stages}}
shard.grid @grid(shape = 2) {dist.axes = ["pp"]}

// -----

// expected-error @below {{dist.axes must be an array of names}}
shard.grid @grid(shape = 2) {dist.axes = 3}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{has halos, which dist does not have}}
  %s = shard.sharding @grid split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>, %n: i64) -> tensor<8xf32> {
  // expected-error @below {{has parts of sizes that are not known}}
  %s = shard.sharding @grid split_axes = [[0]] sharded_dims_offsets = [0, %n, 8] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

shard.grid @grid(shape = 3)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{dimension 0 of 8 elements has parts of several sizes: part 2 starts at 5, expected 4}}
  %s = shard.sharding @grid split_axes = [[0]] sharded_dims_offsets = [0, 2, 5, 8] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

shard.grid @grid(shape = 2x2)
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = shard.sharding @grid split_axes = [[], [0]] : !shard.sharding
  // expected-error @below {{cuts 'tensor<?x8xf32>', expected a tensor of static shape}}
  %y = shard.shard %x to %s : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %s = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> (tensor<8xf32>) {
    // expected-error @below {{stands in a region, where nothing is cut}}
    %y = shard.shard %a to %s : tensor<8xf32>
    scf.yield %y : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{reduces by average, expected sum, max, min or product}}
  %y = shard.all_reduce %x on @grid grid_axes = [0] reduction = average : tensor<8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf64> {
  // expected-error @below {{converts 'f32' to 'f64', which collectives of dist do not}}
  %y = shard.all_reduce %x on @grid grid_axes = [0] : tensor<8xf32> -> tensor<8xf64>
  return %y : tensor<8xf64>
}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<16xf32> {
  // expected-error @below {{has no counterpart in dist}}
  %y = shard.gather %x on @grid grid_axes = [0] gather_axis = 0 root = [0] : (tensor<8xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

shard.grid @grid(shape = 2)
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @below {{is on 'tensor<?xf32>' and 'tensor<?xf32>', expected tensors of static shape}}
  %y = shard.all_reduce %x on @grid grid_axes = [0] : tensor<?xf32> -> tensor<?xf32>
  return %y : tensor<?xf32>
}
