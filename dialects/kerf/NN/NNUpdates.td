//===- NNUpdates.td - steps of optimizers -----------------*- tablegen -*-===//
//
// One op per parameter and step: it takes the parameter, its gradient and the
// optimizer's state of it, and gives the new parameter and state. Elementwise, so
// that a parameter is updated in the sharding in which it is stored.
// The formulas and their order are those of PyTorch's torch.optim (the
// single-tensor functions of sgd.py, adam.py, adamw.py, adagrad.py and rmsprop.py).
//
// One type is written, that of all tensors; scalars are tensor<f32>.
//
// A step is defined once, as C++ beside the op (`step`): `s` has the operations on
// elements (Elements.h), `x` the operands' elements; it returns the results'
// elements. The interpreter evaluates it, lowering expands it to ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_UPDATES_TD
#define KERF_NN_UPDATES_TD

include "kerf/NN/NNBase.td"

// The trait of all of them.
def NN_Update : NativeOpTrait<"Update"> {
  let cppNamespace = "::kerf::nn";
}

// `cost` is per element; `numbers` are the attributes that are written, in order;
// the last `scalars` operands are scalars. `check` is what else the op asks for.
class NN_UpdateOp<string mnemonic, int cost, list<string> numbers, int scalars = 1>
    : NN_Op<mnemonic, [NN_Update, DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface>]> {
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  string step = "";
  string check = "::mlir::success()";
  let extraClassDeclaration = [{
    template <typename S>
    ::llvm::SmallVector<typename S::V> step(S &s, ::llvm::ArrayRef<typename S::V> x) {
      }] # step # [{
    }
  }];
  string names = "{\"" # !interleave(numbers, "\", \"") # "\"}";
  let extraClassDefinition = [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser,
                                         ::mlir::OperationState &state) {
      return ::kerf::nn::parseUpdate(parser, state, }] # names # ", " # scalars # [{);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) {
      ::kerf::nn::printUpdate(printer, *this, }] # names # ", " # scalars # [{);
    }
    ::llvm::LogicalResult $cppClass::verify() {
      if (::mlir::failed(}] # check # [{))
        return ::mlir::failure();
      return ::kerf::nn::verifyUpdate(*this, }] # scalars # [{);
    }
    ::kerf::ShardingRule $cppClass::getShardingRule() {
      return ::kerf::elementwiseShardingRule(getOperation());
    }
  }] # NN_Cost<"Elementwise", "results[0].getNumElements() * " # cost>.definition;
}

def NN_SGDUpdateOp : NN_UpdateOp<"sgd_update", 6, ["momentum", "weight_decay"]> {
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
  let check = "verifyVelocity(*this, getVelocity(), getNewVelocity(), getNesterov())";
  let step = [{
      auto w = x[0], g = decayed(s, x[1], w, getWeightDecay()), lr = x.back();
      if (!getVelocity())
        return {s.sub(w, s.mul(g, lr))};
      auto v = s.add(s.mul(x[2], s.number(getMomentum())), g);
      auto step = getNesterov() ? s.add(g, s.mul(v, s.number(getMomentum()))) : v;
      return {s.sub(w, s.mul(step, lr)), v};}];
}

def NN_AdamUpdateOp : NN_UpdateOp<"adam_update", 16, ["beta1", "beta2", "epsilon", "weight_decay"], 3> {
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
  let step = [{
      auto w = x[0], g = x[1], lr = x[4], c1 = x[5], c2 = x[6];
      double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
      if (!getDecoupled())
        g = decayed(s, g, w, getWeightDecay());
      else if (!getWeightDecay().isZero())
        // The factor is rounded before it is applied, as PyTorch's.
        w = s.mul(w, s.sub(s.number(1), s.mul(lr, s.number(getWeightDecay()))));
      auto m = s.add(x[2], s.mul(s.sub(g, x[2]), s.number(1 - beta1)));
      auto v = s.add(s.mul(x[3], s.number(beta2)), s.mul(s.mul(g, g), s.number(1 - beta2)));
      auto scale = s.div(s.number(1), s.sqrt(c2));
      auto divisor = s.add(s.mul(s.sqrt(v), scale), s.number(getEpsilon()));
      auto step = s.div(lr, c1);
      return {s.sub(w, s.div(s.mul(m, step), divisor)), m, v};}];
}

def NN_AdagradUpdateOp : NN_UpdateOp<"adagrad_update", 9, ["epsilon", "weight_decay"]> {
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
  let step = [{
      auto w = x[0], g = decayed(s, x[1], w, getWeightDecay()), lr = x[3];
      auto sum = s.add(x[2], s.mul(g, g));
      auto divisor = s.add(s.sqrt(sum), s.number(getEpsilon()));
      auto step = s.div(s.mul(g, lr), divisor);
      return {s.sub(w, step), sum};}];
}

def NN_RMSPropUpdateOp : NN_UpdateOp<"rmsprop_update", 12,
                                     ["alpha", "epsilon", "momentum", "weight_decay"]> {
  let summary = "a step of RMSprop";
  let description = [{
    With weight decay d, as torch.optim.RMSprop (not centered):

        g' = g + d w
        v' = alpha v + (1 - alpha) g' g'
        s  = g' / (sqrt(v') + epsilon)
        u' = momentum u + s                    (with velocity)
        w' = w - lr u'                         (without: w - lr s)

    ```mlir
    %w1, %v1 = nn.rmsprop_update %w, %g, %v, %lr
      alpha 0.99 epsilon 1.0e-08 momentum 0.0 weight_decay 0.0 : tensor<3xf32>
    ```

    C1: parameter, gradient, mean, velocity and the results have one type. C2:
    `lr` is a scalar. C3: there is a new velocity where there is an old one.
  }];
  let arguments = (ins NN_Float:$w, NN_Float:$g, NN_Float:$v, Optional<NN_Float>:$velocity,
                       StaticShapeTensorOf<[F32]>:$lr, F64Attr:$alpha, F64Attr:$epsilon,
                       F64Attr:$momentum, F64Attr:$weight_decay);
  let results = (outs NN_Float:$new_w, NN_Float:$new_v, Optional<NN_Float>:$new_velocity);
  let check = "verifyVelocity(*this, getVelocity(), getNewVelocity())";
  let step = [{
      auto w = x[0], g = decayed(s, x[1], w, getWeightDecay()), lr = x.back();
      double alpha = getAlpha().convertToDouble();
      auto v = s.add(s.mul(x[2], s.number(alpha)), s.mul(s.mul(g, g), s.number(1 - alpha)));
      auto step = s.div(g, s.add(s.sqrt(v), s.number(getEpsilon())));
      if (!getVelocity())
        return {s.sub(w, s.mul(step, lr)), v};
      auto u = s.add(s.mul(x[3], s.number(getMomentum())), step);
      return {s.sub(w, s.mul(u, lr)), v, u};}];
}

#endif // KERF_NN_UPDATES_TD
