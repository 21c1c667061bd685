// The body of a loop becomes a function, whose parameters are its own; so does that of a loop in it. A GPU runs none.
//
// RUN: kerf-opt %s --kerf-outline-loops | FileCheck %s
// RUN: not kerf-opt %s --kerf-set-target=device=cuda --kerf-outline-loops 2>&1 | FileCheck %s --check-prefix=CUDA
// RUN: kerf-opt %s --kerf-lower | FileCheck %s --check-prefix=BUFFERS

// CUDA: error: 'nn.loop' op is a loop whose number of iterations is computed, which has no code for GPUs

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32> {{.*}}, %[[N:.*]]: tensor<i64> {{.*}}, %[[GO:.*]]: tensor<i1>
func.func @main(%x: tensor<4xf32> {kerf.name = "x"}, %n: tensor<i64> {kerf.name = "n"}, %go: tensor<i1> {kerf.name = "go"})
    -> (tensor<4xf32> {kerf.name = "y"}, tensor<8x4xf32> {kerf.name = "rows"}) {
  %w = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %h = nn.relu %x : tensor<4xf32>
  // CHECK: %[[H:.*]] = nn.relu %[[X]]
  // CHECK: %[[R:.*]]:3 = exec.loop @main_loop0 limit 8 trip(%[[N]] : tensor<i64>) while(%[[GO]] : tensor<i1>) from(%[[X]] : tensor<4xf32>)
  // CHECK-SAME: with(%[[H]] : tensor<4xf32>) : tensor<i64>, tensor<4xf32>, tensor<8x4xf32>
  %count, %r:2 = nn.loop limit 8 trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<4xf32>) with(%w, %h : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    %t = nn.constant dense<true> : tensor<i1>
    %j, %s = nn.loop trip(%i : tensor<i64>) while(%t : tensor<i1>) from(%a : tensor<4xf32>) with(%b : tensor<4xf32>) {
    ^bb0(%k: tensor<i64>, %d: tensor<4xf32>, %e: tensor<4xf32>):
      %u = nn.constant dense<true> : tensor<i1>
      %m = nn.mul %d, %e : tensor<4xf32>
      nn.yield %u, %m : tensor<i1>, tensor<4xf32>
    } : tensor<i64>, tensor<4xf32>
    %q = nn.add %s, %c : tensor<4xf32>
    nn.yield %t, %q, %s : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  } : tensor<i64>, tensor<4xf32>, tensor<8x4xf32>
  // CHECK: return %[[R]]#1, %[[R]]#2
  return %r#0, %r#1 : tensor<4xf32>, tensor<8x4xf32>
}
// CHECK: func.func private @main_loop0(%[[I:.*]]: tensor<i64>, %[[A:.*]]: tensor<4xf32>, %[[C:.*]]: tensor<4xf32>)
// CHECK: exec.loop @main_loop0_loop0 trip(%[[I]] : tensor<i64>) while(%{{.*}} : tensor<i1>) from(%[[A]] : tensor<4xf32>) : tensor<i64>, tensor<4xf32>
// CHECK: func.func private @main_loop0_loop0(%{{.*}}: tensor<i64>, %[[D:.*]]: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>)
// CHECK: %[[W:.*]] = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>
// CHECK: nn.mul %[[D]], %[[W]]

// Results are operands, and what the loop needs besides has its place; the body's memory lies in the caller's.
// BUFFERS: exec.func @stage0_forward(%[[X:.*]]: memref<4xf32> {{.*}}, %[[N:.*]]: memref<i64> {{.*}}, %[[GO:.*]]: memref<i1> {kerf.name = "go"},
// BUFFERS-SAME: %[[Y:.*]]: memref<4xf32> {{.*}}, %[[ROWS:.*]]: memref<8x4xf32>
// BUFFERS: exec.loop @main_loop0 limit 8 trip(%[[N]] : memref<i64>) while(%[[GO]] : memref<i1>) from(%[[X]] : memref<4xf32>)
// BUFFERS-SAME: with(%{{.*}} : memref<4xf32>) into(%{{.*}}, %[[Y]], %[[ROWS]] : memref<i64>, memref<4xf32>, memref<8x4xf32>)
// BUFFERS-SAME: temporary({{.*}} : memref<i64>, memref<i1>, memref<4xf32>, memref<4xf32>, memref<{{[0-9]+}}xi8>)
// BUFFERS: exec.func @main_loop0(
// BUFFERS: exec.loop @main_loop0_loop0
// BUFFERS: exec.func @main_loop0_loop0(
