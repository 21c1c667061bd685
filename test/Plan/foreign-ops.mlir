// RUN: kerf-opt %s --split-input-file --kerf-flatten --kerf-plan="devices=2 mesh=a=2 objective=volume shard=x=[{a},{}]" --verify-diagnostics | FileCheck %s
// RUN: kerf-opt %s --split-input-file --kerf-flatten --kerf-plan="devices=2 mesh=a=2 objective=volume shard=x=[{a},{}]" --kerf-partition 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LOCAL
// REQUIRES: kerf-opt

// An op without a rule is computed whole by every device, and a remark says what that costs: each device has half of
// the 8 rows of 24 bytes and sends it.
// CHECK-LABEL: func.func @no_rule(
// CHECK: tensor.gather {{.*}}{dist.plan = #p_x2--x2_to_x2}
// LOCAL-LABEL: func.func @stage0_forward(
// LOCAL: %[[A:.*]] = tensor.gather %{{.*}}[%{{.*}}] gather_dims([0]) : (tensor<8x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
func.func @no_rule(%x: tensor<8x6xf32> {kerf.name = "x"}, %i: tensor<3x1xi32>) -> tensor<3x6xf32> {
  // expected-remark @below {{'tensor.gather' has no sharding rule: every device computes all of it, and bringing them its operands sends 192 bytes in a step}}
  %0 = tensor.gather %x[%i] gather_dims([0]) : (tensor<8x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

// Operands that are no tensors are the same everywhere.
// CHECK-LABEL: func.func @scalars(
// CHECK-DAG: arith.constant {dist.plan = #p_to_s} 1.0
// CHECK-DAG: linalg.fill {dist.plan = #p_s--a_x_to_a_x}
// LOCAL-LABEL: func.func @stage0_forward(
// LOCAL: linalg.fill ins(%{{.*}} : f32)
func.func @scalars(%x: tensor<4x6xf32> {kerf.name = "x"}) -> tensor<4x6xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %0 = linalg.fill ins(%c : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = arith.addf %x, %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// -----

// Two ops that differ in their bodies alone are not alike: one leaves parts of a sum, the other parts of a maximum.
// LOCAL-LABEL: func.func @stage0_forward(
// LOCAL: dist.reduce_scatter %{{.*}} sum ["a"]
// LOCAL: dist.reduce_scatter %{{.*}} max ["a"]
#rows = affine_map<(d0, d1) -> (d0, d1)>
#sum = affine_map<(d0, d1) -> (d1)>
func.func @bodies(%x: tensor<64x4xf32> {kerf.name = "x"}) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %least = arith.constant dense<0xFF800000> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #sum], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<64x4xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.addf %out, %in : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#rows, #sum], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<64x4xf32>) outs(%least : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.maximumf %out, %in : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A number from outside is an operand once it is flat; a tensor from outside is not, and the remark says why.
// CHECK-LABEL: func.func @captured(
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8x4xf32>, f32) {{.*}}dist.plan = #p_a_x--s--a_x_to_a_x
#both = affine_map<(d0, d1) -> (d0, d1)>
func.func @captured(%x: tensor<8x4xf32> {kerf.name = "x"}, %t: tensor<f32>, %u: tensor<4xf32>) -> tensor<8x4xf32> {
  %k = tensor.extract %t[] : tensor<f32>
  %e = tensor.empty() : tensor<8x4xf32>
  %0 = linalg.generic {indexing_maps = [#both, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x4xf32>) outs(%x : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %k : f32
    linalg.yield %m : f32
  } -> tensor<8x4xf32>
  // expected-remark @below {{uses tensors from outside in its region, which no rule sees: every device computes all of it, and bringing}}
  %1 = linalg.generic {indexing_maps = [#both, #both], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %j = linalg.index 1 : index
    %b = tensor.extract %u[%j] : tensor<4xf32>
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
