// RUN: kerf-opt %s --kerf-sample-ranges --split-input-file | FileCheck %s

// Indices may be cast and moved before they are read; of two tables the smaller
// one decides.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %{{.*}}: tensor<2x3xi64> {kerf.sample_range = [0, 4]}
// CHECK-SAME: %{{.*}}: tensor<6xi32> {kerf.sample_range = [0, 10]}
// CHECK-SAME: %{{.*}}: tensor<10x4xf32>, %{{.*}}: tensor<4x4xf32>, %{{.*}}: tensor<2x3xi64>)
func.func @main(%ids: tensor<2x3xi64>, %flat: tensor<6xi32>, %large: tensor<10x4xf32>, %small: tensor<4x4xf32>, %mask: tensor<2x3xi64>)
    -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>) {
  %0 = nn.gather %large, %ids dim 0 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %1 = nn.gather %small, %ids dim 0 : (tensor<4x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %2 = nn.reshape %flat : (tensor<6xi32>) -> tensor<2x3xi32>
  %3 = nn.cast %2 : (tensor<2x3xi32>) -> tensor<2x3xi64>
  %4 = nn.gather %large, %3 dim 0 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %5 = nn.cast %mask : (tensor<2x3xi64>) -> tensor<2x3xf32>
  return %0, %1, %4, %5 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>
}

// -----

// What a gather reads is not an index.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %{{.*}}: tensor<10x4xi64>, %{{.*}}: tensor<2x3xi64> {kerf.sample_range = [0, 10]})
func.func @main(%table: tensor<10x4xi64>, %ids: tensor<2x3xi64>) -> tensor<2x3x4xi64> {
  %0 = nn.gather %table, %ids dim 0 : (tensor<10x4xi64>, tensor<2x3xi64>) -> tensor<2x3x4xi64>
  return %0 : tensor<2x3x4xi64>
}
