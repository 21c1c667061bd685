// RUN: kerf-opt --kerf-lower %s | FileCheck %s
// REQUIRES: kerf-opt

// What outlives a step: sources are mutable parameters, whose new values are
// written over the old ones, each after the last read of the old one; a sum
// over micro-batches is one slot, which is both argument and result.

// CHECK: exec.parameter 0 "w" : {{.*}} from #exec.file_range<{{.*}} is_mutable
// CHECK: exec.parameter 1 "momentum/w" : {{.*}} from 0.0{{.*}} is_mutable
// CHECK: exec.parameter 2 "b" : {{.*}} is_mutable
// CHECK: exec.func @stage0_forward
// CHECK: %[[B:.*]] = exec.param 2
// CHECK: %[[V:.*]] = exec.param 1
// CHECK: %[[W:.*]] = exec.param 0
// A mutable weight is a buffer of the call.
// CHECK: exec.matmul 0 {{.*}}rhs(%[[W]] : {{.*}}bias(%[[B]] :
// CHECK: exec.launch @reduce_mul_sub_{{[0-9]+}}(%{{.*}}, %{{.*}}, %[[B]]) -> (%[[B]])
// CHECK: exec.matmul 1 {{.*}}dst(%[[V]] :
// CHECK: exec.launch @mul_sub_{{[0-9]+}}(%[[V]], %{{.*}}, %[[W]]) -> (%[[W]])
// CHECK-NOT: exec.copy
// CHECK: exec.return
func.func @main(%x: tensor<8x6xf32> {kerf.name = "x"}, %t: tensor<8x5xf32> {kerf.name = "t"},
                %lr: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<6x5xf32>
  %b = nn.weight "b" file 0 at 120 {variable} : tensor<5xf32>
  %v = nn.state "momentum/w" {init = 0.0 : f32} : tensor<6x5xf32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %h0 = nn.matmul %x, %w : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  %h = nn.add %h0, %b : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
  %d = nn.sub %h, %t : tensor<8x5xf32>
  %dd = nn.mul %d, %d : tensor<8x5xf32>
  %loss = nn.reduce sum %dd dims [0, 1] : (tensor<8x5xf32>) -> tensor<f32>
  %dw = nn.matmul %x, %d {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %g = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>} : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %db = nn.reduce sum %d dims [0] : (tensor<8x5xf32>) -> tensor<5xf32>
  %gb = dist.accumulate %db : (tensor<5xf32>) -> tensor<5xf32>
  %mv = nn.mul %v, %mu : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %v1 = nn.add %mv, %g : tensor<6x5xf32>
  %s = nn.mul %v1, %lr : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %w1 = nn.sub %w, %s : tensor<6x5xf32>
  %sb = nn.mul %gb, %lr : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %b1 = nn.sub %b, %sb : tensor<5xf32>
  dist.assign %w, %w1 : tensor<6x5xf32>
  dist.assign %v, %v1 : tensor<6x5xf32>
  dist.assign %b, %b1 : tensor<5xf32>
  %l = dist.accumulate %loss : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
