// RUN: kerf-opt %s --split-input-file --kerf-keep-state="automatic" | FileCheck %s
// REQUIRES: kerf-opt

// An output of its input's type is what the next step reads.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32> {kerf.name = "x"}) -> (tensor<3xf32> {kerf.name = "y"}) {
// CHECK: %[[S:.*]] = nn.state "past_0" {init = 0.000000e+00 : f32} : tensor<3xf32>
// CHECK: %[[N:.*]] = nn.add %[[S]], %[[X]]
// CHECK-NEXT: dist.assign %[[S]], %[[N]]
func.func @main(%x: tensor<3xf32> {kerf.name = "x"}, %p: tensor<3xf32> {kerf.name = "past_0"})
    -> (tensor<3xf32> {kerf.name = "y"}, tensor<3xf32> {kerf.name = "present_0"}) {
  %n = nn.add %p, %x : tensor<3xf32>
  %y = nn.neg %n : tensor<3xf32>
  return %y, %n : tensor<3xf32>, tensor<3xf32>
}

// -----

// One new position of a cache is written in its place, behind those that are filled; the mask says which these are.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<1x1x1x2xf32> {kerf.name = "q"},
// CHECK-SAME: tensor<1x1x1x2xf32> {kerf.name = "k"},
// CHECK-SAME: %[[P:.*]]: tensor<1xi64> {kerf.batch_dim = 0 : i64, kerf.name = "state.position", kerf.range = [0, 4]})
// CHECK-SAME: -> (tensor<1x1x1x2xf32> {kerf.name = "y"})
// CHECK: %[[PLACES:.*]] = nn.iota dim 1 : tensor<1x4xi64>
// CHECK: %[[SEEN:.*]] = nn.less_equal %[[PLACES]], %{{.*}} -> tensor<1x4xi1>
// CHECK: %[[MASK:.*]] = nn.cast %[[SEEN]]
// CHECK: %[[S:.*]] = nn.state "past.key" {{.*}} : tensor<1x1x4x2xf32>
// CHECK: %[[W:.*]] = nn.scatter set %[[S]], %{{.*}}, %{{.*}} dim 2
// CHECK: dist.assign %[[S]], %[[W]]
// CHECK: nn.matmul %{{.*}}, %[[W]] {transpose_rhs}
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi64> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.matmul %q, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %f = nn.cast %m : (tensor<1x4xi64>) -> tensor<1x4xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %0 = nn.sub %one, %f : (tensor<f32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %1 = nn.mul %0, %least : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32>
  %2 = nn.reshape %1 : (tensor<1x4xf32>) -> tensor<1x1x1x4xf32>
  %3 = nn.add %s, %2 : tensor<1x1x1x4xf32>
  %t = nn.softmax %3 dim 3 : tensor<1x1x1x4xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %4 = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  %y = nn.add %4, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}

// -----

// Several new positions are read behind the cache, as they were exported, and written into it besides. Those behind the
// end of a prompt have the last position.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[P:.*]]: tensor<1xi64> {kerf.batch_dim = 0 : i64, kerf.name = "state.position", kerf.range = [0, 3]})
// CHECK: nn.min %{{.*}}, %{{.*}} : (tensor<1x2xi64>, tensor<i64>) -> tensor<1x2xi64>
// CHECK: %[[SEEN:.*]] = nn.less %{{.*}} -> tensor<1x3xi1>
// CHECK: nn.concat %[[SEEN]], %{{.*}} dim 1 : (tensor<1x3xi1>, tensor<1x2xi1>) -> tensor<1x5xi1>
// CHECK: %[[S:.*]] = nn.state "past.key" {{.*}} : tensor<1x1x3x2xf32>
// CHECK: %[[C:.*]] = nn.concat %[[S]], %[[K:.*]] dim 2
// CHECK: %[[W:.*]] = nn.scatter set %[[S]], %{{.*}}, %[[K]] dim 2
// CHECK: dist.assign %[[S]], %[[W]]
// CHECK: nn.matmul %{{.*}}, %[[C]] {transpose_rhs}
func.func @main(%q: tensor<1x1x2x2xf32> {kerf.name = "q"}, %k: tensor<1x1x2x2xf32> {kerf.name = "k"},
    %m: tensor<1x5xi1> {kerf.name = "attention_mask"}, %i: tensor<1x2xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x2x2xf32> {kerf.name = "y"}, tensor<1x1x5x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x5x2xf32>
  %j = nn.cast %i : (tensor<1x2xi64>) -> tensor<1x2xf32>
  %qi = nn.add %q, %j : (tensor<1x1x2x2xf32>, tensor<1x2xf32>) -> tensor<1x1x2x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x2x2xf32>, tensor<1x1x5x2xf32>) -> tensor<1x1x2x5xf32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %seen = nn.constant dense<[[true, true, true, true, false], [true, true, true, true, true]]> : tensor<2x5xi1>
  %v = nn.and %seen, %m : (tensor<2x5xi1>, tensor<1x5xi1>) -> tensor<2x5xi1>
  %h = nn.select %v, %s, %least : (tensor<2x5xi1>, tensor<1x1x2x5xf32>, tensor<f32>) -> tensor<1x1x2x5xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x2x5xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x2x5xf32>, tensor<1x1x5x2xf32>) -> tensor<1x1x2x2xf32>
  return %y, %c : tensor<1x1x2x2xf32>, tensor<1x1x5x2xf32>
}
