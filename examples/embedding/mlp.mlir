// Two layers, for run-linalg: the hidden one has 10 columns, which four ranks do not divide.
func.func @mlp(%x: tensor<6x8xf32>, %w: tensor<8x10xf32> {kerf.name = "w"},
               %b: tensor<10xf32>, %v: tensor<10x8xf32>) -> tensor<6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<6x10xf32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<6x10xf32>) -> tensor<6x10xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<6x8xf32>, tensor<8x10xf32>) outs(%z0 : tensor<6x10xf32>) -> tensor<6x10xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0, %b : tensor<6x10xf32>, tensor<10xf32>) outs(%e0 : tensor<6x10xf32>) {
    ^bb0(%value: f32, %bias: f32, %out: f32):
      %sum = arith.addf %value, %bias : f32
      %hidden = math.tanh %sum : f32
      linalg.yield %hidden : f32
  } -> tensor<6x10xf32>
  %e1 = tensor.empty() : tensor<6x8xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<6x8xf32>) -> tensor<6x8xf32>
  %2 = linalg.matmul ins(%1, %v : tensor<6x10xf32>, tensor<10x8xf32>) outs(%z1 : tensor<6x8xf32>) -> tensor<6x8xf32>
  return %2 : tensor<6x8xf32>
}
