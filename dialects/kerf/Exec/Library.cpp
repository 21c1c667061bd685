//===- Library.cpp - library calls: operands and verifiers ----------------===//
//
// Each op lists its operands with the sizes that it gives them; one function
// checks for all ops that they lie within their buffers. Labels C1... are those
// of the descriptions in ExecLibrary.td.
//===----------------------------------------------------------------------===//
#include "kerf/Exec/Exec.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kerf::exec;

using Sizes = SmallVector<int64_t>;

//===----------------------------------------------------------------------===//
// Buffers of a call
//===----------------------------------------------------------------------===//

CallBuffers::CallBuffers(LibraryCallInterface call) {
  firstWritten = call.getDestination().getOperandNumber();
  for (Value read : call.getReads())
    if (isa<MemRefType>(read.getType()) && !llvm::is_contained(values, read))
      values.push_back(read);
  numReads = static_cast<int64_t>(values.size());
  llvm::append_range(values, call.getWrites());
}

int64_t CallBuffers::numberOf(Value read) const {
  auto reads = ArrayRef(values).take_front(numReads);
  const auto *it = llvm::find(reads, read);
  return it == reads.end() ? -1 : it - reads.begin();
}

int64_t CallBuffers::numberOf(OpOperand &operand) const {
  unsigned at = operand.getOperandNumber();
  return at < firstWritten ? numberOf(operand.get())
                           : numReads + (at - firstWritten);
}

//===----------------------------------------------------------------------===//
// What all calls obey
//===----------------------------------------------------------------------===//

static int64_t numElements(Value operand) {
  if (auto weight = dyn_cast<WeightType>(operand.getType()))
    return llvm::product_of(weight.getShape());
  return cast<ShapedType>(operand.getType()).getNumElements();
}

/// The elements of `name`, of these sizes, lie within the operand's.
static LogicalResult checkView(Operation *op, StringRef name, Value operand,
                               ViewAttr view, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> strides = view ? view.getStrides() : ArrayRef<int64_t>();
  if (!strides.empty() && strides.size() != shape.size())
    return op->emitOpError("")
           << name << " has " << strides.size() << " strides for "
           << shape.size() << " dimensions";
  int64_t last = view ? view.getOffset() : 0, dense = 1;
  bool overflow = false;
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t stride = strides.empty() ? dense : strides[d], way = 0;
    if (shape[d] == 0)
      return success();
    overflow |= shape[d] < 0 || llvm::MulOverflow(shape[d] - 1, stride, way) ||
                llvm::AddOverflow(last, way, last) ||
                llvm::MulOverflow(dense, shape[d], dense);
  }
  if (overflow || last >= numElements(operand))
    return op->emitOpError("")
           << name << " lies outside its buffer, " << operand.getType();
  return success();
}

LogicalResult kerf::exec::verifyLibraryCall(Operation *op) {
  auto call = cast<LibraryCallInterface>(op);
  if (static_cast<int64_t>(call.getIndex()) < 0)
    return op->emitOpError("index is negative");
  // On tensors: a result for each operand that is written, except sums, which
  // are only offered.
  auto written = llvm::to_vector(call.getWrites().getTypes());
  if (auto product = dyn_cast<MatmulOp>(op); product && product.getSums())
    written.pop_back();
  bool tensors = isa<RankedTensorType>(call.getDestination().get().getType());
  for (Value operand : op->getOperands())
    if (tensors != isa<RankedTensorType>(operand.getType()))
      return op->emitOpError("has tensors and buffers as operands");
  if (op->getResultTypes() !=
      TypeRange(tensors ? ArrayRef(written) : ArrayRef<Type>()))
    return op->emitOpError("has results (")
           << op->getResultTypes() << "), writes (" << written << ")";
  SmallVector<int64_t> dst;
  for (const Role &role : call.getRoles()) {
    if (failed(checkView(op, role.name, role.operand->get(), role.view,
                         role.shape)))
      return failure();
    if (role.operand == &call.getDestination())
      dst = role.shape;
  }
  // Second tensors have the sizes of the destination.
  SmallVector<PostOpAttr> steps = call.getEpilogue();
  llvm::erase_if(steps, [](PostOpAttr step) { return !step.hasOperand(); });
  auto operands = call.getEpilogueOperands();
  if (steps.size() != operands.size())
    return op->emitOpError("has ")
           << operands.size() << " second tensors, its epilogue takes "
           << steps.size();
  for (auto [step, operand] : llvm::zip_equal(steps, operands))
    if (failed(checkView(op, stringifyPostOpKind(step.getKind()), operand,
                         step.getView(), dst)))
      return failure();
  return success();
}

/// All operands have the element type of the first.
static LogicalResult checkTypes(Operation *op, ArrayRef<Value> operands) {
  for (Value operand : operands)
    if (operand && elementType(operand) != elementType(operands[0]))
      return op->emitOpError("operands of ")
             << elementType(operands[0]) << " and " << elementType(operand)
             << ", expected one type";
  return success();
}

template <typename Op> static LogicalResult checkEpilogue(Op op, bool sums) {
  SmallVector<Value> stored = {op.getDst(), op.getBias()};
  llvm::append_range(stored, op.getPostOperands());
  if (failed(checkTypes(op, stored)))
    return failure();
  if (op.getBiasViewAttr() && !op.getBiasViewAttr().getStrides().empty())
    return op.emitOpError("has a bias with strides");
  for (auto [i, postOp] : llvm::enumerate(op.getEpilogue()))
    if (postOp.getKind() == PostOpKind::Sum && (!sums || i != 0))
      return op.emitOpError("adds what its destination held ")
             << (sums ? "after something else, expected first"
                      : "which it cannot");
  return success();
}

template <typename Op> static LogicalResult checkGroups(Op op) {
  auto groups = static_cast<int64_t>(op.getGroups());
  if (groups < 1 || op.getInChannels() % groups != 0 ||
      op.getOutChannels() % groups != 0)
    return op.emitOpError("has ")
           << groups << " groups of " << op.getInChannels() << " and "
           << op.getOutChannels() << " channels";
  return success();
}

static Role role(StringLiteral name, OpOperand &operand,
                 ArrayRef<int64_t> shape, ViewAttr view = {}) {
  return {name, &operand, view, Sizes(shape)};
}

static void addOptional(SmallVector<Role> &roles, StringLiteral name,
                        MutableOperandRange operand, ArrayRef<int64_t> shape,
                        ViewAttr view = {}) {
  for (OpOperand &each : operand)
    roles.push_back(role(name, each, shape, view));
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

SmallVector<Role> MatmulOp::getRoles() {
  auto shape = [&](uint64_t rows, uint64_t columns) {
    Sizes sizes(getBatch());
    sizes.append({static_cast<int64_t>(rows), static_cast<int64_t>(columns)});
    return sizes;
  };
  SmallVector<Role> roles = {
      role("lhs", getLhsMutable(), shape(getM(), getK()), getLhsViewAttr()),
      role("rhs", getRhsMutable(), shape(getK(), getN()), getRhsViewAttr())};
  addOptional(roles, "bias", getBiasMutable(), {static_cast<int64_t>(getN())},
              getBiasViewAttr());
  roles.push_back(
      role("dst", getDstMutable(), shape(getM(), getN()), getDstViewAttr()));
  return roles;
}

LogicalResult MatmulOp::verify() {
  // matmul C1
  if (getBatch().size() > 4)
    return emitOpError("has ")
           << getBatch().size() << " batch dimensions, expected at most 4";
  // matmul C2 to C4
  if (failed(checkTypes(*this, {getLhs(), getRhs()})) ||
      failed(checkEpilogue(*this, /*sums=*/true)))
    return failure();
  // matmul C5
  if (static_cast<bool>(getSums()) != getBiasGradient().has_value())
    return emitOpError("has one of sums and bias_gradient, expected both");
  bool plain = getBatch().empty() && !getBias() && getEpilogue().empty();
  int offers = getBiasGradient().has_value() + getReluGradient().has_value();
  if (offers > 1 || (offers && !plain))
    return emitOpError("offers a gradient and is not a plain product that "
                       "offers nothing else");
  if (!getSums())
    return success();
  if (isa<RankedTensorType>(getSums().getType()) &&
      llvm::none_of(getSums().getUsers(), llvm::IsaPred<GroupOp>))
    return emitOpError("writes sums where no group does");
  int64_t columns = getBiasGradient()->getOf() == Side::Rhs ? getN() : getM();
  if (getSums().getType().getNumElements() !=
          getBiasGradient()->getRows() * columns ||
      getSums().getType().getElementType() != elementType(getDst()))
    return emitOpError("writes ")
           << getBiasGradient()->getRows() << " rows of " << columns
           << " sums to " << getSums().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Convolutions and pools
//===----------------------------------------------------------------------===//

/// Channels last.
static Sizes imageOf(uint64_t batch, ArrayRef<int64_t> spatial,
                     uint64_t channels) {
  Sizes sizes = {static_cast<int64_t>(batch)};
  llvm::append_range(sizes, spatial);
  sizes.push_back(static_cast<int64_t>(channels));
  return sizes;
}

template <typename Op> static Sizes sourceOf(Op op) {
  return imageOf(op.getBatch(), op.getWindow().getIn(), op.getInChannels());
}
template <typename Op> static Sizes resultOf(Op op) {
  return imageOf(op.getBatch(), op.getWindow().getOut(), op.getOutChannels());
}
template <typename Op> static Sizes weightsOf(Op op) {
  Sizes sizes = {static_cast<int64_t>(op.getOutChannels()),
                 static_cast<int64_t>(op.getInChannels() /
                                      std::max<uint64_t>(op.getGroups(), 1))};
  llvm::append_range(sizes, op.getWindow().getKernel());
  return sizes;
}

SmallVector<Role> ConvOp::getRoles() {
  SmallVector<Role> roles = {
      role("src", getSrcMutable(), sourceOf(*this), getSrcViewAttr()),
      role("weights", getWeightsMutable(), weightsOf(*this),
           getWeightsViewAttr())};
  addOptional(roles, "bias", getBiasMutable(),
              {static_cast<int64_t>(getOutChannels())}, getBiasViewAttr());
  roles.push_back(
      role("dst", getDstMutable(), resultOf(*this), getDstViewAttr()));
  return roles;
}

LogicalResult ConvOp::verify() {
  // conv C2 to C4
  if (failed(checkTypes(*this, {getSrc(), getWeights()})) ||
      failed(checkEpilogue(*this, /*sums=*/false)) ||
      failed(checkGroups(*this)))
    return failure();
  // conv C5
  if (ArrayRef(getWindow().getExpectedOut()) != getWindow().getOut())
    return emitOpError("has a result of other sizes than its window gives");
  return success();
}

SmallVector<Role> ConvInputGradientOp::getRoles() {
  return {role("diff", getDiffMutable(), resultOf(*this)),
          role("weights", getWeightsMutable(), weightsOf(*this)),
          role("dst", getDstMutable(), sourceOf(*this))};
}

LogicalResult ConvInputGradientOp::verify() {
  // conv_input_gradient C2
  if (failed(checkTypes(*this, {getDiff(), getWeights()})))
    return failure();
  return checkGroups(*this); // conv_input_gradient C3
}

SmallVector<Role> ConvWeightGradientOp::getRoles() {
  return {role("src", getSrcMutable(), sourceOf(*this)),
          role("diff", getDiffMutable(), resultOf(*this)),
          role("dst", getDstMutable(), weightsOf(*this))};
}

LogicalResult ConvWeightGradientOp::verify() {
  // conv_weight_gradient C2
  if (failed(checkTypes(*this, {getSrc(), getDiff()})))
    return failure();
  return checkGroups(*this); // conv_weight_gradient C3
}

static LogicalResult checkFloats(Operation *op) {
  for (Value operand : op->getOperands())
    if (!elementType(operand).isF32())
      return op->emitOpError("operand is ")
             << operand.getType() << ", expected elements of f32";
  return success();
}

SmallVector<Role> MaxPoolGradientOp::getRoles() {
  Sizes image = imageOf(getBatch(), getWindow().getIn(), getChannels());
  return {role("src", getSrcMutable(), image),
          role("diff", getDiffMutable(),
               imageOf(getBatch(), getWindow().getOut(), getChannels())),
          role("dst", getDstMutable(), image)};
}

LogicalResult MaxPoolGradientOp::verify() {
  return checkFloats(*this); // max_pool_gradient C2
}

SmallVector<Role> AvgPoolGradientOp::getRoles() {
  return {role("diff", getDiffMutable(),
               imageOf(getBatch(), getWindow().getOut(), getChannels())),
          role("dst", getDstMutable(),
               imageOf(getBatch(), getWindow().getIn(), getChannels()))};
}

LogicalResult AvgPoolGradientOp::verify() {
  // avg_pool_gradient C2
  if (failed(checkFloats(*this)))
    return failure();
  // avg_pool_gradient C3
  if (getCountHigh() && getCountHigh()->size() != getWindow().getIn().size())
    return emitOpError("count_high has ")
           << getCountHigh()->size() << " entries, expected "
           << getWindow().getIn().size();
  return success();
}

//===----------------------------------------------------------------------===//
// Sums of rows and attention
//===----------------------------------------------------------------------===//

SmallVector<Role> ScatterAddOp::getRoles() {
  auto outer = static_cast<int64_t>(getOuter()),
       inner = static_cast<int64_t>(getInner()),
       count = static_cast<int64_t>(getCount());
  Sizes rows = {outer, static_cast<int64_t>(getRows()), inner};
  SmallVector<Role> roles = {
      role("indices", getIndicesMutable(), {count}),
      role("updates", getUpdatesMutable(), {outer, count, inner})};
  addOptional(roles, "base", getBaseMutable(), rows);
  roles.push_back(role("dst", getDstMutable(), rows));
  return roles;
}

LogicalResult ScatterAddOp::verify() {
  // scatter_add C2
  Type index = elementType(getIndices()), element = elementType(getUpdates());
  if (!index.isInteger(64) && !index.isInteger(32))
    return emitOpError("indices are ") << index << ", expected i64 or i32";
  if (!element.isF32() && !element.isF64())
    return emitOpError("updates are ") << element << ", expected f32 or f64";
  return checkTypes(*this, {getUpdates(), getDst(), getBase()});
}

/// scatter C2, top_k C2: what the calls that go by indices take.
static LogicalResult checkIndexed(Operation *op, Type element) {
  if (element.isF32() || element.isF64() || element.isInteger(32) ||
      element.isInteger(64))
    return success();
  return op->emitOpError("elements are ")
         << element << ", expected f32, f64, i32 or i64";
}

SmallVector<Role> ScatterOp::getRoles() {
  auto outer = static_cast<int64_t>(getOuter()),
       inner = static_cast<int64_t>(getInner()),
       count = static_cast<int64_t>(getCount());
  Sizes rows = {outer, static_cast<int64_t>(getRows()), inner};
  return {role("indices", getIndicesMutable(), {outer, count}),
          role("updates", getUpdatesMutable(), {outer, count, inner}),
          role("base", getBaseMutable(), rows),
          role("dst", getDstMutable(), rows)};
}

LogicalResult ScatterOp::verify() {
  Type index = elementType(getIndices());
  if (!index.isInteger(64) && !index.isInteger(32))
    return emitOpError("indices are ") << index << ", expected i64 or i32";
  if (failed(checkIndexed(*this, elementType(getUpdates()))))
    return failure();
  return checkTypes(*this, {getUpdates(), getDst(), getBase()});
}

SmallVector<Role> TopKOp::getRoles() {
  auto outer = static_cast<int64_t>(getOuter());
  return {
      role("src", getSrcMutable(), {outer, static_cast<int64_t>(getRows())}),
      role("dst", getDstMutable(), {outer, static_cast<int64_t>(getCount())})};
}

LogicalResult TopKOp::verify() {
  if (failed(checkIndexed(*this, elementType(getSrc()))))
    return failure();
  if (!elementType(getDst()).isInteger(64))
    return emitOpError("dst is of ")
           << elementType(getDst()) << ", expected i64";
  // top_k C3
  if (getCount() > getRows())
    return emitOpError("count is ")
           << getCount() << ", expected at most rows, " << getRows();
  return success();
}

namespace {
/// Sizes of attention's operands.
struct AttentionShapes {
  explicit AttentionShapes(AttentionSizesAttr a)
      : q{a.getBatch(), a.getHeads(), a.getQueries(), a.getHeadSize()},
        k{a.getBatch(), a.getKeyHeads(), a.getKeys(), a.getHeadSize()},
        v{a.getBatch(), a.getKeyHeads(), a.getKeys(), a.getValueSize()},
        out{a.getBatch(), a.getHeads(), a.getQueries(), a.getValueSize()},
        stats{a.getBatch(), a.getHeads(), a.getQueries()},
        scores{a.getBatch(), a.getHeads(), a.getQueries(), a.getKeys()} {}
  Sizes q, k, v, out, stats, scores;
};
} // namespace

template <typename Op>
static LogicalResult checkAttention(Op op, ArrayRef<Value> likeQ) {
  if (failed(checkTypes(op, likeQ)))
    return failure();
  Type q = elementType(op.getQ());
  if (!q.isF32() && !q.isBF16() && !q.isF16())
    return op.emitOpError("operands are ")
           << q << ", expected f32, bf16 or f16";
  if (Value bias = op.getBias();
      bias && elementType(bias) != q && !elementType(bias).isF32())
    return op.emitOpError("bias is of ")
           << elementType(bias) << ", expected " << q << " or f32";
  if (!elementType(op.getStats()).isF32())
    return op.emitOpError("stats are of ")
           << elementType(op.getStats()) << ", expected f32";
  return success();
}

SmallVector<Role> AttentionOp::getRoles() {
  AttentionShapes shapes(getSizes());
  SmallVector<Role> roles = {
      role("q", getQMutable(), shapes.q, getQViewAttr()),
      role("k", getKMutable(), shapes.k, getKViewAttr()),
      role("v", getVMutable(), shapes.v, getVViewAttr())};
  addOptional(roles, "bias", getBiasMutable(), shapes.scores,
              getBiasViewAttr());
  roles.push_back(role("dst", getDstMutable(), shapes.out, getDstViewAttr()));
  roles.push_back(role("stats", getStatsMutable(), shapes.stats));
  return roles;
}

LogicalResult AttentionOp::verify() {
  // attention C2
  return checkAttention(*this, {getQ(), getK(), getV(), getDst()});
}

SmallVector<Role> AttentionGradientOp::getRoles() {
  AttentionShapes shapes(getSizes());
  SmallVector<Role> roles = {
      role("q", getQMutable(), shapes.q, getQViewAttr()),
      role("k", getKMutable(), shapes.k, getKViewAttr()),
      role("v", getVMutable(), shapes.v, getVViewAttr()),
      role("out", getOutMutable(), shapes.out, getOutViewAttr()),
      role("stats", getStatsMutable(), shapes.stats),
      role("diff", getDiffMutable(), shapes.out, getDiffViewAttr())};
  addOptional(roles, "bias", getBiasMutable(), shapes.scores,
              getBiasViewAttr());
  roles.push_back(role("dst", getDstMutable(), shapes.q, getDstViewAttr()));
  roles.push_back(role("dk", getDkMutable(), shapes.k, getDkViewAttr()));
  roles.push_back(role("dv", getDvMutable(), shapes.v, getDvViewAttr()));
  return roles;
}

LogicalResult AttentionGradientOp::verify() {
  // attention_gradient C2
  return checkAttention(*this, {getQ(), getK(), getV(), getOut(), getDiff(),
                                getDst(), getDk(), getDv()});
}
