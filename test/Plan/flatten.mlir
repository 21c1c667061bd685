// RUN: kerf-opt %s --kerf-flatten --split-input-file | FileCheck %s
// REQUIRES: kerf-opt

// Calls are inlined, those inside of them too; what nobody calls any more is gone.
// CHECK-LABEL: func.func @calls(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.*]] = math.tanh %[[X]]
// CHECK-NEXT: %[[B:.*]] = math.exp %[[A]]
// CHECK-NEXT: %[[C:.*]] = math.tanh %[[B]]
// CHECK-NEXT: return %[[C]]
// CHECK-NOT: func.func
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Recursion ends at the call of a function that is being inlined; what is declared only, and what says so, stays.
// CHECK-LABEL: func.func @kept(
// CHECK: call @kept(
// CHECK: call @declared(
// CHECK: call @never(
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @round(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @declared(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = func.call @never(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @round(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @kept(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func private @never(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  return %x : tensor<4xf32>
}

// -----

// A constant is repeated in the body that uses it, with what it is computed from, where that is no constant itself.
// CHECK-LABEL: func.func @constants(
// CHECK-NOT: call
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-DAG: %[[C:.*]] = arith.constant -2.0
// CHECK-DAG: %[[I:.*]] = arith.constant 3 : i32
// CHECK: %[[N:.*]] = math.fpowi %[[C]], %[[I]]
// CHECK-NEXT: arith.mulf %{{.*}}, %[[N]]
#map = affine_map<(d0) -> (d0)>
func.func @constants(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant 2.0 : f32
  %i = arith.constant 3 : i32
  %m = arith.negf %c : f32
  %n = math.fpowi %m, %i : f32, i32
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.mulf %in, %n : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A loop that uses a tensor from outside becomes a call that has it as an argument.
// CHECK-LABEL: func.func @loop(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>)
// CHECK: %[[R:.*]] = call @whole(%{{.*}}, %{{.*}}, %{{.*}}, %[[X]], %[[W]]) {no_inline} :
// CHECK: return %[[R]]
// CHECK: func.func private @whole(
// CHECK-SAME: index, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<4xf32>)
// CHECK-SAME: attributes {no_inline}
// CHECK: scf.for {{.*}} iter_args(%[[A:.*]] = %[[I]])
// CHECK: arith.addf %[[A]], %[[V]]
func.func @loop(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %0 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4xf32>) {
    %1 = arith.addf %a, %w : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Numbers that go in and come out are tensors, which devices can be given: an index has 64 bits. Each op reads its own, so
// that ops of several stages do not share one.
// CHECK-LABEL: func.func @numbers(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<f32> {kerf.name = "s"}, %[[I:.*]]: tensor<i64>) -> (tensor<4xf32>, tensor<f32>, tensor<i64>)
// CHECK-NEXT: %[[NUMBER:.*]] = tensor.extract %[[S]][] : tensor<f32>
// CHECK-NEXT: %[[FILLED:.*]] = linalg.fill ins(%[[NUMBER]] : f32)
// CHECK-NEXT: %[[WIDE:.*]] = tensor.extract %[[I]][] : tensor<i64>
// CHECK-NEXT: %[[INDEX:.*]] = arith.index_cast %[[WIDE]] : i64 to index
// CHECK-NEXT: %[[ONE:.*]] = tensor.extract %[[X]][%[[INDEX]]]
// CHECK-NEXT: %[[AGAIN:.*]] = tensor.extract %[[I]][] : tensor<i64>
// CHECK-NEXT: %[[SAME:.*]] = arith.index_cast %[[AGAIN]] : i64 to index
// CHECK-NEXT: %[[BOX:.*]] = tensor.from_elements %[[ONE]] : tensor<f32>
// CHECK-NEXT: %[[BACK:.*]] = arith.index_cast %[[SAME]] : index to i64
// CHECK: %[[BOXED:.*]] = tensor.from_elements %[[BACK]] : tensor<i64>
// CHECK: return %[[FILLED]], %[[BOX]], %[[BOXED]]
func.func @numbers(%x: tensor<4xf32>, %s: f32 {kerf.name = "s"}, %i: index) -> (tensor<4xf32>, f32, index) {
  %0 = linalg.fill ins(%s : f32) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  %1 = tensor.extract %x[%i] : tensor<4xf32>
  return %0, %1, %i : tensor<4xf32>, f32, index
}

// -----

// The size of a tensor is known: nobody needs the tensor for it.
// CHECK-LABEL: func.func @size(
// CHECK-SAME: %[[X:.*]]: tensor<7x4xf32>)
// CHECK-DAG: %[[SEVEN:.*]] = arith.constant 7 : index
// CHECK-NOT: tensor.dim
// CHECK: %[[N:.*]] = arith.index_cast %[[SEVEN]]
func.func @size(%x: tensor<7x4xf32>) -> tensor<7x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<7x4xf32>
  %0 = tensor.generate {
  ^bb0(%i: index, %j: index):
    %k = arith.index_cast %n : index to i32
    %f = arith.sitofp %k : i32 to f32
    tensor.yield %f : f32
  } : tensor<7x4xf32>
  return %0 : tensor<7x4xf32>
}

// -----

// Numbers that bodies of linalg use from outside become inputs; the op keeps its rule.
// CHECK-DAG: #[[$ALL:.*]] = affine_map<(d0) -> (d0)>
// CHECK-DAG: #[[$NONE:.*]] = affine_map<(d0) -> ()>
// CHECK-LABEL: func.func @captured(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[T:.*]]: tensor<f32>)
// CHECK: %[[K:.*]] = tensor.extract %[[T]][]
// CHECK: %[[MAPPED:.*]] = linalg.generic {indexing_maps = [#[[$ALL]], #[[$NONE]], #[[$ALL]]], iterator_types = ["parallel"]}
// CHECK-SAME: ins(%[[X]], %[[K]] : tensor<4xf32>, f32) outs(%[[X]] : tensor<4xf32>) attrs =  {mine = 1 : i64} {
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[M:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[MAPPED]], %[[K]] : tensor<4xf32>, f32)
// CHECK-NOT: @whole
func.func @captured(%x: tensor<4xf32>, %t: tensor<f32>) -> tensor<f32> {
  %k = tensor.extract %t[] : tensor<f32>
  %0 = linalg.map ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {mine = 1 : i64} (%a: f32, %o: f32) {
    %m = arith.mulf %a, %k : f32
    linalg.yield %m : f32
  }
  %1 = linalg.reduce ins(%0 : tensor<4xf32>) outs(%t : tensor<f32>) dimensions = [0] (%a: f32, %o: f32) {
    %m = arith.mulf %a, %k : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  }
  return %1 : tensor<f32>
}

// -----

// In a loop a call is inlined and a number from outside becomes an operand of the body that uses it: the rule of the call
// that the loop becomes sees ops that it can cut.
// CHECK-LABEL: func.func @looped(
// CHECK: call @whole
// CHECK: func.func private @whole(
// CHECK-NOT: call
// CHECK: scf.for
// CHECK: arith.negf
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4xf32>, f32)
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.negf %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @looped(%x: tensor<4xf32>, %t: tensor<f32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %k = tensor.extract %t[] : tensor<f32>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4xf32>) {
    %y = func.call @inner(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %z = linalg.map ins(%y : tensor<4xf32>) outs(%y : tensor<4xf32>) (%e: f32, %o: f32) {
      %m = arith.mulf %e, %k : f32
      linalg.yield %m : f32
    }
    scf.yield %z : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
