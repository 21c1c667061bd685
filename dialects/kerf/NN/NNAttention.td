//===- NNAttention.td - attention as a whole --------------*- tablegen -*-===//
//
// Attention that cuDNN computes in one kernel, without storing the matrix of
// scores. --kerf-recognise-attention makes these ops for targets with such a call; all
// others keep matmul, softmax, matmul. All interfaces are in Attention.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_ATTENTION_TD
#define KERF_NN_ATTENTION_TD

include "kerf/NN/NNBase.td"

def NN_Stats : StaticShapeTensorOf<[F32, F64]>;

def NN_AttentionOp : NN_RuleOp<"attention", [NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "softmax(scale q k^T + bias) v";
  let description = [{
    With heads h in groups of H / Hkv that share a key head h':

        s[b, h, i, j] = scale * sum_d q[b, h, i, d] k[b, h', j, d] + bias[b, h, i, j]
        result[b, h, i, e] = sum_j softmax_j(s)[b, h, i, j] v[b, h', j, e]
        stats[b, h, i] = log sum_j exp s[b, h, i, j]

    `causal`: query i sees keys 0 to i only. Dimensions of size 1 of the bias
    broadcast. Accumulates in f32; `stats`, which is what the gradient needs, is
    f32 (f64 for f64). `2 (D + E) + 14` floating-point operations for each pair of
    a query and a key that it sees.

    Factors: `([b, h' g, i, d], [b, h', j, d], [b, h', j, e]) -> ([b, h' g, i, e], [b, h' g, i])`
    of which b, h' (g, where there is one key head) and, without `causal`, i may be cut.

    ```mlir
    %r, %stats = nn.attention %q, %k, %v scale 0.125 {causal}
       : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>
    ```

    C1: q, k and v have rank 4, one element type and one batch. C2: k and v have
    one number of heads, which divides that of q, and one length. C3: q and k have
    one size of heads. C4: the bias has rank 4 and broadcasts to the scores.
    C5: there are keys.
  }];
  let arguments = (ins NN_Float:$q, NN_Float:$k, NN_Float:$v, Optional<NN_Float>:$bias,
                       F64Attr:$scale, UnitAttr:$causal);
  let extraClassDeclaration = NN_Role<"operand == 3 ? ::kerf::OperandRole::Addend : ::kerf::OperandRole::Learned">.method;
  let results = (outs NN_Float:$result, NN_Stats:$stats);
  let assemblyFormat = "operands `scale` custom<Real>($scale) attr-dict `:` type(operands)";
}

def NN_AttentionGradientOp : NN_RuleOp<"attention_gradient", [NN_Infer]> {
  let summary = "gradient of attention with respect to q, k and v";
  let description = [{
    With `result, stats = attention(q, k, v, bias)` and the attributes of that op,
    p = exp(s - stats), and dy the gradient of the result:

        dv[b, h', j, e] = sum_{h in h', i} p[b, h, i, j] dy[b, h, i, e]
        ds[b, h, i, j] = p[b, h, i, j] (sum_e dy[b, h, i, e] (v[b, h', j, e] - result[b, h, i, e]))
        dq[b, h, i, d] = scale * sum_j ds[b, h, i, j] k[b, h', j, d]
        dk[b, h', j, d] = scale * sum_{h in h', i} ds[b, h, i, j] q[b, h, i, d]

    where i sees j. `6 D + 4 E + 14` floating-point operations for each such pair. The
    bias gets no gradient: it is a mask.

    Factors b and h' (groups stay together: keys sum over them).

    ```mlir
    %dq, %dk, %dv = nn.attention_gradient %q, %k, %v, %r, %stats, %dy scale 0.125 {causal}
       : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>
    ```

    C1: `nn.attention` of the operands has the types of `result` and `stats`. C2:
    `dy` has the type of `result`.
  }];
  let arguments = (ins NN_Float:$q, NN_Float:$k, NN_Float:$v, NN_Float:$result,
                       NN_Stats:$stats, NN_Float:$dy, Optional<NN_Float>:$bias,
                       F64Attr:$scale, UnitAttr:$causal);
  let results = (outs NN_Float:$dq, NN_Float:$dk, NN_Float:$dv);
  let assemblyFormat = [{
    operands `scale` custom<Real>($scale) attr-dict
    `:` custom<AttentionTypes>(type($q), type($k), type($v), type($result), type($stats), type($dy), type($bias))
  }];
}

#endif // KERF_NN_ATTENTION_TD
