// RUN: kerf-opt %s --split-input-file --kerf-plan="devices=2" --verify-diagnostics
// REQUIRES: kerf-opt

// expected-error @below {{the module has several public functions: @a @b; call the one to plan @main, or make the others private}}
module {
  func.func @a(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @b(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error @below {{the module has no public function with a body}}
module {
  func.func private @a(tensor<4xf32>) -> tensor<4xf32>
}

// -----

// expected-error @below {{@f has control flow, expected one block}}
// expected-note @below {{kerf-flatten makes calls of structured control flow}}
module {
  func.func @f(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
    cf.cond_br %c, ^a, ^a
  ^a:
    return %x : tensor<4xf32>
  }
}

// -----

// A region that uses values from outside has operands that planning would not see.
// expected-error @below {{@f cannot be planned}}
module {
  func.func @f(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
    // expected-error @below {{has a region that uses values from outside, expected them to be operands: run kerf-flatten before planning}}
    %0 = scf.if %c -> tensor<4xf32> {
      scf.yield %x : tensor<4xf32>
    } else {
      %1 = math.tanh %x : tensor<4xf32>
      scf.yield %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
}

// -----

// expected-error @below {{@f cannot be planned}}
module {
  // expected-error @below {{argument 1 of @f is 'index', expected a tensor of static shape of numbers}}
  func.func @f(%x: tensor<4xf32>, %i: index) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error @below {{@f cannot be planned}}
module {
  // expected-error @below {{argument 0 of @f is 'tensor<?x4xf32>', expected a tensor of static shape of numbers}}
  func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = math.exp %x : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}

// -----

// expected-error @below {{@f cannot be planned}}
module {
  // expected-error @below {{argument 0 of @f is 'tensor<4xcomplex<f32>>', expected a tensor of static shape of numbers}}
  func.func @f(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
    return %x : tensor<4xcomplex<f32>>
  }
}

// -----

module {
  // expected-error @below {{the module has a mesh already, but planning chooses one: kerf-propagate keeps what is there}}
  dist.mesh @mesh ["tp"=4]
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
