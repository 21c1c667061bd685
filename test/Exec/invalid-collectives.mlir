// One broken constraint each; the names are those of the descriptions.
// RUN: kerf-opt --split-input-file --verify-diagnostics %s

exec.func @collective_c1_no_mesh(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{needs a mesh, the module's attribute exec.mesh}}
  exec.collective 0 all_reduce sum ["tp"] %a -> %a bytes 0 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2] time ["mb"=2]>} {
exec.func @collective_c1_time(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{axis "mb" is in time, expected axes in space}}
  exec.collective 0 all_reduce sum ["mb"] %a -> %a bytes 0 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c2_no_reduction(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{all_reduce lacks a reduction}}
  exec.collective 0 all_reduce ["tp"] %a -> %a bytes 0 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c2_root(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{all_reduce has root}}
  exec.collective 0 all_reduce sum ["tp"] root 0 %a -> %a bytes 0 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c2_position(%a: memref<2xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{position 2 is not in the group of 2}}
  exec.collective 0 permute ["tp"] pairs [0, 2] %a -> %b bytes 8 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c3_shape(%a: memref<4xf32>, %b: memref<3xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{all_reduce over 2 ranks does not give 'memref<3xf32>' of 'memref<4xf32>'}}
  exec.collective 0 all_reduce sum ["tp"] %a -> %b bytes 16 purpose activation phase forward node "" : memref<4xf32> -> memref<3xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c3_part(%a: memref<6xf32>, %b: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{reduce_scatter over 2 ranks does not give 'memref<2xf32>' of 'memref<6xf32>'}}
  exec.collective 0 reduce_scatter sum ["tp"] dim 0 %a -> %b bytes 16 purpose activation phase forward node "" : memref<6xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c4_in_place(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{permute reads and writes one buffer}}
  exec.collective 0 permute ["tp"] pairs [0, 1] %a -> %a bytes 8 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_c5_bytes(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{bytes is negative}}
  exec.collective 0 all_reduce sum ["tp"] %a -> %a bytes -1 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @collective_wait_c1_twice(%a: memref<2xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %e = exec.collective_start 0 all_reduce sum ["tp"] %a -> %a bytes 16 purpose activation phase forward node "" : memref<2xf32> -> memref<2xf32>
  // expected-error @below {{is not the only wait for its event}}
  exec.collective_wait %e
  exec.collective_wait %e
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @shard_index_c1_type(%a: memref<1xi64>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{stores to 'memref<1xi64>', expected memref<i64>}}
  exec.shard_index 0 ["tp"] -> %a : memref<1xi64>
  exec.return
}
}

// -----

module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.func @shard_index_c2_axes(%a: memref<i64>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  // expected-error @below {{axis "dp" is not in the mesh}}
  exec.shard_index 0 ["dp"] -> %a : memref<i64>
  exec.return
}
}
