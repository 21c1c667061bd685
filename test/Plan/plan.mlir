// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=dp=2" | FileCheck %s --check-prefix=DATA
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=tp=2 memory-limit=46000" | FileCheck %s --check-prefix=TENSOR
// RUN: kerf-opt %s --kerf-plan="devices=2 mesh=pp=2 micro-batches=4" | FileCheck %s --check-prefix=PIPE

// Data parallel cuts the batch of every value and no weight.
// DATA: dist.mesh @mesh ["dp"=2]
// DATA-SAME: {{$}}
// DATA: func.func @main(%{{.*}}: tensor<8x64xf32> {dist.sharding = #s_dp_x
// DATA-COUNT-3: nn.constant {dist.plan = #p_to_x
// DATA-NOT: dist.reshard
// DATA: nn.relu {{.*}}dist.plan = #p_{{[^ ]*}}to_dp_x

// With weights that do not fit on one device, the search finds Megatron's pair:
// columns of the first, rows of the second, one sum.
// TENSOR: dist.mesh @mesh ["tp"=2]
// TENSOR: name = "w1"} {{.*}}tensor<64x128xf32>
// TENSOR: nn.matmul {{.*}}dist.plan = #p_x2--x_tp_to_x_tp
// TENSOR: nn.relu {{.*}}dist.plan = #p_{{[^ ]*}}to_x_tp
// TENSOR: nn.matmul {{.*}}dist.plan = #p_x_tp--tp_x_to_x2_sum-tp

// A pipeline: the batch is cut in time, the layers over the stages.
// PIPE: dist.mesh @mesh ["pp"=2] time ["mb"=4]
// PIPE: {dist.sharding = #s_mb_x
// PIPE: nn.matmul {{.*}}dist.plan = #p0_
// PIPE: nn.matmul {{.*}}dist.plan = #p1_

func.func @main(%x: tensor<8x64xf32> {kerf.name = "x"}) -> (tensor<8x64xf32> {kerf.name = "y"}) {
  %w1 = nn.constant {name = "w1"} dense<0.1> : tensor<64x128xf32>
  %b1 = nn.constant {name = "b1"} dense<0.5> : tensor<128xf32>
  %w2 = nn.constant {name = "w2"} dense<0.2> : tensor<128x64xf32>
  %h = nn.matmul %x, %w1 : (tensor<8x64xf32>, tensor<64x128xf32>) -> tensor<8x128xf32>
  %a = nn.add %h, %b1 : (tensor<8x128xf32>, tensor<128xf32>) -> tensor<8x128xf32>
  %r = nn.relu %a : tensor<8x128xf32>
  %y = nn.matmul %r, %w2 : (tensor<8x128xf32>, tensor<128x64xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}
