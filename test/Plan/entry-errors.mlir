// RUN: kerf-opt %s --split-input-file --kerf-plan="devices=2" --verify-diagnostics
// REQUIRES: kerf-opt

module {
  // expected-note @below {{the first is @a}}
  func.func @a(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  // expected-error @below {{is a second public function: which of them is the program? Call it @main, make the others private, or run kerf-separate-programs}}
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

module {
  // expected-error @below {{@f has several blocks, expected one}}
  func.func @f(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
    // expected-note @below {{branches here: run lift-cf-to-scf, which makes loops and branches ops with regions, then kerf-flatten}}
    cf.cond_br %c, ^a, ^a
  ^a:
    return %x : tensor<4xf32>
  }
}

// -----

// A region that uses values from outside has operands that planning would not see.
module {
  func.func @f(%x: tensor<4xf32>, %t: tensor<i1>) -> tensor<4xf32> {
    %c = tensor.extract %t[] : tensor<i1>
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

module {
  // expected-note @below {{kerf-flatten makes numbers tensors without dimensions}}
  // expected-error @below {{argument 1 of @f is 'index', expected a tensor of static shape of numbers}}
  func.func @f(%x: tensor<4xf32>, %i: index) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  // expected-error @below {{argument 0 of @f is 'tensor<?x4xf32>', expected a tensor of static shape of numbers}}
  func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = math.exp %x : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}

// -----

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
