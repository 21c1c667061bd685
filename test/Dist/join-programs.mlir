// RUN: kerf-opt %s --kerf-join-programs | FileCheck %s
// REQUIRES: kerf-opt

// What is in the module already keeps its name.
// CHECK: func.func private @part() -> i32
func.func private @part() -> i32

// CHECK-NOT: module
// CHECK: llvm.func @runtime(!llvm.ptr)
// CHECK: func.func private @part_0(
// CHECK: llvm.call @runtime
// CHECK: func.func @f(
// CHECK: call @part_0(%{{.*}}) : (!llvm.ptr) -> ()
module @f {
  llvm.func @runtime(!llvm.ptr)
  func.func private @part(%rank: !llvm.ptr) {
    llvm.call @runtime(%rank) : (!llvm.ptr) -> ()
    return
  }
  func.func @f(%rank: !llvm.ptr) {
    call @part(%rank) : (!llvm.ptr) -> ()
    return
  }
}

// One declaration of the runtime's function; @part_0 is a name of its own here.
// CHECK-NOT: llvm.func @runtime
// CHECK: func.func private @part_1(
// CHECK: func.func private @part_0_0(
// CHECK: func.func @g(
// CHECK: call @part_1(
// CHECK: call @part_0_0(
module @g {
  llvm.func @runtime(!llvm.ptr)
  func.func private @part(%rank: !llvm.ptr) {
    llvm.call @runtime(%rank) : (!llvm.ptr) -> ()
    return
  }
  func.func private @part_0(%rank: !llvm.ptr) {
    return
  }
  func.func @g(%rank: !llvm.ptr) {
    call @part(%rank) : (!llvm.ptr) -> ()
    call @part_0(%rank) : (!llvm.ptr) -> ()
    return
  }
}
