// Operands of products are rounded to a narrower type, and their results with them.
// RUN: kerf-opt %s --kerf-lower-precision=precision=bf16 | FileCheck %s '-D$T=bf16'
// RUN: kerf-opt %s --kerf-lower-precision=precision=f16 | FileCheck %s '-D$T=f16'
// RUN: kerf-opt %s --kerf-lower-precision=precision=f32 | FileCheck %s --check-prefix=F32
// RUN: kerf-opt %s --kerf-lower-precision=precision=tf32 | FileCheck %s --check-prefix=F32
// REQUIRES: kerf-opt

// F32-NOT: nn.cast

// A value that two products read is rounded once; what comes out goes on as
// float32.
// CHECK-LABEL: func.func @products(
// CHECK-NEXT: %[[X:.*]] = nn.cast %arg0 : (tensor<3x3xf32>) -> tensor<3x3x[[$T]]>
// CHECK-NEXT: %[[W:.*]] = nn.cast %arg1 : (tensor<3x3xf32>) -> tensor<3x3x[[$T]]>
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[X]], %[[W]] : {{.*}} -> tensor<3x3x[[$T]]>
// CHECK-NEXT: %[[WIDE:.*]] = nn.cast %[[P]] : (tensor<3x3x[[$T]]>) -> tensor<3x3xf32>
// CHECK-NEXT: %[[A:.*]] = nn.add %[[WIDE]], %arg1 : tensor<3x3xf32>
// CHECK-NEXT: %[[B:.*]] = nn.cast %[[A]] : (tensor<3x3xf32>) -> tensor<3x3x[[$T]]>
// CHECK-NEXT: %[[Q:.*]] = nn.matmul %[[B]], %[[W]] : {{.*}} -> tensor<3x3x[[$T]]>
// CHECK-NEXT: %[[Y:.*]] = nn.cast %[[Q]] : (tensor<3x3x[[$T]]>) -> tensor<3x3xf32>
// CHECK-NEXT: return %[[Y]]
func.func @products(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = nn.matmul %x, %w : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = nn.add %0, %w : tensor<3x3xf32>
  %2 = nn.matmul %1, %w : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @conv(
// CHECK: nn.conv %{{.*}}, %{{.*}} kernel 3x3 : tensor<1x4x4x3x[[$T]]> -> tensor<1x2x2x2x[[$T]]>
// CHECK-NEXT: nn.cast
func.func @conv(%x: tensor<1x4x4x3xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32> {
  %0 = nn.conv %x, %w kernel 3x3 : tensor<1x4x4x3xf32> -> tensor<1x2x2x2xf32>
  return %0 : tensor<1x2x2x2xf32>
}

// Rows of a table are rounded for the way between devices alone, where they are
// summed if the table's rows are cut.
// CHECK-LABEL: func.func @rows(
// CHECK: %[[R:.*]] = nn.gather %{{.*}} -> tensor<2x4xf32>
// CHECK-NEXT: %[[SENT:.*]] = nn.cast %[[R]] {kerf.transfer_cast} : (tensor<2x4xf32>) -> tensor<2x4x[[$T]]>
// CHECK-NEXT: %[[BACK:.*]] = nn.cast %[[SENT]] : (tensor<2x4x[[$T]]>) -> tensor<2x4xf32>
// CHECK-NEXT: return %[[BACK]]
func.func @rows(%i: tensor<2xi64>) -> tensor<2x4xf32> {
  %t = nn.weight "table" file 0 at 0 : tensor<5x4xf32>
  %0 = nn.gather %t, %i dim 0 : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// Other types stay, and so do rows of what is no parameter.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: nn.cast
// CHECK: return
func.func @others(%x: tensor<2x2xi64>, %d: tensor<2x2xf64>, %t: tensor<5x4xf32>, %i: tensor<2xi64>)
    -> (tensor<2x2xi64>, tensor<2x2xf64>, tensor<2x4xf32>) {
  %0 = nn.matmul %x, %x : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
  %1 = nn.matmul %d, %d : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
  %2 = nn.gather %t, %i dim 0 : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0, %1, %2 : tensor<2x2xi64>, tensor<2x2xf64>, tensor<2x4xf32>
}
