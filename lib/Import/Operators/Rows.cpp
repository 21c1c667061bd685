//===- Rows.cpp - reductions, softmax, normalizations ---------------------===//
//
// Reductions drop their dimensions in nn; keepdims is a reshape. Axes moved
// from attribute to input at operator set 13 (ReduceSum) or 18 (the others).
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {
struct Reduction {
  Value x;
  Integers dims;
  bool keepDims = true;
  bool nothing = false; // noop_with_empty_axes
};
} // namespace

static std::optional<Reduction> reduction(Node &node, int64_t inputSince) {
  bool byInput = node.opset >= inputSince;
  if (failed(node.arity(1, byInput ? 2 : 1)))
    return std::nullopt;
  Reduction result;
  result.x = node.in(0);
  result.keepDims = node.integer("keepdims", 1);
  bool noop = byInput && node.integer("noop_with_empty_axes", 0);
  auto axes = byInput ? node.constantIntegers(1) : node.integerList("axes");
  if (node.failed)
    return std::nullopt;
  if (axes && !axes->empty()) {
    auto within = node.axesWithin(*axes, rankOf(result.x));
    if (!within)
      return std::nullopt;
    result.dims = *within;
  } else if (noop) {
    result.nothing = true;
  } else {
    for (int64_t dim = 0; dim < rankOf(result.x); ++dim)
      result.dims.push_back(dim);
  }
  return result;
}

template <ReduceKind kind, int64_t inputSince>
static LogicalResult reduce(Node &node) {
  auto r = reduction(node, inputSince);
  if (!r)
    return failure();
  // bool as integers: max is or, min is and.
  bool boolean = elementOf(r->x).isInteger(1);
  Value x = boolean ? node.cast(r->x, node.ops.getI32Type()) : r->x;
  Value result = node.reduce(x, kind, r->dims, r->keepDims);
  if (boolean && result)
    result = node.make<LessOp>({node.scalar(0, elementOf(x)), result});
  return node.set(result);
}

static LogicalResult reduceMean(Node &node) {
  auto r = reduction(node, 18);
  if (!r)
    return failure();
  Value result = node.mean(r->x, r->dims, r->keepDims);
  node.importer.noteMeanOfNothing(node.name, r->x, result);
  return node.set(result);
}

static LogicalResult reduceL1(Node &node) {
  auto r = reduction(node, 18);
  if (!r)
    return failure();
  return node.set(node.reduce(node.make<AbsOp>({r->x}), ReduceKind::Sum,
                              r->dims, r->keepDims));
}
static Value sumSquares(Node &node, const Reduction &r) {
  return node.reduce(node.mul(r.x, r.x), ReduceKind::Sum, r.dims, r.keepDims);
}
static LogicalResult reduceSumSquare(Node &node) {
  auto r = reduction(node, 18);
  return r ? node.set(sumSquares(node, *r)) : failure();
}
static LogicalResult reduceL2(Node &node) {
  auto r = reduction(node, 18);
  if (!r)
    return failure();
  if (isa<FloatType>(elementOf(r->x)))
    return node.set(node.make<SqrtOp>({sumSquares(node, *r)}));
  Value sum = node.cast(sumSquares(node, *r), node.ops.getF64Type());
  return node.set(node.cast(node.make<SqrtOp>({sum}), elementOf(r->x)));
}
/// For integers, logarithms are truncated towards zero.
static Value asFloats(Node &node, Value x) {
  return isa<FloatType>(elementOf(x)) ? x : node.cast(x, node.ops.getF64Type());
}
static LogicalResult reduceLogSum(Node &node) {
  auto r = reduction(node, 18);
  if (!r)
    return failure();
  Value sum = node.reduce(r->x, ReduceKind::Sum, r->dims, r->keepDims);
  return node.set(
      node.cast(node.make<LogOp>({asFloats(node, sum)}), elementOf(r->x)));
}
/// max + log sum exp(x - max)
static LogicalResult reduceLogSumExp(Node &node) {
  auto r = reduction(node, 18);
  if (!r)
    return failure();
  Type element = elementOf(r->x);
  r->x = asFloats(node, r->x);
  if (r->nothing || typeOf(r->x).getNumElements() == 0)
    return node.set(node.cast(
        node.make<LogOp>({node.reduce(node.make<ExpOp>({r->x}), ReduceKind::Sum,
                                      r->dims, r->keepDims)}),
        element));
  Value max = node.reduce(r->x, ReduceKind::Max, r->dims, true);
  // A maximum that is not finite is not subtracted: inf - inf is NaN.
  Value zero = node.scalar(0, elementOf(r->x));
  max = node.select(node.make<EqualOp>({node.sub(max, max), zero}), max, zero);
  Value sum = node.reduce(node.make<ExpOp>({node.sub(r->x, max)}),
                          ReduceKind::Sum, r->dims, true);
  Value result = node.cast(node.add(node.make<LogOp>({sum}), max), element);
  if (!result || r->keepDims)
    return node.set(result);
  Integers shape;
  for (auto [dim, size] : llvm::enumerate(shapeOf(r->x)))
    if (!llvm::is_contained(r->dims, int64_t(dim)))
      shape.push_back(size);
  return node.set(node.reshape(result, shape));
}

template <bool min> static LogicalResult argReduce(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", 0), rankOf(x));
  bool keep = node.integer("keepdims", 1);
  bool last = node.integer("select_last_index", 0);
  if (!axis)
    return failure();
  SmallVector<NamedAttribute, 3> attributes{node.i64("dim", *axis)};
  if (min)
    attributes.push_back(node.unit("min"));
  if (last)
    attributes.push_back(node.unit("last"));
  Value result = node.make<ArgReduceOp>({x}, attributes);
  if (!result || !keep)
    return node.set(result);
  Integers shape(shapeOf(x));
  shape[*axis] = 1;
  return node.set(node.reshape(result, shape));
}

/// Before operator set 13 the tensor is a matrix, split at `axis`, whose rows
/// are normalised.
template <typename Op> static LogicalResult softmaxLike(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", node.opset < 13 ? 1 : -1),
                              rankOf(x), node.opset < 13);
  if (!axis)
    return failure();
  Integers shape(shapeOf(x));
  if (node.opset >= 13 || *axis == rankOf(x) - 1)
    return node.set(node.make<Op>({x}, {node.i64("dim", *axis)}));
  // If only one of the split dimensions is not of size 1, it is the row.
  int64_t wide = -1, several = 0;
  for (int64_t dim = *axis; dim < rankOf(x); ++dim)
    if (shape[dim] != 1) {
      wide = dim;
      ++several;
    }
  if (several == 1)
    return node.set(node.make<Op>({x}, {node.i64("dim", wide)}));
  int64_t rows = 1, columns = 1;
  for (int64_t dim = 0; dim < rankOf(x); ++dim)
    (dim < *axis ? rows : columns) *= shape[dim];
  Value flat =
      node.make<Op>({node.reshape(x, {rows, columns})}, {node.i64("dim", 1)});
  return node.set(node.reshape(flat, shape));
}

/// scale or bias with the trailing shape, broadcast if it is smaller.
static Value trailing(Node &node, Value vector, ArrayRef<int64_t> shape,
                      double otherwise, Type element) {
  if (!vector)
    return node.splat(shape, otherwise, element);
  auto joint = broadcastShapes(shapeOf(vector), shape);
  if (!joint || ArrayRef<int64_t>(*joint) != shape) {
    (void)node.error("scale or bias does not have the shape of the "
                     "normalised dimensions");
    return {};
  }
  SmallVector<int64_t> padded(shape.size() - rankOf(vector), 1);
  llvm::append_range(padded, shapeOf(vector));
  return node.broadcast(node.reshape(vector, padded), shape);
}

static LogicalResult layerNorm(Node &node) {
  if (failed(node.arity(2, 3, 3)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", -1), rankOf(x));
  double epsilon = node.real("epsilon", 1e-5f);
  (void)node.integer("stash_type", 1);
  if (!axis)
    return failure();
  ArrayRef<int64_t> shape = shapeOf(x).drop_front(*axis);
  Value scale = trailing(node, node.parameter(1), shape, 1, elementOf(x));
  Value bias = trailing(node, node.parameter(2), shape, 0, elementOf(x));
  if (node.wants(1) || node.wants(2)) {
    Integers dims;
    for (int64_t dim = *axis; dim < rankOf(x); ++dim)
      dims.push_back(dim);
    Value wide = node.cast(x, node.ops.getF32Type());
    Value mean = node.mean(wide, dims, true);
    Value centred = node.sub(wide, mean);
    Value variance = node.mean(node.mul(centred, centred), dims, true);
    Value inverse = node.make<ReciprocalOp>(
        {node.make<SqrtOp>({node.add(variance, epsilon)})});
    if (failed(node.set(1, mean)))
      return failure();
    if (node.outputs.size() > 2 && failed(node.set(2, inverse)))
      return failure();
  }
  return node.set(
      node.make<LayerNormOp>({x, scale, bias}, {node.i64("dim", *axis),
                                                node.f64("epsilon", epsilon)}));
}

static LogicalResult rmsNorm(Node &node) {
  if (failed(node.arity(2, 2, 2)))
    return failure();
  if (node.wants(1))
    return node.unsupported("statistics as outputs of operator " +
                            node.proto.op_type());
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", -1), rankOf(x));
  double epsilon = node.real("epsilon", 1e-5f);
  (void)node.integer("stash_type", 1);
  if (!axis)
    return failure();
  Value scale = trailing(node, node.parameter(1), shapeOf(x).drop_front(*axis),
                         1, elementOf(x));
  return node.set(node.make<RMSNormOp>(
      {x, scale}, {node.i64("dim", *axis), node.f64("epsilon", epsilon)}));
}

/// (x - mean) / sqrt(var + eps) over `dims`, in 32 bits at least, then per
/// channel scale and bias.
static Value normalise(Node &node, Value x, ArrayRef<int64_t> dims,
                       double epsilon) {
  Type element = elementOf(x);
  if (element.getIntOrFloatBitWidth() < 32) {
    Value wide =
        normalise(node, node.cast(x, node.ops.getF32Type()), dims, epsilon);
    return node.cast(wide, element);
  }
  Value centred = node.sub(x, node.mean(x, dims, true));
  Value variance = node.mean(node.mul(centred, centred), dims, true);
  return node.div(centred, node.make<SqrtOp>({node.add(variance, epsilon)}));
}

static Value channelVector(Node &node, Value vector, int64_t rank) {
  Integers shape(rank - 1, 1);
  shape[0] = shapeOf(vector)[0];
  return node.reshape(vector, shape);
}

static LogicalResult instanceNorm(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  (void)node.integerList("consumed_inputs");
  Value x = node.in(0);
  double epsilon = node.real("epsilon", 1e-5f);
  if (rankOf(x) < 3 || rankOf(node.in(1)) != 1 || rankOf(node.in(2)) != 1)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected at least 3, and vectors for scale and bias");
  Integers dims;
  for (int64_t dim = 2; dim < rankOf(x); ++dim)
    dims.push_back(dim);
  Value y = normalise(node, x, dims, epsilon);
  return node.set(
      node.add(node.mul(y, channelVector(node, node.in(1), rankOf(x))),
               channelVector(node, node.in(2), rankOf(x))));
}

static LogicalResult groupNorm(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  Value x = node.in(0), scale = node.in(1), bias = node.in(2);
  double epsilon = node.real("epsilon", 1e-5f);
  node.requireAttribute("num_groups");
  int64_t groups = node.integer("num_groups", 0);
  (void)node.integer("stash_type", 1);
  if (node.failed)
    return failure();
  if (rankOf(x) < 2 || groups < 1 || shapeOf(x)[1] % groups ||
      rankOf(scale) != 1 || rankOf(bias) != 1)
    return node.error("num_groups " + Twine(groups) + " does not fit");
  Integers shape(shapeOf(x)), grouped{shape[0], groups, shape[1] / groups},
      dims{2};
  for (int64_t dim = 2; dim < rankOf(x); ++dim) {
    grouped.push_back(shape[dim]);
    dims.push_back(dim + 1);
  }
  Value y = normalise(node, node.reshape(x, grouped), dims, epsilon);
  if (node.opset < 21) {
    // One scale per group.
    Integers each{groups, 1};
    each.append(rankOf(x) - 2, 1);
    y = node.add(node.mul(y, node.reshape(scale, each)),
                 node.reshape(bias, each));
    return node.set(node.reshape(y, shape));
  }
  y = node.reshape(y, shape);
  return node.set(node.add(node.mul(y, channelVector(node, scale, rankOf(x))),
                           channelVector(node, bias, rankOf(x))));
}

static LogicalResult meanVarianceNorm(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  auto given = node.integerList("axes");
  auto axes = node.axesWithin(given ? *given : Integers{0, 2, 3}, rankOf(x));
  if (!axes)
    return failure();
  Value centred = node.sub(x, node.mean(x, *axes, true));
  Value variance = node.mean(node.mul(centred, centred), *axes, true);
  return node.set(
      node.div(centred, node.add(node.make<SqrtOp>({variance}), 1e-9)));
}

static LogicalResult lpNorm(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", -1), rankOf(x));
  int64_t p = node.integer("p", 2);
  if (!axis)
    return failure();
  if (p != 1 && p != 2)
    return node.error("p is " + Twine(p) + ", expected 1 or 2");
  // The axis comes last.
  Integers perm;
  for (int64_t dim = 0; dim < rankOf(x); ++dim)
    if (dim != *axis)
      perm.push_back(dim);
  perm.push_back(*axis);
  Integers back(perm.size());
  for (size_t dim = 0; dim < perm.size(); ++dim)
    back[perm[dim]] = static_cast<int64_t>(dim);
  SmallVector<NamedAttribute> attributes{node.i64("dim", rankOf(x) - 1)};
  if (p == 1)
    attributes.push_back(node.unit("absolute"));
  Value y = node.make<LpNormOp>({node.transpose(x, perm)}, attributes);
  return node.set(node.transpose(y, back));
}

void kerf::onnx_import::addRows(HandlerTable &table) {
  table.add("ReduceSum", 1, reduce<ReduceKind::Sum, 13>);
  table.add("ReduceMax", 1, reduce<ReduceKind::Max, 18>);
  table.add("ReduceMin", 1, reduce<ReduceKind::Min, 18>);
  table.add("ReduceProd", 1, reduce<ReduceKind::Prod, 18>);
  table.add("ReduceMean", 1, reduceMean);
  table.add("ReduceL1", 1, reduceL1);
  table.add("ReduceL2", 1, reduceL2);
  table.add("ReduceSumSquare", 1, reduceSumSquare);
  table.add("ReduceLogSum", 1, reduceLogSum);
  table.add("ReduceLogSumExp", 1, reduceLogSumExp);
  table.add("ArgMax", 1, argReduce<false>);
  table.add("ArgMin", 1, argReduce<true>);
  table.add("Softmax", 1, softmaxLike<SoftmaxOp>);
  table.add("LogSoftmax", 1, softmaxLike<LogSoftmaxOp>);
  table.add("LayerNormalization", 17, layerNorm);
  table.add("RMSNormalization", 23, rmsNorm);
  // ONNX Runtime's name of it, in this domain.
  table.add("SimplifiedLayerNormalization", 1, rmsNorm);
  table.add("InstanceNormalization", 1, instanceNorm);
  table.add("GroupNormalization", 18, groupNorm);
  table.add("MeanVarianceNormalization", 9, meanVarianceNorm);
  table.add("LpNormalization", 1, lpNorm);
}
