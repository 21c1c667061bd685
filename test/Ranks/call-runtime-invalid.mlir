// What cannot be lowered says why.
// RUN: kerf-opt %s --kerf-call-runtime -split-input-file -verify-diagnostics
// REQUIRES: kerf-opt

module {
  dist.mesh @mesh ["tp"=2]
  func.func @types(%x: tensor<4xi128>) -> tensor<8xi128> {
    // expected-error@+1 {{moves 'tensor<4xi128>', but the runtime has no elements of type 'i128'}}
    %0 = dist.all_gather %x ["tp"] dim 0 : tensor<4xi128> -> tensor<8xi128>
    return %0 : tensor<8xi128>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @sums(%x: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
    // expected-error@+1 {{reduces 'tensor<4xf8E4M3FN>' to the sum, but the runtime cannot reduce elements of type 'f8E4M3FN'}}
    %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf8E4M3FN> -> tensor<4xf8E4M3FN>
    return %0 : tensor<4xf8E4M3FN>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @bools(%x: tensor<4xi1>) -> tensor<4xi1> {
    // expected-error@+1 {{reduces 'tensor<4xi1>' to the sum, but the runtime cannot reduce elements of type 'i1'}}
    %0 = dist.all_reduce %x sum ["tp"] : tensor<4xi1> -> tensor<4xi1>
    return %0 : tensor<4xi1>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @reshard(%x: tensor<4xf32>) -> tensor<2xf32> {
    // expected-error@+1 {{is not made of collectives yet: run the passes of kerf-partition before}}
    %0 = dist.reshard %x from <{}> to <{"tp"}> of tensor<4xf32> : tensor<4xf32> -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @parameter(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w = nn.weight "w" file 0 at 0 {dist.global_type = tensor<8xf32>, dist.sharding = #dist.sharding<{"tp"}>}
       : tensor<4xf32> of tensor<8xf32>
    // expected-error@+1 {{is another tensor, or other parts, than the parameter "w" is elsewhere in the program}}
    %v = nn.weight "w" file 0 at 0 {dist.global_type = tensor<4xf32>, dist.sharding = #dist.sharding<{}>} : tensor<4xf32>
    %0 = dist.all_reduce %w sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----

module {
  // expected-error@+1 {{has several axes in time, but the runtime knows one}}
  dist.mesh @mesh ["tp"=2] time ["a"=2, "b"=2]
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  // expected-error@+1 {{argument 0 of @f is 'tensor<?xf32>', expected a dense tensor of static shape}}
  func.func private @f(tensor<?xf32>) -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}>})
  dist.schedule 0 {
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{of which function is this the list of a stage?}}
  dist.schedule 0 {
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @host(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{calls @sum, which runs on ranks: dist.run alone does that}}
    %0 = call @sum(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func @sum(%x: tensor<4xf32>, %p: !dist.pending<tensor<4xf32>>) -> tensor<4xf32> {
    // expected-error@+1 {{waits for a collective that does not start in its function}}
    %0 = dist.wait %p : !dist.pending<tensor<4xf32>>
    return %0 : tensor<4xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  // expected-error@+1 {{has the name of the program's description, @kerf_ranks}}
  func.func @kerf_ranks(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func private @f(tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}>})
  dist.schedule 0 {
    // expected-error@+1 {{is of input 1, but @f has 1}}
    %0 = dist.input 1 micro_batch 0 : tensor<4xf32>
    dist.output %0 to 0 micro_batch 0 : tensor<4xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  func.func private @f(tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}>})
  dist.schedule 0 {
    %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
    // expected-error@+1 {{is to output 2, but @f has 1}}
    dist.output %0 to 2 micro_batch 0 : tensor<4xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  // expected-error@+1 {{has a name that is the runtime's}}
  func.func private @kerf_rank_number(!llvm.ptr) -> i32
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  // expected-error@+1 {{has a plan but is not on local shapes yet: run the passes of kerf-partition before}}
  func.func @planned(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"tp"}>}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  dist.mesh @mesh ["tp"=2]
  // expected-error@+1 {{of which function is this the list of a stage? The declaration with shardings that kerf-partition leaves is not there}}
  dist.schedule 0 {
    %0 = dist.input 0 micro_batch 0 : tensor<4xf32>
    dist.output %0 to 0 micro_batch 0 : tensor<4xf32>
  }
}

// -----

// Nobody has planned it.
// expected-warning@+1 {{has no dist.mesh, so nothing in it runs on ranks: kerf-plan or kerf-propagate, then kerf-partition come before}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
