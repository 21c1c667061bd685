// RUN: kerf-opt %s --split-input-file --kerf-verify-plan --verify-diagnostics
// REQUIRES: kerf-opt

// A plan that is right says nothing.
dist.mesh @mesh ["tp"=2]
func.func @right(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {"tp"}>})
    -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  %0 = nn.reduce sum %x dims [1] {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {"tp"}>], results = [#dist.sharding<{}, partial sum {"tp"}>]>}
     : (tensor<4x6xf32>) -> tensor<4xf32>
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}, partial sum {"tp"}>], results = [#dist.sharding<{}, partial sum {"tp"}>]>}
     : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// expected-error @below {{plan: the module has no dist.mesh}}
func.func @no_mesh() {
  return
}

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{plan: argument 0 has no dist.sharding}}
func.func @argument(%x: tensor<4xf32>) {
  return
}

// -----

dist.mesh @mesh ["tp"=2]
// expected-error @below {{plan: result 0 is partial}}
func.func @partial_result(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>})
    -> (tensor<4xf32> {dist.sharding = #dist.sharding<{}, partial sum {"tp"}>}) {
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @op_without(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-error @below {{has no plan for its 1 operands}}
  %0 = nn.neg %x : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2, "pp"=2]
// expected-error @below {{plan: the stage axis "pp" must be the outermost of the mesh}}
func.func @stage_axis() {
  return
}

// -----

dist.mesh @mesh ["pp"=2]
// expected-error @below {{plan: argument 0: dimension 0 is cut by the stage axis "pp"}}
func.func @cut_by_stage(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"pp"}>}) {
  return
}

// -----

dist.mesh @mesh ["tp"=2] time ["mb"=4]
// expected-error @below {{plan: argument 0: dimension 0 has size 12, expected a multiple of 8: micro-batches and the devices that share each of them}}
func.func @time_divides(%x: tensor<12xf32> {dist.sharding = #dist.sharding<{"mb", "tp"}>}) {
  return
}

// -----

// Softmax needs its rows whole.
dist.mesh @mesh ["tp"=2]
func.func @whole(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // expected-error @below {{plan: operand 0: dimension 1 must stay whole but is cut by {tp}}}
  %0 = nn.softmax %x dim 1 {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {"tp"}>], results = [#dist.sharding<{}, {"tp"}>]>}
     : tensor<4x6xf32>
  return
}

// -----

// A factor lies the same way on operands and results.
dist.mesh @mesh ["tp"=2]
func.func @same_axes(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // expected-error @below {{plan: result 0: dimension 0 is cut by {}, expected {tp} as elsewhere in this op}}
  %0 = nn.exp %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}, {}>], results = [#dist.sharding<{}, {}>]>}
     : tensor<4x6xf32>
  return
}

// -----

// A sum over a cut dimension is partial.
dist.mesh @mesh ["tp"=2]
func.func @must_be_partial(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // expected-error @below {{plan: result 0 is partial {}, expected sum {tp}}}
  %0 = nn.reduce sum %x dims [1] {dist.plan = #dist.plan<operands = [#dist.sharding<{}, {"tp"}>], results = [#dist.sharding<{}>]>}
     : (tensor<4x6xf32>) -> tensor<4xf32>
  return
}

// -----

// exp of a sum is not the sum of exps.
dist.mesh @mesh ["tp"=2]
func.func @not_linear(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-error @below {{plan: is not linear in the operands that are partial}}
  %0 = nn.exp %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, partial sum {"tp"}>], results = [#dist.sharding<{}, partial sum {"tp"}>]>}
     : tensor<4xf32>
  return
}

// -----

// A sum that is partial in one operand alone would add the other N times.
#vector = #dist.sharding<{}>
#vector_sum_tp = #dist.sharding<{}, partial sum {"tp"}>
dist.mesh @mesh ["tp"=2]
func.func @not_jointly_linear(%x: tensor<4xf32> {dist.sharding = #vector}) {
  // expected-error @below {{plan: is not linear in the operands that are partial}}
  %0 = nn.add %x, %x {dist.plan = #dist.plan<operands = [#vector_sum_tp, #vector], results = [#vector_sum_tp]>}
     : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2]
func.func @max_is_not_passed_on(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-error @below {{plan: operand 0 is partial max, expected it to be reduced first}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}, partial max {"tp"}>], results = [#dist.sharding<{}, partial max {"tp"}>]>}
     : tensor<4xf32>
  return
}

// -----

// Only the major part of a dimension that is split can be cut, into whole
// iterations.
dist.mesh @mesh ["tp"=4]
func.func @split_divides(%x: tensor<6x2xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // expected-error @below {{plan: result 0: dimension 0 has a factor of 6, not divisible by 4 parts}}
  %0 = nn.reshape %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}, {}>], results = [#dist.sharding<{"tp"}>]>}
    : (tensor<6x2xf32>) -> tensor<12xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=4]
func.func @blocks_are_iterations(%x: tensor<6x2xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // expected-error @below {{plan: result 0: dimension 0 lies in blocks of 5, expected a multiple of 2}}
  %0 = nn.reshape %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}, {}>], results = [#dist.sharding<{"tp"}:5>]>}
    : (tensor<6x2xf32>) -> tensor<12xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=4]
func.func @blocks_agree(%x: tensor<6x2xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
  // expected-error @below {{plan: result 0: dimension 0 lies in blocks of 6, expected 4 as elsewhere in this op}}
  %0 = nn.reshape %x {dist.plan = #dist.plan<operands = [#dist.sharding<{"tp"}, {}>], results = [#dist.sharding<{"tp"}:6>]>}
    : (tensor<6x2xf32>) -> tensor<12xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2] time ["mb"=2]
// expected-error @below {{plan: argument 0: dimension 0 has blocks of 4 but some of its axes are in time}}
func.func @blocks_in_time(%x: tensor<8xf32> {dist.sharding = #dist.sharding<{"mb", "tp"}:4>}) {
  return
}

// -----

// The largest of all samples needs all micro-batches at once.
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @max_over_time(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"mb"}>}) {
  // expected-error @below {{plan: a max runs over axis "mb", which is in time}}
  %0 = nn.reduce max %x dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"mb"}>], results = [#dist.sharding<>]>}
     : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

// A sum over micro-batches is there only after all of them.
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @sum_over_time(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"mb"}>})
    -> (tensor<f32> {dist.sharding = #dist.sharding<>}) {
  %0 = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"mb"}>], results = [#dist.sharding<partial sum {"mb"}>]>}
     : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{plan: operand 0 is partial over {mb}, which is in time, until a dist.accumulate}}
  %1 = nn.exp %0 {dist.plan = #dist.plan<operands = [#dist.sharding<>], results = [#dist.sharding<>]>} : tensor<f32>
  // expected-error @below {{plan: operand 0 is partial over {mb}, which is in time, until a dist.accumulate}}
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh ["pp"=2, "tp"=2]
func.func @backwards(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-note @below {{produced here}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 1>} : tensor<4xf32>
  // expected-error @below {{plan: is in stage 0 but uses a value of stage 1}}
  %1 = nn.neg %0 {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 0>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["pp"=2, "tp"=2]
func.func @no_such_stage(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-error @below {{plan: stage is 2, expected less than 2}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>], stage = 2>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @source_in_time() {
  // expected-error @below {{plan: a source cannot be stored in parts over time}}
  %0 = nn.constant {dist.plan = #dist.plan<results = [#dist.sharding<{"mb"}>]>} dense<1.0> : tensor<4xf32>
  return
}

// -----

// Programs take and give tensors of static shape.
dist.mesh @mesh ["tp"=2]
// expected-error @below {{plan: argument 0 is 'index', expected a tensor of static shape}}
func.func @number(%x: index {dist.sharding = #dist.sharding<>}) {
  return
}

// -----

// What is no tensor cannot be sent.
#number = #dist.sharding<>
#whole = #dist.sharding<{}>
dist.mesh @mesh ["pp"=2]
func.func @crossing(%x: tensor<2xf32> {dist.sharding = #whole}) -> (tensor<2xf32> {dist.sharding = #whole}) {
  %c = arith.constant {dist.plan = #dist.plan<results = [#number], stage = 0>} 0 : index
  // expected-note @below {{produced here}}
  %0 = tensor.extract %x[%c] {dist.plan = #dist.plan<operands = [#whole, #number], results = [#number], stage = 0>} : tensor<2xf32>
  // expected-error @below {{plan: is in stage 1 but uses 'f32' of stage 0: only tensors are sent}}
  %1 = tensor.splat %0 {dist.plan = #dist.plan<operands = [#number], results = [#whole], stage = 1>} : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A value that is no tensor is never cut.
dist.mesh @mesh ["tp"=2]
func.func @cut_number(%x: tensor<2xf32> {dist.sharding = #dist.sharding<{}>}) {
  // expected-error @below {{result 0: sharding has 1 dimensions, expected 0 for 'index'}}
  %c = arith.constant {dist.plan = #dist.plan<results = [#dist.sharding<{"tp"}>]>} 0 : index
  return
}

// -----

// What is partitioned has no plan any more.
dist.mesh @mesh ["tp"=2]
// expected-error @below {{@part is on local shapes: the module is partitioned already}}
func.func @part(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return %x : tensor<4xf32>
}
