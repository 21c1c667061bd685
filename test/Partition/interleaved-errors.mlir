// RUN: kerf-opt %s --kerf-build-schedule --verify-diagnostics
// REQUIRES: kerf-opt

// As a plan would be refused.
#whole = #dist.sharding<{}>
// expected-error @below {{partition: 3 micro-batches, expected a multiple of 2 stages}}
module attributes {dist.chunks = 2, dist.schedule_kind = #dist<schedule_kind interleaved>} {
dist.mesh @mesh ["pp"=2] time ["mb"=3]
func.func private @main()
func.func @stage0_chunk0_forward() attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return
}
func.func @stage1_chunk1_backward() attributes {dist.part = #dist.part<stage = 1, chunk = 1, phase = backward_input>} {
  return
}
}
