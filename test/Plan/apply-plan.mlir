// A plan that a file has is written onto the module as kerf-plan would; one that does not fit it says what is missing.
// RUN: split-file %s %t
// RUN: kerf-opt %t/model.mlir --pass-pipeline="builtin.module(kerf-apply-plan{plan=%t/plan.json devices=2})" | FileCheck %s
// RUN: not kerf-opt %t/other.mlir --pass-pipeline="builtin.module(kerf-apply-plan{plan=%t/plan.json devices=2})" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not kerf-opt %t/model.mlir --pass-pipeline="builtin.module(kerf-apply-plan{plan=%t/none.json})" 2>&1 | FileCheck %s --check-prefix=NONE
// REQUIRES: kerf-opt

// What an entry has is of its kind, and each value has one.
// RUN: sed 's/"shape": .4, 8./"shape": [4]/' %t/plan.json > %t/rank.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/rank.json devices=2" 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: values: 'x' has 1 dimensions in the plan and 2 in the model
// RUN: echo '[]' > %t/list.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/list.json devices=2" 2>&1 | FileCheck %s --check-prefix=LIST
// LIST: schema is missing, expected "kerf.plan/1"
// RUN: sed 's/"shape": .4, 8./"shape": "4, 8"/' %t/plan.json > %t/shape.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/shape.json devices=2" 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: values: 'x': shape is no list of sizes
// RUN: sed '/"name": "x"/p' %t/plan.json > %t/twice.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/twice.json devices=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: values: 'x' is listed twice
// RUN: sed 's/"name": "y"/"name": "y", "stage": 1/' %t/plan.json > %t/stage.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/stage.json devices=2" 2>&1 | FileCheck %s --check-prefix=STAGE
// STAGE: values: 'y': stage is none of 1
// RUN: sed 's/"name": "y"/"name": "y", "stage": "one"/' %t/plan.json > %t/text.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/text.json devices=2" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: sed 's/"sharding": "{}, {}"/"sharding": 7/' %t/plan.json > %t/number.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/number.json devices=2" 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: values: 'x': sharding is no text
// RUN: sed 's/"sharding": "{}, {}"/"sharding": "[{}, {}]"/' %t/plan.json > %t/form.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/form.json devices=2" 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: values: 'x': '[{}, {}]' is not a sharding, expected as '{"tp"}, {}'
// RUN: sed 's/"mesh": {"tp": 2}/"mesh": {"tp": 0}/' %t/plan.json > %t/mesh.json
// RUN: not kerf-opt %t/model.mlir --kerf-apply-plan="plan=%t/mesh.json devices=2" 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: mesh: no size of at least 1 for "tp", an axis of mesh_axes

// CHECK: dist.mesh @mesh ["tp"=2]
// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32> {dist.sharding = #s_x2, kerf.name = "x"})
// CHECK-SAME: -> (tensor<4x6xf32> {dist.sharding = #s_x_tp, kerf.name = "y"})
// CHECK: nn.constant {dist.plan = #p{{0?}}_to_x_tp, name = "w"}
// CHECK: nn.matmul {{.*}}dist.plan = #p{{0?}}_x2--x_tp_to_x_tp
// OTHER: error: plan: {{.*}}plan.json: values: the model has no value 'w'
// NONE: error: plan: {{.*}}none.json: No such file or directory

//--- plan.json
{
  "schema": "kerf.plan/1",
  "devices": 2,
  "mesh": {"tp": 2},
  "mesh_axes": ["tp"],
  "values": [
    {"name": "x", "shape": [4, 8], "sharding": "{}, {}"},
    {"name": "w", "shape": [8, 6], "sharding": "{}, {\"tp\"}"},
    {"name": "y", "shape": [4, 6], "sharding": "{}, {\"tp\"}", "operands": {"0": "{}, {}", "1": "{}, {\"tp\"}"}},
    {"name": "output:0", "sharding": "{}, {\"tp\"}"}
  ]
}
//--- model.mlir
func.func @main(%x: tensor<4x8xf32> {kerf.name = "x"}) -> (tensor<4x6xf32> {kerf.name = "y"}) {
  %w = nn.constant {name = "w"} dense<1.0> : tensor<8x6xf32>
  %y = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32> loc("y")
  return %y : tensor<4x6xf32>
}
//--- other.mlir
func.func @main(%x: tensor<4x8xf32> {kerf.name = "x"}) -> (tensor<4x6xf32> {kerf.name = "y"}) {
  %w = nn.constant {name = "v"} dense<1.0> : tensor<8x6xf32>
  %y = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32> loc("y")
  return %y : tensor<4x6xf32>
}
