// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2 zero=none" | FileCheck %s --check-prefix=WHOLE
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2 zero=1 micro-batches=2" | FileCheck %s --check-prefix=STATES
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2 zero=2 micro-batches=2" | FileCheck %s --check-prefix=GRADIENTS
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2 zero=3 micro-batches=2" | FileCheck %s --check-prefix=PARAMETERS
// RUN: not kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 zero=1" 2>&1 | FileCheck %s --check-prefix=TENSOR
// RUN: not kerf-opt %s --kerf-plan="devices=1 zero=3" 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not kerf-opt %s --kerf-plan="devices=2 zero=4" 2>&1 | FileCheck %s --check-prefix=WRONG
// REQUIRES: kerf-opt
// TENSOR: option zero: there is no axis of data parallelism over which optimizer states could lie in parts, expected option mesh with dp of at least 2
// ALONE: option zero: {{.*}} parameters could lie in parts, {{.*}}, which takes several devices
// WRONG: zero: '4', expected none, 1, 2, 3 or auto


// Data parallelism alone: every device has all of it.
// WHOLE-NOT: _dp_x, variable
// WHOLE: nn.weight "w" {{.*}}#p_to_x2, variable
// WHOLE: nn.state "momentum/w" {{.*}}#p_to_x2,
// WHOLE-NOT: dist.reshard
// WHOLE: nn.sgd_update {{.*}}#p_x2--x2--x2--s_to_x2--x2

// ZeRO 1: the states are in parts, and so is u, of which the step reads nothing but a copy in bfloat16: that is made and
// gathered in the prologue, once for both passes. Sums over micro-batches stay whole, and parts over devices. The new w is
// gathered where it is assigned.
// STATES: %[[W:.*]] = nn.weight "w" {{.*}}#p_to_x2, variable
// STATES: nn.state "momentum/w" {{.*}}#p_to_dp_x,
// STATES: %[[U:.*]] = nn.weight "u" {{.*}}#p_to_dp_x, variable
// STATES: nn.state "momentum/u" {{.*}}#p_to_dp_x,
// STATES: %[[PART:.*]] = nn.cast %[[U]] {dist.plan = #p_dp_x_to_dp_x, dist.step = #prologue_1}
// STATES-NEXT: %[[ONCE:.*]] = dist.reshard %[[PART]] to #s_x2 purpose parameter {{.*}}#prologue_1
// STATES: nn.matmul {{.*}}, %[[ONCE]] {{.*}}#forward_1
// STATES: dist.accumulate {{.*}}#p_x2_sum-dp-mb_to_x2_sum-dp,
// STATES: nn.matmul {{.*}}, %[[ONCE]] {{.*}}#backward_input_1
// STATES: dist.accumulate {{.*}}#p_x2_sum-dp-mb_to_x2_sum-dp,
// STATES-NOT: dist.reshard
// STATES: nn.sgd_update %[[W]], {{.*}}#p_dp_x--dp_x--dp_x--s_to_dp_x--dp_x
// STATES: nn.sgd_update %[[U]], {{.*}}#p_dp_x--dp_x--dp_x--s_to_dp_x--dp_x
// STATES: dist.assign %[[W]], {{.*}}#p_x2--x2
// STATES: dist.assign %[[U]], {{.*}}#p_dp_x--dp_x

// ZeRO 2: the sums over micro-batches are in parts as well; a gradient in bfloat16 is reduced as that, before its cast.
// GRADIENTS: nn.weight "w" {{.*}}#p_to_x2, variable
// GRADIENTS: nn.matmul {{.*}}_to_x2_sum-dp-mb, dist.step = #backward_weight_1, {{.*}} -> tensor<6x8xbf16>
// GRADIENTS-NEXT: nn.cast {{.*}}#p_dp_x_sum-mb_to_dp_x_sum-mb
// GRADIENTS-NEXT: dist.accumulate {{.*}}#p_dp_x_sum-mb_to_dp_x,
// GRADIENTS: dist.accumulate {{.*}}#p_dp_x_sum-mb_to_dp_x,

// ZeRO 3: w is in parts, too. Each pass of each micro-batch gathers what it reads right before: w is read by the forward
// pass alone, u by both, so its copy is gathered twice.
// PARAMETERS: %[[W:.*]] = nn.weight "w" {{.*}}#p_to_dp_x, variable
// PARAMETERS: %[[U:.*]] = nn.weight "u" {{.*}}#p_to_dp_x, variable
// PARAMETERS: %[[FORW:.*]] = dist.reshard %[[W]] to #s_x2 purpose parameter {{.*}}#forward_0
// PARAMETERS-NEXT: nn.matmul {{.*}}, %[[FORW]]
// PARAMETERS: %[[PART:.*]] = nn.cast %[[U]] {dist.plan = #p_dp_x_to_dp_x, dist.step = #forward_1}
// PARAMETERS-NEXT: %[[FIRST:.*]] = dist.reshard %[[PART]] to #s_x2 purpose parameter {{.*}}#forward_1
// PARAMETERS-NEXT: nn.matmul {{.*}}, %[[FIRST]] {{.*}}#forward_1
// PARAMETERS: %[[SECOND:.*]] = dist.reshard %[[PART]] to #s_x2 purpose parameter {{.*}}#backward_input_1_recomputed
// PARAMETERS-NEXT: nn.matmul {{.*}}, %[[SECOND]] {{.*}}#backward_input_1
// PARAMETERS-NOT: dist.reshard
// PARAMETERS: dist.assign %[[W]], {{.*}}#p_dp_x--dp_x

func.func @main(%x: tensor<8x4xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64},
                %rate: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<4x6xf32>
  %mw = nn.state "momentum/w" {init = 0.0 : f32} : tensor<4x6xf32>
  %u = nn.weight "u" file 0 at 96 {variable} : tensor<6x8xf32>
  %mu = nn.state "momentum/u" {init = 0.0 : f32} : tensor<6x8xf32>
  // forward: w is read as it is, u in bfloat16
  %h = nn.matmul %x, %w {dist.step = #dist.step<forward, colocation 0>} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %hn = nn.cast %h {dist.step = #dist.step<forward, colocation 1>} : (tensor<8x6xf32>) -> tensor<8x6xbf16>
  %un = nn.cast %u {dist.step = #dist.step<forward, colocation 1>} : (tensor<6x8xf32>) -> tensor<6x8xbf16>
  %yn = nn.matmul %hn, %un {dist.step = #dist.step<forward, colocation 1>} : (tensor<8x6xbf16>, tensor<6x8xbf16>) -> tensor<8x8xbf16>
  %y = nn.cast %yn {dist.step = #dist.step<forward, colocation 1>} : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %y2 = nn.mul %y, %y {dist.step = #dist.step<forward, colocation 2>} : tensor<8x8xf32>
  %l = nn.reduce sum %y2 dims [0, 1] {dist.step = #dist.step<forward, colocation 2, statistics, loss>} : (tensor<8x8xf32>) -> tensor<f32>
  // backward
  %dun = nn.matmul %hn, %yn {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 1>} : (tensor<8x6xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
  %du = nn.cast %dun {dist.step = #dist.step<backward_weight, colocation 1>} : (tensor<6x8xbf16>) -> tensor<6x8xf32>
  %gu = dist.accumulate %du {dist.step = #dist.step<backward_weight, colocation 1, gradient>} : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %dhn = nn.matmul %yn, %un {transpose_rhs, dist.step = #dist.step<backward_input, colocation 1>} : (tensor<8x8xbf16>, tensor<6x8xbf16>) -> tensor<8x6xbf16>
  %dh = nn.cast %dhn {dist.step = #dist.step<backward_input, colocation 1>} : (tensor<8x6xbf16>) -> tensor<8x6xf32>
  %dw = nn.matmul %x, %dh {transpose_lhs, dist.step = #dist.step<backward_weight, colocation 0>} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %gw = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %loss = dist.accumulate %l {dist.step = #dist.step<forward, colocation 2, statistics>} : (tensor<f32>) -> tensor<f32>
  // update
  %w1, %mw1 = nn.sgd_update %w, %gw, %mw, %rate momentum 0.9 weight_decay 0.0 {dist.step = #dist.step<update, colocation 0>} : tensor<4x6xf32>
  %u1, %mu1 = nn.sgd_update %u, %gu, %mu, %rate momentum 0.9 weight_decay 0.0 {dist.step = #dist.step<update, colocation 1>} : tensor<6x8xf32>
  dist.assign %w, %w1 {dist.step = #dist.step<update, colocation 0>} : tensor<4x6xf32>
  dist.assign %mw, %mw1 {dist.step = #dist.step<update, colocation 0>} : tensor<4x6xf32>
  dist.assign %u, %u1 {dist.step = #dist.step<update, colocation 1>} : tensor<6x8xf32>
  dist.assign %mu, %mu1 {dist.step = #dist.step<update, colocation 1>} : tensor<6x8xf32>
  return %loss : tensor<f32>
}
