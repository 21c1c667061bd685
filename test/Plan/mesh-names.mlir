// An axis that is asked for may have any name but mb's; those that are searched beside it get others.
//
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=x=2" | FileCheck %s --check-prefix=SAME
// RUN: kerf-opt %s --kerf-plan="devices=4 mesh=x=2" | FileCheck %s --check-prefix=OTHER
// REQUIRES: kerf-opt

// SAME: dist.mesh @mesh ["x"=2]
// OTHER: dist.mesh @mesh ["x"=2, "y"=2]
func.func @main(%x: tensor<8x16xf32> {kerf.batch_dim = 0 : i64, kerf.name = "x"}) -> (tensor<8x32xf32> {kerf.name = "y"}) {
  %w = nn.weight "w" file 0 at 0 : tensor<16x32xf32>
  %y = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
