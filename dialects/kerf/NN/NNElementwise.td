//===- NNElementwise.td - elementwise ops -----------------*- tablegen -*-===//
#ifndef KERF_NN_ELEMENTWISE_TD
#define KERF_NN_ELEMENTWISE_TD

include "kerf/NN/NNBase.td"

// Cast and select have operands of several types, which expressions cannot
// say: code that computes elements handles them by name.

def NN_NegOp : NN_UnaryOp<"neg", "-x", "{{0}}"> {
  let epilogue = "EpilogueStep::Neg";
  let onElements = "s.neg(x[0])";
  let interval = "-x[0]";
}
def NN_AbsOp : NN_UnaryOp<"abs", "|x|", "{}", 1, NN_Tensor, "::kerf::OperandRole::Through", [NN_BorderAtZero]> {
  let epilogue = "EpilogueStep::Abs";
  let onElements = "s.abs(x[0])";
  let interval = "absolute(x[0])";
}
def NN_SignOp : NN_UnaryOp<"sign", "sign(x)", "{}", 1, NN_Tensor, "::kerf::OperandRole::Through", [NN_BorderAtZero]> {
  let onFloats = "sign(s, x[0])";
  let onIntegers = "s.sign(x[0])";
  let interval = "::kerf::Interval::within(1)";
}
def NN_ExpOp : NN_UnaryOp<"exp", "exp(x)", "{}", 10, NN_Float> {
  let onFloats = "s.exp(x[0])";
  let interval = "exponential(x[0])";
}
def NN_LogOp : NN_UnaryOp<"log", "log(x)", "{}", 10, NN_Float> {
  let onFloats = "s.log(x[0])";
  let interval = "logarithm(x[0])";
}
def NN_Log1pOp : NN_UnaryOp<"log1p", "log(1 + x), exact where x is small", "{}", 20, NN_Float> {
  let onFloats = "log1p(s, x[0])";
  let interval = "logarithm(x[0] + ::kerf::Interval{1, 1})";
}
def NN_SqrtOp : NN_UnaryOp<"sqrt", "sqrt(x)", "{}", 4, NN_Float> {
  let onFloats = "s.sqrt(x[0])";
  let interval = "squareRoot(x[0])";
}
def NN_RsqrtOp : NN_UnaryOp<"rsqrt", "1 / sqrt(x)", "{}", 4, NN_Float> {
  let onFloats = "s.div(s.number(1), s.sqrt(x[0]))";
  let interval = "reciprocal(squareRoot(x[0]))";
}
def NN_ReciprocalOp : NN_UnaryOp<"reciprocal", "1 / x", "{}", 4, NN_Float> {
  let onFloats = "s.div(s.number(1), x[0])";
  let interval = "reciprocal(x[0])";
}
def NN_ErfOp : NN_UnaryOp<"erf", "erf(x)", "{}", 15, NN_Float> {
  let onFloats = "s.erf(x[0])";
  let interval = "::kerf::Interval::within(1)";
}
def NN_TanhOp : NN_UnaryOp<"tanh", "tanh(x)", "{}", 15, NN_Float> {
  let epilogue = "EpilogueStep::Tanh";
  let onFloats = "s.tanh(x[0])";
  let interval = "::kerf::Interval::within(1)";
}
def NN_SigmoidOp : NN_UnaryOp<"sigmoid", "1 / (1 + exp(-x))", "{}", 12, NN_Float> {
  let epilogue = "EpilogueStep::Sigmoid";
  let onFloats = "s.sigmoid(x[0])";
  let interval = "{0, 1}";
}
// Of -infinity NaN, as the product of both has it. No library's epilogue: before AVX-512 oneDNN takes
// longer for it than a kernel behind the call.
def NN_SiluOp : NN_UnaryOp<"silu", "x / (1 + exp(-x))", "{}", 13, NN_Float> {
  let onFloats = "s.mul(x[0], s.sigmoid(x[0]))";
  let interval = "{-0.28, maximum(x[0], ::kerf::Interval::of(0)).high}";
}
def NN_SinOp : NN_UnaryOp<"sin", "sin(x)", "{}", 15, NN_Float, "::kerf::OperandRole::Sine"> {
  let onFloats = "s.sin(x[0])";
  let interval = "::kerf::Interval::within(1)";
}
def NN_CosOp : NN_UnaryOp<"cos", "cos(x)", "{}", 15, NN_Float, "::kerf::OperandRole::Cosine"> {
  let onFloats = "s.cos(x[0])";
  let interval = "::kerf::Interval::within(1)";
}
def NN_TanOp : NN_UnaryOp<"tan", "tan(x)", "{}", 30, NN_Float> {
  let onFloats = "s.div(s.sin(x[0]), s.cos(x[0]))";
}
def NN_AsinOp : NN_UnaryOp<"asin", "the inverse of sin, NaN beyond 1", "{}", 40, NN_Float> {
  let onFloats = "asin(s, x[0])";
  let interval = "::kerf::Interval::within(1.571)";
}
def NN_AcosOp : NN_UnaryOp<"acos", "the inverse of cos, NaN beyond 1", "{}", 40, NN_Float> {
  let onFloats = "acos(s, x[0])";
  let interval = "{0, 3.142}";
}
def NN_AtanOp : NN_UnaryOp<"atan", "the inverse of tan", "{}", 30, NN_Float> {
  let onFloats = "atan(s, x[0])";
  let interval = "::kerf::Interval::within(1.571)";
}
def NN_SinhOp : NN_UnaryOp<"sinh", "(exp(x) - exp(-x)) / 2", "{}", 50, NN_Float> {
  let onFloats = "sinh(s, x[0])";
}
def NN_CoshOp : NN_UnaryOp<"cosh", "(exp(x) + exp(-x)) / 2", "{}", 30, NN_Float> {
  let onFloats = "cosh(s, x[0])";
}
def NN_AsinhOp : NN_UnaryOp<"asinh", "the inverse of sinh", "{}", 50, NN_Float> {
  let onFloats = "asinh(s, x[0])";
}
def NN_AcoshOp : NN_UnaryOp<"acosh", "the inverse of cosh, NaN below 1", "{}", 50, NN_Float> {
  let onFloats = "acosh(s, x[0])";
}
def NN_AtanhOp : NN_UnaryOp<"atanh", "the inverse of tanh, NaN beyond 1", "{}", 30, NN_Float> {
  let onFloats = "atanh(s, x[0])";
}
def NN_FloorOp : NN_UnaryOp<"floor", "floor(x)", "{}", 1, NN_Float, "::kerf::OperandRole::Through", [NN_Border]> {
  let onFloats = "s.floor(x[0])";
  let interval = "x[0] + ::kerf::Interval{-1, 0}";
}
def NN_CeilOp : NN_UnaryOp<"ceil", "ceil(x)", "{}", 1, NN_Float, "::kerf::OperandRole::Through", [NN_Border]> {
  let onFloats = "s.ceil(x[0])";
  let interval = "x[0] + ::kerf::Interval{0, 1}";
}
def NN_RoundOp : NN_UnaryOp<"round", "round half to even (x)", "{}", 1, NN_Float, "::kerf::OperandRole::Through", [NN_Border]> {
  let onFloats = "s.round(x[0])";
  let interval = "x[0] + ::kerf::Interval::within(0.5)";
}
def NN_ReluOp : NN_UnaryOp<"relu", "max(x, 0)", "{}", 1, NN_Tensor, "::kerf::OperandRole::Through", [NN_BorderAtZero]> {
  let epilogue = "EpilogueStep::Relu";
  let onFloats = "relu(s, x[0])";
  let onIntegers = "s.max(x[0], s.number(0))";
  let interval = "maximum(x[0], ::kerf::Interval::of(0))";
}
def NN_NotOp : NN_UnaryOp<"not", "not x, bit by bit", "{}", 1, NN_Integer> {
  let onIntegers = "s.invert(x[0])";
}

def NN_GeluOp : NN_UnaryOp<"gelu", "x/2 (1 + erf(x / sqrt 2)), or the tanh form", "{}", 20, NN_Float> {
  let epilogue = "getTanh() ? EpilogueStep::GeluTanh : EpilogueStep::GeluErf";
  let onFloats = "getTanh() ? geluTanh(s, x[0]) : gelu(s, x[0])";
  let arguments = (ins NN_Float:$x, UnitAttr:$tanh);
  let interval = "{-0.2, maximum(x[0], ::kerf::Interval::of(0)).high}";
  let description = [{
    `x/2 (1 + erf(x / sqrt(2)))`, or with `tanh` the approximation
    `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.

    ```mlir
    %r = nn.gelu %x {tanh} : tensor<2x3xf32>
    ```
  }];
}

def NN_GeluGradientOp
    : NN_BinaryOp<"gelu_gradient", "dy gelu'(x)", "{{0}}", 25, 0, NN_Float> {
  let epilogue = "getTanh() ? EpilogueStep::GeluTanhGradient : EpilogueStep::None";
  let onFloats = "s.mul(x[0], getTanh() ? geluTanhSlope(s, x[1]) : geluSlope(s, x[1]))";
  let multipliers = "{1}";
  let description = [{
    `dy` times the slope of `nn.gelu` at `x`: `P(x) + x p(x)` with the distribution
    `P` of the normal law and its density `p`, or with `tanh` the slope of that form:
    `1/2 (1 + t) + x/2 (1 - t^2) u'` with `t = tanh(u)`, `u = sqrt(2/pi) (x + 0.044715 x^3)`.
    Libraries have it behind a product.

    ```mlir
    %r = nn.gelu_gradient %dy, %x {tanh} : tensor<2x3xf32>
    ```

    C1: operands have one element type and broadcast.
  }];
  let arguments = (ins NN_Float:$dy, NN_Float:$x, UnitAttr:$tanh);
  let assemblyFormat = "$dy `,` $x attr-dict `:` custom<Types>(type($dy), type($x), type($result))";
}

def NN_IsNaNOp : NN_ElementwiseOp<"is_nan", "{}", 1, NN_Element> {
  let onFloats = "s.isNaN(x[0])";
  let summary = "elementwise isnan(x)";
  let description = [{
    `result[i]` tells whether `x[i]` is not a number.

    ```mlir
    %r = nn.is_nan %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
    ```
  }];
  let arguments = (ins NN_Float:$x);
}

// A widening cast is linear: partial sums may pass through it. A transfer cast
// (Interfaces/TransferCast.h) is treated as linear too, although each part is rounded.
def NN_CastOp : NN_ElementwiseOp<"cast",
    [{[&] {
      auto element = [](::mlir::Value value) {
        return ::llvm::dyn_cast<::mlir::FloatType>(
            ::llvm::cast<::mlir::RankedTensorType>(value.getType()).getElementType());
      };
      ::mlir::FloatType from = element(getX()), to = element(getResult());
      ::llvm::SmallVector<::llvm::SmallVector<unsigned>> groups;
      if (from && to && !isNarrow(from) && !isNarrow(to) &&
          (from.getWidth() < to.getWidth() || isTransferCast(*this)))
        groups.push_back({0});
      return groups;
    }()}], 1, [NN_ByElement, NN_Kernel<"Elementwise">], "{}", "::kerf::OperandRole::Through"> {
  let summary = "elementwise change of element type";
  let description = [{
    Between floats: rounds to nearest even. Float to integer truncates towards
    zero. To i1: `x != 0`. From i1: 0 or 1.

    To a float of 8 bits: what is out of range becomes infinity where the type has
    it, and NaN where not. f4E2M1FN has neither: such numbers
    become its largest, and NaN becomes -0. Integers of 2 and 4 bits keep the low
    bits of an integer.

    ```mlir
    %r = nn.cast %x : (tensor<2x3xi64>) -> tensor<2x3xf32>
    ```

    With the attribute `kerf.transfer_cast` (Interfaces/TransferCast.h) a sum of parts may be
    taken after any cast between floats: each part is rounded.

    C1: operand and result have one shape. C2: the result is no f8E8M0FNU, which
    has powers of 2 alone and no rounding of its own: `nn.bitcast` makes it of an
    exponent.
  }];
  let arguments = (ins NN_AnyTensor:$x);
  let results = (outs NN_AnyTensor:$result);
  // NaN may become any integer, small numbers become 0; large ones do not fit in 8 bits.
  let interval = "(holdsFloats(getX()) && !holdsFloats(getResult())) || isNarrow(getResult().getType().getElementType()) ? ::kerf::Interval::all() : ::kerf::Interval{x[0].low, x[0].high}";
  let hasVerifier = 1;
}

def NN_BitcastOp : NN_ElementwiseOp<"bitcast", "{}", 1, [NN_ByElement, NN_Kernel<"Elementwise">]> {
  let summary = "the bits of each element as another type";
  let description = [{
    ```mlir
    %r = nn.bitcast %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
    ```

    C1: operand and result have one shape. C2: their elements have one width,
    which is not 1.
  }];
  let arguments = (ins NN_AnyTensor:$x);
  let results = (outs NN_AnyTensor:$result);
  let hasVerifier = 1;
}

def NN_AddOp : NN_BinaryOp<"add", "lhs + rhs", "{{0, 1}}", 1, 0, NN_Tensor, "{}",
                           "::kerf::OperandRole::Addend"> {
  let epilogue = "EpilogueStep::Add";
  let onElements = "s.add(x[0], x[1])";
  let interval = "x[0] + x[1]";
}
def NN_SubOp : NN_BinaryOp<"sub", "lhs - rhs", "{{0, 1}}", 1, 0, NN_Tensor, "{}",
                           "::kerf::OperandRole::Addend"> {
  let epilogue = "EpilogueStep::Sub";
  let onElements = "s.sub(x[0], x[1])";
  let interval = "x[0] - x[1]";
}
def NN_MulOp : NN_BinaryOp<"mul", "lhs * rhs", "{{0}, {1}}", 1, 0, NN_Tensor, "{}",
                           "::kerf::OperandRole::Factor"> {
  let epilogue = "EpilogueStep::Mul";
  let onElements = "s.mul(x[0], x[1])";
  let interval = "getLhs() == getRhs() ? square(x[0]) : x[0] * x[1]";
  let multipliers = "{0, 1}";
}
def NN_DivOp : NN_BinaryOp<"div", "lhs / rhs (integers truncate towards zero)",
    "quotientLinearGroups(::mlir::getElementTypeOrSelf(getLhs()))", 4, 0, NN_Tensor, "{{1, 1}}",
                           "::kerf::OperandRole::Factor", [NN_Division]> {
  let epilogue = "EpilogueStep::Div";
  let onElements = "s.div(x[0], x[1])";
  let interval = "x[0] * reciprocal(x[1])";
  let divisors = "{1}";
}
def NN_ModOp : NN_BinaryOp<"mod", "lhs - floor(lhs / rhs) * rhs (sign of the divisor)", "{}", 4, 0, NN_Tensor, "{{1, 1}}",
                           "::kerf::OperandRole::Number", [NN_Division, NN_Border]> {
  let onElements = "s.mod(x[0], x[1])";
}
def NN_RemOp : NN_BinaryOp<"rem", "lhs - trunc(lhs / rhs) * rhs (sign of the dividend)", "{}", 4, 0, NN_Tensor, "{{1, 1}}",
                           "::kerf::OperandRole::Number", [NN_Division, NN_Border]> {
  let onElements = "s.rem(x[0], x[1])";
}
def NN_PowOp : NN_BinaryOp<"pow", "lhs ^ rhs", "{}", 20> {
  let onFloats = "s.pow(x[0], x[1], [&] { return splatNumber(getRhs()); })";
  let onIntegers = "s.pow(x[0], x[1])";
  let interval = "power(x[0], x[1])";
}
def NN_MaxOp : NN_BinaryOp<"max", "max(lhs, rhs), NaN if either is", "{}", 1, 0, NN_Tensor, "{}",
                           "::kerf::OperandRole::Number", [NN_Border]> {
  let onElements = "s.max(x[0], x[1])";
  let interval = "maximum(x[0], x[1])";
}
def NN_MinOp : NN_BinaryOp<"min", "min(lhs, rhs), NaN if either is", "{}", 1, 0, NN_Tensor, "{}",
                           "::kerf::OperandRole::Number", [NN_Border]> {
  let onElements = "s.min(x[0], x[1])";
  let interval = "minimum(x[0], x[1])";
}
def NN_AndOp : NN_BinaryOp<"and", "lhs and rhs, bit by bit", "{}", 1, 0, NN_Integer> {
  let onIntegers = "s.bitAnd(x[0], x[1])";
}
def NN_OrOp : NN_BinaryOp<"or", "lhs or rhs, bit by bit", "{}", 1, 0, NN_Integer> {
  let onIntegers = "s.bitOr(x[0], x[1])";
}
def NN_XorOp : NN_BinaryOp<"xor", "lhs xor rhs, bit by bit", "{}", 1, 0, NN_Integer> {
  let onIntegers = "s.bitXor(x[0], x[1])";
}
def NN_ShiftLeftOp : NN_BinaryOp<"shift_left", "lhs << rhs, 0 unless 0 <= rhs < bits of the type",
    "{}", 1, 0, NN_Integer> {
  let onIntegers = "s.shiftLeft(x[0], x[1])";
}
def NN_ShiftRightOp : NN_BinaryOp<"shift_right", "lhs >> rhs (rounds down), 0 or -1 by the sign unless 0 <= rhs < bits of the type",
    "{}", 1, 0, NN_Integer> {
  let onIntegers = "s.shiftRight(x[0], x[1])";
}
def NN_EqualOp : NN_BinaryOp<"equal", "lhs == rhs", "{}", 1, 1> {
  let onElements = "s.equal(x[0], x[1])";
}
def NN_LessOp : NN_BinaryOp<"less", "lhs < rhs", "{}", 1, 1, NN_Tensor, "{}",
                           "::kerf::OperandRole::Number", [NN_Border]> {
  let onElements = "s.less(x[0], x[1])";
}
def NN_LessEqualOp : NN_BinaryOp<"less_equal", "lhs <= rhs", "{}", 1, 1, NN_Tensor, "{}",
                           "::kerf::OperandRole::Number", [NN_Border]> {
  let onElements = "s.lessEqual(x[0], x[1])";
}

def NN_SelectOp : NN_ElementwiseOp<"select", "linearGroupsOf(*this)", 1, NN_Element, "{}",
    "operand == 0 ? ::kerf::OperandRole::Number : ::kerf::OperandRole::Element"> {
  let summary = "elementwise condition ? on_true : on_false";
  let description = [{
    `result[i] = condition[i] ? on_true[i] : on_false[i]` with broadcasting.

    ```mlir
    %r = nn.select %c, %a, %b : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    ```

    C1: `on_true` and `on_false` have one element type; all three broadcast.
  }];
  let arguments = (ins NN_Bool:$condition, NN_AnyTensor:$on_true, NN_AnyTensor:$on_false);
  let results = (outs NN_AnyTensor:$result);
  let linearInTime = "true";
  let interval = "join(x[1], isWhereNotZero(*this) ? ::kerf::Interval{x[2].low, x[2].high, true} : x[2])";
}

#endif // KERF_NN_ELEMENTWISE_TD
