// What two stages add to one sum over micro-batches crosses once per step.
// RUN: kerf-opt %s --split-input-file --kerf-sum-before-crossing | FileCheck %s
// REQUIRES: kerf-opt

// Each stage adds up its part; the whole sums are added where the sum was, in
// the update.
// CHECK: func.func @main(
// CHECK: %[[A:.*]] = nn.reduce sum %arg0
// CHECK: %[[B:.*]] = nn.reduce sum %arg1
// CHECK-NEXT: %[[GA:.*]] = dist.accumulate %[[A]] {dist.plan = #p0{{.*}}dist.step = #backward_weight_0_gradient}
// CHECK-NEXT: %[[GB:.*]] = dist.accumulate %[[B]] {dist.plan = #p1{{.*}}dist.step = #backward_weight_1_gradient}
// CHECK-NEXT: %[[G:.*]] = nn.add %[[GA]], %[[GB]] {dist.plan = #p0{{.*}}dist.step = #update_0_gradient}
// CHECK-NEXT: return %[[G]]
#cut = #dist.sharding<{"mb"}>
#part = #dist.sharding<partial sum {"mb"}>
#whole = #dist.sharding<>
#reduce0 = #dist.plan<operands = [#cut], results = [#part], stage = 0>
#reduce1 = #dist.plan<operands = [#cut], results = [#part], stage = 1>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}, %y: tensor<8xf32> {dist.sharding = #cut})
    -> (tensor<f32> {dist.sharding = #whole}) {
  %a = nn.reduce sum %x dims [0] {dist.plan = #reduce0, dist.step = #dist.step<backward_weight, colocation 0>}
     : (tensor<8xf32>) -> tensor<f32>
  %b = nn.reduce sum %y dims [0] {dist.plan = #reduce1, dist.step = #dist.step<backward_weight, colocation 1>}
     : (tensor<8xf32>) -> tensor<f32>
  %s = nn.add %a, %b {dist.plan = #dist.plan<operands = [#part, #part], results = [#part], stage = 0>,
                      dist.step = #dist.step<backward_weight, colocation 0>} : tensor<f32>
  %g = dist.accumulate %s {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 0>,
                           dist.step = #dist.step<backward_weight, colocation 0, gradient>}
     : (tensor<f32>) -> tensor<f32>
  return %g : tensor<f32>
}

// -----

// Three parts: a sum of sums of sums.
// CHECK: func.func @main(
// CHECK-NEXT: %[[A:.*]] = nn.reduce
// CHECK-NEXT: %[[B:.*]] = nn.reduce
// CHECK-NEXT: %[[C:.*]] = nn.reduce
// CHECK-NEXT: %[[GA:.*]] = dist.accumulate %[[A]] {dist.plan = #p0
// CHECK-NEXT: %[[GB:.*]] = dist.accumulate %[[B]] {dist.plan = #p1
// CHECK-NEXT: %[[AB:.*]] = nn.add %[[GA]], %[[GB]]
// CHECK-NEXT: %[[GC:.*]] = dist.accumulate %[[C]] {dist.plan = #p1
// CHECK-NEXT: %[[G:.*]] = nn.add %[[AB]], %[[GC]]
// CHECK-NEXT: return %[[G]]
#cut = #dist.sharding<{"mb"}>
#part = #dist.sharding<partial sum {"mb"}>
#whole = #dist.sharding<>
#reduce0 = #dist.plan<operands = [#cut], results = [#part], stage = 0>
#reduce1 = #dist.plan<operands = [#cut], results = [#part], stage = 1>
#add = #dist.plan<operands = [#part, #part], results = [#part], stage = 0>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}) -> (tensor<f32> {dist.sharding = #whole}) {
  %a = nn.reduce sum %x dims [0] {dist.plan = #reduce0} : (tensor<8xf32>) -> tensor<f32>
  %b = nn.reduce sum %x dims [0] {dist.plan = #reduce1} : (tensor<8xf32>) -> tensor<f32>
  %c = nn.reduce sum %x dims [0] {dist.plan = #reduce1} : (tensor<8xf32>) -> tensor<f32>
  %0 = nn.add %a, %b {dist.plan = #add} : tensor<f32>
  %1 = nn.add %0, %c {dist.plan = #add} : tensor<f32>
  %g = dist.accumulate %1 {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 0>}
     : (tensor<f32>) -> tensor<f32>
  return %g : tensor<f32>
}

// -----

// A gradient that is sent in 16 bits is cast where its part is whole, and cast
// back where the parts are added.
// CHECK: func.func @main(
// CHECK: %[[HERE:.*]] = dist.accumulate %{{.*}} {dist.plan = #p0
// CHECK: %[[THERE:.*]] = dist.accumulate %{{.*}} {dist.plan = #p1
// CHECK-NEXT: %[[SENT:.*]] = nn.cast %[[THERE]] {dist.plan = #p1{{.*}}kerf.transfer_cast} : (tensor<f32>) -> tensor<bf16>
// CHECK-NEXT: %[[BACK:.*]] = nn.cast %[[SENT]] {dist.plan = #p0{{.*}} : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT: %[[G:.*]] = nn.add %[[HERE]], %[[BACK]]
// CHECK-NEXT: nn.cast %[[G]] {{.*}}kerf.transfer_cast}
#cut = #dist.sharding<{"mb"}>
#part = #dist.sharding<partial sum {"mb"}>
#whole = #dist.sharding<>
#reduce0 = #dist.plan<operands = [#cut], results = [#part], stage = 0>
#reduce1 = #dist.plan<operands = [#cut], results = [#part], stage = 1>
#cast = #dist.plan<operands = [#whole], results = [#whole], stage = 0>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}) -> (tensor<f32> {dist.sharding = #whole}) {
  %a = nn.reduce sum %x dims [0] {dist.plan = #reduce0} : (tensor<8xf32>) -> tensor<f32>
  %b = nn.reduce sum %x dims [0] {dist.plan = #reduce1} : (tensor<8xf32>) -> tensor<f32>
  %s = nn.add %a, %b {dist.plan = #dist.plan<operands = [#part, #part], results = [#part], stage = 0>} : tensor<f32>
  %g = dist.accumulate %s {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 0>}
     : (tensor<f32>) -> tensor<f32>
  %n = nn.cast %g {kerf.transfer_cast, dist.plan = #cast, dist.step = #dist.step<update>} : (tensor<f32>) -> tensor<bf16>
  %w = nn.cast %n {dist.plan = #cast, dist.step = #dist.step<update>} : (tensor<bf16>) -> tensor<f32>
  return %w : tensor<f32>
}

// -----

// Both parts are of one stage: nothing crosses, the sum stays.
// CHECK: func.func @main(
// CHECK-NEXT: %[[A:.*]] = nn.reduce
// CHECK-NEXT: %[[B:.*]] = nn.reduce
// CHECK-NEXT: %[[S:.*]] = nn.add %[[A]], %[[B]]
// CHECK-NEXT: %[[G:.*]] = dist.accumulate %[[S]]
// CHECK-NEXT: return %[[G]]
#cut = #dist.sharding<{"mb"}>
#part = #dist.sharding<partial sum {"mb"}>
#whole = #dist.sharding<>
#reduce = #dist.plan<operands = [#cut], results = [#part], stage = 1>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<8xf32> {dist.sharding = #cut}) -> (tensor<f32> {dist.sharding = #whole}) {
  %a = nn.reduce sum %x dims [0] {dist.plan = #reduce} : (tensor<8xf32>) -> tensor<f32>
  %b = nn.reduce sum %x dims [0] {dist.plan = #reduce} : (tensor<8xf32>) -> tensor<f32>
  %s = nn.add %a, %b {dist.plan = #dist.plan<operands = [#part, #part], results = [#part], stage = 1>} : tensor<f32>
  %g = dist.accumulate %s {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 1>}
     : (tensor<f32>) -> tensor<f32>
  return %g : tensor<f32>
}

// -----

// Somebody reads the sum of each micro-batch: it stays.
// CHECK: func.func @main(
// CHECK-NEXT: %[[A:.*]] = nn.reduce
// CHECK-NEXT: %[[B:.*]] = nn.reduce
// CHECK-NEXT: %[[S:.*]] = nn.add %[[A]], %[[B]]
// CHECK-NEXT: %[[G:.*]] = dist.accumulate %[[S]]
// CHECK-NEXT: return %[[G]], %[[S]]
#cut = #dist.sharding<{"mb"}>
#part = #dist.sharding<partial sum {"mb"}>
#whole = #dist.sharding<>
#reduce0 = #dist.plan<operands = [#cut], results = [#part], stage = 0>
#reduce1 = #dist.plan<operands = [#cut], results = [#part], stage = 1>
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<8xf32> {dist.sharding = #cut})
    -> (tensor<f32> {dist.sharding = #whole}, tensor<f32> {dist.sharding = #part}) {
  %a = nn.reduce sum %x dims [0] {dist.plan = #reduce0} : (tensor<8xf32>) -> tensor<f32>
  %b = nn.reduce sum %x dims [0] {dist.plan = #reduce1} : (tensor<8xf32>) -> tensor<f32>
  %s = nn.add %a, %b {dist.plan = #dist.plan<operands = [#part, #part], results = [#part], stage = 0>} : tensor<f32>
  %g = dist.accumulate %s {dist.plan = #dist.plan<operands = [#part], results = [#whole], stage = 0>}
     : (tensor<f32>) -> tensor<f32>
  return %g, %s : tensor<f32>, tensor<f32>
}
