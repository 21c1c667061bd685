// RUN: kerf-opt %s --pass-pipeline='builtin.module(func.func(kerf-bucket-collectives{max-bytes=0 gradient-bytes=32}))' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,BUCKET
// RUN: kerf-opt %s \
// RUN:   --pass-pipeline='builtin.module(func.func(kerf-bucket-collectives{max-bytes=0 gradient-bytes=32},kerf-overlap-collectives{only-gradients=1}))' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,OVERLAP
// RUN: kerf-opt %s \
// RUN:   --pass-pipeline='builtin.module(func.func(kerf-bucket-collectives{max-bytes=0 gradient-bytes=32},\
// RUN:       kerf-overlap-collectives{only-gradients=1 max-started=1}))' \
// RUN:   | FileCheck %s --check-prefixes=ONE
// RUN: kerf-opt %s --pass-pipeline='builtin.module(func.func(kerf-bucket-collectives{max-bytes=0 gradient-bytes=32 packed-bytes=8}))' \
// RUN:   | FileCheck %s --check-prefix=NONE
// REQUIRES: kerf-opt

// Too large to be worth a copy: each alone, where it is made.
// NONE-NOT: dist.pack
// NONE: nn.neg
// NONE-NEXT: dist.all_reduce
// NONE-NEXT: nn.neg
// NONE-NEXT: dist.all_reduce
// NONE-NOT: dist.pack

// A backward pass from the last layer to the first: the large gradient travels
// alone as soon as it is there, the small ones in one bucket when the last is;
// the activation's sum is left where it stands.
dist.mesh @mesh ["dp"=2]
// CHECK-LABEL: @step
// CHECK-SAME: (%[[D:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<16xf32>)
func.func @step(%d: tensor<4xf32>, %x: tensor<16xf32>) -> (tensor<16xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[LARGE:.*]] = nn.neg %[[X]]
  // BUCKET-NEXT: %[[RL:.*]] = dist.all_reduce %[[LARGE]] sum ["dp"] purpose gradient
  // OVERLAP-NEXT: %[[PL:.*]] = dist.all_reduce %[[LARGE]] {{.*}} !dist.pending<tensor<16xf32>>
  // CHECK: %[[S1:.*]] = nn.neg %[[D]]
  // CHECK-NEXT: %[[B:.*]] = nn.exp %[[D]]
  // CHECK-NEXT: %[[S2:.*]] = nn.neg %[[B]]
  // CHECK-NEXT: %[[PACK:.*]] = dist.pack %[[S1]], %[[S2]]
  // BUCKET-NEXT: %[[RS:.*]] = dist.all_reduce %[[PACK]] sum ["dp"] purpose gradient : tensor<8xf32>
  // OVERLAP-NEXT: %[[PS:.*]] = dist.all_reduce %[[PACK]] {{.*}} !dist.pending<tensor<8xf32>>
  // CHECK: %[[E:.*]] = nn.exp %[[B]]
  // CHECK-NEXT: %[[A:.*]] = dist.all_reduce %[[E]] sum ["dp"] : tensor<4xf32> -> tensor<4xf32>
  // BUCKET: dist.unpack %[[RS]]
  // OVERLAP: dist.wait %[[PL]]
  // OVERLAP: %[[WS:.*]] = dist.wait %[[PS]]
  // OVERLAP-NEXT: dist.unpack %[[WS]]
  // ONE: dist.all_reduce {{.*}} !dist.pending<tensor<16xf32>>
  // ONE: dist.wait
  // ONE-NEXT: dist.all_reduce {{.*}} !dist.pending<tensor<8xf32>>
  // ONE: dist.wait
  %large = nn.neg %x : tensor<16xf32>
  %s1 = nn.neg %d : tensor<4xf32>
  %b = nn.exp %d : tensor<4xf32>
  %s2 = nn.neg %b : tensor<4xf32>
  %e = nn.exp %b : tensor<4xf32>
  %a = dist.all_reduce %e sum ["dp"] : tensor<4xf32> -> tensor<4xf32>
  %g = dist.all_reduce %large sum ["dp"] purpose gradient : tensor<16xf32> -> tensor<16xf32>
  %u = nn.exp %g : tensor<16xf32>
  %g1 = dist.all_reduce %s1 sum ["dp"] purpose gradient : tensor<4xf32> -> tensor<4xf32>
  %u1 = nn.exp %g1 : tensor<4xf32>
  %g2 = dist.all_reduce %s2 sum ["dp"] purpose gradient : tensor<4xf32> -> tensor<4xf32>
  %u2 = nn.exp %g2 : tensor<4xf32>
  return %u, %u1, %u2, %a : tensor<16xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
