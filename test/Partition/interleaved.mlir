// RUN: kerf-opt %s --kerf-partition | FileCheck %s
// REQUIRES: kerf-opt

// Two stages of two chunks: stage 0 has layers 0 and 2, stage 1 layers 1 and 3. What goes from chunk 0 of stage 1
// to chunk 1 of stage 0 is sent as to any stage, and so is the gradient that comes back. Each chunk has functions of
// its own; the update is that of the stage.

// CHECK-DAG: dist.channel [[$D1:.*]] from 1 to 0 phase backward_input : tensor<2xf32>
// CHECK-DAG: dist.channel [[$H1:.*]] from 1 to 0 : tensor<2xf32>
// CHECK-DAG: dist.channel [[$D3:.*]] from 1 to 0 phase backward_input : tensor<2xf32>
// CHECK-DAG: dist.channel [[$H0:.*]] from 0 to 1 : tensor<2xf32>
// CHECK-DAG: dist.channel [[$H2:.*]] from 0 to 1 : tensor<2xf32>
// CHECK-DAG: dist.channel [[$D2:.*]] from 0 to 1 phase backward_input : tensor<2xf32>

// CHECK-LABEL: func.func @stage0_chunk0_forward(
// CHECK-SAME: dist.part = #dist.part<stage = 0, phase = forward>
// CHECK: nn.weight "w0"
// CHECK-LABEL: func.func @stage0_chunk1_forward(
// CHECK-SAME: dist.part = #dist.part<stage = 0, chunk = 1, phase = forward>
// CHECK: nn.weight "w2"
// CHECK-LABEL: func.func @stage0_chunk1_backward(
// CHECK-SAME: dist.part = #dist.part<stage = 0, chunk = 1, phase = backward_input>
// CHECK-LABEL: func.func @stage0_chunk0_backward(
// CHECK-SAME: dist.from = #dist.from<accumulator 0>
// CHECK-LABEL: func.func @stage0_update0(
// CHECK-SAME: dist.part = #dist.part<stage = 0, phase = update>
// CHECK: nn.weight "w0"
// CHECK: dist.assign
// CHECK: nn.weight "w2"
// CHECK: dist.assign
// CHECK-LABEL: func.func @stage1_chunk0_forward(
// CHECK-LABEL: func.func @stage1_chunk1_forward(
// CHECK-LABEL: func.func @stage1_chunk1_backward(
// CHECK-LABEL: func.func @stage1_chunk0_backward(
// CHECK-LABEL: func.func @stage1_update0(

// CHECK-LABEL: dist.schedule 0 {
// CHECK: dist.run @stage0_chunk0_forward({{.*}}) micro_batch 0
// CHECK: dist.send {{.*}} micro_batch 0
// CHECK: dist.run @stage0_chunk0_forward({{.*}}) micro_batch 1
// CHECK: dist.recv {{.*}} micro_batch 0
// CHECK: dist.run @stage0_chunk1_forward({{.*}}) micro_batch 0
// CHECK: dist.run @stage0_chunk1_forward({{.*}}) micro_batch 1
// CHECK: dist.run @stage0_chunk1_backward({{.*}}) micro_batch 0
// CHECK: dist.run @stage0_chunk1_backward({{.*}}) micro_batch 1
// CHECK: dist.run @stage0_chunk0_backward({{.*}}) micro_batch 0
// CHECK: dist.run @stage0_chunk0_backward({{.*}}) micro_batch 1
// CHECK: dist.run @stage0_update0(
// CHECK-LABEL: dist.schedule 1 {
// CHECK: dist.run @stage1_chunk0_forward({{.*}}) micro_batch 0
// CHECK: dist.run @stage1_chunk0_forward({{.*}}) micro_batch 1
// CHECK: dist.run @stage1_chunk1_forward({{.*}}) micro_batch 0
// CHECK: dist.run @stage1_chunk1_backward({{.*}}) micro_batch 0
// CHECK: dist.run @stage1_chunk1_forward({{.*}}) micro_batch 1
// CHECK: dist.run @stage1_chunk1_backward({{.*}}) micro_batch 1
// CHECK: dist.run @stage1_chunk0_backward({{.*}}) micro_batch 0
// CHECK: dist.run @stage1_chunk0_backward({{.*}}) micro_batch 1
// CHECK: dist.run @stage1_update0(
#cut = #dist.sharding<{"mb"}>
#whole = #dist.sharding<>
#sum = #dist.sharding<partial sum {"mb"}>
#scale0 = #dist.plan<operands = [#cut, #whole], results = [#cut], stage = 0>
#product0 = #dist.plan<operands = [#cut, #cut], results = [#cut], stage = 0>
#reduce0 = #dist.plan<operands = [#cut], results = [#sum], stage = 0>
#accumulate0 = #dist.plan<operands = [#sum], results = [#whole], stage = 0>
#update0 = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 0>
#assign0 = #dist.plan<operands = [#whole, #whole], stage = 0>
#scale1 = #dist.plan<operands = [#cut, #whole], results = [#cut], stage = 1>
#product1 = #dist.plan<operands = [#cut, #cut], results = [#cut], stage = 1>
#reduce1 = #dist.plan<operands = [#cut], results = [#sum], stage = 1>
#accumulate1 = #dist.plan<operands = [#sum], results = [#whole], stage = 1>
#update1 = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 1>
#assign1 = #dist.plan<operands = [#whole, #whole], stage = 1>
#scale2 = #dist.plan<operands = [#cut, #whole], results = [#cut], stage = 0, chunk = 1>
#product2 = #dist.plan<operands = [#cut, #cut], results = [#cut], stage = 0, chunk = 1>
#reduce2 = #dist.plan<operands = [#cut], results = [#sum], stage = 0, chunk = 1>
#accumulate2 = #dist.plan<operands = [#sum], results = [#whole], stage = 0, chunk = 1>
#update2 = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 0, chunk = 1>
#assign2 = #dist.plan<operands = [#whole, #whole], stage = 0, chunk = 1>
#scale3 = #dist.plan<operands = [#cut, #whole], results = [#cut], stage = 1, chunk = 1>
#product3 = #dist.plan<operands = [#cut, #cut], results = [#cut], stage = 1, chunk = 1>
#reduce3 = #dist.plan<operands = [#cut], results = [#sum], stage = 1, chunk = 1>
#accumulate3 = #dist.plan<operands = [#sum], results = [#whole], stage = 1, chunk = 1>
#update3 = #dist.plan<operands = [#whole, #whole], results = [#whole], stage = 1, chunk = 1>
#assign3 = #dist.plan<operands = [#whole, #whole], stage = 1, chunk = 1>
#input = #dist.step<backward_input>
#weight = #dist.step<backward_weight>
#update = #dist.step<update>
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=2]
func.func @main(%x: tensor<4xf32> {dist.sharding = #cut}) -> (tensor<f32> {dist.sharding = #whole}) {
  %w0 = nn.weight "w0" file 0 at 0 {variable, dist.plan = #dist.plan<results = [#whole]>} : tensor<f32>
  %w1 = nn.weight "w1" file 0 at 4 {variable, dist.plan = #dist.plan<results = [#whole]>} : tensor<f32>
  %w2 = nn.weight "w2" file 0 at 8 {variable, dist.plan = #dist.plan<results = [#whole]>} : tensor<f32>
  %w3 = nn.weight "w3" file 0 at 12 {variable, dist.plan = #dist.plan<results = [#whole]>} : tensor<f32>
  %h0 = nn.mul %x, %w0 {dist.plan = #scale0} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h1 = nn.mul %h0, %w1 {dist.plan = #scale1} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h2 = nn.mul %h1, %w2 {dist.plan = #scale2} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h3 = nn.mul %h2, %w3 {dist.plan = #scale3} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = nn.reduce sum %h3 dims [0] {dist.plan = #reduce3} : (tensor<4xf32>) -> tensor<f32>
  %p3 = nn.mul %h2, %h3 {dist.plan = #product3, dist.step = #weight} : tensor<4xf32>
  %dw3 = nn.reduce sum %p3 dims [0] {dist.plan = #reduce3, dist.step = #weight} : (tensor<4xf32>) -> tensor<f32>
  %g3 = dist.accumulate %dw3 {dist.plan = #accumulate3, dist.step = #weight} : (tensor<f32>) -> tensor<f32>
  %d3 = nn.mul %h3, %w3 {dist.plan = #scale3, dist.step = #input} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p2 = nn.mul %h1, %d3 {dist.plan = #product2, dist.step = #weight} : tensor<4xf32>
  %dw2 = nn.reduce sum %p2 dims [0] {dist.plan = #reduce2, dist.step = #weight} : (tensor<4xf32>) -> tensor<f32>
  %g2 = dist.accumulate %dw2 {dist.plan = #accumulate2, dist.step = #weight} : (tensor<f32>) -> tensor<f32>
  %d2 = nn.mul %d3, %w2 {dist.plan = #scale2, dist.step = #input} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p1 = nn.mul %h0, %d2 {dist.plan = #product1, dist.step = #weight} : tensor<4xf32>
  %dw1 = nn.reduce sum %p1 dims [0] {dist.plan = #reduce1, dist.step = #weight} : (tensor<4xf32>) -> tensor<f32>
  %g1 = dist.accumulate %dw1 {dist.plan = #accumulate1, dist.step = #weight} : (tensor<f32>) -> tensor<f32>
  %d1 = nn.mul %d2, %w1 {dist.plan = #scale1, dist.step = #input} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p0 = nn.mul %x, %d1 {dist.plan = #product0, dist.step = #weight} : tensor<4xf32>
  %dw0 = nn.reduce sum %p0 dims [0] {dist.plan = #reduce0, dist.step = #weight} : (tensor<4xf32>) -> tensor<f32>
  %g0 = dist.accumulate %dw0 {dist.plan = #accumulate0, dist.step = #weight} : (tensor<f32>) -> tensor<f32>
  %v0 = nn.sub %w0, %g0 {dist.plan = #update0, dist.step = #update} : tensor<f32>
  dist.assign %w0, %v0 {dist.plan = #assign0, dist.step = #update} : tensor<f32>
  %v1 = nn.sub %w1, %g1 {dist.plan = #update1, dist.step = #update} : tensor<f32>
  dist.assign %w1, %v1 {dist.plan = #assign1, dist.step = #update} : tensor<f32>
  %v2 = nn.sub %w2, %g2 {dist.plan = #update2, dist.step = #update} : tensor<f32>
  dist.assign %w2, %v2 {dist.plan = #assign2, dist.step = #update} : tensor<f32>
  %v3 = nn.sub %w3, %g3 {dist.plan = #update3, dist.step = #update} : tensor<f32>
  dist.assign %w3, %v3 {dist.plan = #assign3, dist.step = #update} : tensor<f32>
  %l = dist.accumulate %s {dist.plan = #accumulate3} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
}
