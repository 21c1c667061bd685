// What packaging takes for granted of a lowered module.
// RUN: kerf-opt %s --split-input-file --kerf-verify-after-lower --verify-diagnostics
// REQUIRES: kerf-opt

// Planned, numbered, and buffers that share memory are not live together: right.
exec.kernel @exp(%x: tensor<4xf32>) -> tensor<4xf32> attributes {index = 0 : i64, node = ""} {
  %0 = nn.exp %x : tensor<4xf32>
  exec.yield %0 : tensor<4xf32>
}
exec.func @right(%x: memref<4xf32>, %y: memref<4xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 128 : i64} {
  %a = exec.arena at 0 : memref<4xf32>
  %b = exec.arena at 64 : memref<4xf32>
  %c = exec.arena at 0 : memref<4xf32>
  exec.launch @exp(%x) -> (%a) : (memref<4xf32>) -> memref<4xf32>
  exec.copy %a -> %b : memref<4xf32> -> memref<4xf32>
  exec.copy %b -> %c : memref<4xf32> -> memref<4xf32>
  exec.copy %c -> %y : memref<4xf32> -> memref<4xf32>
  exec.return
}

// -----

// expected-error @below {{is left after lowering: func.func}}
func.func @tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{has no planned scratch}}
exec.func @not_planned(%x: memref<4xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.return
}

// -----

// expected-error @below {{buffers 0 and 1 overlap while both are live}}
exec.func @overlap(%x: memref<32xf32>, %y: memref<32xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 192 : i64} {
  %a = exec.arena at 0 : memref<32xf32>
  %b = exec.arena at 64 : memref<32xf32>
  exec.copy %x -> %a : memref<32xf32> -> memref<32xf32>
  exec.copy %a -> %b : memref<32xf32> -> memref<32xf32>
  exec.copy %b -> %y : memref<32xf32> -> memref<32xf32>
  exec.return
}

// -----

// A view is used: its buffer is live.
// expected-error @below {{buffers 0 and 1 overlap while both are live}}
exec.func @view(%x: memref<32xf32>, %y: memref<16xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 128 : i64} {
  %a = exec.arena at 0 : memref<32xf32>
  %row = exec.view %a at 64 : memref<32xf32> to memref<16xf32>
  %b = exec.arena at 0 : memref<16xf32>
  exec.copy %x -> %a : memref<32xf32> -> memref<32xf32>
  exec.copy %row -> %b : memref<16xf32> -> memref<16xf32>
  exec.copy %row -> %y : memref<16xf32> -> memref<16xf32>
  exec.copy %b -> %y : memref<16xf32> -> memref<16xf32>
  exec.return
}

// -----

// expected-error @below {{numbers of kernels are not 0 to 1}}
module {
  exec.kernel @exp(%x: tensor<4xf32>) -> tensor<4xf32> attributes {index = 0 : i64, node = ""} {
    %0 = nn.exp %x : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  exec.kernel @neg(%x: tensor<4xf32>) -> tensor<4xf32> attributes {index = 2 : i64, node = ""} {
    %0 = nn.neg %x : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
}

// -----

// expected-error @below {{numbers of library calls are not 0 to 0}}
module {
  exec.func @calls(%x: memref<2x3xf32>, %w: memref<3x4xf32>, %y: memref<2x4xf32>)
      attributes {num_inputs = 2 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 0 : i64} {
    exec.matmul 1 "" m 2 n 4 k 3 lhs(%x : memref<2x3xf32>) rhs(%w : memref<3x4xf32>) dst(%y : memref<2x4xf32>)
    exec.return
  }
}

// -----

// expected-error @below {{numbers of collectives are not 0 to 1}}
module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
  exec.func @collectives(%x: memref<4xf32>)
      attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 0 : i64} {
    exec.collective 0 all_reduce sum ["tp"] %x -> %x bytes 16 purpose activation phase forward node ""
      : memref<4xf32> -> memref<4xf32>
    %e = exec.collective_start 0 all_reduce sum ["tp"] %x -> %x bytes 16 purpose activation phase forward node ""
      : memref<4xf32> -> memref<4xf32>
    exec.collective_wait %e
    exec.return
  }
}

// -----

// expected-error @below {{numbers of parameters are not 0 to 0}}
module {
  exec.parameter 3 "momentum" : memref<4xf32> from 0.0 : f32 is_mutable
}

// -----

// Once the library has packed it, it is gone.
exec.parameter 0 "w" : memref<4xf32> from dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> library_only
exec.func @packed(%y: memref<4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase init>, scratch = 0 : i64, derived = array<i64: 0>} {
  // expected-error @below {{reads parameter 0, which is library_only}}
  %w = exec.param 0 : memref<4xf32>
  exec.copy %w -> %y : memref<4xf32> -> memref<4xf32>
  exec.return
}

// -----

exec.parameter 0 "w" : memref<4xf32> from dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> stages [1]
exec.func @elsewhere(%y: memref<4xf32>)
    attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 0 : i64} {
  // expected-error @below {{reads parameter 0, which stage 0 does not hold}}
  %w = exec.param 0 : memref<4xf32>
  exec.copy %w -> %y : memref<4xf32> -> memref<4xf32>
  exec.return
}

// -----

// Neither output would be what it should.
exec.kernel @two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) attributes {index = 0 : i64, node = ""} {
  %0 = nn.add %x, %x : tensor<4xf32>
  %1 = nn.slice %x from [2] strides [1] : (tensor<4xf32>) -> tensor<2xf32>
  exec.yield %0, %1 : tensor<4xf32>, tensor<2xf32>
}
exec.func @shared(%x: memref<4xf32>, %y: memref<6xf32>)
    attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>, scratch = 0 : i64} {
  %0 = exec.view %y at 0 : memref<6xf32> to memref<4xf32>
  %1 = exec.view %y at 16 : memref<6xf32> to memref<2xf32>
  %2 = exec.view %y at 12 : memref<6xf32> to memref<2xf32>
  exec.launch @two(%x) -> (%0, %1) : (memref<4xf32>) -> (memref<4xf32>, memref<2xf32>)
  // expected-error @below {{writes outputs 0 and 1 to the same bytes}}
  exec.launch @two(%x) -> (%0, %2) : (memref<4xf32>) -> (memref<4xf32>, memref<2xf32>)
  exec.return
}
