// RUN: kerf-opt --kerf-lower %s | FileCheck %s
// REQUIRES: kerf-opt

// A sum over micro-batches: the matmul adds to what its result holds.

// CHECK: exec.func @stage0_forward_backward(%{{.*}}: memref<8x6xf32>, %{{.*}}: memref<8x5xf32>, %{{.*}}: memref<6x5xf32>, %[[SUM:.*]]: memref<6x5xf32>)
// CHECK: exec.matmul {{.*}}dst(%[[SUM]] : {{.*}}then [sum
// CHECK-NEXT: exec.return
// CHECK: exec.stage 0
// CHECK: %[[SLOT:.*]] = exec.slot "sum"
// CHECK: exec.zero %[[SLOT]]
// CHECK: exec.run @stage0_forward_backward(%{{.*}}, %{{.*}}, %[[SLOT]], %[[SLOT]]) micro_batch 0
// CHECK: exec.run @stage0_forward_backward(%{{.*}}, %{{.*}}, %[[SLOT]], %[[SLOT]]) micro_batch 1

dist.mesh @mesh ["x"=1] time ["mb"=2]
func.func private @main(tensor<16x6xf32> {dist.sharding = #dist.sharding<{"mb"}, {}>}, tensor<16x5xf32> {dist.sharding = #dist.sharding<{"mb"}, {}>})
    -> (tensor<6x5xf32> {dist.sharding = #dist.sharding<{}, {}>})
func.func @stage0_forward_backward(%x: tensor<8x6xf32>, %d: tensor<8x5xf32>, %sum: tensor<6x5xf32> {dist.from = #dist.from<accumulator 0>})
    -> tensor<6x5xf32> attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  %dw = nn.matmul %x, %d {transpose_lhs} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %r = dist.accumulate %dw into %sum : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}
dist.schedule 0 {
  %x0 = dist.input 0 micro_batch 0 : tensor<8x6xf32>
  %z = dist.zero : tensor<6x5xf32>
  %d0 = dist.input 1 micro_batch 0 : tensor<8x5xf32>
  %s0 = dist.run @stage0_forward_backward(%x0, %d0, %z) micro_batch 0 : (tensor<8x6xf32>, tensor<8x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  %x1 = dist.input 0 micro_batch 1 : tensor<8x6xf32>
  %d1 = dist.input 1 micro_batch 1 : tensor<8x5xf32>
  %s1 = dist.run @stage0_forward_backward(%x1, %d1, %s0) micro_batch 1 : (tensor<8x6xf32>, tensor<8x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  dist.output %s1 to 0 micro_batch 0 : tensor<6x5xf32>
}
