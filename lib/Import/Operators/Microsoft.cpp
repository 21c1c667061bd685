//===- Microsoft.cpp - com.microsoft: fused operators ---------------------===//
//
// What ONNX Runtime's optimizer makes of products, activations and
// normalizations, in floats. Each becomes the ops that it was made of;
// compilation fuses them its own way. What an operator computes is told by
// ONNX Runtime's docs/ContribOperators.md.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Activations.h"
#include "Contractions.h"
#include "Images.h"
#include "Indexing.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// alpha op(A) op(B), where op swaps the last two dimensions, or first brings
/// the leading one behind the batch's.
static LogicalResult fusedMatMul(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  double alpha = node.real("alpha", 1);
  Value a = node.in(0), b = node.parameter(1);
  bool transposeA = node.integer("transA", 0);
  bool transposeB = node.integer("transB", 0);
  if (rankOf(a) < 2 || rankOf(b) < 2)
    return node.error("inputs have ranks " + Twine(rankOf(a)) + " and " +
                      Twine(rankOf(b)) + ", expected at least 2");
  for (auto [name, x] :
       {std::pair("transBatchA", &a), std::pair("transBatchB", &b)}) {
    if (!node.integer(name, 0))
      continue;
    Integers perm;
    for (int64_t dim = 1; dim + 1 < rankOf(*x); ++dim)
      perm.push_back(dim);
    perm.push_back(0);
    perm.push_back(rankOf(*x) - 1);
    *x = node.transpose(*x, perm);
  }
  Value y = node.matmul(a, b, transposeA, transposeB);
  return node.set(alpha == 1 ? y : node.mul(y, alpha));
}

static Value geluOf(Node &node, Value x, bool byTanh) {
  SmallVector<NamedAttribute, 1> flags;
  if (byTanh)
    flags.push_back(node.unit("tanh"));
  return node.make<GeluOp>({x}, flags);
}

static LogicalResult gelu(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  return node.set(geluOf(node, node.in(0), false));
}
static LogicalResult biasGelu(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  return node.set(geluOf(node, node.add(node.in(0), node.parameter(1)), false));
}
static LogicalResult fastGelu(Node &node) {
  if (failed(node.arity(1, 2)))
    return failure();
  Value x = node.in(0);
  if (node.has(1))
    x = node.add(x, node.parameter(1));
  return node.set(geluOf(node, x, true));
}
static LogicalResult quickGelu(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  Value gate = node.mul(x, node.real("alpha", 1.702));
  return node.set(node.mul(x, node.make<SigmoidOp>({gate})));
}

/// Whether the vector is null, or has the size of the last dimension; reports
/// otherwise.
static bool isOfRows(Node &node, Value vector, Value x, StringRef name) {
  if (!vector || shapeOf(vector) == shapeOf(x).take_back(1))
    return true;
  (void)node.error(name + " must be a vector of " + Twine(shapeOf(x).back()) +
                   " elements");
  return false;
}

/// Layer or RMS (`isSimple`) normalization of the last dimension.
static Value normOf(Node &node, Value x, Value scale, Value bias, bool isSimple,
                    double epsilon) {
  if (!x || !isOfRows(node, scale, x, "gamma") ||
      !isOfRows(node, bias, x, "beta"))
    return {};
  SmallVector<NamedAttribute> attributes{node.i64("dim", rankOf(x) - 1),
                                         node.f64("epsilon", epsilon)};
  if (isSimple)
    return node.make<RMSNormOp>({x, scale}, attributes);
  if (!bias)
    bias = node.splat(shapeOf(x).take_back(1), 0, elementOf(x));
  return node.make<LayerNormOp>({x, scale, bias}, attributes);
}

/// The norm of input + skip + bias; the sum is the last output.
template <bool isSimple> static LogicalResult skipNorm(Node &node) {
  constexpr size_t betaAt = 3, biasAt = isSimple ? 3 : 4;
  if (failed(node.arity(3, biasAt + 1, 4)))
    return failure();
  Value x = node.in(0), skip = node.in(1);
  double epsilon = node.real("epsilon", 1e-12f);
  if (node.wants(1) || node.wants(2))
    return node.unsupported("statistics as outputs of operator " +
                            node.proto.op_type());
  if (rankOf(x) < 2)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected at least 2");
  Value sum = node.add(x, skip);
  if (sum && sum.getType() != x.getType())
    return node.error("skip does not broadcast to input");
  if (node.has(biasAt)) {
    if (!isOfRows(node, node.in(biasAt), x, "bias"))
      return failure();
    sum = node.add(sum, node.parameter(biasAt));
  }
  if (node.wants(3) && failed(node.set(3, sum)))
    return failure();
  return node.set(normOf(node, sum, node.parameter(2),
                         isSimple ? Value() : node.parameter(betaAt), isSimple,
                         epsilon));
}

/// Rows of a table; null where there is no table.
static Value rowsOf(Node &node, Value table, Value ids) {
  if (!table || !ids)
    return {};
  if (rankOf(table) != 2) {
    (void)node.error("an embedding has rank " + Twine(rankOf(table)) +
                     ", expected 2");
    return {};
  }
  ids = wideIndices(node, ids);
  if (!ids)
    return {};
  return node.gather(table, indicesWithin(node, ids, shapeOf(table)[0]), 0);
}

/// The norm of the words', positions' and segments' rows.
static LogicalResult embedLayerNorm(Node &node) {
  if (failed(node.arity(1, 9, 3)))
    return failure();
  Value ids = node.in(0);
  for (size_t index : {2, 3, 5, 6})
    if (!node.has(index))
      return node.error("EmbedLayerNormalization: input " + Twine(index) +
                        " is absent");
  double epsilon = node.real("epsilon", 1e-12f);
  (void)node.integer("mask_index_type", 0);
  if (rankOf(ids) != 2)
    return node.error("input_ids has rank " + Twine(rankOf(ids)) +
                      ", expected 2");
  int64_t tokens = shapeOf(ids)[1];
  Value positions = node.parameter(3);
  Value rows;
  if (node.has(8))
    rows = rowsOf(node, positions, node.in(8));
  else if (rankOf(positions) == 2 && shapeOf(positions)[0] >= tokens)
    rows = node.slice(positions, 0, 0, tokens);
  else
    return node.error(
        "position_embedding has fewer rows than there are tokens");
  if (node.has(1) != node.has(4))
    return node.error("segment_ids and segment_embedding must come together");
  Value sum = node.add(rowsOf(node, node.parameter(2), ids), rows);
  if (node.has(1))
    sum = node.add(sum, rowsOf(node, node.parameter(4), node.in(1)));
  if (!sum)
    return node.fail();
  if (node.wants(1)) {
    // How many tokens each sample has; 0 where nothing says.
    Type i32 = node.ops.getI32Type();
    Value count = node.has(7)
                      ? node.reduce(node.cast(node.in(7), i32), ReduceKind::Sum,
                                    {1}, /*keepDims=*/false)
                      : node.splat({shapeOf(ids)[0]}, 0, i32);
    if (failed(node.set(1, count)))
      return failure();
  }
  if (node.wants(2) && failed(node.set(2, sum)))
    return failure();
  return node.set(normOf(node, sum, node.parameter(5), node.parameter(6),
                         /*isSimple=*/false, epsilon));
}

/// The activation that an attribute names, with the numbers of another; `x` as
/// it is where there is none.
static Value activate(Node &node, Value x, ArrayRef<double> numbers) {
  std::string name = node.text("activation", "");
  if (!x || name.empty())
    return x;
  auto number = [&](size_t index) {
    return index < numbers.size() ? std::optional(numbers[index])
                                  : std::nullopt;
  };
  return applyActivation(node, name, x, number(0), number(1));
}

static LogicalResult fusedConv(Node &node) {
  if (failed(node.arity(2, 4)))
    return failure();
  auto parameters = node.realList("activation_params");
  Value y = convolve(node);
  if (node.has(3)) {
    if (y && node.in(3).getType() != y.getType())
      return node.error("Z must have the shape and type of the result");
    y = node.add(y, node.in(3));
  }
  return node.set(
      activate(node, y, parameters ? *parameters : SmallVector<double>()));
}

/// activation(alpha op(A) op(B) + beta C)
static LogicalResult fusedGemm(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  SmallVector<double> parameters;
  for (const char *name :
       {"activation_alpha", "activation_beta", "activation_gamma"})
    if (node.hasAttribute(name))
      parameters.push_back(node.real(name, 0));
  return node.set(activate(node, multiplyAndAdd(node), parameters));
}

void kerf::onnx_import::addMicrosoft(HandlerTable &table) {
  table.add("FusedMatMul", 1, fusedMatMul);
  table.add("TransposeMatMul", 1, fusedMatMul);
  table.add("FusedGemm", 1, fusedGemm);
  table.add("FusedConv", 1, fusedConv);
  table.add("Gelu", 1, gelu);
  table.add("BiasGelu", 1, biasGelu);
  table.add("FastGelu", 1, fastGelu);
  table.add("QuickGelu", 1, quickGelu);
  table.add("SkipLayerNormalization", 1, skipNorm<false>);
  table.add("SkipSimplifiedLayerNormalization", 1, skipNorm<true>);
  table.add("EmbedLayerNormalization", 1, embedLayerNorm);
}
