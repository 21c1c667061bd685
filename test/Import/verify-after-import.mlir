// What every later phase takes for granted of an imported module.
// RUN: kerf-opt %s --split-input-file --kerf-verify-after-import --verify-diagnostics
// REQUIRES: kerf-opt

module attributes {kerf.files = ["weights.bin"]} {
  func.func @main(%x: tensor<2x3xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64}) -> (tensor<2x4xf32> {kerf.name = "y"}) {
    %w = nn.weight "w" file 0 at 0 : tensor<3x4xf32>
    %y = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    return %y : tensor<2x4xf32>
  }
}

// -----

// expected-error @below {{expected one function, @main}}
module {
  func.func @model(%x: tensor<2xf32> {kerf.name = "x"}) -> (tensor<2xf32> {kerf.name = "y"}) {
    return %x : tensor<2xf32>
  }
}

// -----

// expected-error @below {{expected one function, @main}}
module {
  func.func @main(%x: tensor<2xf32> {kerf.name = "x"}) -> (tensor<2xf32> {kerf.name = "y"}) {
    return %x : tensor<2xf32>
  }
  func.func private @helper(tensor<2xf32>)
}

// -----

// expected-error @below {{argument 1 has no kerf.name}}
func.func @main(%x: tensor<2xf32> {kerf.name = "x"}, %y: tensor<2xf32>) {
  return
}

// -----

// expected-error @below {{result 0 has no kerf.name}}
func.func @main(%x: tensor<2xf32> {kerf.name = "x"}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

func.func @main(%x: tensor<2xf32> {kerf.name = "x"}) -> (tensor<2xf32> {kerf.name = "y"}) {
  // expected-error @below {{stands in an imported function, expected nn ops}}
  %0 = exec.empty : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// The module names one file, or none.
module attributes {kerf.files = ["weights.bin"]} {
  func.func @main() -> (tensor<3xf32> {kerf.name = "y"}) {
    // expected-error @below {{refers to file 1, but kerf.files has 1}}
    %w = nn.weight "w" file 1 at 0 : tensor<3xf32>
    return %w : tensor<3xf32>
  }
}

// -----

func.func @main() -> (tensor<3xf32> {kerf.name = "y"}) {
  // expected-error @below {{refers to file 0, but kerf.files has 0}}
  %w = nn.weight "w" file 0 at 0 : tensor<3xf32>
  return %w : tensor<3xf32>
}
