// RUN: kerf-opt %s --split-input-file --verify-diagnostics
// REQUIRES: kerf-opt

// mesh C1
// expected-error @below {{mesh axis "x" is named twice}}
dist.mesh @mesh ["x"=2, "x"=2]

// -----

// mesh C1
// expected-error @below {{mesh axis has no name}}
dist.mesh @mesh [""=2]

// -----

// mesh C2
// expected-error @below {{mesh axis "x" has size 0, expected at least 1}}
dist.mesh @mesh ["x"=0]

// -----

// mesh C3
// expected-note @below {{the other one}}
dist.mesh @a ["x"=2]
// expected-error @below {{is the second mesh of the module, expected one}}
dist.mesh @b ["x"=2]

// -----

// sharding C1: an axis that is not there
dist.mesh @mesh ["x"=2]
// expected-error @below {{argument 0: axis "y" is not in the mesh}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"y"}>}) {
  return
}

// -----

// sharding C1: a sub-axis that does not divide
dist.mesh @mesh ["x"=8]
// expected-error @below {{argument 0: sub-axis x:(1)3 does not divide axis "x" of size 8}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"x":(1)3}>}) {
  return
}

// -----

// sharding C2: twice in two dimensions
dist.mesh @mesh ["x"=2]
// expected-error @below {{result 0: axis x is used twice}}
func.func private @f() -> (tensor<4x4xf32> {dist.sharding = #dist.sharding<{"x"}, {"x"}>})

// -----

// sharding C2: overlapping sub-axes, one of them partial
dist.mesh @mesh ["x"=8]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{result 0: axis x:(2)4 is used twice}}
  %0 = nn.neg %x {dist.plan = #dist.plan<results = [#dist.sharding<{"x":(1)4}, partial sum {"x":(2)4}>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// sharding C3
dist.mesh @mesh ["x"=2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{operand 0: sharding has 2 dimensions, expected 1 for 'tensor<4xf32>'}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"x"}, {}>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["x"=2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{dist.plan has 2 shardings of operands, expected 1}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}>, #dist.sharding<{}>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{argument 0 has a sharding but the module has no dist.mesh}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"x"}>}) {
  return
}

// -----

dist.mesh @mesh ["x"=2]
// expected-error @below {{argument 0 has 3 : i64, expected a #dist.sharding}}
func.func @f(%x: tensor<4xf32> {dist.sharding = 3}) {
  return
}

// -----

// expected-error @below {{unknown reduction 'mean', expected sum, max, min or prod}}
func.func private @f(tensor<4xf32> {dist.sharding = #dist.sharding<{}, partial mean {"x"}>})

// -----

// sharding C4: blocks that do not hold the dimension
dist.mesh @mesh ["x"=4]
// expected-error @below {{argument 0: dimension 0 of 24 in 4 parts has blocks of 5, expected more than 6, which needs no mention, and less than 24}}
func.func @f(%x: tensor<24xf32> {dist.sharding = #dist.sharding<{"x"}:5>}) {
  return
}

// -----

// sharding C4: blocks of ceiling size are not named
dist.mesh @mesh ["x"=4]
func.func @f(%x: tensor<24xf32>) {
  // expected-error @below {{result 0: dimension 0 of 24 in 4 parts has blocks of 6, expected more than 6}}
  %0 = nn.neg %x {dist.plan = #dist.plan<results = [#dist.sharding<{"x"}:6>]>} : tensor<24xf32>
  return
}

// -----

// sharding C4: a block that holds the dimension
dist.mesh @mesh ["x"=4]
func.func @f(%x: tensor<24xf32>) {
  // expected-error @below {{result: dimension 0 of 24 in 4 parts has blocks of 24}}
  %0 = dist.reshard %x to <{"x"}:24> : tensor<24xf32>
  return
}

// -----

// sharding C4: blocks of what is not cut
dist.mesh @mesh ["x"=4]
// expected-error @below {{result 0: dimension 1 has blocks of 8 but is not cut}}
func.func private @f() -> (tensor<4x24xf32> {dist.sharding = #dist.sharding<{"x"}, {}:8>})

// -----

// expected-error @below {{blocks of 0, expected at least 1}}
func.func private @f(tensor<24xf32> {dist.sharding = #dist.sharding<{"x"}:0>})

// -----

// A misspelled attribute is no decision.
func.func @unknown(%x: tensor<4xf32>) {
  // expected-error@+1 {{unknown attribute dist.stages on an op, expected one of dist.plan, dist.step, dist.local_reduction, dist.sharding, dist.global_type}}
  %0 = nn.relu %x {dist.stages = 0 : i64} : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{unknown attribute dist.inputs on an argument, expected one of dist.sharding, dist.global_type, dist.from}}
func.func @unknown_argument(%x: tensor<4xf32> {dist.inputs = 0 : i64}) {
  return
}

// -----

func.func @misplaced(%x: tensor<4xf32>) {
  // expected-error@+1 {{dist.from has no meaning on an op}}
  %0 = nn.relu %x {dist.from = #dist.from<recv 0>} : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{dist.to must be a #dist.to}}
func.func @kind(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.to = [0]}) {
  return %x : tensor<4xf32>
}

// -----

// plan C1
func.func @plan_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{a plan that decides nothing}}
  %0 = nn.relu %x {dist.plan = #dist.plan<>} : tensor<4xf32>
  return
}

// -----

// plan C2
func.func @plan_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{stage is -1, expected at least 0}}
  %0 = nn.relu %x {dist.plan = #dist.plan<stage = -1>} : tensor<4xf32>
  return
}

// -----

// plan C4
func.func @plan_c4(%x: tensor<4xf32>) {
  // expected-error@+1 {{chunk is -1, expected at least 0}}
  %0 = nn.relu %x {dist.plan = #dist.plan<stage = 1, chunk = -1>} : tensor<4xf32>
  return
}

// -----

// plan C4
func.func @plan_c4_no_stage(%x: tensor<4xf32>) {
  // expected-error@+1 {{chunk 1 of no stage}}
  %0 = nn.relu %x {dist.plan = #dist.plan<chunk = 1>} : tensor<4xf32>
  return
}

// -----

// part C1
// expected-error@+1 {{stage is -1, expected at least 0}}
func.func private @part_c1() attributes {dist.part = #dist.part<stage = -1, phase = forward>}

// -----

// part C2
// expected-error@+1 {{chunk is -1, expected at least 0}}
func.func private @part_c2() attributes {dist.part = #dist.part<stage = 1, chunk = -1, phase = forward>}

// -----

// from C1
// expected-error@+1 {{recv is -1, expected at least 0}}
func.func private @from_c1(tensor<4xf32> {dist.from = #dist.from<recv -1>})

// -----

// expected-error@+1 {{unknown origin 'sent'}}
func.func private @from_where(tensor<4xf32> {dist.from = #dist.from<sent 0>})

// -----

// to C1
// expected-error@+1 {{a result that goes nowhere}}
func.func private @to_c1() -> (tensor<4xf32> {dist.to = #dist.to<>})

// -----

// expected-error@+1 {{dist.schedule_kind must be a #dist<schedule_kind ...>}}
module attributes {dist.schedule_kind = "gpipe"} {
}

// -----

// expected-error@+1 {{dist.chunks must be a number of 64 bits, at least 2}}
module attributes {dist.chunks = 1} {
}

// -----

dist.mesh @mesh ["x"=2]
// expected-error @below {{dist.priority must be a number of 64 bits, at least 0, or an array<i64: ...> of such}}
func.func @priority(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"x"}>, dist.priority = -1}) {
  return
}

// -----

// expected-error @below {{argument 0 has a dist.priority without a sharding}}
func.func @priority(%x: tensor<4xf32> {dist.priority = 1}) {
  return
}

// -----

// expected-error @below {{result 0 has a dist.priority without a sharding}}
func.func @priority(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.priority = 1}) {
  return %x : tensor<4xf32>
}

// -----

func.func @priority(%x: tensor<4xf32>) {
  // expected-error @below {{dist.priority without a sharding}}
  %0 = nn.neg %x {dist.priority = 1} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
// expected-error @below {{argument 0: dist.priority has 1 numbers, expected 2 for 'tensor<4x4xf32>'}}
func.func @priority(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<{"x"}, {}>, dist.priority = array<i64: 1>}) {
  return
}

// -----

dist.mesh @mesh ["x"=2]
// expected-error @below {{dist.priority must be a number of 64 bits, at least 0, or an array<i64: ...> of such}}
func.func @priority(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<{"x"}, {}>, dist.priority = array<i64: 1, -1>}) {
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @priority(%x: tensor<4xf32>) {
  // expected-error @below {{dist.priority has a number for each dimension, expected one number for the shardings of a plan}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"x"}>], results = [#dist.sharding<{"x"}>]>, dist.priority = array<i64: 1>} : tensor<4xf32>
  return
}
