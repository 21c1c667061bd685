// Attention as exporters write it becomes one op, and only that.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s --kerf-recognise-attention | FileCheck %s
// RUN: kerf-opt %s --kerf-recognise-attention="wide training" | FileCheck %s --check-prefix=WIDE

// What PyTorch's exporter gives for GPT-2: the factor in front of the queries' heads, the lower triangle added.
// CHECK-LABEL: func.func @gpt
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x16xbf16>, %[[K:[^:]*]]: tensor<2x2x3x8xbf16>
// CHECK: %[[HEADS:.*]] = nn.reshape %[[Q]]
// CHECK: %[[T:.*]] = nn.transpose %[[HEADS]]
// CHECK-NEXT: %{{.*}}, %{{.*}} = nn.attention %[[T]], %[[K]], %{{.*}} scale 0.25 {causal}
// CHECK-NOT: nn.softmax
func.func @gpt(%q: tensor<2x3x16xbf16>, %k: tensor<2x2x3x8xbf16>, %v: tensor<2x2x3x8xbf16>) -> tensor<2x2x3x8xbf16> {
  %f = nn.constant dense<0.25> : tensor<bf16>
  %s = nn.mul %q, %f : (tensor<2x3x16xbf16>, tensor<bf16>) -> tensor<2x3x16xbf16>
  %h = nn.reshape %s : (tensor<2x3x16xbf16>) -> tensor<2x3x2x8xbf16>
  %t = nn.transpose %h perm [0, 2, 1, 3] : (tensor<2x3x2x8xbf16>) -> tensor<2x2x3x8xbf16>
  %m = nn.matmul %t, %k {transpose_rhs} : (tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x3xbf16>
  %c = nn.constant dense<[[[[0.0, -3.0e38, -3.0e38], [0.0, 0.0, -3.0e38], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xbf16>
  %a = nn.add %m, %c : (tensor<2x2x3x3xbf16>, tensor<1x1x3x3xbf16>) -> tensor<2x2x3x3xbf16>
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xbf16>
  %y = nn.matmul %p, %v : (tensor<2x2x3x3xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x8xbf16>
  return %y : tensor<2x2x3x8xbf16>
}

// BERT: a mask of the input, in f32 because the softmax is.
// CHECK-LABEL: func.func @bert
// CHECK: nn.max
// CHECK: nn.cast
// CHECK: nn.attention {{.*}} scale 0.5 : tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>, tensor<2x1x1x3xbf16>
func.func @bert(%q: tensor<2x2x3x8xbf16>, %k: tensor<2x2x3x8xbf16>, %v: tensor<2x2x3x8xbf16>, %b: tensor<2x1x1x3xf32>) -> tensor<2x2x3x8xbf16> {
  %m = nn.matmul %q, %k {transpose_rhs} : (tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x3xbf16>
  %w = nn.cast %m : (tensor<2x2x3x3xbf16>) -> tensor<2x2x3x3xf32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %d = nn.div %w, %two : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %a = nn.add %d, %b : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xf32>
  %n = nn.cast %p : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xbf16>
  %y = nn.matmul %n, %v : (tensor<2x2x3x3xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x8xbf16>
  return %y : tensor<2x2x3x8xbf16>
}

// A mask that selects (masked_fill).
// CHECK-LABEL: func.func @filled
// CHECK: nn.select
// CHECK: nn.attention {{.*}} scale 1.0 :
func.func @filled(%q: tensor<2x2x3x8xbf16>, %c: tensor<2x1x3x3xi1>) -> tensor<2x2x3x8xbf16> {
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x3xbf16>
  %i = nn.constant dense<0xFF80> : tensor<bf16>
  %a = nn.select %c, %i, %m : (tensor<2x1x3x3xi1>, tensor<bf16>, tensor<2x2x3x3xbf16>) -> tensor<2x2x3x3xbf16>
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xbf16>
  %y = nn.matmul %p, %q : (tensor<2x2x3x3xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x8xbf16>
  return %y : tensor<2x2x3x8xbf16>
}

// LLaMA: keys that were repeated for their group.
// CHECK-LABEL: func.func @repeated
// CHECK-NOT: nn.broadcast
// CHECK: nn.attention {{.*}} : tensor<2x4x3x8xbf16>, tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>{{$}}
func.func @repeated(%q: tensor<2x4x3x8xbf16>, %k: tensor<2x2x1x3x8xbf16>, %v: tensor<2x2x1x3x8xbf16>) -> tensor<2x4x3x8xbf16> {
  %kb = nn.broadcast %k : (tensor<2x2x1x3x8xbf16>) -> tensor<2x2x2x3x8xbf16>
  %kr = nn.reshape %kb : (tensor<2x2x2x3x8xbf16>) -> tensor<2x4x3x8xbf16>
  %vb = nn.broadcast %v : (tensor<2x2x1x3x8xbf16>) -> tensor<2x2x2x3x8xbf16>
  %vr = nn.reshape %vb : (tensor<2x2x2x3x8xbf16>) -> tensor<2x4x3x8xbf16>
  %m = nn.matmul %q, %kr {transpose_rhs} : (tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>) -> tensor<2x4x3x3xbf16>
  %p = nn.softmax %m dim 3 : tensor<2x4x3x3xbf16>
  %y = nn.matmul %p, %vr : (tensor<2x4x3x3xbf16>, tensor<2x4x3x8xbf16>) -> tensor<2x4x3x8xbf16>
  return %y : tensor<2x4x3x8xbf16>
}

// Groups as a dimension of their own.
// CHECK-LABEL: func.func @groups
// CHECK: nn.attention {{.*}} : tensor<2x4x3x8xbf16>, tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>{{$}}
// CHECK: nn.reshape {{.*}} -> tensor<2x2x2x3x8xbf16>
func.func @groups(%q: tensor<2x2x2x3x8xbf16>, %k: tensor<2x2x1x3x8xbf16>) -> tensor<2x2x2x3x8xbf16> {
  %m = nn.matmul %q, %k {transpose_rhs} : (tensor<2x2x2x3x8xbf16>, tensor<2x2x1x3x8xbf16>) -> tensor<2x2x2x3x3xbf16>
  %p = nn.softmax %m dim 4 : tensor<2x2x2x3x3xbf16>
  %y = nn.matmul %p, %k : (tensor<2x2x2x3x3xbf16>, tensor<2x2x1x3x8xbf16>) -> tensor<2x2x2x3x8xbf16>
  return %y : tensor<2x2x2x3x8xbf16>
}

// Not in f32, unless it will be rounded.
// CHECK-LABEL: func.func @f32
// CHECK-NOT: nn.attention
// WIDE-LABEL: func.func @f32
// WIDE: nn.attention
func.func @f32(%q: tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32> {
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %m dim 3 : tensor<2x2x3x3xf32>
  %y = nn.matmul %p, %q : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y : tensor<2x2x3x8xf32>
}

// Not where probabilities are a result.
// WIDE-LABEL: func.func @probabilities
// WIDE-NOT: nn.attention
func.func @probabilities(%q: tensor<2x2x3x8xf32>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3x3xf32>) {
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %m dim 3 : tensor<2x2x3x3xf32>
  %y = nn.matmul %p, %q : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y, %p : tensor<2x2x3x8xf32>, tensor<2x2x3x3xf32>
}

// Not with dropout inside.
// WIDE-LABEL: func.func @dropout
// WIDE-NOT: nn.attention
func.func @dropout(%q: tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32> {
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %m dim 3 : tensor<2x2x3x3xf32>
  %d = nn.dropout %p {ratio = 0.1 : f64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = nn.matmul %d, %q : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y : tensor<2x2x3x8xf32>
}

// Not where a bias is trained; in inference it is one.
// WIDE-LABEL: func.func @learned
// WIDE-NOT: nn.attention
// CHECK-LABEL: func.func @learned
// CHECK: nn.attention
func.func @learned(%q: tensor<2x2x3x8xbf16>) -> tensor<2x2x3x8xbf16> {
  %b = nn.weight "b" file 0 at 0 : tensor<2x3x3xbf16>
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x8xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x3xbf16>
  %a = nn.add %b, %m : (tensor<2x3x3xbf16>, tensor<2x2x3x3xbf16>) -> tensor<2x2x3x3xbf16>
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xbf16>
  %y = nn.matmul %p, %q : (tensor<2x2x3x3xbf16>, tensor<2x2x3x8xbf16>) -> tensor<2x2x3x8xbf16>
  return %y : tensor<2x2x3x8xbf16>
}

// Not for heads of a size that cuDNN does not take, nor along another dimension.
// WIDE-LABEL: func.func @sizes
// WIDE-NOT: nn.attention
func.func @sizes(%q: tensor<2x2x3x12xf32>, %r: tensor<2x2x3x8xf32>) -> (tensor<2x2x3x12xf32>, tensor<2x2x3x8xf32>) {
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x12xf32>, tensor<2x2x3x12xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %m dim 3 : tensor<2x2x3x3xf32>
  %y = nn.matmul %p, %q : (tensor<2x2x3x3xf32>, tensor<2x2x3x12xf32>) -> tensor<2x2x3x12xf32>
  %n = nn.matmul %r, %r {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
  %o = nn.softmax %n dim 2 : tensor<2x2x3x3xf32>
  %z = nn.matmul %o, %r : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y, %z : tensor<2x2x3x12xf32>, tensor<2x2x3x8xf32>
}
