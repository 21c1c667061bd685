// A program's function, defined by the lists of two stages over two micro-batches.
// RUN: kerf-opt %s --kerf-call-runtime | FileCheck %s
// REQUIRES: kerf-opt

#whole = #dist.sharding<{}>
#cut = #dist.sharding<{"mb", "tp"}>

dist.mesh @mesh ["pp"=2, "tp"=2] time ["mb"=2]

// CHECK: llvm.mlir.global external constant @f_ranks("
// CHECK-SAME: \22channels\22:[{\22bytes\22:8,\22dtype\22:\22f32\22,\22from_stage\22:0,\22node\22:\22\22,\22shape\22:[2],\22to_stage\22:1}]
// CHECK-SAME: \22stage_axis\22:\22pp\22,\22time_axis\22:{\22name\22:\22mb\22,\22size\22:2}
// CHECK-SAME: \22parts\22:[{\22dtype\22:\22f32\22,\22global_shape\22:[7],\22local_shape\22:[2],
// CHECK-SAME: \22sharding\22:[{{\[}}{\22axis\22:\22mb\22},{\22axis\22:\22tp\22}]]}]

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[RANK:[a-z0-9]+]]: !llvm.ptr, %[[X:[a-z0-9]+]]: memref<7xf32>, %[[W:[a-z0-9]+]]: memref<2xf32>, %[[Y:[a-z0-9]+]]: memref<7xf32>)
// CHECK-SAME: attributes {llvm.emit_c_interface}
// CHECK: scf.index_switch
// CHECK: case 0
// CHECK: func.call @f_stage0(%[[RANK]], %[[X]], %[[W]], %[[Y]])
// CHECK: case 1
// CHECK: func.call @f_stage1(%[[RANK]], %[[X]], %[[W]], %[[Y]])
func.func private @f(tensor<7xf32> {dist.sharding = #cut}, tensor<2xf32> {dist.sharding = #whole})
    -> (tensor<7xf32> {dist.sharding = #cut})

dist.channel 3 from 0 to 1 : tensor<2xf32>

// CHECK-LABEL: func.func private @stage0(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: tensor<2xf32>) -> tensor<2xf32>
func.func @stage0(%x: tensor<2xf32> {dist.from = #dist.from<input 0>, dist.global_type = tensor<7xf32>, dist.sharding = #cut})
    -> (tensor<2xf32> {dist.to = #dist.to<send [3]>, dist.global_type = tensor<7xf32>, dist.sharding = #cut})
    attributes {dist.part = #dist.part<stage = 0, phase = forward>} {
  return %x : tensor<2xf32>
}
func.func @stage1(%x: tensor<2xf32> {dist.from = #dist.from<recv 3>, dist.global_type = tensor<7xf32>, dist.sharding = #cut},
                  %w: tensor<2xf32> {dist.from = #dist.from<input 1>, dist.global_type = tensor<2xf32>, dist.sharding = #whole})
    -> (tensor<2xf32> {dist.to = #dist.to<output [0]>, dist.global_type = tensor<7xf32>, dist.sharding = #cut})
    attributes {dist.part = #dist.part<stage = 1, phase = forward>} {
  return %x : tensor<2xf32>
}

// What is sent is alive until all is received.
// CHECK-LABEL: func.func private @f_stage0(
// CHECK-SAME: %[[RANK:[a-z0-9]+]]: !llvm.ptr, %[[X:[a-z0-9]+]]: memref<7xf32>
// CHECK: %[[PART:.*]] = memref.alloc() : memref<2xf32>
// CHECK: call @kerf_take_0(%[[RANK]], %{{.*}}, %{{.*}}, %[[X]], %[[PART]])
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[PART]]
// CHECK: %[[H:.*]] = call @stage0(%[[RANK]], %{{.*}}, %[[T]])
// CHECK: %[[SENT0:.*]] = bufferization.to_buffer %[[H]] read_only
// CHECK: call @kerf_send_0(%[[RANK]], %{{.*}}, %{{.*}}, %[[SENT0]])
// CHECK: call @kerf_take_0
// CHECK: %[[SENT1:.*]] = bufferization.to_buffer
// CHECK: call @kerf_send_0(%[[RANK]], %{{.*}}, %{{.*}}, %[[SENT1]])
// CHECK: %[[AGAIN0:.*]] = bufferization.to_buffer %[[H]] read_only
// CHECK: call @kerf_finish_0(%[[RANK]], %{{.*}}, %[[SENT0]], %[[AGAIN0]], %[[SENT1]], %{{.*}})
dist.schedule 0 {
  %0 = dist.input 0 micro_batch 0 : tensor<2xf32>
  %1 = dist.run @stage0(%0) micro_batch 0 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %1 channel 3 micro_batch 0 : tensor<2xf32>
  %2 = dist.input 0 micro_batch 1 : tensor<2xf32>
  %3 = dist.run @stage0(%2) micro_batch 1 : (tensor<2xf32>) -> tensor<2xf32>
  dist.send %3 channel 3 micro_batch 1 : tensor<2xf32>
}

// An input that every rank has whole is not copied.
// CHECK-LABEL: func.func private @f_stage1(
// CHECK-SAME: %[[W:[a-z0-9]+]]: memref<2xf32>, %[[Y:[a-z0-9]+]]: memref<7xf32>)
// CHECK: %[[WHOLE:.*]] = bufferization.to_tensor %[[W]] restrict : memref<2xf32> to tensor<2xf32>
// CHECK: call @kerf_receive_0(
// CHECK: call @stage1(%{{.*}}, %{{.*}}, %{{.*}}, %[[WHOLE]])
// CHECK: call @kerf_give_0(%{{.*}}, %[[Y]])
// CHECK: call @kerf_receive_0(
// CHECK: call @stage1(%{{.*}}, %{{.*}}, %{{.*}}, %[[WHOLE]])
dist.schedule 1 {
  %0 = dist.recv channel 3 micro_batch 0 : tensor<2xf32>
  %w = dist.input 1 micro_batch 0 : tensor<2xf32>
  %1 = dist.run @stage1(%0, %w) micro_batch 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  dist.output %1 to 0 micro_batch 0 : tensor<2xf32>
  %2 = dist.recv channel 3 micro_batch 1 : tensor<2xf32>
  %3 = dist.run @stage1(%2, %w) micro_batch 1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  dist.output %3 to 0 micro_batch 1 : tensor<2xf32>
}
