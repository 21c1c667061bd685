// Two layers with a square between them; their weights are parameters.
func.func @layers(%x: tensor<8x16xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64},
                  %w: tensor<12x16xf32> {kerf.name = "w", kerf.parameter},
                  %v: tensor<12x6xf32> {kerf.name = "v", kerf.parameter})
    -> (tensor<8x6xf32> {kerf.name = "y"}) {
  %0 = toy.product %x, %w {tb} : (tensor<8x16xf32>, tensor<12x16xf32>) -> tensor<8x12xf32>
  %1 = toy.multiply %0, %0 : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  %2 = toy.product %1, %v : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
  return %2 : tensor<8x6xf32>
}
