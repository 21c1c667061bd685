//===- InferTypes.cpp - result types of the nn ops ------------------------===//
//
// One function per op; an impossible combination is an error at the op that
// names both shapes. Builders call the same code, so no pass computes shapes.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

using Types = SmallVectorImpl<Type>;

static RankedTensorType tensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

#define KERF_INFER(Op)                                                         \
  LogicalResult Op::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> location,                  \
      ValueRange operands, DictionaryAttr attributes,                          \
      OpaqueProperties properties, RegionRange regions, Types &types)

#define KERF_ADAPTOR(Op)                                                       \
  Op::Adaptor op(operands, attributes, properties, regions);                   \
  (void)op

std::optional<SmallVector<int64_t>>
kerf::nn::broadcastShapes(ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  if (lhs.size() < rhs.size())
    std::swap(lhs, rhs);
  SmallVector<int64_t> shape(lhs);
  size_t skip = lhs.size() - rhs.size();
  for (size_t dim = 0; dim < rhs.size(); ++dim) {
    int64_t &size = shape[skip + dim];
    if (size == 1)
      size = rhs[dim];
    else if (rhs[dim] != 1 && rhs[dim] != size)
      return std::nullopt;
  }
  return shape;
}

int64_t kerf::nn::windowCount(int64_t size, int64_t kernel, int64_t stride,
                              int64_t low, int64_t high, int64_t dilation) {
  int64_t room = size + low + high - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

LogicalResult kerf::nn::inferElementwise(MLIRContext *context,
                                         std::optional<Location> location,
                                         ValueRange operands, bool boolean,
                                         Types &types) {
  RankedTensorType first = tensor(operands[0]);
  SmallVector<int64_t> shape(first.getShape());
  for (Value operand : operands.drop_front()) {
    if (tensor(operand).getElementType() != first.getElementType())
      return emitOptionalError(
          location, "operands have element types ", first.getElementType(),
          " and ", tensor(operand).getElementType(), ", expected one");
    auto joint = broadcastShapes(shape, tensor(operand).getShape());
    if (!joint)
      return emitOptionalError(location, "operands ", first, " and ",
                               operand.getType(), " do not broadcast");
    shape = *joint;
  }
  Type element =
      boolean ? IntegerType::get(context, 1) : first.getElementType();
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

KERF_INFER(IsNaNOp) {
  types.push_back(
      tensor(operands[0]).clone(cast<Type>(IntegerType::get(context, 1))));
  return success();
}

KERF_INFER(SelectOp) {
  if (failed(inferElementwise(context, location, operands.drop_front(), false,
                              types)))
    return failure();
  auto type = cast<RankedTensorType>(types[0]);
  auto joint = broadcastShapes(tensor(operands[0]).getShape(), type.getShape());
  if (!joint)
    return emitOptionalError(location, "condition ", operands[0].getType(),
                             " does not broadcast with ", type);
  types[0] = type.clone(*joint);
  return success();
}

KERF_INFER(TransposeOp) {
  KERF_ADAPTOR(TransposeOp);
  RankedTensorType type = tensor(op.getX());
  SmallVector<int64_t> shape;
  SmallVector<bool> seen(type.getRank(), false);
  // transpose C1
  for (int64_t dim : op.getPerm()) {
    if (dim < 0 || dim >= type.getRank() || seen[dim])
      return emitOptionalError(location, "perm is not a permutation of ",
                               type.getRank(), " dimensions");
    seen[dim] = true;
    shape.push_back(type.getDimSize(dim));
  }
  if (static_cast<int64_t>(shape.size()) != type.getRank())
    return emitOptionalError(location, "perm has ", shape.size(),
                             " entries, expected ", type.getRank());
  types.push_back(type.clone(shape));
  return success();
}

KERF_INFER(ConcatOp) {
  KERF_ADAPTOR(ConcatOp);
  if (op.getInputs().empty())
    return emitOptionalError(location, "needs at least one operand");
  RankedTensorType first = tensor(op.getInputs()[0]);
  int64_t dim = op.getDim();
  if (dim < 0 || dim >= first.getRank())
    return emitOptionalError(location, "dim is ", dim,
                             ", expected less than rank ", first.getRank());
  SmallVector<int64_t> shape(first.getShape());
  // concat C1
  for (Value input : op.getInputs().drop_front()) {
    RankedTensorType type = tensor(input);
    bool fits = type.getRank() == first.getRank() &&
                type.getElementType() == first.getElementType();
    for (int64_t d = 0; fits && d < first.getRank(); ++d)
      fits = d == dim || type.getDimSize(d) == first.getDimSize(d);
    if (!fits)
      return emitOptionalError(location, "operands ", first, " and ", type,
                               " differ outside dimension ", dim);
    shape[dim] += type.getDimSize(dim);
  }
  types.push_back(first.clone(shape));
  return success();
}

KERF_INFER(SliceOp) {
  KERF_ADAPTOR(SliceOp);
  RankedTensorType type = tensor(op.getX());
  auto rank = static_cast<size_t>(type.getRank());
  // slice C1
  if (op.getStarts().size() != rank || op.getSizes().size() != rank ||
      op.getStrides().size() != rank)
    return emitOptionalError(location, "expected ", rank,
                             " starts, sizes and strides");
  // slice C2
  for (size_t d = 0; d < rank; ++d) {
    int64_t start = op.getStarts()[d], size = op.getSizes()[d];
    int64_t stride = op.getStrides()[d], last = start + (size - 1) * stride;
    if (stride == 0 || size < 0 ||
        (size > 0 && (start < 0 || start >= type.getDimSize(d) || last < 0 ||
                      last >= type.getDimSize(d))))
      return emitOptionalError(location, "dimension ", d, ": start ", start,
                               ", size ", size, ", stride ", stride,
                               " leaves size ", type.getDimSize(d));
  }
  types.push_back(type.clone(op.getSizes()));
  return success();
}

KERF_INFER(PadOp) {
  KERF_ADAPTOR(PadOp);
  RankedTensorType type = tensor(op.getX());
  auto rank = static_cast<size_t>(type.getRank());
  SmallVector<int64_t> shape(type.getShape());
  // pad C1
  if (op.getLow().size() != rank || op.getHigh().size() != rank)
    return emitOptionalError(location, "expected ", rank,
                             " entries in low and high");
  for (size_t d = 0; d < rank; ++d) {
    if (op.getLow()[d] < 0 || op.getHigh()[d] < 0)
      return emitOptionalError(location, "negative padding of dimension ", d);
    shape[d] += op.getLow()[d] + op.getHigh()[d];
  }
  if (op.getValue().getType() != type.getElementType())
    return emitOptionalError(location, "value has type ",
                             op.getValue().getType(), ", expected ",
                             type.getElementType());
  types.push_back(type.clone(shape));
  return success();
}

/// The shape of a gather from `data` along `dim`.
static LogicalResult inferGather(std::optional<Location> location,
                                 RankedTensorType data,
                                 RankedTensorType indices, int64_t dim,
                                 bool batched,
                                 SmallVectorImpl<int64_t> &shape) {
  // gather C1
  if (dim < 0 || dim >= data.getRank())
    return emitOptionalError(location, "dim is ", dim,
                             ", expected less than rank ", data.getRank());
  ArrayRef<int64_t> outer = data.getShape().take_front(dim);
  // gather C2
  if (batched &&
      (indices.getRank() < dim || indices.getShape().take_front(dim) != outer))
    return emitOptionalError(location, "indices ", indices,
                             " do not begin with the first ", dim,
                             " dimensions of ", data);
  llvm::append_range(shape, outer);
  llvm::append_range(shape, indices.getShape().drop_front(batched ? dim : 0));
  llvm::append_range(shape, data.getShape().drop_front(dim + 1));
  return success();
}

KERF_INFER(GatherOp) {
  KERF_ADAPTOR(GatherOp);
  RankedTensorType data = tensor(op.getData());
  SmallVector<int64_t> shape;
  if (failed(inferGather(location, data, tensor(op.getIndices()), op.getDim(),
                         op.getBatched(), shape)))
    return failure();
  types.push_back(data.clone(shape));
  return success();
}

KERF_INFER(ScatterOp) {
  KERF_ADAPTOR(ScatterOp);
  RankedTensorType data = tensor(op.getData());
  SmallVector<int64_t> shape;
  // scatter C1, C2
  if (failed(inferGather(location, data, tensor(op.getIndices()), op.getDim(),
                         /*batched=*/true, shape)))
    return failure();
  if (tensor(op.getUpdates()) != data.clone(shape))
    return emitOptionalError(location, "updates are ",
                             op.getUpdates().getType(), ", expected ",
                             data.clone(shape));
  types.push_back(data);
  return success();
}

KERF_INFER(TopKOp) {
  KERF_ADAPTOR(TopKOp);
  RankedTensorType x = tensor(op.getX());
  auto k = static_cast<int64_t>(op.getK());
  // top_k C1
  if (x.getRank() == 0 || k < 1 || k > x.getShape().back())
    return emitOptionalError(location, "k is ", k,
                             ", expected 1 to the last size of ", x);
  SmallVector<int64_t> shape(x.getShape());
  shape.back() = k;
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

KERF_INFER(MatmulOp) {
  KERF_ADAPTOR(MatmulOp);
  RankedTensorType lhs = tensor(op.getLhs()), rhs = tensor(op.getRhs());
  // matmul C1, C4
  if (lhs.getRank() < 2 || rhs.getRank() < 2 ||
      lhs.getElementType() != rhs.getElementType())
    return emitOptionalError(location, "operands ", lhs, " and ", rhs,
                             ", expected rank 2 or more and one element type");
  ArrayRef<int64_t> l = lhs.getShape(), r = rhs.getShape();
  int64_t m = l[l.size() - 2], kl = l[l.size() - 1];
  int64_t kr = r[r.size() - 2], n = r[r.size() - 1];
  if (op.getTransposeLhs())
    std::swap(m, kl);
  if (op.getTransposeRhs())
    std::swap(kr, n);
  // matmul C2
  if (kl != kr)
    return emitOptionalError(location, "contracted sizes are ", kl, " and ", kr,
                             " in ", lhs, " and ", rhs);
  // matmul C3
  auto shape = broadcastShapes(l.drop_back(2), r.drop_back(2));
  if (!shape)
    return emitOptionalError(location, "batch dimensions of ", lhs, " and ",
                             rhs, " do not broadcast");
  shape->append({m, n});
  types.push_back(lhs.clone(*shape));
  return success();
}

template <typename Adaptor>
static LogicalResult inferWindow(std::optional<Location> location, Adaptor &op,
                                 ArrayRef<int64_t> image,
                                 ArrayRef<int64_t> kernel,
                                 SmallVectorImpl<int64_t> &shape) {
  size_t rank = image.size();
  for (ArrayRef<int64_t> list :
       {op.getStrides(), op.getLow(), op.getHigh(), op.getDilations(), kernel})
    if (list.size() != rank)
      return emitOptionalError(location, "window has ", list.size(),
                               " entries, expected ", rank);
  for (size_t d = 0; d < rank; ++d) {
    if (op.getStrides()[d] < 1 || op.getDilations()[d] < 1 || kernel[d] < 1)
      return emitOptionalError(
          location, "strides, dilations and kernel must be positive");
    int64_t count =
        windowCount(image[d], kernel[d], op.getStrides()[d], op.getLow()[d],
                    op.getHigh()[d], op.getDilations()[d]);
    if (count < 1)
      return emitOptionalError(location, "window of ", kernel[d],
                               " does not fit dimension of size ", image[d]);
    shape.push_back(count);
  }
  return success();
}

/// The shape of a convolution with the attributes of `op`.
template <typename Adaptor>
static LogicalResult inferConv(std::optional<Location> location, Adaptor &op,
                               RankedTensorType x, RankedTensorType w,
                               SmallVectorImpl<int64_t> &shape) {
  int64_t groups = op.getGroups();
  if (x.getRank() < 3 || w.getRank() != x.getRank())
    return emitOptionalError(location, "image ", x, " and weights ", w,
                             ", expected one rank of 3 or more");
  // conv C2
  if (groups < 1 || w.getDimSize(0) % groups != 0 ||
      x.getShape().back() != w.getDimSize(1) * groups)
    return emitOptionalError(location, "image ", x, " and weights ", w,
                             " do not fit ", groups, " groups");
  shape.push_back(x.getDimSize(0));
  if (failed(inferWindow(location, op, x.getShape().drop_front().drop_back(),
                         w.getShape().drop_front(2), shape)))
    return failure();
  shape.push_back(w.getDimSize(0));
  return success();
}

KERF_INFER(ConvOp) {
  KERF_ADAPTOR(ConvOp);
  RankedTensorType x = tensor(op.getX());
  SmallVector<int64_t> shape;
  if (failed(inferConv(location, op, x, tensor(op.getWeights()), shape)))
    return failure();
  types.push_back(x.clone(shape));
  return success();
}

/// The shape of a pool with the attributes of `op`.
template <typename Adaptor>
static LogicalResult inferPool(std::optional<Location> location, Adaptor &op,
                               RankedTensorType x,
                               SmallVectorImpl<int64_t> &shape) {
  if (x.getRank() < 3)
    return emitOptionalError(location, "image ", x,
                             ", expected rank 3 or more");
  shape.push_back(x.getDimSize(0));
  if (failed(inferWindow(location, op, x.getShape().drop_front().drop_back(),
                         op.getKernel(), shape)))
    return failure();
  shape.push_back(x.getShape().back());
  return success();
}

template <typename Adaptor>
static LogicalResult inferPool(std::optional<Location> location, Adaptor &op,
                               Types &types) {
  RankedTensorType x = tensor(op.getX());
  SmallVector<int64_t> shape;
  if (failed(inferPool(location, op, x, shape)))
    return failure();
  types.push_back(x.clone(shape));
  return success();
}

KERF_INFER(MaxPoolOp) {
  KERF_ADAPTOR(MaxPoolOp);
  return inferPool(location, op, types);
}

KERF_INFER(AvgPoolOp) {
  KERF_ADAPTOR(AvgPoolOp);
  return inferPool(location, op, types);
}

KERF_INFER(ReduceOp) {
  KERF_ADAPTOR(ReduceOp);
  RankedTensorType x = tensor(op.getX());
  SmallVector<int64_t> shape;
  int64_t last = -1;
  // reduce C1
  for (int64_t dim : op.getDims()) {
    if (dim <= last || dim >= x.getRank())
      return emitOptionalError(location,
                               "dims must be ascending dimensions of ", x);
    last = dim;
  }
  for (auto [dim, size] : llvm::enumerate(x.getShape()))
    if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(dim)))
      shape.push_back(size);
  types.push_back(x.clone(shape));
  return success();
}

KERF_INFER(ArgReduceOp) {
  KERF_ADAPTOR(ArgReduceOp);
  RankedTensorType x = tensor(op.getX());
  int64_t dim = op.getDim();
  if (dim < 0 || dim >= x.getRank())
    return emitOptionalError(location, "dim is ", dim,
                             ", expected less than rank ", x.getRank());
  SmallVector<int64_t> shape(x.getShape());
  shape.erase(shape.begin() + dim);
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

/// Same type as operand 0; `dim` must be one of its dimensions and `vectors`
/// have the shape of dimensions `dim` and up.
LogicalResult nn::inferRow(std::optional<Location> location, Value x,
                           int64_t dim, ValueRange vectors, Types &types) {
  RankedTensorType type = tensor(x);
  if (dim < 0 || dim >= type.getRank())
    return emitOptionalError(location, "dim is ", dim,
                             ", expected less than rank ", type.getRank());
  for (Value vector : vectors)
    if (tensor(vector).getShape() != type.getShape().drop_front(dim))
      return emitOptionalError(location, "operand ", vector.getType(),
                               " does not have the trailing shape of ", type);
  types.push_back(type);
  return success();
}

KERF_INFER(SoftmaxOp) {
  KERF_ADAPTOR(SoftmaxOp);
  return inferRow(location, op.getX(), op.getDim(), {}, types);
}

KERF_INFER(LogSoftmaxOp) {
  KERF_ADAPTOR(LogSoftmaxOp);
  return inferRow(location, op.getX(), op.getDim(), {}, types);
}

KERF_INFER(BatchNormOp) {
  KERF_ADAPTOR(BatchNormOp);
  return inferRow(location, op.getX(), tensor(op.getX()).getRank() - 1,
                  operands.drop_front(), types);
}

KERF_INFER(LRNOp) {
  KERF_ADAPTOR(LRNOp);
  if (op.getSize() < 1)
    return emitOptionalError(location, "size is ", op.getSize(),
                             ", expected at least 1");
  types.push_back(op.getX().getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients: their results have the shape of an operand of the op that they
// belong to, so the inferred type is that of `dy`.
//===----------------------------------------------------------------------===//

static LogicalResult checkGradient(std::optional<Location> location,
                                   ArrayRef<int64_t> shape, Type element,
                                   Value dy) {
  if (tensor(dy).getShape() != shape || tensor(dy).getElementType() != element)
    return emitOptionalError(location, "gradient is ", dy.getType(),
                             ", expected ",
                             RankedTensorType::get(shape, element));
  return success();
}

// conv_input_gradient C1
LogicalResult ConvInputGradientOp::verify() {
  SmallVector<int64_t> shape;
  RankedTensorType x = getResult().getType();
  return success(
      succeeded(inferConv(getLoc(), *this, x, tensor(getWeights()), shape)) &&
      succeeded(checkGradient(getLoc(), shape, x.getElementType(), getDy())));
}

// conv_weight_gradient C1
LogicalResult ConvWeightGradientOp::verify() {
  SmallVector<int64_t> shape;
  RankedTensorType w = getResult().getType();
  return success(
      succeeded(inferConv(getLoc(), *this, tensor(getX()), w, shape)) &&
      succeeded(checkGradient(getLoc(), shape, w.getElementType(), getDy())));
}

// max_pool_gradient C1
KERF_INFER(MaxPoolGradientOp) {
  KERF_ADAPTOR(MaxPoolGradientOp);
  RankedTensorType x = tensor(op.getX());
  SmallVector<int64_t> shape;
  if (failed(inferPool(location, op, x, shape)) ||
      failed(checkGradient(location, shape, x.getElementType(), op.getDy())))
    return failure();
  types.push_back(x);
  return success();
}

// avg_pool_gradient C1
LogicalResult AvgPoolGradientOp::verify() {
  SmallVector<int64_t> shape;
  RankedTensorType x = getResult().getType();
  return success(
      succeeded(inferPool(getLoc(), *this, x, shape)) &&
      succeeded(checkGradient(getLoc(), shape, x.getElementType(), getDy())));
}

// scatter_add C1
LogicalResult ScatterAddOp::verify() {
  SmallVector<int64_t> shape;
  RankedTensorType data = getResult().getType();
  return success(succeeded(inferGather(getLoc(), data, tensor(getIndices()),
                                       static_cast<int64_t>(getDim()),
                                       /*batched=*/false, shape)) &&
                 succeeded(checkGradient(getLoc(), shape, data.getElementType(),
                                         getUpdates())));
}

KERF_INFER(PhiloxOp) {
  KERF_ADAPTOR(PhiloxOp);
  // philox C1
  if (op.getStream() >> 32)
    return emitOptionalError(location, "stream is ", op.getStream(),
                             ", expected less than 2^32");
  for (Value scalar : {op.getSeed(), op.getStep()})
    if (tensor(scalar).getRank() != 0)
      return emitOptionalError(location, "seed and step are ",
                               op.getSeed().getType(), " and ",
                               op.getStep().getType(), ", expected scalars");
  types.push_back(
      tensor(op.getIndex()).clone(cast<Type>(Float32Type::get(context))));
  return success();
}
