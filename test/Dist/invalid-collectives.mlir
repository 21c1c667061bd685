// RUN: kerf-opt %s --split-input-file --verify-diagnostics
// REQUIRES: kerf-opt

func.func @all_reduce_no_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{needs a dist.mesh in its module}}
  %0 = dist.all_reduce %x sum ["x"] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_reduce_c1_axis_not_in_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.all_reduce %x sum ["y"] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2] time ["mb"=2]
func.func @all_reduce_c1_axis_in_time(%x: tensor<4xf32>) {
  // expected-error @below {{axis "mb" is in time, expected axes in space}}
  %0 = dist.all_reduce %x sum ["mb"] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_reduce_c2_types(%x: tensor<4xf32>) {
  // expected-error @below {{dimension 0 of the result is 2, expected 4}}
  %0 = dist.all_reduce %x sum ["x"] : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reduce_scatter_c1_axis_twice(%x: tensor<4xf32>) {
  // expected-error @below {{axis x is used twice}}
  %0 = dist.reduce_scatter %x sum ["x", "x"] dim 0 : tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reduce_scatter_c2_dim(%x: tensor<4xf32>) {
  // expected-error @below {{dim is 1, expected less than rank 1}}
  %0 = dist.reduce_scatter %x sum ["x"] dim 1 : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @reduce_scatter_c3_size(%x: tensor<5xf32>) {
  // expected-error @below {{dimension 0 of the result is 2, expected at least 3 for 5 of the operand and 2 ranks}}
  %0 = dist.reduce_scatter %x sum ["x"] dim 0 : tensor<5xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_gather_c1_axis_not_in_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.all_gather %x ["y"] dim 0 : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_gather_c2_dim(%x: tensor<4xf32>) {
  // expected-error @below {{dim is 3, expected less than rank 1}}
  %0 = dist.all_gather %x ["x"] dim 3 : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_gather_c3_size(%x: tensor<4xf32>) {
  // expected-error @below {{dimension 0 of the operand is 4, expected at least 5 for 9 of the result and 2 ranks}}
  %0 = dist.all_gather %x ["x"] dim 0 : tensor<4xf32> -> tensor<9xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_gather_c3_other_dim(%x: tensor<4x3xf32>) {
  // expected-error @below {{dimension 1 of the result is 2, expected 3}}
  %0 = dist.all_gather %x ["x"] dim 0 : tensor<4x3xf32> -> tensor<8x2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_slice_c1_axis_not_in_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.all_slice %x ["y"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_slice_c2_dim(%x: tensor<4xf32>) {
  // expected-error @below {{dim is 1, expected less than rank 1}}
  %0 = dist.all_slice %x ["x"] dim 1 : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_slice_c3_size(%x: tensor<4xf32>) {
  // expected-error @below {{dimension 0 of the result is 1, expected at least 2}}
  %0 = dist.all_slice %x ["x"] dim 0 : tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_to_all_c1_axis_not_in_mesh(%x: tensor<4x2xf32>) {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.all_to_all %x ["y"] split 0 concat 1 : tensor<4x2xf32> -> tensor<2x4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_to_all_c2_one_dimension(%x: tensor<4x2xf32>) {
  // expected-error @below {{split and concat are both 0, expected two dimensions}}
  %0 = dist.all_to_all %x ["x"] split 0 concat 0 : tensor<4x2xf32> -> tensor<4x2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @all_to_all_c3_size(%x: tensor<4x2xf32>) {
  // expected-error @below {{dimension 0 of the result is 4, expected less than 4 for 4 of the operand and 2 ranks}}
  %0 = dist.all_to_all %x ["x"] split 0 concat 1 : tensor<4x2xf32> -> tensor<4x4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @broadcast_c1_axis_not_in_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.broadcast %x ["y"] root 0 : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @broadcast_c2_root(%x: tensor<4xf32>) {
  // expected-error @below {{root is 2, expected less than group size 2}}
  %0 = dist.broadcast %x ["x"] root 2 : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @broadcast_c3_types(%x: tensor<4xf32>) {
  // expected-error @below {{operand is 'tensor<4xf32>' but result is 'tensor<4xi32>'}}
  %0 = dist.broadcast %x ["x"] root 0 : tensor<4xf32> -> tensor<4xi32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @permute_c1_axis_not_in_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{axis "y" is not in the mesh}}
  %0 = dist.permute %x ["y"] pairs [0, 1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @permute_c2_range(%x: tensor<4xf32>) {
  // expected-error @below {{position 2 is not in the group of 2}}
  %0 = dist.permute %x ["x"] pairs [0, 2] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @permute_c2_twice(%x: tensor<4xf32>) {
  // expected-error @below {{position 1 receives twice}}
  %0 = dist.permute %x ["x"] pairs [0, 1, 1, 1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @permute_c2_odd(%x: tensor<4xf32>) {
  // expected-error @below {{pairs has 1 entries, expected an even number}}
  %0 = dist.permute %x ["x"] pairs [0] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @permute_c3_types(%x: tensor<4xf32>) {
  // expected-error @below {{dimension 0 of the result is 2, expected 4}}
  %0 = dist.permute %x ["x"] pairs [0, 1] : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["x"=2]
func.func @wait_c1_twice(%x: tensor<4xf32>) {
  %0 = dist.all_reduce %x sum ["x"] : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  // expected-error @below {{waits for a collective that has other uses}}
  %1 = dist.wait %0 : !dist.pending<tensor<4xf32>>
  %2 = dist.wait %0 : !dist.pending<tensor<4xf32>>
  return
}

// -----

func.func @pack_c1_element_type(%x: tensor<4xf32>, %y: tensor<2xi32>) {
  // expected-error @below {{piece is 'tensor<2xi32>', expected elements of 'tensor<6xf32>'}}
  %0 = dist.pack %x, %y : tensor<4xf32>, tensor<2xi32> -> tensor<6xf32>
  return
}

// -----

func.func @pack_c2_elements(%x: tensor<4xf32>, %y: tensor<2xf32>) {
  // expected-error @below {{buffer is 'tensor<5xf32>', expected one dimension of 6}}
  %0 = dist.pack %x, %y : tensor<4xf32>, tensor<2xf32> -> tensor<5xf32>
  return
}

// -----

func.func @unpack_c1_element_type(%x: tensor<4xf32>) {
  // expected-error @below {{piece is 'tensor<4xi32>', expected elements of 'tensor<4xf32>'}}
  %0 = dist.unpack %x : tensor<4xf32> -> tensor<4xi32>
  return
}

// -----

func.func @unpack_c2_elements(%x: tensor<4xf32>) {
  // expected-error @below {{buffer is 'tensor<4xf32>', expected one dimension of 3}}
  %0 = dist.unpack %x : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

// A part is smaller than the whole.
dist.mesh @mesh ["x"=2]
func.func @all_slice_c3_part(%x: tensor<4xf32>) {
  // expected-error @below {{dimension 0 of the result is 5, expected less than 4 for 4 of the operand and 2 ranks}}
  %0 = dist.all_slice %x ["x"] dim 0 : tensor<4xf32> -> tensor<5xf32>
  return
}

// -----

// Blocks of 3 of 4.
dist.mesh @mesh ["x"=2]
func.func @parts_of_their_own_size(%x: tensor<4xf32>) {
  %0 = dist.all_slice %x ["x"] dim 0 : tensor<4xf32> -> tensor<3xf32>
  %1 = dist.all_gather %0 ["x"] dim 0 : tensor<3xf32> -> tensor<4xf32>
  return
}
