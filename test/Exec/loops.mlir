// A loop is read as it is printed, on tensors and on buffers.
// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>, %n: tensor<i64>, %go: tensor<i1>) -> tensor<4xf32> {
  // CHECK: exec.loop @body trip(%{{.*}} : tensor<i64>) while(%{{.*}} : tensor<i1>) from(%{{.*}} : tensor<4xf32>) : tensor<i64>, tensor<4xf32>
  %0:2 = exec.loop @body trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<4xf32>) : tensor<i64>, tensor<4xf32>
  return %0#1 : tensor<4xf32>
}
func.func private @body(%i: tensor<i64>, %a: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
  %0 = nn.constant dense<true> : tensor<i1>
  return %0, %a : tensor<i1>, tensor<4xf32>
}

// CHECK-LABEL: exec.func @program
exec.func @program(%x: memref<4xf32>, %w: memref<3xf32>, %n: memref<i64>, %go: memref<i1>, %count: memref<i64>, %y: memref<4xf32>, %s: memref<5x2xf32>)
    attributes {num_inputs = 4 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %i = exec.arena : memref<i64>
  %c = exec.arena : memref<i1>
  %z = exec.arena : memref<4xf32>
  %e = exec.arena : memref<2xf32>
  %memory = exec.arena : memref<128xi8>
  // CHECK: exec.loop @step limit 5 trip(%{{.*}} : memref<i64>) while(%{{.*}} : memref<i1>) from(%{{.*}} : memref<4xf32>)
  // CHECK-SAME: with(%{{.*}} : memref<3xf32>) into(%{{.*}}, %{{.*}}, %{{.*}} : memref<i64>, memref<4xf32>, memref<5x2xf32>)
  // CHECK-SAME: temporary(%{{.*}} : memref<i64>, memref<i1>, memref<4xf32>, memref<2xf32>, memref<128xi8>)
  exec.loop @step limit 5 trip(%n : memref<i64>) while(%go : memref<i1>) from(%x : memref<4xf32>) with(%w : memref<3xf32>)
      into(%count, %y, %s : memref<i64>, memref<4xf32>, memref<5x2xf32>)
      temporary(%i, %c, %z, %e, %memory : memref<i64>, memref<i1>, memref<4xf32>, memref<2xf32>, memref<128xi8>)
  exec.return
}
exec.func @step(%i: memref<i64>, %a: memref<4xf32>, %w: memref<3xf32>, %c: memref<i1>, %b: memref<4xf32>, %e: memref<2xf32>)
    attributes {num_inputs = 3 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.return
}
