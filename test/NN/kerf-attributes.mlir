// What phases tell each other about values is verified: names, places and kinds. nn has no such attributes.
// RUN: kerf-opt %s --split-input-file --verify-diagnostics
// REQUIRES: kerf-opt

func.func @main(%x: tensor<2x3xf32> {kerf.batch_dim = 1 : i64, kerf.name = "x", kerf.range = [0, 5]}) -> (tensor<2x3xf32> {kerf.name = "y"}) {
  %y = nn.relu %x {kerf.no_gradient} : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// expected-error @below {{unknown attribute kerf.bath_dim on an argument, expected one of kerf.name, kerf.batch_dim}}
func.func @main(%x: tensor<2x3xf32> {kerf.bath_dim = 1 : i64}) {
  return
}

// -----

// expected-error @below {{kerf.batch_dim of argument 0 is 1, but the argument is 'tensor<2xf32>'}}
func.func @main(%x: tensor<2xf32> {kerf.batch_dim = 1 : i64}) {
  return
}

// -----

// expected-error @below {{kerf.name must be a string}}
func.func @main(%x: tensor<2xf32> {kerf.name = 3 : i64}) {
  return
}

// -----

// expected-error @below {{kerf.range has no meaning on a result of a function}}
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32> {kerf.range = [0, 5]}) {
  return %x : tensor<2xf32>
}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{unknown attribute kerf.transfercast on an op}}
  %y = nn.cast %x {kerf.transfercast} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error @below {{kerf.files must be a list of strings}}
module attributes {kerf.files = 7 : i64} {}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{unknown attribute nn.precision on an op, which takes none of this dialect}}
  %y = nn.relu %x {nn.precision = "bf16"} : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error @below {{unknown attribute nn.name on an argument, which takes none of this dialect}}
func.func @main(%x: tensor<2xf32> {nn.name = "x"}) {
  return
}

// -----

// expected-error @below {{unknown attribute nn.name on a result of a function, which takes none of this dialect}}
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32> {nn.name = "y"}) {
  return %x : tensor<2xf32>
}

// -----

// A dimension with its length, which is a result of its own.
func.func @bounded(%x: tensor<9x4xf32>, %n: tensor<i64>)
    -> (tensor<9x4xf32> {kerf.name = "y", kerf.bounded = [0, 1]}, tensor<i64> {kerf.name = "y.length", kerf.length}) {
  return %x, %n : tensor<9x4xf32>, tensor<i64>
}

// -----

// expected-error @below {{kerf.bounded of result 0 names dimension 2, but the result is 'tensor<9x4xf32>'}}
func.func @bounded_dimension(%x: tensor<9x4xf32>, %n: tensor<i64>)
    -> (tensor<9x4xf32> {kerf.bounded = [2, 1]}, tensor<i64> {kerf.length}) {
  return %x, %n : tensor<9x4xf32>, tensor<i64>
}

// -----

// expected-error @below {{kerf.bounded of result 0 names result 1, expected a tensor<i64> with kerf.length}}
func.func @bounded_length(%x: tensor<9x4xf32>, %n: tensor<i64>) -> (tensor<9x4xf32> {kerf.bounded = [0, 1]}, tensor<i64>) {
  return %x, %n : tensor<9x4xf32>, tensor<i64>
}

// -----

// expected-error @below {{kerf.bounded must be pairs of i64 that are not negative}}
func.func @bounded_pairs(%x: tensor<9x4xf32>) -> (tensor<9x4xf32> {kerf.bounded = [0]}) {
  return %x : tensor<9x4xf32>
}
