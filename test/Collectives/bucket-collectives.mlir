// RUN: kerf-opt %s --kerf-bucket-collectives=max-bytes=32 | FileCheck %s
// REQUIRES: kerf-opt

dist.mesh @mesh ["dp"=2, "tp"=2]

// Two small sums of the same kind travel together, when the first is needed.
// CHECK-LABEL: @two
// CHECK-SAME: (%[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<1x3xf32>)
func.func @two(%a: tensor<2xf32>, %b: tensor<1x3xf32>) -> (tensor<2xf32>, tensor<1x3xf32>) {
  // CHECK-NEXT: %[[P:.*]] = dist.pack %[[A]], %[[B]] : tensor<2xf32>, tensor<1x3xf32> -> tensor<5xf32>
  // CHECK-NEXT: %[[R:.*]] = dist.all_reduce %[[P]] sum ["tp"] : tensor<5xf32> -> tensor<5xf32>
  // CHECK-NEXT: %[[U:.*]]:2 = dist.unpack %[[R]] : tensor<5xf32> -> tensor<2xf32>, tensor<1x3xf32>
  // CHECK-NEXT: nn.exp %[[U]]#0
  %0 = dist.all_reduce %a sum ["tp"] : tensor<2xf32> -> tensor<2xf32>
  %1 = dist.all_reduce %b sum ["tp"] : tensor<1x3xf32> -> tensor<1x3xf32>
  %2 = nn.exp %0 : tensor<2xf32>
  return %2, %1 : tensor<2xf32>, tensor<1x3xf32>
}

// The second needs the first.
// CHECK-LABEL: @dependent
func.func @dependent(%a: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NOT: dist.pack
  // CHECK: return
  %0 = dist.all_reduce %a sum ["tp"] : tensor<2xf32> -> tensor<2xf32>
  %1 = nn.exp %0 : tensor<2xf32>
  %2 = dist.all_reduce %1 sum ["tp"] : tensor<2xf32> -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// Another reduction, another group, another type, another purpose, or too large.
// CHECK-LABEL: @different
func.func @different(%a: tensor<2xf32>, %b: tensor<2xi32>, %c: tensor<9xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<9xf32>, tensor<9xf32>) {
  // CHECK-NOT: dist.pack
  // CHECK: return
  %0 = dist.all_reduce %a sum ["tp"] : tensor<2xf32> -> tensor<2xf32>
  %1 = dist.all_reduce %a max ["tp"] : tensor<2xf32> -> tensor<2xf32>
  %2 = dist.all_reduce %a sum ["dp"] : tensor<2xf32> -> tensor<2xf32>
  %3 = dist.all_reduce %b sum ["tp"] : tensor<2xi32> -> tensor<2xi32>
  %4 = dist.all_reduce %a sum ["tp"] purpose statistics : tensor<2xf32> -> tensor<2xf32>
  %5 = dist.all_reduce %c sum ["tp"] : tensor<9xf32> -> tensor<9xf32>
  %6 = dist.all_reduce %c sum ["tp"] : tensor<9xf32> -> tensor<9xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<9xf32>, tensor<9xf32>
}
