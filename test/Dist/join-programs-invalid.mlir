// RUN: kerf-opt %s --kerf-join-programs -split-input-file -verify-diagnostics
// REQUIRES: kerf-opt

module {
  module @f {
    // expected-error@+1 {{belongs to a program that is not lowered yet: run kerf-call-runtime before}}
    dist.mesh @mesh ["tp"=2]
    func.func @f() {
      return
    }
  }
}

// -----

module {
  module @f {
    // expected-note@+1 {{the other one}}
    func.func @start() {
      return
    }
  }
  module @g {
    // expected-error@+1 {{is public in two programs}}
    func.func @start() {
      return
    }
  }
}
