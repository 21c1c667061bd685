// RUN: kerf-opt %s --split-input-file --kerf-propagate --verify-diagnostics
// REQUIRES: kerf-opt

// expected-error @below {{the module has no dist.mesh}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{the mesh has stages or micro-batches, which only a search cuts: use kerf-plan}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh ["a"=2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is part of a step of training, which only a search cuts: use kerf-plan}}
  %0 = dist.accumulate %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["a"=2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is an op on parts of tensors, but propagation decides about whole ones, before they are cut}}
  %0 = dist.all_reduce %x sum ["a"] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["a"=2]
// expected-error @below {{argument 0 is annotated as a part of a sum, which inputs and results never are}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}, partial sum {"a"}>}) -> tensor<4xf32> {
  %0 = math.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
