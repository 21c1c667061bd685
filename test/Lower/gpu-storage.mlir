// What goes through a GPU's memory, and what does not.
// RUN: kerf-opt %s --split-input-file --kerf-prepare --kerf-form-groups --kerf-bufferize | FileCheck %s
// REQUIRES: kerf-opt

// A product with its bias is stored in 16 bits, the bias read in them; gelu and
// its reader widen. Behind an addend it stays wide.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}}lhs({{[^)]*}}xbf16>){{.*}}bias(%{{[0-9]+}} : !exec.weight<{{[0-9]+}}xbf16>) dst({{[^)]*}}xbf16>)
// CHECK: exec.launch {{.*}}memref<6x16xbf16>{{.*}}memref<6x16xbf16>
// CHECK: exec.matmul 1 {{.*}}lhs({{[^)]*}}xbf16>){{.*}}dst({{[^)]*}}xf32>) then [add(
// CHECK-NOT: exec.launch
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xbf16>, %r: tensor<6x8xf32>) -> tensor<6x8xf32> {
    %v = nn.weight "v" file 0 at 0 : tensor<8x16xbf16>
    %w = nn.weight "w" file 0 at 256 : tensor<16x8xbf16>
    %b = nn.weight "b" file 0 at 512 : tensor<16xf32>
    %p = nn.matmul %x, %v : (tensor<6x8xbf16>, tensor<8x16xbf16>) -> tensor<6x16xbf16>
    %q = nn.cast %p : (tensor<6x16xbf16>) -> tensor<6x16xf32>
    %s = nn.add %q, %b : (tensor<6x16xf32>, tensor<16xf32>) -> tensor<6x16xf32>
    %g = nn.gelu %s : tensor<6x16xf32>
    %h = nn.cast %g : (tensor<6x16xf32>) -> tensor<6x16xbf16>
    %t = nn.matmul %h, %w : (tensor<6x16xbf16>, tensor<16x8xbf16>) -> tensor<6x8xbf16>
    %u = nn.cast %t : (tensor<6x8xbf16>) -> tensor<6x8xf32>
    %y = nn.add %u, %r : tensor<6x8xf32>
    return %y : tensor<6x8xf32>
  }
}

// -----

// What leaves the function, and a gradient that an update takes as it is made,
// stay wide.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}}lhs({{[^)]*}}xbf16>){{.*}}dst({{[^)]*}}xf32>)
// CHECK: exec.matmul 1 {{.*}}lhs({{[^)]*}}xbf16>){{.*}}dst({{[^)]*}}xf32>)
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<6x8xbf16>, %y: tensor<8x4xbf16>, %z: tensor<8x4xbf16>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
    %p = nn.matmul %x, %y : (tensor<6x8xbf16>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
    %q = nn.cast %p : (tensor<6x4xbf16>) -> tensor<6x4xf32>
    %g = nn.matmul %x, %z : (tensor<6x8xbf16>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
    %h = nn.cast %g {kerf.transfer_cast} : (tensor<6x4xbf16>) -> tensor<6x4xf32>
    %s = nn.exp %h : tensor<6x4xf32>
    return %q, %s : tensor<6x4xf32>, tensor<6x4xf32>
  }
}

// -----

// Several kernels read a product: each widens it for itself.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.{{(matmul|conv|attention).*}} 0 
// CHECK-NOT: dst_dtype
// CHECK-COUNT-2: exec.launch {{.*}} : (memref<16384x64xbf16>) -> memref
// CHECK-NOT: 16384x64xf32
// CHECK: exec.launch {{.*}} : (memref<16384x64xbf16>, memref<64xf32>) -> memref<16384x64xf32>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<16384x8xbf16>, %y: tensor<8x64xbf16>) -> (tensor<16384xf32>, tensor<16384x64xf32>) {
    %p = nn.matmul %x, %y : (tensor<16384x8xbf16>, tensor<8x64xbf16>) -> tensor<16384x64xbf16>
    %q = nn.cast %p : (tensor<16384x64xbf16>) -> tensor<16384x64xf32>
    %s = nn.reduce sum %q dims [1] : (tensor<16384x64xf32>) -> tensor<16384xf32>
    %t = nn.reduce sum %q dims [0] : (tensor<16384x64xf32>) -> tensor<64xf32>
    %u = nn.add %q, %t : (tensor<16384x64xf32>, tensor<64xf32>) -> tensor<16384x64xf32>
    return %s, %u : tensor<16384xf32>, tensor<16384x64xf32>
  }
}

// -----

// exp(x - max) is computed to be added up, and again where it is divided: not
// 16384 x 64 of them but the rows' largest elements are stored between.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.launch {{.*}} : (memref<512x64xf32>) -> (memref<512xf32>, memref<512xf32>{{.*}})
// CHECK: exec.{{(matmul|conv|attention).*}} 0 
// CHECK: exec.launch {{.*}}memref<512x64xf32>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<512x64xf32>, %w: tensor<512x512xf32>) -> tensor<512x64xf32> {
    %m = nn.reduce max %x dims [1] : (tensor<512x64xf32>) -> tensor<512xf32>
    %c = nn.reshape %m : (tensor<512xf32>) -> tensor<512x1xf32>
    %d = nn.sub %x, %c : (tensor<512x64xf32>, tensor<512x1xf32>) -> tensor<512x64xf32>
    %e = nn.exp %d : tensor<512x64xf32>
    %s = nn.reduce sum %e dims [1] : (tensor<512x64xf32>) -> tensor<512xf32>
    %r = nn.reshape %s : (tensor<512xf32>) -> tensor<512x1xf32>
    %t = nn.matmul %w, %r : (tensor<512x512xf32>, tensor<512x1xf32>) -> tensor<512x1xf32>
    %y = nn.div %e, %t : (tensor<512x64xf32>, tensor<512x1xf32>) -> tensor<512x64xf32>
    return %y : tensor<512x64xf32>
  }
}

// -----

// A convolution with bias, addend and relu; the addend is read in 16 bits too.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.conv 0 {{.*}}dst({{[^)]*}}xbf16>) then [relu]
// CHECK: exec.conv 1 {{.*}}then [add(%{{[^ ]*}} : {{[^)]*}}xbf16>), relu]
// CHECK: exec.launch {{.*}}memref<1x4x4x8xbf16>
// CHECK-NOT: exec.launch
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32> {
    %w = nn.weight "w" file 0 at 0 : tensor<8x8x1x1xbf16>
    %b = nn.weight "b" file 0 at 128 : tensor<8xf32>
    %p = nn.conv %x, %w kernel 1x1 : tensor<1x4x4x8xbf16> -> tensor<1x4x4x8xbf16>
    %q = nn.cast %p : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32>
    %s = nn.add %q, %b : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xf32>
    %r = nn.relu %s : tensor<1x4x4x8xf32>
    %h = nn.cast %r : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xbf16>
    %t = nn.conv %h, %w kernel 1x1 : tensor<1x4x4x8xbf16> -> tensor<1x4x4x8xbf16>
    %u = nn.cast %t : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32>
    %v = nn.add %u, %b : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xf32>
    %a = nn.add %v, %r : tensor<1x4x4x8xf32>
    %z = nn.relu %a : tensor<1x4x4x8xf32>
    %y = nn.exp %z : tensor<1x4x4x8xf32>
    return %y : tensor<1x4x4x8xf32>
  }
}

// -----

// Heads lie where the next product wants them; whoever wants them elsewhere
// reads them by strides.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.attention 0 {{.*}}dst({{[^)]*}}strides [80, 8, 16, 1])
// CHECK: exec.matmul 1
// CHECK: exec.{{.*}} 2 {{.*}}strides [80, 8, 16, 1]
// CHECK-NOT: exec.launch
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%q: tensor<2x2x5x8xbf16>, %k: tensor<2x2x5x8xbf16>, %w: tensor<16x4xbf16>, %m: tensor<2x2x8x8xbf16>)
      -> (tensor<10x4xbf16>, tensor<2x2x5x8xbf16>) {
    %a:2 = nn.attention %q, %k, %k scale 1.0 {causal} : tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>
    %t = nn.transpose %a#0 perm [0, 2, 1, 3] : (tensor<2x2x5x8xbf16>) -> tensor<2x5x2x8xbf16>
    %r = nn.reshape %t : (tensor<2x5x2x8xbf16>) -> tensor<10x16xbf16>
    %p = nn.matmul %r, %w : (tensor<10x16xbf16>, tensor<16x4xbf16>) -> tensor<10x4xbf16>
    %o = nn.matmul %a#0, %m : (tensor<2x2x5x8xbf16>, tensor<2x2x8x8xbf16>) -> tensor<2x2x5x8xbf16>
    return %p, %o : tensor<10x4xbf16>, tensor<2x2x5x8xbf16>
  }
}

// -----

// Rows of 37 elements do not begin where 16 bytes do: the product has 40
// columns, of a weight with three rows of zeros; sums take the additional ones
// for their identity, and the product behind adds up zeros. Which columns are
// additional is counted, not stored.
// CHECK: exec.kernel @cast_pad_{{[0-9]+}}(%{{.*}}: tensor<37x16xf32>) -> tensor<40x16xbf16>
// CHECK: exec.kernel {{.*}}(%[[P:.*]]: tensor<24x40xbf16>) -> tensor<24x40xbf16>
// CHECK: %[[E:.*]] = nn.exp %{{.*}} : tensor<24x40xf32>
// CHECK: %[[PLACE:.*]] = nn.iota dim 0 : tensor<40xi64>
// CHECK-NEXT: %[[IN:.*]] = nn.less %[[PLACE]], %{{.*}} : (tensor<40xi64>, tensor<i64>) -> tensor<40xi1>
// CHECK: %[[M:.*]] = nn.select %[[IN]], %[[E]], %{{.*}} : (tensor<40xi1>, tensor<24x40xf32>, tensor<f32>)
// CHECK: nn.reduce sum %[[M]] {{.*}}(tensor<24x40xf32>) -> tensor<24xf32>
// CHECK: %[[Z:.*]] = nn.select %[[IN]], %{{.*}} : (tensor<40xi1>, tensor<24x40xbf16>, tensor<bf16>)
// CHECK: exec.yield %[[Z]]
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}} n 40
// CHECK: exec.matmul 1 {{.*}} k 40
// CHECK-NOT: exec.launch
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<24x16xbf16>) -> tensor<24x16xf32> {
    %v = nn.weight "v" file 0 at 0 : tensor<37x16xf32>
    %w = nn.cast %v : (tensor<37x16xf32>) -> tensor<37x16xbf16>
    %p = nn.matmul %x, %w {transpose_rhs} : (tensor<24x16xbf16>, tensor<37x16xbf16>) -> tensor<24x37xbf16>
    %q = nn.cast %p : (tensor<24x37xbf16>) -> tensor<24x37xf32>
    %e = nn.exp %q : tensor<24x37xf32>
    %s = nn.reduce sum %e dims [1] : (tensor<24x37xf32>) -> tensor<24xf32>
    %c = nn.reshape %s : (tensor<24xf32>) -> tensor<24x1xf32>
    %d = nn.div %e, %c : (tensor<24x37xf32>, tensor<24x1xf32>) -> tensor<24x37xf32>
    %g = nn.cast %d : (tensor<24x37xf32>) -> tensor<24x37xbf16>
    %h = nn.matmul %g, %w : (tensor<24x37xbf16>, tensor<37x16xbf16>) -> tensor<24x16xbf16>
    %y = nn.cast %h : (tensor<24x16xbf16>) -> tensor<24x16xf32>
    return %y : tensor<24x16xf32>
  }
}

// -----

// A mask on scores is no bias: it may be as small as f32 knows, and is added in
// f32.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}}lhs({{[^)]*}}xbf16>)
// CHECK-NOT: bias
// CHECK: exec.launch {{.*}} : (memref<1x2x8x8xbf16>, memref<1x1x1x8xf32>) -> memref<1x2x8x8xf32>
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%q: tensor<1x2x8x16xbf16>, %k: tensor<1x2x16x8xbf16>, %m: tensor<1x1x1x8xf32>) -> tensor<1x2x8x8xf32> {
    %p = nn.matmul %q, %k : (tensor<1x2x8x16xbf16>, tensor<1x2x16x8xbf16>) -> tensor<1x2x8x8xbf16>
    %w = nn.cast %p : (tensor<1x2x8x8xbf16>) -> tensor<1x2x8x8xf32>
    %s = nn.add %w, %m : (tensor<1x2x8x8xf32>, tensor<1x1x1x8xf32>) -> tensor<1x2x8x8xf32>
    %y = nn.softmax %s dim 3 : tensor<1x2x8x8xf32>
    return %y : tensor<1x2x8x8xf32>
  }
}

// -----

// What would have to be stored instead is of another size than the rest that
// the kernel stores: nothing is computed twice.
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK-NOT: -> (memref<64x32xf32>
// CHECK: exec.launch {{.*}} -> (memref<16x64x32xf32>, memref<16x64x32xf32>)
// CHECK: exec.{{(matmul|conv|attention).*}} 0 
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%ids: tensor<64xi64>, %p: tensor<16x64x32xf32>, %k: tensor<32x32xf32>) -> (tensor<16x64x32xf32>, tensor<16x64x32xf32>) {
    %t = nn.weight "t" file 0 at 0 : tensor<100x32xf32>
    %g = nn.gather %t, %ids dim 0 : (tensor<100x32xf32>, tensor<64xi64>) -> tensor<64x32xf32>
    %c = nn.constant dense<2.0> : tensor<f32>
    %b = nn.broadcast %g : (tensor<64x32xf32>) -> tensor<16x64x32xf32>
    %v = nn.mul %b, %c : (tensor<16x64x32xf32>, tensor<f32>) -> tensor<16x64x32xf32>
    %w = nn.add %v, %p : tensor<16x64x32xf32>
    %m = nn.matmul %w, %k : (tensor<16x64x32xf32>, tensor<32x32xf32>) -> tensor<16x64x32xf32>
    %e = nn.exp %m : tensor<16x64x32xf32>
    %y = nn.mul %e, %v : tensor<16x64x32xf32>
    return %y, %w : tensor<16x64x32xf32>, tensor<16x64x32xf32>
  }
}

// -----

// Additional columns are no divisors: the sum takes the rows that there are.
// CHECK: nn.rem {{.*}}tensor<24x37xi64>
// CHECK-NOT: nn.rem {{.*}}x40xi64>
// CHECK-LABEL: exec.func @stage0_forward(
// CHECK: exec.matmul 0 {{.*}} n 40
module attributes {exec.target = #exec.target<cuda>} {
  func.func @main(%x: tensor<24x16xbf16>) -> tensor<24xf32> {
    %v = nn.weight "v" file 0 at 0 : tensor<37x16xf32>
    %w = nn.cast %v : (tensor<37x16xf32>) -> tensor<37x16xbf16>
    %p = nn.matmul %x, %w {transpose_rhs} : (tensor<24x16xbf16>, tensor<37x16xbf16>) -> tensor<24x37xbf16>
    %f = nn.cast %p : (tensor<24x37xbf16>) -> tensor<24x37xf32>
    %q = nn.cast %f : (tensor<24x37xf32>) -> tensor<24x37xi64>
    %i = nn.iota dim 1 : tensor<24x37xi64>
    %r = nn.rem %i, %q : tensor<24x37xi64>
    %g = nn.cast %r : (tensor<24x37xi64>) -> tensor<24x37xf32>
    %s = nn.reduce sum %g dims [1] : (tensor<24x37xf32>) -> tensor<24xf32>
    return %s : tensor<24xf32>
  }
}
