//===- NNUpdates.td - steps of optimizers -----------------*- tablegen -*-===//
//
// One op per parameter and step: it takes the parameter, its gradient and what
// the optimizer remembers of it, and gives the new parameter and memory.
// Elementwise, so that a parameter is updated in whatever sharding it is stored.
// The formulas and their order are those of PyTorch's torch.optim (the
// single-tensor functions of sgd.py, adam.py, adamw.py and adagrad.py).
//
// One type is written, that of all tensors; scalars are tensor<f32>.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_UPDATES_TD
#define KERF_NN_UPDATES_TD

include "kerf/NN/NNBase.td"

class NN_UpdateOp<string mnemonic, int cost>
    : NN_Op<mnemonic, [DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface>]> {
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::kerf::ShardingRule $cppClass::getShardingRule() {
      return ::kerf::elementwiseShardingRule(getOperation());
    }
    int64_t $cppClass::getFlops(::llvm::ArrayRef<::mlir::RankedTensorType>,
                                ::llvm::ArrayRef<::mlir::RankedTensorType> results) {
      return results[0].getNumElements() * }] # cost # [{;
    }
    ::kerf::CostClass $cppClass::getCostClass() {
      return ::kerf::CostClass::Elementwise;
    }
  }];
}

def NN_SGDUpdateOp : NN_UpdateOp<"sgd_update", 6> {
  let summary = "a step of stochastic gradient descent";
  let description = [{
    With weight decay d and momentum u, as torch.optim.SGD (dampening 0):

        g' = g + d w
        v' = u v + g'                          (with velocity)
        s  = g'            without velocity
             g' + u v'     with `nesterov`
             v'            otherwise
        w' = w - lr s

    A velocity that starts as zero makes the first step PyTorch's.

    ```mlir
    %w1, %v1 = nn.sgd_update %w, %g, %v, %lr momentum 0.9 weight_decay 0.0 : tensor<2x3xf32>
    ```

    C1: parameter, gradient, velocity and the results have one type. C2: `lr` is
    a scalar. C3: there is a new velocity where there is an old one; `nesterov`
    needs it.
  }];
  let arguments = (ins NN_Float:$w, NN_Float:$g, Optional<NN_Float>:$velocity,
                       StaticShapeTensorOf<[F32]>:$lr, F64Attr:$momentum,
                       F64Attr:$weight_decay, UnitAttr:$nesterov);
  let results = (outs NN_Float:$new_w, Optional<NN_Float>:$new_velocity);
}

def NN_AdamUpdateOp : NN_UpdateOp<"adam_update", 16> {
  let summary = "a step of Adam or AdamW";
  let description = [{
    With betas a and b, weight decay d, and c1 = 1 - a^t, c2 = 1 - b^t at step t
    (from 1), as torch.optim.Adam, or AdamW with `decoupled`:

        w~ = w (1 - lr d)        (decoupled; else w~ = w)
        g' = g + d w             (not decoupled; else g' = g)
        m' = m + (1 - a) (g' - m)
        v' = b v + (1 - b) g' g'
        w' = w~ - (lr / c1) m' / (sqrt(v') / sqrt(c2) + epsilon)

    ```mlir
    %w1, %m1, %v1 = nn.adam_update %w, %g, %m, %v, %lr, %c1, %c2
      beta1 0.9 beta2 0.999 epsilon 1.0e-08 weight_decay 0.01 {decoupled} : tensor<3xf32>
    ```

    C1: parameter, gradient, both momenta and the results have one type. C2: `lr`,
    `c1` and `c2` are scalars.
  }];
  let arguments = (ins NN_Float:$w, NN_Float:$g, NN_Float:$m, NN_Float:$v,
                       StaticShapeTensorOf<[F32]>:$lr, StaticShapeTensorOf<[F32]>:$c1,
                       StaticShapeTensorOf<[F32]>:$c2, F64Attr:$beta1, F64Attr:$beta2,
                       F64Attr:$epsilon, F64Attr:$weight_decay, UnitAttr:$decoupled);
  let results = (outs NN_Float:$new_w, NN_Float:$new_m, NN_Float:$new_v);
}

def NN_AdagradUpdateOp : NN_UpdateOp<"adagrad_update", 9> {
  let summary = "a step of Adagrad";
  let description = [{
    With weight decay d, as torch.optim.Adagrad (lr_decay 0):

        g' = g + d w
        s' = s + g' g'
        w' = w - lr g' / (sqrt(s') + epsilon)

    ```mlir
    %w1, %s1 = nn.adagrad_update %w, %g, %s, %lr epsilon 1.0e-10 weight_decay 0.0 : tensor<3xf32>
    ```

    C1: parameter, gradient, sum and the results have one type. C2: `lr` is a
    scalar.
  }];
  let arguments = (ins NN_Float:$w, NN_Float:$g, NN_Float:$sum,
                       StaticShapeTensorOf<[F32]>:$lr, F64Attr:$epsilon,
                       F64Attr:$weight_decay);
  let results = (outs NN_Float:$new_w, NN_Float:$new_sum);
}

#endif // KERF_NN_UPDATES_TD
