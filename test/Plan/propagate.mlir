// RUN: kerf-opt %s --split-input-file --kerf-propagate --verify-diagnostics | FileCheck %s
// RUN: kerf-opt %s --split-input-file --kerf-propagate --kerf-partition | FileCheck %s --check-prefix=LOCAL
// REQUIRES: kerf-opt

// One annotation cuts a block by columns and then by rows, which leaves parts of a sum; it is added where the function
// returns it.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %{{.*}}: tensor<4x6xf32> {dist.sharding = #s_x2}
// CHECK-SAME: %{{.*}}: tensor<6x8xf32> {dist.sharding = #s_x_tp}
// CHECK-SAME: %{{.*}}: tensor<8x6xf32> {dist.sharding = #s_tp_x}
// CHECK-SAME: -> (tensor<4x6xf32> {dist.sharding = #s_x2})
// CHECK: nn.matmul {{.*}}{dist.plan = #p_x2--x_tp_to_x_tp}
// CHECK: nn.gelu {{.*}}{dist.plan = #p_x_tp_to_x_tp}
// CHECK: nn.matmul {{.*}}{dist.plan = #p_x_tp--tp_x_to_x2_sum-tp}
// LOCAL-LABEL: func.func @stage0_forward(
// LOCAL: dist.all_reduce
dist.mesh @mesh ["tp"=2]
func.func @forward(%x: tensor<4x6xf32>, %w: tensor<6x8xf32> {dist.sharding = #dist.sharding<{}, {"tp"}>}, %v: tensor<8x6xf32>)
    -> tensor<4x6xf32> {
  %0 = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %1 = nn.gelu %0 : tensor<4x8xf32>
  %2 = nn.matmul %1, %v : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// -----

// From the result back to the arguments; a reshard in the function is where another sharding begins.
// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %{{.*}}: tensor<4x6xf32> {dist.sharding = #s_x_a}
// CHECK: nn.tanh {{.*}}{dist.plan = #p_x_a_to_x_a}
// CHECK: dist.reshard
// CHECK: nn.neg {{.*}}{dist.plan = #p_a_x_to_a_x}
// LOCAL-LABEL: func.func @stage0_forward(
// LOCAL: dist.all_to_all
#rows = #dist.sharding<{"a"}, {}>
dist.mesh @mesh ["a"=2]
func.func @backward(%x: tensor<4x6xf32>) -> (tensor<4x6xf32> {dist.sharding = #dist.sharding<{"a"}, {}>}) {
  %0 = nn.tanh %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {"a"}>], results = [#dist.sharding<{}, {"a"}>]>} : tensor<4x6xf32>
  %1 = dist.reshard %0 to #rows : tensor<4x6xf32>
  %2 = nn.neg %1 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// -----

// Two annotations that disagree: the first operand's is taken, a remark says so with both annotations, and the other
// operand is brought to it.
// LOCAL-LABEL: func.func @stage0_forward(
// LOCAL: dist.all_gather
dist.mesh @mesh ["a"=2, "b"=2]
func.func @conflict(
    // expected-note @below {{argument 0 asks for {a}, which is taken}}
    %x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"a"}, {}>},
    // expected-note @below {{argument 1 asks for {b}}}
    %y: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"b"}, {}>})
    -> tensor<4x6xf32> {
  // expected-remark @below {{operands and results want to be cut differently: some are brought to another sharding}}
  %0 = nn.add %x, %y : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// A reshape of 3 x 4 into 12 can only be cut between its rows of 4, of which there are 3: the axis goes no further.
// CHECK-LABEL: func.func @rows(
// CHECK: nn.reshape {{.*}}{dist.plan = #p_x_to_x2}
dist.mesh @mesh ["a"=2]
func.func @rows(%x: tensor<12xf32> {dist.sharding = #dist.sharding<{"a"}>}) -> tensor<3x4xf32> {
  %0 = nn.reshape %x : (tensor<12xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// A smaller priority comes first: the second operand's annotation, though it is further away.
// CHECK-LABEL: func.func @priority(
// CHECK: nn.tanh {{.*}}{dist.plan = #p_b_x_to_b_x}
// CHECK: nn.add {{.*}}{dist.plan = #p_b_x--b_x_to_b_x}
dist.mesh @mesh ["a"=2, "b"=2]
func.func @priority(
    // expected-note @below {{argument 0 asks for {a}}}
    %x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"a"}, {}>, dist.priority = 1},
    // expected-note @below {{argument 1 asks for {b}, which is taken}}
    %y: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"b"}, {}>}) -> tensor<4x6xf32> {
  %0 = nn.tanh %y : tensor<4x6xf32>
  // expected-remark @below {{operands and results want to be cut differently: some are brought to another sharding}}
  %1 = nn.add %x, %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// -----

// What a smaller priority leaves open is for the next: rows by the argument, columns by the result.
// CHECK-LABEL: func.func @next(
// CHECK: nn.tanh {{.*}}{dist.plan = #p_a_b_to_a_b}
dist.mesh @mesh ["a"=2, "b"=2]
func.func @next(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>})
    -> (tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {"b"}>, dist.priority = 3}) {
  %0 = nn.tanh %x : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// One axis that two dimensions want is given to the one of the smaller priority: columns, though rows come first.
// CHECK-LABEL: func.func @dimensions(
// CHECK: nn.add {{.*}}{dist.plan = #p_x_a--x_a_to_x_a}
dist.mesh @mesh ["a"=2]
func.func @dimensions(
    // expected-note @below {{argument 0 asks for {a}}}
    %x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"a"}, {}>, dist.priority = 2},
    // expected-note @below {{argument 1 asks for {a}, which is taken}}
    %y: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {"a"}>, dist.priority = 1}) -> tensor<4x6xf32> {
  // expected-remark @below {{operands and results want to be cut differently: some are brought to another sharding}}
  %0 = nn.add %x, %y : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// One sharding, a priority for each dimension: its rows spread before those of the other, its columns after them.
// CHECK-LABEL: func.func @each_dimension(
// CHECK: nn.add {{.*}}{dist.plan = #p_a_d--a_d_to_a_d}
dist.mesh @mesh ["a"=2, "b"=2, "c"=2, "d"=2]
func.func @each_dimension(
    // expected-note @below {{argument 0 asks for {a}, which is taken}}
    %x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>, dist.priority = array<i64: 0, 2>},
    // expected-note @below {{argument 1 asks for {c}}}
    %y: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"c"}, {"d"}>, dist.priority = 1}) -> tensor<4x6xf32> {
  // expected-remark @below {{operands and results want to be cut differently: some are brought to another sharding}}
  %0 = nn.add %x, %y : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// An op without a rule: the remark says what the devices send to have its operand whole, 3 times 32 bytes each.
// CHECK-LABEL: func.func @no_rule(
// LOCAL: dist.all_gather {{.*}} ["tp"] dim 0
dist.mesh @mesh ["tp"=4]
func.func @no_rule(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<{"tp"}, {}>}, %i: tensor<3x1xi32>) -> tensor<3x4xf32> {
  // expected-remark @below {{'tensor.gather' has no sharding rule: every device computes all of it, and bringing them its operands sends 384 bytes in a step}}
  %0 = tensor.gather %x[%i] gather_dims([0]) : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
