// One form for what exporters spell in many ways. simplify-*.mlir have the cases of each idea.
// RUN: kerf-opt %s --kerf-simplify-import | FileCheck %s
// REQUIRES: kerf-opt

// What is known is computed.
// CHECK-LABEL: @known
// CHECK-NEXT: %[[C:.*]] = nn.constant dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT: %[[Y:.*]] = nn.mul %arg0, %[[C]]
// CHECK-NEXT: return %[[Y]]
func.func @known(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.constant dense<16.0> : tensor<f32>
  %1 = nn.rsqrt %0 : tensor<f32>
  %2 = nn.mul %x, %1 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// Transposes to channels first and back cancel around elementwise ops.
// CHECK-LABEL: @transposes
// CHECK-NEXT: %[[Y:.*]] = nn.relu %arg0
// CHECK-NEXT: return %[[Y]]
func.func @transposes(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> {
  %0 = nn.transpose %x perm [0, 3, 1, 2] : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %1 = nn.relu %0 : tensor<1x3x4x5xf32>
  %2 = nn.transpose %1 perm [0, 2, 3, 1] : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  return %2 : tensor<1x4x5x3xf32>
}

// A transposed operand is a flag of the product.
// CHECK-LABEL: @flags
// CHECK-NEXT: nn.matmul %arg0, %arg1 {transpose_rhs}
func.func @flags(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %0 = nn.transpose %w perm [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = nn.matmul %x, %0 : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// A product that was flattened is one of all dimensions.
// CHECK-LABEL: @flattened
// CHECK-NEXT: nn.matmul %arg0, %arg1 : (tensor<2x5x3xf32>, tensor<3x4xf32>) -> tensor<2x5x4xf32>
// CHECK-NEXT: return
func.func @flattened(%x: tensor<2x5x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x5x4xf32> {
  %0 = nn.reshape %x : (tensor<2x5x3xf32>) -> tensor<10x3xf32>
  %1 = nn.matmul %0, %w : (tensor<10x3xf32>, tensor<3x4xf32>) -> tensor<10x4xf32>
  %2 = nn.reshape %1 : (tensor<10x4xf32>) -> tensor<2x5x4xf32>
  return %2 : tensor<2x5x4xf32>
}

// So is one of rows that were heads beside samples.
// CHECK-LABEL: @heads
// CHECK-NEXT: %[[SPLIT:.*]] = nn.reshape %arg0 : (tensor<7x12x2xf32>) -> tensor<7x3x8xf32>
// CHECK-NEXT: %[[PRODUCT:.*]] = nn.matmul %[[SPLIT]], %arg1 : (tensor<7x3x8xf32>, tensor<8x5xf32>) -> tensor<7x3x5xf32>
// CHECK-NEXT: return %[[PRODUCT]]
func.func @heads(%x: tensor<7x12x2xf32>, %w: tensor<8x5xf32>) -> tensor<7x3x5xf32> {
  %0 = nn.reshape %x : (tensor<7x12x2xf32>) -> tensor<21x8xf32>
  %1 = nn.matmul %0, %w : (tensor<21x8xf32>, tensor<8x5xf32>) -> tensor<21x5xf32>
  %2 = nn.reshape %1 : (tensor<21x5xf32>) -> tensor<7x3x5xf32>
  return %2 : tensor<7x3x5xf32>
}

// Rows that begin within a dimension's parts stay as they are.
// CHECK-LABEL: @across
// CHECK-NEXT: nn.reshape %arg0 : (tensor<6x4xf32>) -> tensor<8x3xf32>
func.func @across(%x: tensor<6x4xf32>, %w: tensor<3x5xf32>) -> tensor<8x5xf32> {
  %0 = nn.reshape %x : (tensor<6x4xf32>) -> tensor<8x3xf32>
  %1 = nn.matmul %0, %w : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  return %1 : tensor<8x5xf32>
}

// Softmax as its steps is one op.
// CHECK-LABEL: @softmax
// CHECK-NEXT: nn.softmax %arg0 dim 1
// CHECK-NEXT: return
func.func @softmax(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.reduce max %x dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = nn.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = nn.sub %x, %1 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = nn.exp %2 : tensor<2x4xf32>
  %4 = nn.reduce sum %3 dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %5 = nn.reshape %4 : (tensor<2xf32>) -> tensor<2x1xf32>
  %6 = nn.div %3, %5 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}

// Projections that an exporter has fused come apart: each reads its view of the
// weight, so that each can be cut.
// CHECK-LABEL: @projections
// CHECK: %[[WQ:.*]] = nn.weight "qkv" file 0 at 0 : tensor<64x64xf32> of tensor<64x128xf32> from [0, 0]
// CHECK: nn.matmul %arg0, %[[WQ]]
// CHECK: %[[WK:.*]] = nn.weight "qkv" file 0 at 0 : tensor<64x64xf32> of tensor<64x128xf32> from [0, 64]
// CHECK: nn.matmul %arg0, %[[WK]]
// CHECK-NOT: nn.slice
func.func @projections(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %w = nn.weight "qkv" file 0 at 0 : tensor<64x128xf32>
  %0 = nn.matmul %x, %w : (tensor<8x64xf32>, tensor<64x128xf32>) -> tensor<8x128xf32>
  %q = nn.slice %0 from [0, 0] : (tensor<8x128xf32>) -> tensor<8x64xf32>
  %k = nn.slice %0 from [0, 64] : (tensor<8x128xf32>) -> tensor<8x64xf32>
  return %q, %k : tensor<8x64xf32>, tensor<8x64xf32>
}
