dist.mesh @mesh ["pp"=2, "tp"=2] time ["mb"=2]
func.func @main(%x: tensor<4x6xf32> {kerf.name = "x", dist.sharding = #dist.sharding<{"mb"}, {}>})
    -> (tensor<4x5xf32> {kerf.name = "y", dist.sharding = #dist.sharding<{"mb"}, {}>}) {
  %w = nn.constant {name = "w", dist.results = [#dist.sharding<{}, {"tp"}>]} dense<1.0> : tensor<6x5xf32>
  %v = nn.weight "v" {file = 0 : i64, offset = 0 : i64, length = 100 : i64, stored = tensor<5x5xf32>,
     dist.results = [#dist.sharding<{"tp"}, {}>]} : tensor<5x5xf32>
  %h = nn.matmul %x, %w {dist.stage = 0 : i64, dist.operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{}, {"tp"}>],
     dist.results = [#dist.sharding<{"mb"}, {"tp"}>]} : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %e = nn.exp %h {dist.stage = 0 : i64, dist.operands = [#dist.sharding<{"mb"}, {"tp"}>],
     dist.results = [#dist.sharding<{"mb"}, {"tp"}>]} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %r = nn.matmul %e, %v {dist.stage = 1 : i64, dist.operands = [#dist.sharding<{"mb"}, {"tp"}>, #dist.sharding<{"tp"}, {}>],
     dist.results = [#dist.sharding<{"mb"}, {}, partial sum {"tp"}>]} : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
