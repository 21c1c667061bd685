// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @update_c1_types(%w: tensor<2xf32>, %g: tensor<3xf32>, %lr: tensor<f32>) -> tensor<2xf32> {
  // expected-error@+1 {{operand 1 has type 'tensor<3xf32>', expected 'tensor<2xf32>'}}
  %0 = nn.sgd_update %w, %g, %lr momentum 0.0 weight_decay 0.0 : (tensor<2xf32>, tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @update_c2_scalar(%w: tensor<2xf32>, %lr: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{operand 2 has type 'tensor<2xf32>', expected a scalar}}
  %0 = nn.sgd_update %w, %w, %lr momentum 0.0 weight_decay 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @sgd_c3_velocity(%w: tensor<2xf32>, %lr: tensor<f32>) -> tensor<2xf32> {
  // expected-error@+1 {{has a new velocity and no old one}}
  %0:2 = nn.sgd_update %w, %w, %lr momentum 0.9 weight_decay 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0 : tensor<2xf32>
}

// -----

func.func @sgd_c3_nesterov(%w: tensor<2xf32>, %lr: tensor<f32>) -> tensor<2xf32> {
  // expected-error@+1 {{is nesterov without velocity}}
  %0 = nn.sgd_update %w, %w, %lr momentum 0.9 weight_decay 0.0 {nesterov} : tensor<2xf32>
  return %0 : tensor<2xf32>
}
