// RUN: kerf-opt %s --split-input-file --kerf-insert-reshards --verify-diagnostics
// REQUIRES: kerf-opt

// What micro-batches cut cannot be put together again.
dist.mesh @mesh ["tp"=2] time ["mb"=2]
func.func @time_stays(%x: tensor<4xf32> {dist.sharding = #dist.sharding<{"mb"}>}) {
  // expected-error @below {{plan: operand 0 cannot be brought from <{mb}> to <{}>}}
  %0 = nn.neg %x {dist.plan = #dist.plan<operands = [#dist.sharding<{}>], results = [#dist.sharding<{}>]>} : tensor<4xf32>
  return
}
