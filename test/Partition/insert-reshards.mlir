// RUN: kerf-opt %s --split-input-file --kerf-insert-reshards | FileCheck %s
// REQUIRES: kerf-opt

// Two uses that want the same share one reshard; a third wants another; a use
// that takes the value as it is needs none.
dist.mesh @mesh ["tp"=2]
// CHECK-LABEL: @shared
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>
func.func @shared(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"tp"}, {}>})
    -> (tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {"tp"}>}) {
  // CHECK: nn.exp %[[X]]
  %0 = nn.exp %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}, {}>], results = [#dist.sharding<{"tp"}, {}>]>} : tensor<4x6xf32>
  // CHECK: %[[W:.*]] = dist.reshard %[[X]] to #s_x2 : tensor<4x6xf32>
  // CHECK: nn.neg %[[W]]
  %1 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {}>], results = [#dist.sharding<{}, {}>]>} : tensor<4x6xf32>
  // CHECK-NOT: dist.reshard
  // CHECK: %[[T:.*]] = nn.tanh %[[W]]
  %2 = nn.tanh %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {}>], results = [#dist.sharding<{}, {}>]>} : tensor<4x6xf32>
  // CHECK: %[[R:.*]] = dist.reshard %[[X]] to #s_x_tp
  // CHECK: return %[[R]]
  return %x : tensor<4x6xf32>
}

// -----

// Weights say what they are; a splat is rebuilt where it is wanted.
dist.mesh @mesh ["tp"=2]
// CHECK-LABEL: @sources
func.func @sources() -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // CHECK: %[[W:.*]] = nn.weight
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#dist.sharding<{"tp"}>]>} : tensor<4xf32>
  %c = nn.constant {dist.plan = #dist.plan<results = [#dist.sharding<{"tp"}>]>} dense<1.0> : tensor<4xf32>
  // CHECK: %[[G:.*]] = dist.reshard %[[W]] to #s_x purpose parameter : tensor<4xf32>
  // CHECK: %[[C:.*]] = nn.constant {dist.plan = #p_to_x}
  // CHECK: nn.add %[[G]], %[[C]]
  %0 = nn.add %w, %c {dist.plan = #dist.plan<operands = [#dist.sharding<{}>, #dist.sharding<{}>], results = [#dist.sharding<{}>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Each stage reshards what it receives.
#vector = #dist.sharding<{}>
#vector_tp = #dist.sharding<{"tp"}>
dist.mesh @mesh ["pp"=3, "tp"=2]
// CHECK-LABEL: @stages
func.func @stages(%x: tensor<4xf32> {dist.sharding = #vector}) -> (tensor<4xf32> {dist.sharding = #vector_tp}) {
  // CHECK: %[[H:.*]] = nn.neg
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#vector], results = [#vector], stage = 0>} : tensor<4xf32>
  // CHECK: %[[A:.*]] = dist.reshard %[[H]] to #s_tp {dist.plan = #p1}
  // CHECK: %[[E:.*]] = nn.exp %[[A]]
  %1 = nn.exp %0 {dist.plan = #dist.plan<operands = [#vector_tp], results = [#vector_tp], stage = 1>} : tensor<4xf32>
  // CHECK: %[[B:.*]] = dist.reshard %[[H]] to #s_tp {dist.plan = #p2}
  // CHECK: nn.add %[[B]], %[[E]]
  %2 = nn.add %0, %1 {dist.plan = #dist.plan<operands = [#vector_tp, #vector_tp], results = [#vector_tp], stage = 2>} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Training: the update reshards for itself what the forward pass has brought elsewhere; the
// backward pass shares it; gradients of parameters say what they are, sums and the prologue
// are brought once per step.
#vector_dp = #dist.sharding<{"dp"}>
#vector = #dist.sharding<{}>
dist.mesh @mesh ["dp"=2]
// CHECK-LABEL: @step
func.func @step(%x: tensor<4xf32> {dist.sharding = #vector_dp}) {
  // CHECK: %[[W:.*]] = nn.weight
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#vector_dp]>} : tensor<4xf32>
  // CHECK: %[[P:.*]] = nn.neg %{{.*}} {{.*}}dist.step = #prologue
  %p = nn.neg %x {dist.step = #dist.step<prologue>, dist.plan = #dist.plan<operands = [#vector_dp], results = [#vector_dp]>} : tensor<4xf32>
  // CHECK: %[[F:.*]] = dist.reshard %[[W]] to #s_x purpose parameter :
  // CHECK: dist.reshard %[[P]] to #s_x {dist.step = #prologue}
  // CHECK: nn.add %[[F]]
  %f = nn.add %w, %p {dist.plan = #dist.plan<operands = [#vector, #vector], results = [#vector]>} : tensor<4xf32>
  // CHECK-NOT: dist.reshard
  // CHECK: %[[B:.*]] = nn.neg %[[F]] {{.*}}dist.step = #backward_weight
  %b = nn.neg %w {dist.step = #dist.step<backward_weight>, dist.plan = #dist.plan<operands = [#vector], results = [#vector]>} : tensor<4xf32>
  // CHECK: dist.reshard %[[B]] to #s_dp purpose gradient {dist.step = #backward_weight}
  %c = nn.neg %b {dist.step = #dist.step<backward_weight>, dist.plan = #dist.plan<operands = [#vector_dp], results = [#vector_dp]>} : tensor<4xf32>
  // CHECK: %[[G:.*]] = dist.accumulate
  %g = dist.accumulate %c {dist.step = #dist.step<backward_weight>,
     dist.plan = #dist.plan<operands = [#vector_dp], results = [#vector_dp]>} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: dist.reshard %[[W]] to #s_x purpose parameter {dist.step = #update}
  // CHECK: dist.reshard %[[G]] to #s_x purpose gradient {dist.step = #update}
  %u = nn.sub %w, %g {dist.step = #dist.step<update>, dist.plan = #dist.plan<operands = [#vector, #vector], results = [#vector]>} : tensor<4xf32>
  return
}

// -----

// Each chunk of a stage reshards for its micro-batches by itself; what is brought once per step is shared by all
// chunks of the stage.
#vector = #dist.sharding<{}>
#vector_tp = #dist.sharding<{"tp"}>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2, "tp"=2] time ["mb"=2]
// CHECK-LABEL: @chunks
func.func @chunks(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // CHECK: %[[W:.*]] = nn.weight
  %w = nn.weight "w" file 0 at 0 {dist.plan = #dist.plan<results = [#vector_tp]>} : tensor<4xf32>
  // CHECK: %[[A:.*]] = dist.reshard %{{.*}} to #s_tp {dist.plan = #p0}
  // CHECK: nn.exp %[[A]]
  %0 = nn.exp %x {dist.plan = #dist.plan<operands = [#vector_tp], results = [#vector_tp], stage = 0>} : tensor<4xf32>
  // CHECK: %[[B:.*]] = dist.reshard %{{.*}} to #s_tp {dist.plan = #p0c1}
  // CHECK: nn.neg %[[B]]
  %1 = nn.neg %x {dist.plan = #dist.plan<operands = [#vector_tp], results = [#vector_tp], stage = 0, chunk = 1>} : tensor<4xf32>
  // CHECK: nn.tanh %[[B]]
  %2 = nn.tanh %x {dist.plan = #dist.plan<operands = [#vector_tp], results = [#vector_tp], stage = 0, chunk = 1>,
                   dist.step = #dist.step<backward_input>} : tensor<4xf32>
  // CHECK: %[[G:.*]] = dist.reshard %[[W]] to #s_x purpose parameter {dist.plan = #p0, dist.step = #prologue}
  // CHECK: nn.add %{{.*}}, %[[G]]
  %3 = nn.add %x, %w {dist.plan = #dist.plan<operands = [#vector, #vector], results = [#vector], stage = 0, chunk = 1>} : tensor<4xf32>
  // CHECK-NOT: dist.reshard
  // CHECK: nn.sub %{{.*}}, %[[G]]
  %4 = nn.sub %x, %w {dist.plan = #dist.plan<operands = [#vector, #vector], results = [#vector], stage = 0>} : tensor<4xf32>
  return
}
}
