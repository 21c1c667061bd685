// A part of a sum may be 0 where the sum is not: parts are multiplied by nothing
// that may be infinite (0 times infinity is NaN) and divided by nothing that may
// be 0. What is asked for is refused, and says what would be legal.

// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard={finite=[{},{},partial sum {tp}]} shard={nonzero=[{},{},partial sum {tp}]}" | FileCheck %s
// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard={given=[{},{},partial sum {tp}]}" 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 shard={quotient=[{},{},partial sum {tp}]}" 2>&1 | FileCheck %s --check-prefix=QUOTIENT

// CHECK: nn.mul {{.*}}dist.plan = #p_x2_sum-tp--x2_to
// CHECK: nn.div {{.*}}dist.plan = #p_x2_sum-tp--x2_to

// GIVEN: error: option shard: '[{},{},partial sum {tp}]' is not a legal sharding of 'given'
// GIVEN: note: legal on this mesh:
// GIVEN-NOT: partial sum

// QUOTIENT: error: option shard: '[{},{},partial sum {tp}]' is not a legal sharding of 'quotient'

func.func @main(%x: tensor<8x64xf32>, %f: tensor<8x32xf32>)
    -> (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) {
  %w = nn.constant dense<0.1> : tensor<64x32xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %y = nn.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %s = nn.sigmoid %f : tensor<8x32xf32>
  %m = nn.max %f, %one : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32>
  %0 = nn.mul %y, %s : tensor<8x32xf32> loc("finite")
  %1 = nn.div %y, %m : tensor<8x32xf32> loc("nonzero")
  %2 = nn.mul %y, %f : tensor<8x32xf32> loc("given")
  %3 = nn.div %y, %s : tensor<8x32xf32> loc("quotient")
  return %0, %1, %2, %3 : tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>
}
