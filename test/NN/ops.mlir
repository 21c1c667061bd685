// Every op of nn is printed as it is read; -verify-roundtrip checks the bytecode,
// too. What the ops mean is tested where they are executed.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -verify-roundtrip | FileCheck %s

// Operand and result share one type.
// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<2x3xf32>, %b: tensor<2x3xi1>) {
  // CHECK: nn.neg %{{.*}} : tensor<2x3xf32>
  %0 = nn.neg %x : tensor<2x3xf32>
  // CHECK: nn.abs
  %1 = nn.abs %x : tensor<2x3xf32>
  // CHECK: nn.sign
  %2 = nn.sign %x : tensor<2x3xf32>
  // CHECK: nn.exp
  %3 = nn.exp %x : tensor<2x3xf32>
  // CHECK: nn.log
  %4 = nn.log %x : tensor<2x3xf32>
  // CHECK: nn.sqrt
  %5 = nn.sqrt %x : tensor<2x3xf32>
  // CHECK: nn.rsqrt
  %6 = nn.rsqrt %x : tensor<2x3xf32>
  // CHECK: nn.reciprocal
  %7 = nn.reciprocal %x : tensor<2x3xf32>
  // CHECK: nn.erf
  %8 = nn.erf %x : tensor<2x3xf32>
  // CHECK: nn.tanh
  %9 = nn.tanh %x : tensor<2x3xf32>
  // CHECK: nn.sigmoid
  %10 = nn.sigmoid %x : tensor<2x3xf32>
  // CHECK: nn.sin
  %11 = nn.sin %x : tensor<2x3xf32>
  // CHECK: nn.cos
  %12 = nn.cos %x : tensor<2x3xf32>
  // CHECK: nn.log1p
  %log1p = nn.log1p %x : tensor<2x3xf32>
  // CHECK: nn.tan
  %tan = nn.tan %x : tensor<2x3xf32>
  // CHECK: nn.asin %
  %asin = nn.asin %x : tensor<2x3xf32>
  // CHECK: nn.acos %
  %acos = nn.acos %x : tensor<2x3xf32>
  // CHECK: nn.atan %
  %atan = nn.atan %x : tensor<2x3xf32>
  // CHECK: nn.sinh
  %sinh = nn.sinh %x : tensor<2x3xf32>
  // CHECK: nn.cosh
  %cosh = nn.cosh %x : tensor<2x3xf32>
  // CHECK: nn.asinh
  %asinh = nn.asinh %x : tensor<2x3xf32>
  // CHECK: nn.acosh
  %acosh = nn.acosh %x : tensor<2x3xf32>
  // CHECK: nn.atanh
  %atanh = nn.atanh %x : tensor<2x3xf32>
  // CHECK: nn.floor
  %13 = nn.floor %x : tensor<2x3xf32>
  // CHECK: nn.ceil
  %14 = nn.ceil %x : tensor<2x3xf32>
  // CHECK: nn.round
  %15 = nn.round %x : tensor<2x3xf32>
  // CHECK: nn.relu
  %16 = nn.relu %x : tensor<2x3xf32>
  // CHECK: nn.not %{{.*}} : tensor<2x3xi1>
  %17 = nn.not %b : tensor<2x3xi1>
  // CHECK: nn.silu
  %silu = nn.silu %x : tensor<2x3xf32>
  // CHECK: nn.gelu %{{.*}} : tensor<2x3xf32>
  %18 = nn.gelu %x : tensor<2x3xf32>
  // CHECK: nn.gelu_gradient %{{.*}}, %{{.*}} {tanh} : tensor<2x3xf32>
  %slope = nn.gelu_gradient %x, %x {tanh} : tensor<2x3xf32>
  // CHECK: nn.gelu %{{.*}} {tanh} :
  %19 = nn.gelu %x {tanh} : tensor<2x3xf32>
  // CHECK: nn.is_nan %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %20 = nn.is_nan %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK: nn.bitcast %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xi32>
  %bits = nn.bitcast %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
  // CHECK: nn.cast %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf8E4M3FN>
  %narrow = nn.cast %x : (tensor<2x3xf32>) -> tensor<2x3xf8E4M3FN>
  // CHECK: nn.cast %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xi64>
  %21 = nn.cast %x : (tensor<2x3xf32>) -> tensor<2x3xi64>
  return
}

// Shapes are right-aligned; a dimension of size 1 fits any.
// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %s: tensor<f32>,
                  %i: tensor<2x1xi64>, %b: tensor<2x3xi1>) {
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %0 = nn.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.sub
  %1 = nn.sub %x, %s : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK: nn.mul
  %2 = nn.mul %s, %x : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.div
  %3 = nn.div %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.mod %{{.*}} : tensor<2x1xi64>
  %4 = nn.mod %i, %i : tensor<2x1xi64>
  // CHECK: nn.rem
  %5 = nn.rem %i, %i : tensor<2x1xi64>
  // CHECK: nn.pow
  %6 = nn.pow %x, %s : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK: nn.max
  %7 = nn.max %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.min
  %8 = nn.min %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.and
  %9 = nn.and %b, %b : tensor<2x3xi1>
  // CHECK: nn.and %{{.*}} : tensor<2x1xi64>
  %bits = nn.and %i, %i : tensor<2x1xi64>
  // CHECK: nn.not %{{.*}} : tensor<2x1xi64>
  %flipped = nn.not %bits : tensor<2x1xi64>
  // CHECK: nn.or
  %10 = nn.or %b, %b : tensor<2x3xi1>
  // CHECK: nn.xor
  %11 = nn.xor %b, %b : tensor<2x3xi1>
  // CHECK: nn.shift_left %{{.*}} : tensor<2x1xi64>
  %left = nn.shift_left %i, %i : tensor<2x1xi64>
  // CHECK: nn.shift_right %{{.*}} : tensor<2x1xi64>
  %right = nn.shift_right %i, %i : tensor<2x1xi64>
  // CHECK: nn.equal %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %12 = nn.equal %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: nn.less %{{.*}} -> tensor<2x3xi1>
  %13 = nn.less %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: nn.less_equal %{{.*}} -> tensor<2x3xi1>
  %14 = nn.less_equal %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: nn.select %{{.*}} : (tensor<2x3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %15 = nn.select %b, %y, %s : (tensor<2x3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @contractions
func.func @contractions(%a: tensor<5x2x3xf32>, %b: tensor<4x3xf32>, %c: tensor<3x2xf32>,
                        %x: tensor<1x8x8x4xf32>, %w: tensor<6x2x3x3xf32>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<5x2x3xf32>, tensor<4x3xf32>) -> tensor<5x2x4xf32>
  %0 = nn.matmul %a, %b {transpose_rhs} : (tensor<5x2x3xf32>, tensor<4x3xf32>) -> tensor<5x2x4xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<5x2x3xf32>, tensor<3x2xf32>) -> tensor<5x2x2xf32>
  %1 = nn.matmul %a, %c : (tensor<5x2x3xf32>, tensor<3x2xf32>) -> tensor<5x2x2xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_lhs, transpose_rhs} : (tensor<3x2xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %2 = nn.matmul %c, %b {transpose_lhs, transpose_rhs} : (tensor<3x2xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  // CHECK: nn.conv %{{.*}}, %{{.*}} kernel 3x3 strides 2x1 pad 1x2 dilations 1x2 groups 2 : tensor<1x8x8x4xf32> -> tensor<1x4x8x6xf32>
  %3 = nn.conv %x, %w kernel 3x3 strides 2x1 pad 1x2 dilations 1x2 groups 2 : tensor<1x8x8x4xf32> -> tensor<1x4x8x6xf32>
  // CHECK: nn.max_pool %{{.*}} kernel 3x3 strides 2x2 low 1x1 high 0x0 : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  %4 = nn.max_pool %x kernel 3x3 strides 2x2 low 1x1 high 0x0 : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  // CHECK: nn.avg_pool %{{.*}} kernel 2x2 strides 2x2 {count_include_pad} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  %5 = nn.avg_pool %x kernel 2x2 strides 2x2 {count_include_pad} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  return
}

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x3xf32>, %v: tensor<3xf32>) {
  // CHECK: nn.reduce sum %{{.*}} dims [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  %0 = nn.reduce sum %x dims [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: nn.reduce max %{{.*}} dims [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  %1 = nn.reduce max %x dims [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  // CHECK: nn.arg_reduce %{{.*}} dim 0 {min} : (tensor<2x3xf32>) -> tensor<3xi64>
  %2 = nn.arg_reduce %x dim 0 {min} : (tensor<2x3xf32>) -> tensor<3xi64>
  // CHECK: nn.softmax %{{.*}} dim 1 : tensor<2x3xf32>
  %3 = nn.softmax %x dim 1 : tensor<2x3xf32>
  // CHECK: nn.log_softmax %{{.*}} dim 0
  %4 = nn.log_softmax %x dim 0 : tensor<2x3xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} dim 1 epsilon 1.0e-05
  %5 = nn.layer_norm %x, %v, %v dim 1 epsilon 1.0e-05 : tensor<2x3xf32>, tensor<3xf32>
  // CHECK: nn.rms_norm %{{.*}}, %{{.*}} dim 1 epsilon 2.0e-05
  %6 = nn.rms_norm %x, %v dim 1 epsilon 2.0e-05 : tensor<2x3xf32>, tensor<3xf32>
  // CHECK: nn.lp_norm %{{.*}} dim 1 {absolute} : tensor<2x3xf32>
  %lp = nn.lp_norm %x dim 1 {absolute} : tensor<2x3xf32>
  // CHECK: nn.batch_norm {{.*}} epsilon 1.0e-05 : tensor<2x3xf32>, tensor<3xf32>
  %7 = nn.batch_norm %x, %v, %v, %v, %v epsilon 1.0e-05 : tensor<2x3xf32>, tensor<3xf32>
  // CHECK: nn.lrn %{{.*}} size 5 alpha 1.0e-04 beta 0.75 bias 1.0
  %8 = nn.lrn %x size 5 alpha 1.0e-04 beta 0.75 bias 1.0 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<2x12xf32>, %i: tensor<2x3xi64>, %n: tensor<3x1xf32>) {
  // CHECK: nn.reshape %{{.*}} : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %0 = nn.reshape %x : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.transpose %{{.*}} perm [1, 0] : (tensor<2x12xf32>) -> tensor<12x2xf32>
  %1 = nn.transpose %x perm [1, 0] : (tensor<2x12xf32>) -> tensor<12x2xf32>
  // CHECK: nn.broadcast %{{.*}} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %2 = nn.broadcast %n : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.concat %{{.*}}, %{{.*}} dim 0 : (tensor<2x12xf32>, tensor<2x12xf32>) -> tensor<4x12xf32>
  %3 = nn.concat %x, %x dim 0 : (tensor<2x12xf32>, tensor<2x12xf32>) -> tensor<4x12xf32>
  // CHECK: nn.slice %{{.*}} from [1, 11] strides [-1, -3] : (tensor<2x12xf32>) -> tensor<2x4xf32>
  %4 = nn.slice %x from [1, 11] strides [-1, -3] : (tensor<2x12xf32>) -> tensor<2x4xf32>
  // CHECK: nn.pad %{{.*}} by [1:0, 0:2] value 0.000000e+00 : f32 : (tensor<2x12xf32>) -> tensor<3x14xf32>
  %5 = nn.pad %x by [1:0, 0:2] value 0.0 : f32 : (tensor<2x12xf32>) -> tensor<3x14xf32>
  // CHECK: nn.gather %{{.*}}, %{{.*}} dim 1 : (tensor<2x12xf32>, tensor<2x3xi64>) -> tensor<2x2x3xf32>
  %6 = nn.gather %x, %i dim 1 : (tensor<2x12xf32>, tensor<2x3xi64>) -> tensor<2x2x3xf32>
  // CHECK: nn.gather %{{.*}}, %{{.*}} dim 1 {batched} : (tensor<2x12xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  %7 = nn.gather %x, %i dim 1 {batched} : (tensor<2x12xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  // CHECK: nn.scatter set %{{.*}}, %{{.*}}, %{{.*}} dim 1 : (tensor<2x12xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x12xf32>
  %8 = nn.scatter set %x, %i, %7 dim 1 : (tensor<2x12xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x12xf32>
  // CHECK: nn.scatter max %{{.*}}, %{{.*}}, %{{.*}} dim 1 {partial}
  %9 = nn.scatter max %x, %i, %7 dim 1 {partial} : (tensor<2x12xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x12xf32>
  // CHECK: nn.top_k 5 of %{{.*}} : (tensor<2x12xf32>) -> tensor<2x5xi64>
  %10 = nn.top_k 5 of %x : (tensor<2x12xf32>) -> tensor<2x5xi64>
  // CHECK: nn.top_k 1 of %{{.*}} {smallest} : (tensor<2x12xf32>) -> tensor<2x1xi64>
  %11 = nn.top_k 1 of %x {smallest} : (tensor<2x12xf32>) -> tensor<2x1xi64>
  %12 = nn.reshape %x : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %13 = nn.slice %12 from [0, 0, 0] : (tensor<2x3x4xf32>) -> tensor<2x2x3xf32>
  %14 = nn.constant dense<5.0e-01> : tensor<f32>
  %most = nn.constant dense<1> : tensor<i64>
  // CHECK: nn.greedy_suppress 2 of %{{.*}}, %{{.*}} threshold %{{.*}} most %{{.*}} : (tensor<2x3x4xf32>, tensor<2x2x3xf32>, tensor<f32>,
  // CHECK-SAME: tensor<i64>) -> tensor<2x2x2xi64>
  %15 = nn.greedy_suppress 2 of %12, %13 threshold %14 most %most
    : (tensor<2x3x4xf32>, tensor<2x2x3xf32>, tensor<f32>, tensor<i64>) -> tensor<2x2x2xi64>
  return
}

// CHECK-LABEL: func.func @sources
func.func @sources() {
  // CHECK: nn.weight "w" file 0 at 128 : tensor<4x6xf32>
  %0 = nn.weight "w" file 0 at 128 : tensor<4x6xf32>
  // CHECK: nn.weight "w" file 0 at 128 : tensor<4x2xf32> of tensor<4x6xf32> from [0, 2]
  %1 = nn.weight "w" file 0 at 128 : tensor<4x2xf32> of tensor<4x6xf32> from [0, 2]
  // CHECK: nn.constant dense<[1, 2]> : tensor<2xi64>
  %2 = nn.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK: nn.constant {name = "mask_value"} dense<-1.000000e+09> : tensor<f32>
  %3 = nn.constant {name = "mask_value"} dense<-1.0e9> : tensor<f32>
  // CHECK: nn.iota dim 1 : tensor<2x3xi64>
  %4 = nn.iota dim 1 : tensor<2x3xi64>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x3x8xbf16>, %k: tensor<2x2x5x8xbf16>, %v: tensor<2x2x5x16xbf16>, %b: tensor<2x1x1x5xf32>) {
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} scale 0.125 {causal} : tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x16xbf16>
  %0:2 = nn.attention %q, %k, %v scale 0.125 {causal}
     : tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x16xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scale 1.0
  %1:2 = nn.attention %q, %k, %v, %b scale 1.0
     : tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x16xbf16>, tensor<2x1x1x5xf32>
  // CHECK: nn.attention_gradient {{.*}} scale 1.0 : tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x16xbf16>, tensor<2x1x1x5xf32>
  %2:3 = nn.attention_gradient %q, %k, %v, %1#0, %1#1, %1#0, %b scale 1.0
     : tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x16xbf16>, tensor<2x1x1x5xf32>
  return
}
