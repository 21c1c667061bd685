// RUN: kerf-opt %s --kerf-separate-programs -split-input-file -verify-diagnostics
// REQUIRES: kerf-opt

// A variable of two programs would become two.
// expected-error@+1 {{is used by several programs, which would each have one of its own}}
memref.global "private" @counter : memref<i64> = uninitialized
func.func @f() -> memref<i64> {
  %0 = memref.get_global @counter : memref<i64>
  return %0 : memref<i64>
}
func.func @g() -> memref<i64> {
  %0 = memref.get_global @counter : memref<i64>
  return %0 : memref<i64>
}

// -----

// One of a single program stays one, and constants do not change.
memref.global "private" @counter : memref<i64> = uninitialized
memref.global "private" constant @seven : memref<i64> = dense<7>
func.func @f() -> (memref<i64>, memref<i64>) {
  %0 = memref.get_global @counter : memref<i64>
  %1 = memref.get_global @seven : memref<i64>
  return %0, %1 : memref<i64>, memref<i64>
}
func.func @g() -> memref<i64> {
  %0 = memref.get_global @seven : memref<i64>
  return %0 : memref<i64>
}
