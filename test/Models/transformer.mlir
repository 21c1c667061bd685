// RUN: kerf-opt %s --pass-pipeline='builtin.module(kerf-flatten,kerf-split-projections, \
// RUN:     kerf-plan{devices=4 mesh=tp=4 objective=volume memory-limit=1030000 micro-batches=1}, \
// RUN:     kerf-partition,kerf-collectives)' | FileCheck %s
// REQUIRES: kerf-opt

// A block of GPT-2 as linalg: 2 x 16 tokens of 256, eight heads of 32, a hidden layer of 1024; queries, keys and values
// are slices of one product. Its weights take 3 MiB, so each of them must be cut: by heads and hidden columns first and
// by rows behind them, as Megatron does. What is sent is three quarters of the activations, three times: the sums of what
// the heads make are scattered, what the second normalization makes of them is gathered, and the sums of what hidden
// columns make are scattered, since the result may stay in parts. same-as-onnx.py runs it.

// CHECK-LABEL: func.func @stage0_forward(
// CHECK-SAME: tensor<256x3x64xf32> {{.*}} kerf.name = "wqkv"
// CHECK-NOT: = dist.
// Queries, keys and values of two heads.
// CHECK-COUNT-3: linalg.contract {{.*}} : tensor<2x16x256xf32>, tensor<256x64xf32>)
// CHECK-NOT: = dist.
// Scores and heads.
// CHECK: linalg.contract {{.*}} outs(%{{.*}} : tensor<2x2x16x16xf32>)
// CHECK: linalg.index 2
// CHECK: linalg.contract {{.*}} outs(%{{.*}} : tensor<2x16x2x32xf32>)
// CHECK: linalg.contract {{.*}} : tensor<2x16x64xf32>, tensor<64x256xf32>)
// CHECK-NEXT: dist.reduce_scatter %{{.*}} sum ["tp"] dim 1 : tensor<2x16x256xf32> -> tensor<2x4x256xf32>
// CHECK: math.rsqrt
// CHECK: dist.all_gather %{{.*}} ["tp"] dim 1 : tensor<2x4x256xf32> -> tensor<2x16x256xf32>
// CHECK: linalg.contract {{.*}} : tensor<2x16x256xf32>, tensor<256x256xf32>)
// CHECK: math.tanh
// CHECK: linalg.contract {{.*}} : tensor<2x16x256xf32>, tensor<256x256xf32>)
// CHECK-NEXT: dist.reduce_scatter %{{.*}} sum ["tp"] dim 1 : tensor<2x16x256xf32> -> tensor<2x4x256xf32>
// CHECK-NOT: = dist.
// CHECK: return

!rows = tensor<2x16xf32>
!act = tensor<2x16x256xf32>
!heads = tensor<2x16x8x32xf32>
!fused = tensor<2x16x768xf32>
!scores = tensor<2x8x16x16xf32>
!score_rows = tensor<2x8x16xf32>
!hidden = tensor<2x16x1024xf32>

#rsd = affine_map<(b, s, d) -> (b, s, d)>
#rs = affine_map<(b, s, d) -> (b, s)>
#d = affine_map<(b, s, d) -> (d)>

// Mean and variance over the last dimension, then scale and bias.
func.func private @layer_norm(%x: !act, %scale: tensor<256xf32>, %bias: tensor<256xf32>) -> !act {
  %zero = arith.constant dense<0.0> : !rows
  %sum = linalg.generic {indexing_maps = [#rsd, #rs], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : !act) outs(%zero : !rows) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %s, %a : f32
    linalg.yield %t : f32
  } -> !rows
  %squares = linalg.generic {indexing_maps = [#rsd, #rs, #rs], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %sum : !act, !rows) outs(%zero : !rows) {
  ^bb0(%a: f32, %total: f32, %s: f32):
    %n = arith.constant 256.0 : f32
    %mean = arith.divf %total, %n : f32
    %c = arith.subf %a, %mean : f32
    %q = arith.mulf %c, %c : f32
    %t = arith.addf %s, %q : f32
    linalg.yield %t : f32
  } -> !rows
  %e = tensor.empty() : !act
  %y = linalg.generic {indexing_maps = [#rsd, #rs, #rs, #d, #d, #rsd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %sum, %squares, %scale, %bias : !act, !rows, !rows, tensor<256xf32>, tensor<256xf32>) outs(%e : !act) {
  ^bb0(%a: f32, %total: f32, %square: f32, %g: f32, %b: f32, %out: f32):
    %n = arith.constant 256.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    %mean = arith.divf %total, %n : f32
    %c = arith.subf %a, %mean : f32
    %var = arith.divf %square, %n : f32
    %v = arith.addf %var, %eps : f32
    %r = math.rsqrt %v : f32
    %normal = arith.mulf %c, %r : f32
    %scaled = arith.mulf %normal, %g : f32
    %t = arith.addf %scaled, %b : f32
    linalg.yield %t : f32
  } -> !act
  return %y : !act
}

#x_p = affine_map<(b, s, n, d) -> (b, s, d)>
#w_p = affine_map<(b, s, n, d) -> (d, n)>
#y_p = affine_map<(b, s, n, d) -> (b, s, n)>
#n_p = affine_map<(b, s, n) -> (b, s, n)>
#bias_p = affine_map<(b, s, n) -> (n)>
#q = affine_map<(b, h, i, j, k) -> (b, i, h, k)>
#k = affine_map<(b, h, i, j, k) -> (b, j, h, k)>
#s = affine_map<(b, h, i, j, k) -> (b, h, i, j)>
#e = affine_map<(b, h, i, j) -> (b, h, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i)>

func.func @block(%x: !act {kerf.name = "x"},
    %g1: tensor<256xf32> {kerf.name = "g1"}, %b1: tensor<256xf32> {kerf.name = "b1"},
    %wqkv: tensor<256x768xf32> {kerf.name = "wqkv"}, %bqkv: tensor<768xf32> {kerf.name = "bqkv"},
    %wo: tensor<256x256xf32> {kerf.name = "wo"}, %bo: tensor<256xf32> {kerf.name = "bo"},
    %g2: tensor<256xf32> {kerf.name = "g2"}, %b2: tensor<256xf32> {kerf.name = "b2"},
    %wu: tensor<256x1024xf32> {kerf.name = "wu"}, %bu: tensor<1024xf32> {kerf.name = "bu"},
    %wd: tensor<1024x256xf32> {kerf.name = "wd"}, %bd: tensor<256xf32> {kerf.name = "bd"}) -> !act {
  %n1 = func.call @layer_norm(%x, %g1, %b1) : (!act, tensor<256xf32>, tensor<256xf32>) -> !act

  // Queries, keys and values as one product.
  %zf = arith.constant dense<0.0> : !fused
  %pf = linalg.contract indexing_maps = [#x_p, #w_p, #y_p] ins(%n1, %wqkv : !act, tensor<256x768xf32>) outs(%zf : !fused) -> !fused
  %ef = tensor.empty() : !fused
  %qkv = linalg.generic {indexing_maps = [#n_p, #bias_p, #n_p], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%pf, %bqkv : !fused, tensor<768xf32>) outs(%ef : !fused) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> !fused
  %qs = tensor.extract_slice %qkv[0, 0, 0] [2, 16, 256] [1, 1, 1] : !fused to !act
  %ks = tensor.extract_slice %qkv[0, 0, 256] [2, 16, 256] [1, 1, 1] : !fused to !act
  %vs = tensor.extract_slice %qkv[0, 0, 512] [2, 16, 256] [1, 1, 1] : !fused to !act
  %q = tensor.expand_shape %qs [[0], [1], [2, 3]] output_shape [2, 16, 8, 32] : !act into !heads
  %k = tensor.expand_shape %ks [[0], [1], [2, 3]] output_shape [2, 16, 8, 32] : !act into !heads
  %v = tensor.expand_shape %vs [[0], [1], [2, 3]] output_shape [2, 16, 8, 32] : !act into !heads

  // Scores, scaled; -inf of tokens that come later.
  %zs = arith.constant dense<0.0> : !scores
  %products = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : !heads, !heads) outs(%zs : !scores) -> !scores
  %es = tensor.empty() : !scores
  %scores = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%products : !scores) outs(%es : !scores) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %seen = arith.cmpi ule, %j, %i : index
    %scale = arith.constant 0.176776695 : f32
    %scaled = arith.mulf %a, %scale : f32
    %never = arith.constant 0xFF800000 : f32
    %t = arith.select %seen, %scaled, %never : f32
    linalg.yield %t : f32
  } -> !scores
  %lowest = arith.constant dense<0xFF800000> : !score_rows
  %most = linalg.generic {indexing_maps = [#e, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%scores : !scores) outs(%lowest : !score_rows) {
  ^bb0(%a: f32, %m: f32):
    %t = arith.maximumf %m, %a : f32
    linalg.yield %t : f32
  } -> !score_rows
  %powers = linalg.generic {indexing_maps = [#e, #row, #e], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%scores, %most : !scores, !score_rows) outs(%es : !scores) {
  ^bb0(%a: f32, %m: f32, %out: f32):
    %c = arith.subf %a, %m : f32
    %t = math.exp %c : f32
    linalg.yield %t : f32
  } -> !scores
  %zr = arith.constant dense<0.0> : !score_rows
  %sums = linalg.generic {indexing_maps = [#e, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%powers : !scores) outs(%zr : !score_rows) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %s, %a : f32
    linalg.yield %t : f32
  } -> !score_rows
  %p = linalg.generic {indexing_maps = [#e, #row, #e], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%powers, %sums : !scores, !score_rows) outs(%es : !scores) {
  ^bb0(%a: f32, %s: f32, %out: f32):
    %t = arith.divf %a, %s : f32
    linalg.yield %t : f32
  } -> !scores
  %zh = arith.constant dense<0.0> : !heads
  %heads = linalg.contract indexing_maps = [#s, #k, #q] ins(%p, %v : !scores, !heads) outs(%zh : !heads) -> !heads
  %o = tensor.collapse_shape %heads [[0], [1], [2, 3]] : !heads into !act

  %za = arith.constant dense<0.0> : !act
  %po = linalg.contract indexing_maps = [#x_p, #w_p, #y_p] ins(%o, %wo : !act, tensor<256x256xf32>) outs(%za : !act) -> !act
  %ea = tensor.empty() : !act
  %r = linalg.generic {indexing_maps = [#n_p, #bias_p, #n_p, #n_p], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%po, %bo, %x : !act, tensor<256xf32>, !act) outs(%ea : !act) {
  ^bb0(%a: f32, %b: f32, %before: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    %u = arith.addf %before, %t : f32
    linalg.yield %u : f32
  } -> !act

  %n2 = func.call @layer_norm(%r, %g2, %b2) : (!act, tensor<256xf32>, tensor<256xf32>) -> !act
  %zu = arith.constant dense<0.0> : !hidden
  %pu = linalg.contract indexing_maps = [#x_p, #w_p, #y_p] ins(%n2, %wu : !act, tensor<256x1024xf32>) outs(%zu : !hidden) -> !hidden
  %eu = tensor.empty() : !hidden
  %u = linalg.generic {indexing_maps = [#n_p, #bias_p, #n_p], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%pu, %bu : !hidden, tensor<1024xf32>) outs(%eu : !hidden) {
  ^bb0(%product: f32, %b: f32, %out: f32):
    %a = arith.addf %product, %b : f32
    // 0.5 a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3)))
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %c = arith.constant 0.044715 : f32
    %root = arith.constant 0.797884583 : f32
    %a2 = arith.mulf %a, %a : f32
    %a3 = arith.mulf %a2, %a : f32
    %ca3 = arith.mulf %a3, %c : f32
    %inner = arith.addf %a, %ca3 : f32
    %scaled = arith.mulf %inner, %root : f32
    %tanh = math.tanh %scaled : f32
    %t1 = arith.addf %tanh, %one : f32
    %ha = arith.mulf %a, %half : f32
    %t = arith.mulf %ha, %t1 : f32
    linalg.yield %t : f32
  } -> !hidden
  %pd = linalg.contract indexing_maps = [#x_p, #w_p, #y_p] ins(%u, %wd : !hidden, tensor<1024x256xf32>) outs(%za : !act) -> !act
  %y = linalg.generic {indexing_maps = [#n_p, #bias_p, #n_p, #n_p], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%pd, %bd, %r : !act, tensor<256xf32>, !act) outs(%ea : !act) {
  ^bb0(%a: f32, %b: f32, %before: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    %u2 = arith.addf %before, %t : f32
    linalg.yield %u2 : f32
  } -> !act
  return %y : !act
}
