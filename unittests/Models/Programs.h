//===- Programs.h - programs that random ones do not have -------*- C++ -*-===//
//
// Calls, loops, ops without a rule, rows, tiles, TOSA: functions @f.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_MODELS_PROGRAMS_H
#define KERF_UNITTESTS_MODELS_PROGRAMS_H

namespace kerf::test {

struct Program {
  const char *name, *text;
};

inline constexpr Program kPrograms[] = {
    {"softmax between two products", R"(
func.func @f(%x: tensor<6x4xf64>, %w: tensor<4x10xf64>, %v: tensor<10x4xf64>)
    -> tensor<6x4xf64> {
  %zero = arith.constant dense<0.0> : tensor<6x10xf64>
  %0 = linalg.matmul ins(%x, %w : tensor<6x4xf64>, tensor<4x10xf64>)
                     outs(%zero : tensor<6x10xf64>) -> tensor<6x10xf64>
  %e = tensor.empty() : tensor<6x10xf64>
  %1 = linalg.softmax dimension(1) ins(%0 : tensor<6x10xf64>)
                                   outs(%e : tensor<6x10xf64>) -> tensor<6x10xf64>
  %2 = linalg.matmul ins(%1, %v : tensor<6x10xf64>, tensor<10x4xf64>)
                     outs(%x : tensor<6x4xf64>) -> tensor<6x4xf64>
  return %2 : tensor<6x4xf64>
})"},
    {"tiles of a packed tensor", R"(
func.func @f(%x: tensor<12x8xf64>) -> (tensor<3x4x4x2xf64>, tensor<12x8xf64>) {
  %p = tensor.empty() : tensor<3x4x4x2xf64>
  %0 = linalg.pack %x inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %p
     : tensor<12x8xf64> -> tensor<3x4x4x2xf64>
  %1 = arith.addf %0, %0 : tensor<3x4x4x2xf64>
  %u = tensor.empty() : tensor<12x8xf64>
  %2 = linalg.unpack %1 inner_dims_pos = [0, 1] inner_tiles = [4, 2] into %u
     : tensor<3x4x4x2xf64> -> tensor<12x8xf64>
  return %1, %2 : tensor<3x4x4x2xf64>, tensor<12x8xf64>
})"},
    {"numbers made from indices", R"(
func.func @f(%x: tensor<6x8xf64>, %y: tensor<6x8xf64>) -> tensor<6x8xf64> {
  %low = arith.constant -2.0 : f64
  %high = arith.constant 2.0 : f64
  %seed = arith.constant 7 : i32
  %0 = linalg.fill_rng_2d ins(%low, %high, %seed : f64, f64, i32)
                          outs(%x : tensor<6x8xf64>) -> tensor<6x8xf64>
  %1 = arith.addf %0, %y : tensor<6x8xf64>
  return %1 : tensor<6x8xf64>
})"},
    {"numbers that go in and out, and are used in bodies", R"(
func.func @f(%x: tensor<6x8xf64>, %i: index, %s: f64) -> (tensor<6x8xf64>, index, f64) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<6x8xf64>
  %ni = arith.index_cast %n : index to i64
  %nf = arith.sitofp %ni : i64 to f64
  %e = tensor.empty() : tensor<6x8xf64>
  %0 = linalg.map ins(%x : tensor<6x8xf64>) outs(%e : tensor<6x8xf64>) (%a: f64, %o: f64) {
    %m = arith.mulf %a, %s : f64
    %d = arith.divf %m, %nf : f64
    linalg.yield %d : f64
  }
  %isOver = arith.cmpi sgt, %i, %c0 : index
  %1 = scf.if %isOver -> tensor<6x8xf64> {
    %y = arith.addf %0, %x : tensor<6x8xf64>
    scf.yield %y : tensor<6x8xf64>
  } else {
    scf.yield %0 : tensor<6x8xf64>
  }
  %r = tensor.empty() : tensor<6xf64>
  %z = linalg.fill ins(%zero : f64) outs(%r : tensor<6xf64>) -> tensor<6xf64>
  %2 = linalg.reduce ins(%1 : tensor<6x8xf64>) outs(%z : tensor<6xf64>) dimensions = [1] (%a: f64, %o: f64) {
    %m = arith.mulf %a, %s : f64
    %t = arith.addf %m, %o : f64
    linalg.yield %t : f64
  }
  %j = arith.maxsi %i, %c0 : index
  %3 = tensor.extract %2[%j] : tensor<6xf64>
  return %1, %j, %3 : tensor<6x8xf64>, index, f64
})"},
    {"tiles with another order outside", R"(
func.func @f(%x: tensor<8x12xf64>) -> tensor<8x12xf64> {
  %p = tensor.empty() : tensor<4x8x3xf64>
  %0 = linalg.pack %x outer_dims_perm = [1, 0] inner_dims_pos = [1]
     inner_tiles = [3] into %p : tensor<8x12xf64> -> tensor<4x8x3xf64>
  %1 = math.tanh %0 : tensor<4x8x3xf64>
  %u = tensor.empty() : tensor<8x12xf64>
  %2 = linalg.unpack %1 outer_dims_perm = [1, 0] inner_dims_pos = [1]
     inner_tiles = [3] into %u : tensor<4x8x3xf64> -> tensor<8x12xf64>
  return %2 : tensor<8x12xf64>
})"},
    {"calls, one of a loop", R"(
func.func @f(%x: tensor<8x6xf64>, %w: tensor<6x6xf64>) -> tensor<8x6xf64> {
  %0 = func.call @layer(%x, %w) : (tensor<8x6xf64>, tensor<6x6xf64>) -> tensor<8x6xf64>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %1 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %0) -> (tensor<8x6xf64>) {
    %3 = arith.addf %a, %x : tensor<8x6xf64>
    scf.yield %3 : tensor<8x6xf64>
  }
  %2 = func.call @layer(%1, %w) : (tensor<8x6xf64>, tensor<6x6xf64>) -> tensor<8x6xf64>
  return %2 : tensor<8x6xf64>
}
func.func private @layer(%x: tensor<8x6xf64>, %w: tensor<6x6xf64>) -> tensor<8x6xf64> {
  %zero = arith.constant dense<0.0> : tensor<8x6xf64>
  %0 = linalg.matmul ins(%x, %w : tensor<8x6xf64>, tensor<6x6xf64>)
                     outs(%zero : tensor<8x6xf64>) -> tensor<8x6xf64>
  return %0 : tensor<8x6xf64>
})"},
    {"an element that becomes a factor of all", R"(
func.func @f(%x: tensor<8x6xf64>) -> tensor<8x6xf64> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : tensor<6xf64>
  %0 = linalg.reduce ins(%x : tensor<8x6xf64>) outs(%zero : tensor<6xf64>) dimensions = [0]
    (%in: f64, %out: f64) {
      %4 = arith.addf %in, %out : f64
      linalg.yield %4 : f64
    }
  %1 = tensor.extract %0[%c1] : tensor<6xf64>
  %2 = tensor.splat %1 : tensor<8x6xf64>
  %3 = arith.mulf %x, %2 : tensor<8x6xf64>
  return %3 : tensor<8x6xf64>
})"},
    {"a convolution", R"(
func.func @f(%x: tensor<4x4x4x6xf64>, %k: tensor<2x2x6x8xf64>, %y: tensor<4x3x3x8xf64>)
    -> tensor<4x3x3x8xf64> {
  %0 = linalg.conv_2d_nhwc_hwcf
     ins(%x, %k : tensor<4x4x4x6xf64>, tensor<2x2x6x8xf64>)
     outs(%y : tensor<4x3x3x8xf64>) -> tensor<4x3x3x8xf64>
  return %0 : tensor<4x3x3x8xf64>
})"},
    {"a convolution with zero points, over channels that do not divide", R"(
func.func @f(%x: tensor<2x4x4x5xi32>, %k: tensor<2x2x5x3xi32>, %y: tensor<2x3x3x3xi32>)
    -> tensor<2x3x3x3xi32> {
  %p = arith.constant 2 : i32
  %q = arith.constant 3 : i32
  %0 = linalg.conv_2d_nhwc_hwcf_q
     ins(%x, %k, %p, %q : tensor<2x4x4x5xi32>, tensor<2x2x5x3xi32>, i32, i32)
     outs(%y : tensor<2x3x3x3xi32>) -> tensor<2x3x3x3xi32>
  return %0 : tensor<2x3x3x3xi32>
})"},
    {"a product of sums, which is no sum of products", R"(
func.func @f(%x: tensor<4x6xf64>, %w: tensor<6x5xf64>) -> tensor<4xf64> {
  %zero = arith.constant dense<0.0> : tensor<4x5xf64>
  %0 = linalg.matmul ins(%x, %w : tensor<4x6xf64>, tensor<6x5xf64>)
                     outs(%zero : tensor<4x5xf64>) -> tensor<4x5xf64>
  %one = arith.constant dense<1.0> : tensor<4xf64>
  %1 = linalg.reduce ins(%0 : tensor<4x5xf64>) outs(%one : tensor<4xf64>) dimensions = [1]
    (%in: f64, %out: f64) {
      %2 = arith.mulf %in, %out : f64
      linalg.yield %2 : f64
    }
  return %1 : tensor<4xf64>
})"},
    {"columns that are broadcast, and their sum", R"(
func.func @f(%x: tensor<6xf64>, %y: tensor<5x6xf64>) -> (tensor<5x6xf64>, tensor<5xf64>) {
  %e = tensor.empty() : tensor<5x6xf64>
  %0 = linalg.broadcast ins(%x : tensor<6xf64>) outs(%e : tensor<5x6xf64>) dimensions = [0]
  %1 = linalg.sub ins(%y, %0 : tensor<5x6xf64>, tensor<5x6xf64>)
                  outs(%e : tensor<5x6xf64>) -> tensor<5x6xf64>
  %zero = arith.constant dense<0.0> : tensor<5xf64>
  %2 = linalg.matvec ins(%1, %x : tensor<5x6xf64>, tensor<6xf64>)
                     outs(%zero : tensor<5xf64>) -> tensor<5xf64>
  return %1, %2 : tensor<5x6xf64>, tensor<5xf64>
})"},
    {"TOSA: a head of attention", R"(
func.func @f(%x: tensor<3x4x6xf32>, %w: tensor<3x6x10xf32>, %m: tensor<3x1x10xf32>)
    -> (tensor<3x4x10xf32>, tensor<3x4x1xf32>, tensor<12x2x5xf32>) {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %s = "tosa.const"() {values = dense<0> : tensor<1xi8>} : () -> tensor<1xi8>
  %0 = tosa.matmul %x, %w, %z, %z
     : (tensor<3x4x6xf32>, tensor<3x6x10xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3x4x10xf32>
  %1 = tosa.add %0, %m : (tensor<3x4x10xf32>, tensor<3x1x10xf32>) -> tensor<3x4x10xf32>
  %2 = tosa.reduce_max %1 {axis = 2 : i32} : (tensor<3x4x10xf32>) -> tensor<3x4x1xf32>
  %3 = tosa.sub %1, %2 : (tensor<3x4x10xf32>, tensor<3x4x1xf32>) -> tensor<3x4x10xf32>
  %4 = tosa.reduce_sum %3 {axis = 2 : i32} : (tensor<3x4x10xf32>) -> tensor<3x4x1xf32>
  %5 = tosa.mul %3, %4, %s : (tensor<3x4x10xf32>, tensor<3x4x1xf32>, tensor<1xi8>) -> tensor<3x4x10xf32>
  %shape = tosa.const_shape {values = dense<[12, 2, 5]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %6 = tosa.reshape %5, %shape : (tensor<3x4x10xf32>, !tosa.shape<3>) -> tensor<12x2x5xf32>
  return %3, %4, %6 : tensor<3x4x10xf32>, tensor<3x4x1xf32>, tensor<12x2x5xf32>
})"},
    {"TOSA: a convolution and what follows", R"(
func.func @f(%x: tensor<4x5x5x3xf32>, %k: tensor<6x3x3x3xf32>, %b: tensor<6xf32>)
    -> (tensor<6x4x5x5xf32>, tensor<1x5x5x6xf32>) {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.conv2d %x, %k, %b, %z, %z
     {acc_type = f32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}
     : (tensor<4x5x5x3xf32>, tensor<6x3x3x3xf32>, tensor<6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x5x5x6xf32>
  %1 = tosa.tanh %0 : (tensor<4x5x5x6xf32>) -> tensor<4x5x5x6xf32>
  %2 = tosa.transpose %1 {perms = array<i32: 3, 0, 1, 2>} : (tensor<4x5x5x6xf32>) -> tensor<6x4x5x5xf32>
  %3 = tosa.reduce_sum %0 {axis = 0 : i32} : (tensor<4x5x5x6xf32>) -> tensor<1x5x5x6xf32>
  return %2, %3 : tensor<6x4x5x5xf32>, tensor<1x5x5x6xf32>
})"},
    {"a loop over rows, with a branch", R"(
func.func @f(%x: tensor<7x6xf64>, %w: tensor<6x6xf64>, %b: tensor<6xf64>) -> (tensor<7x6xf64>, tensor<7xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant dense<0.0> : tensor<7x6xf64>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<7x6xf64>) {
    %e = tensor.empty() : tensor<7x6xf64>
    %0 = linalg.matmul ins(%a, %w : tensor<7x6xf64>, tensor<6x6xf64>) outs(%zero : tensor<7x6xf64>) -> tensor<7x6xf64>
    %1 = linalg.broadcast ins(%b : tensor<6xf64>) outs(%e : tensor<7x6xf64>) dimensions = [0]
    %first = arith.cmpi eq, %i, %c0 : index
    %2 = scf.if %first -> (tensor<7x6xf64>) {
      %3 = arith.addf %0, %1 : tensor<7x6xf64>
      scf.yield %3 : tensor<7x6xf64>
    } else {
      %4 = math.tanh %0 : tensor<7x6xf64>
      scf.yield %4 : tensor<7x6xf64>
    }
    scf.yield %2 : tensor<7x6xf64>
  }
  %z = arith.constant dense<0.0> : tensor<7xf64>
  %s = linalg.reduce ins(%r : tensor<7x6xf64>) outs(%z : tensor<7xf64>) dimensions = [1]
    (%in: f64, %out: f64) {
      %5 = arith.addf %in, %out : f64
      linalg.yield %5 : f64
    }
  return %r, %s : tensor<7x6xf64>, tensor<7xf64>
})"},
    {"a loop with a call in it, and with a number from outside", R"(
func.func private @half(%x: tensor<6x8xf64>) -> tensor<6x8xf64> {
  %c = arith.constant dense<0.5> : tensor<6x8xf64>
  %y = arith.mulf %x, %c : tensor<6x8xf64>
  return %y : tensor<6x8xf64>
}
func.func @f(%x: tensor<6x8xf64>, %t: tensor<f64>) -> tensor<6x8xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %s = tensor.extract %t[] : tensor<f64>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<6x8xf64>) {
    %h = func.call @half(%a) : (tensor<6x8xf64>) -> tensor<6x8xf64>
    %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                         iterator_types = ["parallel", "parallel"]}
         ins(%h : tensor<6x8xf64>) outs(%h : tensor<6x8xf64>) {
    ^bb0(%e: f64, %o: f64):
      %m = arith.addf %e, %s : f64
      linalg.yield %m : f64
    } -> tensor<6x8xf64>
    scf.yield %g : tensor<6x8xf64>
  }
  return %r : tensor<6x8xf64>
})"},
    {"a function that is not inlined, and gives a number, too", R"(
func.func private @both(%x: tensor<6x8xf64>, %s: f64) -> (tensor<6x8xf64>, f64)
    attributes {no_inline} {
  %y = arith.addf %x, %x : tensor<6x8xf64>
  %d = arith.addf %s, %s : f64
  return %y, %d : tensor<6x8xf64>, f64
}
func.func @f(%x: tensor<6x8xf64>, %t: tensor<f64>)
    -> (tensor<6x8xf64>, tensor<6x8xf64>) {
  %s = tensor.extract %t[] : tensor<f64>
  %y, %d = func.call @both(%x, %s) : (tensor<6x8xf64>, f64) -> (tensor<6x8xf64>, f64)
  %p = tensor.splat %d : tensor<6x8xf64>
  %z = arith.mulf %y, %p : tensor<6x8xf64>
  return %y, %z : tensor<6x8xf64>, tensor<6x8xf64>
}
)"},
    {"numbers of rows as indices", R"(
func.func @f(%x: tensor<5xi64>) -> tensor<5xi64> {
  %none = arith.constant dense<0> : tensor<5xindex>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
       outs(%none : tensor<5xindex>) {
  ^bb0(%at: index):
    %i = linalg.index 0 : index
    linalg.yield %i : index
  } -> tensor<5xindex>
  %c = arith.index_cast %r : tensor<5xindex> to tensor<5xi64>
  %y = arith.addi %c, %x : tensor<5xi64>
  return %y : tensor<5xi64>
}
)"},
    {"a function that is not inlined, called twice", R"(
func.func @f(%x: tensor<8x6xf64>, %y: tensor<8x6xf64>) -> tensor<8x6xf64> {
  %0 = func.call @g(%x, %y) : (tensor<8x6xf64>, tensor<8x6xf64>) -> tensor<8x6xf64>
  %1 = math.tanh %0 : tensor<8x6xf64>
  %2 = func.call @g(%1, %x) : (tensor<8x6xf64>, tensor<8x6xf64>) -> tensor<8x6xf64>
  return %2 : tensor<8x6xf64>
}
func.func private @g(%x: tensor<8x6xf64>, %y: tensor<8x6xf64>) -> tensor<8x6xf64> attributes {no_inline} {
  %0 = arith.mulf %x, %y : tensor<8x6xf64>
  %z = arith.constant dense<0.0> : tensor<8xf64>
  %s = linalg.reduce ins(%0 : tensor<8x6xf64>) outs(%z : tensor<8xf64>) dimensions = [1]
    (%in: f64, %out: f64) {
      %5 = arith.addf %in, %out : f64
      linalg.yield %5 : f64
    }
  %e = tensor.empty() : tensor<8x6xf64>
  %b = linalg.broadcast ins(%s : tensor<8xf64>) outs(%e : tensor<8x6xf64>) dimensions = [1]
  %1 = arith.addf %b, %x : tensor<8x6xf64>
  return %1 : tensor<8x6xf64>
})"},
    {"TOSA: slices, pads, tiles and reverses", R"(
func.func @f(%x: tensor<7x6x5xf32>) -> (tensor<7x3x5xf32>, tensor<7x9x5xf32>, tensor<14x6x5xf32>, tensor<7x6x5xf32>) {
  %start = tosa.const_shape {values = dense<[0, 2, 0]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %size = tosa.const_shape {values = dense<[7, 3, 5]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %padding = tosa.const_shape {values = dense<[0, 0, 1, 2, 0, 0]> : tensor<6xindex>} : () -> !tosa.shape<6>
  %two = tosa.const_shape {values = dense<[2, 1, 1]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %v = "tosa.const"() {values = dense<3.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.tanh %x : (tensor<7x6x5xf32>) -> tensor<7x6x5xf32>
  %1 = tosa.slice %0, %start, %size : (tensor<7x6x5xf32>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<7x3x5xf32>
  %2 = tosa.pad %0, %padding, %v : (tensor<7x6x5xf32>, !tosa.shape<6>, tensor<1xf32>) -> tensor<7x9x5xf32>
  %3 = tosa.tile %0, %two : (tensor<7x6x5xf32>, !tosa.shape<3>) -> tensor<14x6x5xf32>
  %4 = tosa.reverse %0 {axis = 2 : i32} : (tensor<7x6x5xf32>) -> tensor<7x6x5xf32>
  return %1, %2, %3, %4 : tensor<7x3x5xf32>, tensor<7x9x5xf32>, tensor<14x6x5xf32>, tensor<7x6x5xf32>
})"},
    {"TOSA: rows by number, out and in", R"(
func.func @f(%x: tensor<3x7x6xf32>, %y: tensor<3x2x6xf32>) -> (tensor<3x6x6xf32>, tensor<3x7x6xf32>, tensor<3x7xi32>) {
  %i = "tosa.const"() {values = dense<[[0, 6, 3, 3, 1, 2], [5, 5, 5, 0, 1, 6], [1, 2, 3, 4, 5, 6]]> : tensor<3x6xi32>} : () -> tensor<3x6xi32>
  %j = "tosa.const"() {values = dense<[[0, 6], [5, 3], [1, 2]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
  %0 = tosa.gather %x, %i : (tensor<3x7x6xf32>, tensor<3x6xi32>) -> tensor<3x6x6xf32>
  %1 = tosa.scatter %x, %j, %y : (tensor<3x7x6xf32>, tensor<3x2xi32>, tensor<3x2x6xf32>) -> tensor<3x7x6xf32>
  %2 = tosa.argmax %1 {axis = 2 : i32} : (tensor<3x7x6xf32>) -> tensor<3x7xi32>
  return %0, %1, %2 : tensor<3x6x6xf32>, tensor<3x7x6xf32>, tensor<3x7xi32>
})"},
    {"TOSA: windows of channels", R"(
func.func @f(%x: tensor<4x6x6x3xf32>, %k: tensor<2x2x3x2xf32>, %b: tensor<6xf32>)
    -> (tensor<4x2x2x6xf32>, tensor<4x2x2x6xf32>) {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.depthwise_conv2d %x, %k, %b, %z, %z
     {acc_type = f32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}
     : (tensor<4x6x6x3xf32>, tensor<2x2x3x2xf32>, tensor<6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x5x5x6xf32>
  %1 = tosa.max_pool2d %0 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 3, 3>}
     : (tensor<4x5x5x6xf32>) -> tensor<4x2x2x6xf32>
  %2 = tosa.avg_pool2d %0, %z, %z {acc_type = f32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 3, 3>}
     : (tensor<4x5x5x6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x2x2x6xf32>
  return %1, %2 : tensor<4x2x2x6xf32>, tensor<4x2x2x6xf32>
})"},
    {"TOSA: a convolution of a volume", R"(
func.func @f(%x: tensor<3x3x3x3x2xf32>, %k: tensor<5x2x2x2x2xf32>, %b: tensor<5xf32>) -> tensor<3x2x2x2x5xf32> {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.conv3d %x, %k, %b, %z, %z
     {acc_type = f32, pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>}
     : (tensor<3x3x3x3x2xf32>, tensor<5x2x2x2x2xf32>, tensor<5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3x2x2x2x5xf32>
  return %0 : tensor<3x2x2x2x5xf32>
})"},
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_MODELS_PROGRAMS_H
