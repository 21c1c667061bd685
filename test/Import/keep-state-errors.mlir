// RUN: kerf-opt %s --split-input-file --kerf-keep-state="automatic" --verify-diagnostics
// REQUIRES: kerf-opt

// Caches that are refused, since unfilled positions may be seen.

// The mask is there and hides nothing.
// expected-error @below {{are hidden: (nn.softmax) is over positions that the mask does not hide}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %h = nn.neg %s : tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// A window of two positions goes by places, which are no positions here.
// expected-error @below {{are hidden: (nn.select) hides positions that are filled, by their place in the cache}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %w = nn.constant dense<[[false, false, true, true]]> : tensor<1x4xi1>
  %v = nn.and %m, %w : tensor<1x4xi1>
  %h = nn.select %v, %s, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// It hides the first two alone.
// expected-error @below {{are hidden: (nn.select) hides some positions that are not filled, and not others}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %w = nn.constant dense<[[false, false, true, true]]> : tensor<1x4xi1>
  %v = nn.or %m, %w : tensor<1x4xi1>
  %h = nn.select %v, %s, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// One position of the mask hides another.
// expected-error @below {{are hidden: (nn.select) combines positions of the mask}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %v0 = nn.transpose %m perm [1, 0] : (tensor<1x4xi1>) -> tensor<4x1xi1>
  %v1 = nn.reshape %v0 : (tensor<4x1xi1>) -> tensor<2x2xi1>
  %v2 = nn.transpose %v1 perm [1, 0] : (tensor<2x2xi1>) -> tensor<2x2xi1>
  %v = nn.reshape %v2 : (tensor<2x2xi1>) -> tensor<1x4xi1>
  %h = nn.select %v, %s, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// What is hidden would still count.
// expected-error @below {{are hidden: (nn.select) fills hidden positions with what is no constant of at most -1e4}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %h = nn.select %m, %s, %zero : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// A bias by the distance of places.
// expected-error @below {{are hidden: (nn.add) adds another number at each place in the cache}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %b = nn.constant dense<[[3.0, 2.0, 1.0, 0.0]]> : tensor<1x4xf32>
  %a = nn.add %s, %b : (tensor<1x1x1x4xf32>, tensor<1x4xf32>) -> tensor<1x1x1x4xf32>
  %h = nn.select %m, %a, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// What is put in place of a softmax is 1, also at hidden positions.
// expected-error @below {{are hidden: (nn.select) combines positions of two kinds}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %h = nn.select %m, %s, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %n = nn.is_nan %t : (tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xi1>
  %g = nn.select %n, %one, %t : (tensor<1x1x1x4xi1>, tensor<f32>, tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32>
  %y = nn.matmul %g, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// All positions are added up.
// expected-error @below {{are hidden: (nn.reduce) sums over positions that the mask does not hide}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %j = nn.cast %i : (tensor<1x1xi64>) -> tensor<1x1xf32>
  %qi = nn.add %q, %j : (tensor<1x1x1x2xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %a = nn.reduce sum %c dims [2] : (tensor<1x1x4x2xf32>) -> tensor<1x1x2xf32>
  %h = nn.select %m, %s, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y0 = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  %y = nn.add %y0, %a : (tensor<1x1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}

// -----

// Nothing tells positions.
// expected-error @below {{the cache grows, and there is no input "position_ids"}}
module {
func.func @main(%k: tensor<1x1x2xf32> {kerf.name = "k"}, %m: tensor<1x4xi1> {kerf.name = "attention_mask"},
    %p: tensor<1x3x2xf32> {kerf.name = "past.key"}) -> (tensor<1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 1 : (tensor<1x3x2xf32>, tensor<1x1x2xf32>) -> tensor<1x4x2xf32>
  return %c : tensor<1x4x2xf32>
}
}

// -----

// What is new stands in front.
// expected-error @below {{neither of the type of input "past.key"}}
module {
func.func @main(%k: tensor<1x1x2xf32> {kerf.name = "k"}, %p: tensor<1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %k, %p dim 1 : (tensor<1x1x2xf32>, tensor<1x3x2xf32>) -> tensor<1x4x2xf32>
  return %c : tensor<1x4x2xf32>
}
}

// -----

// expected-error @below {{no output is an input of the next step}}
module {
func.func @main(%x: tensor<3xf32> {kerf.name = "x"}) -> (tensor<3xf32> {kerf.name = "y"}) {
  return %x : tensor<3xf32>
}
}

// -----

// The first new position sees the second, which may be none.
// expected-error @below {{(nn.softmax) is over new positions that none hides from those before them}}
module {
func.func @main(%q: tensor<1x1x2x2xf32> {kerf.name = "q"}, %k: tensor<1x1x2x2xf32> {kerf.name = "k"},
    %m: tensor<1x5xi1> {kerf.name = "attention_mask"}, %i: tensor<1x2xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x2x2xf32> {kerf.name = "y"}, tensor<1x1x5x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x5x2xf32>
  %j = nn.cast %i : (tensor<1x2xi64>) -> tensor<1x2xf32>
  %qi = nn.add %q, %j : (tensor<1x1x2x2xf32>, tensor<1x2xf32>) -> tensor<1x1x2x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x2x2xf32>, tensor<1x1x5x2xf32>) -> tensor<1x1x2x5xf32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %seen = nn.constant dense<[[true, true, true, true, true], [true, true, true, true, true]]> : tensor<2x5xi1>
  %v = nn.and %seen, %m : (tensor<2x5xi1>, tensor<1x5xi1>) -> tensor<2x5xi1>
  %h = nn.select %v, %s, %least : (tensor<2x5xi1>, tensor<1x1x2x5xf32>, tensor<f32>) -> tensor<1x1x2x5xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x2x5xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x2x5xf32>, tensor<1x1x5x2xf32>) -> tensor<1x1x2x2xf32>
  return %y, %c : tensor<1x1x2x2xf32>, tensor<1x1x5x2xf32>
}
}

// -----

// Positions are looked up in a table that the cache is longer than: the fourth
// position is row 5 of 5.
// expected-error @below {{a cache of 4 positions, expected at most 3: looks up row 5 for the last one, in a table of 5}}
module {
func.func @main(%q: tensor<1x1x1x2xf32> {kerf.name = "q"}, %k: tensor<1x1x1x2xf32> {kerf.name = "k"},
    %m: tensor<1x4xi1> {kerf.name = "attention_mask"}, %i: tensor<1x1xi64> {kerf.name = "position_ids"},
    %p: tensor<1x1x3x2xf32> {kerf.name = "past.key"})
    -> (tensor<1x1x1x2xf32> {kerf.name = "y"}, tensor<1x1x4x2xf32> {kerf.name = "present.key"}) {
  %c = nn.concat %p, %k dim 2 : (tensor<1x1x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x4x2xf32>
  %table = nn.constant dense<1.0> : tensor<5x2xf32>
  %two = nn.constant dense<2> : tensor<i64>
  %behind = nn.add %i, %two : (tensor<1x1xi64>, tensor<i64>) -> tensor<1x1xi64>
  %row = nn.gather %table, %behind dim 0 : (tensor<5x2xf32>, tensor<1x1xi64>) -> tensor<1x1x2xf32>
  %qi = nn.add %q, %row : (tensor<1x1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x1x1x2xf32>
  %s = nn.matmul %qi, %c {transpose_rhs} : (tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x4xf32>
  %least = nn.constant dense<-1.0e9> : tensor<f32>
  %h = nn.select %m, %s, %least : (tensor<1x4xi1>, tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %t = nn.softmax %h dim 3 : tensor<1x1x1x4xf32>
  %y = nn.matmul %t, %c : (tensor<1x1x1x4xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x1x2xf32>
  return %y, %c : tensor<1x1x1x2xf32>, tensor<1x1x4x2xf32>
}
}
