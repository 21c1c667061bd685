// RUN: kerf-opt %s --kerf-overlap-collectives | FileCheck %s
// RUN: kerf-opt %s --kerf-overlap-collectives=max-started=1 | FileCheck %s --check-prefix=ONE
// REQUIRES: kerf-opt

dist.mesh @mesh ["tp"=2]

// exp needs neither the source nor the result: it runs while the sum travels.
// CHECK-LABEL: @covered
func.func @covered(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[P:.*]] = dist.all_reduce %{{.*}} sum ["tp"] : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  // CHECK-NEXT: %[[Y:.*]] = nn.exp
  // CHECK-NEXT: %[[R:.*]] = dist.wait %[[P]] : !dist.pending<tensor<4xf32>>
  // CHECK-NEXT: nn.add %[[R]], %[[Y]]
  %y = nn.exp %z : tensor<4xf32>
  %r = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
  %s = nn.add %r, %y : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Nothing to do meanwhile.
// CHECK-LABEL: @chain
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: pending
  // CHECK: return
  %r = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
  %s = nn.exp %r : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Two under way, in one order on all ranks; no more than allowed.
// CHECK-LABEL: @two
// ONE-LABEL: @two
func.func @two(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[P:.*]] = dist.all_reduce %{{.*}} sum
  // CHECK-NEXT: %[[Q:.*]] = dist.all_reduce %{{.*}} max
  // CHECK-NEXT: nn.exp
  // CHECK-NEXT: dist.wait %[[P]]
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: dist.wait %[[Q]]
  // ONE-COUNT-1: -> !dist.pending
  // ONE-NOT: -> !dist.pending
  %p = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> tensor<4xf32>
  %q = dist.all_reduce %x max ["tp"] : tensor<4xf32> -> tensor<4xf32>
  %y = nn.exp %z : tensor<4xf32>
  %a = nn.add %p, %y : tensor<4xf32>
  %b = nn.add %q, %y : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
