// Each constraint of nn.loop is an error of one sentence.
//
// REQUIRES: kerf-opt
// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @loop_dimensions(%n: tensor<1xi64>, %go: tensor<i1>) {
  // expected-error@+1 {{trip is 'tensor<1xi64>' and the condition 'tensor<i1>', expected no dimensions}}
  %0 = nn.loop trip(%n : tensor<1xi64>) while(%go : tensor<i1>) {
  ^bb0(%i: tensor<i64>):
    %c = nn.constant dense<true> : tensor<i1>
    nn.yield %c : tensor<i1>
  } : tensor<i64>
  return
}

// -----

func.func @loop_c1(%x: tensor<2xf32>, %n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{body takes ('tensor<i64>'), expected ('tensor<i64>', 'tensor<2xf32>')}}
  %0, %y = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<2xf32>) {
  ^bb0(%i: tensor<i64>):
    %c = nn.constant dense<true> : tensor<i1>
    %d = nn.constant dense<0.0> : tensor<2xf32>
    nn.yield %c, %d : tensor<i1>, tensor<2xf32>
  } : tensor<i64>, tensor<2xf32>
  return
}

// -----

func.func @loop_c2(%x: tensor<2xf32>, %n: tensor<i64>, %go: tensor<i1>) {
  %0, %y = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) from(%x : tensor<2xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<2xf32>):
    %c = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{yields ('tensor<i1>'), expected a condition and carried values ('tensor<2xf32>')}}
    nn.yield %c : tensor<i1>
  } : tensor<i64>, tensor<2xf32>
  return
}

// -----

func.func @loop_c3_limit(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{has a limit of -1}}
  %0 = nn.loop limit -1 trip(%n : tensor<i64>) while(%go : tensor<i1>) {
  ^bb0(%i: tensor<i64>):
    %c = nn.constant dense<true> : tensor<i1>
    nn.yield %c : tensor<i1>
  } : tensor<i64>
  return
}

// -----

func.func @loop_c3_no_limit(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{stacks tensors without a limit}}
  %0, %s = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) {
  ^bb0(%i: tensor<i64>):
    %c = nn.constant dense<true> : tensor<i1>
    nn.yield %c, %i : tensor<i1>, tensor<i64>
  } : tensor<i64>, tensor<4xi64>
  return
}

// -----

func.func @loop_c3_results(%n: tensor<i64>, %go: tensor<i1>) {
  // expected-error@+1 {{gives ('tensor<i64>', 'tensor<4xi64>'), expected a count and ('tensor<3xi64>')}}
  %0, %s = nn.loop limit 3 trip(%n : tensor<i64>) while(%go : tensor<i1>) {
  ^bb0(%i: tensor<i64>):
    %c = nn.constant dense<true> : tensor<i1>
    nn.yield %c, %i : tensor<i1>, tensor<i64>
  } : tensor<i64>, tensor<4xi64>
  return
}

// -----

func.func @loop_c4(%n: tensor<i64>, %go: tensor<i1>) {
  %0 = nn.loop trip(%n : tensor<i64>) while(%go : tensor<i1>) {
  ^bb0(%i: tensor<i64>):
    // expected-error@+1 {{stands in a loop, which captures parameters}}
    %w = nn.weight "w" file 0 at 0 : tensor<4xf32>
    %c = nn.constant dense<true> : tensor<i1>
    nn.yield %c : tensor<i1>
  } : tensor<i64>
  return
}
