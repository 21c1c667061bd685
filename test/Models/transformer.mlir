// RUN: kerf-opt %s --kerf-plan="devices=4 mesh=tp=4 objective=volume memory-limit=62000" --kerf-partition --kerf-collectives \
// RUN:   | FileCheck %s
// REQUIRES: kerf-opt

// A block of a transformer as linalg: 8 tokens of 64, four heads of 16, a hidden layer of 256. Its weights take 192 KiB,
// so all must be cut: by heads and hidden columns first, as Megatron does. What is sent is three quarters of the
// activations, three times: what the heads make is gathered (to sum what each makes of it takes as many bytes, and each
// device would write all columns), their sum with the input is gathered, and sums of what hidden columns make are
// scattered, since the result may stay in parts. The destinations of products are made where they are wanted.

// CHECK-LABEL: func.func @stage0_forward(
// CHECK-SAME: attributes {dist.part
// CHECK-NOT: = dist.
// Queries, keys and values of one head each.
// CHECK-COUNT-3: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x64xf32>, tensor<64x16xf32>)
// CHECK: linalg.softmax {{.*}} ins(%{{.*}} : tensor<1x8x8xf32>)
// CHECK: dist.all_gather %{{.*}} ["tp"] dim 1 : tensor<8x1x16xf32> -> tensor<8x4x16xf32>
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x64xf32>, tensor<64x16xf32>)
// CHECK-NEXT: dist.all_slice %arg0 ["tp"] dim 1
// CHECK-NEXT: arith.addf
// CHECK-NEXT: dist.all_gather %{{.*}} ["tp"] dim 1 : tensor<8x16xf32> -> tensor<8x64xf32>
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x64xf32>, tensor<64x64xf32>)
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x64xf32>, tensor<64x64xf32>)
// CHECK-NEXT: dist.reduce_scatter %{{.*}} sum ["tp"] dim 1
// CHECK-NOT: = dist.
// CHECK: return

#q = affine_map<(h, i, j, d) -> (i, h, d)>
#k = affine_map<(h, i, j, d) -> (j, h, d)>
#s = affine_map<(h, i, j, d) -> (h, i, j)>
func.func @block(%x: tensor<8x64xf32> {kerf.name = "x"},
    %wq: tensor<64x64xf32> {kerf.name = "wq"}, %wk: tensor<64x64xf32> {kerf.name = "wk"},
    %wv: tensor<64x64xf32> {kerf.name = "wv"}, %wo: tensor<64x64xf32> {kerf.name = "wo"},
    %w1: tensor<64x256xf32> {kerf.name = "w1"}, %w2: tensor<256x64xf32> {kerf.name = "w2"}) -> tensor<8x64xf32> {
  %z = arith.constant dense<0.0> : tensor<8x64xf32>
  %q = linalg.matmul ins(%x, %wq : tensor<8x64xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) -> tensor<8x64xf32>
  %k = linalg.matmul ins(%x, %wk : tensor<8x64xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) -> tensor<8x64xf32>
  %v = linalg.matmul ins(%x, %wv : tensor<8x64xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) -> tensor<8x64xf32>
  %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [8, 4, 16] : tensor<8x64xf32> into tensor<8x4x16xf32>
  %kh = tensor.expand_shape %k [[0], [1, 2]] output_shape [8, 4, 16] : tensor<8x64xf32> into tensor<8x4x16xf32>
  %vh = tensor.expand_shape %v [[0], [1, 2]] output_shape [8, 4, 16] : tensor<8x64xf32> into tensor<8x4x16xf32>
  %zs = arith.constant dense<0.0> : tensor<4x8x8xf32>
  %scores = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%qh, %kh : tensor<8x4x16xf32>, tensor<8x4x16xf32>) outs(%zs : tensor<4x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %c, %m : f32
    linalg.yield %n : f32
  } -> tensor<4x8x8xf32>
  %e = tensor.empty() : tensor<4x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%scores : tensor<4x8x8xf32>) outs(%e : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %zh = arith.constant dense<0.0> : tensor<8x4x16xf32>
  %heads = linalg.generic {indexing_maps = [#s, #k, #q], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%p, %vh : tensor<4x8x8xf32>, tensor<8x4x16xf32>) outs(%zh : tensor<8x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %c, %m : f32
    linalg.yield %n : f32
  } -> tensor<8x4x16xf32>
  %o = tensor.collapse_shape %heads [[0], [1, 2]] : tensor<8x4x16xf32> into tensor<8x64xf32>
  %y = linalg.matmul ins(%o, %wo : tensor<8x64xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) -> tensor<8x64xf32>
  %r = arith.addf %x, %y : tensor<8x64xf32>
  %z1 = arith.constant dense<0.0> : tensor<8x256xf32>
  %h = linalg.matmul ins(%r, %w1 : tensor<8x64xf32>, tensor<64x256xf32>) outs(%z1 : tensor<8x256xf32>) -> tensor<8x256xf32>
  %t = math.tanh %h : tensor<8x256xf32>
  %f = linalg.matmul ins(%t, %w2 : tensor<8x256xf32>, tensor<256x64xf32>) outs(%z : tensor<8x64xf32>) -> tensor<8x64xf32>
  %out = arith.addf %r, %f : tensor<8x64xf32>
  return %out : tensor<8x64xf32>
}
