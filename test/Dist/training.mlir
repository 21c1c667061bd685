// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s --mlir-print-op-generic | kerf-opt | FileCheck %s
// REQUIRES: kerf-opt

// What a training step keeps, and the parts of a step.

dist.mesh @mesh ["pp"=2, "dp"=2] time ["mb"=2]

// CHECK-LABEL: @step
func.func @step(%x: tensor<4x6xf32>) {
  // CHECK: nn.weight "w" {{.*}} {variable}
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<6x4xf32>
  // CHECK: nn.state "momentum/w" {init = 0.000000e+00 : f32} : tensor<6x4xf32>
  %m = nn.state "momentum/w" {init = 0.0 : f32} : tensor<6x4xf32>
  // CHECK: nn.matmul {{.*}}dist.step = #backward_weight_3_gradient
  %dw = nn.matmul %x, %x {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 3, gradient>}
     : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
  %part = nn.slice %dw from [0, 0] : (tensor<6x6xf32>) -> tensor<6x4xf32>
  // CHECK: %[[G:.*]] = dist.accumulate %{{.*}} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %g = dist.accumulate %part : (tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: dist.accumulate %[[G]] into %{{.*}} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %h = dist.accumulate %g into %m : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: dist.assign %{{.*}}, %{{.*}} {dist.step = #update} : tensor<6x4xf32>
  dist.assign %w, %h {dist.step = #dist.step<update>} : tensor<6x4xf32>
  dist.assign %m, %h {dist.step = #dist.step<prologue>} : tensor<6x4xf32>
  return
}

// CHECK: dist.channel 0 from 1 to 0 purpose gradient phase backward_input : tensor<6x4xf32>
dist.channel 0 from 1 to 0 purpose gradient phase backward_input : tensor<6x4xf32>
dist.schedule 1 {
  // CHECK: %[[Z:.*]] = dist.zero : tensor<6x4xf32>
  %z = dist.zero : tensor<6x4xf32>
  // CHECK: dist.send %[[Z]] channel 0
  dist.send %z channel 0 micro_batch 0 : tensor<6x4xf32>
}
