// A target is what is usual for its device; only what differs is printed.
//
// RUN: kerf-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: exec.target = #exec.target<cpu>
module attributes {exec.target = #exec.target<cpu, row_bytes = 1, processors = 0, runs_loops = true>} {}

// -----

// CHECK: exec.target = #exec.target<cpu, vector_bytes = 32>
module attributes {exec.target = #exec.target<cpu, vector_bytes = 32>} {}

// -----

// CHECK: exec.target = #exec.target<cuda>
module attributes {exec.target = #exec.target<cuda, vector_bytes = 16, shared_bytes = 49152>} {}

// -----

// CHECK: exec.target = #exec.target<cuda, runs_loops = true, row_bytes = 1, held_bytes = 0,
// CHECK-SAME: processors = 108, block_threads = 512, shared_bytes = 0, epilogue = chain>
module attributes {exec.target = #exec.target<cuda, epilogue = chain, shared_bytes = 0, block_threads = 512,
    processors = 108, held_bytes = 0, row_bytes = 1, runs_loops = true>} {}

// -----

// expected-error @below {{vector_bytes is 24, expected a power of two from 16 to 64, or 0}}
module attributes {exec.target = #exec.target<cpu, vector_bytes = 24>} {}

// -----

// expected-error @below {{vector_bytes is 32, expected a power of two from 4 to 16}}
module attributes {exec.target = #exec.target<cuda, vector_bytes = 32>} {}

// -----

// expected-error @below {{block_threads is 128, expected a power of two from 256 to 1024}}
module attributes {exec.target = #exec.target<cuda, block_threads = 128>} {}

// -----

// expected-error @below {{processors is 0, expected at least 1}}
module attributes {exec.target = #exec.target<cuda, processors = 0>} {}

// -----

// expected-error @below {{shared_bytes is -1, expected at least 0}}
module attributes {exec.target = #exec.target<cuda, shared_bytes = -1>} {}

// -----

// expected-error @below {{a target says nothing of 'colour'}}
module attributes {exec.target = #exec.target<cuda, colour = red>} {}
