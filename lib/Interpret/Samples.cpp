//===- Samples.cpp - a function of one sample of the batch ----------------===//
#include "kerf/Interpret/Samples.h"
#include "Evaluate.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

int64_t kerf::interpret::numSamples(func::FuncOp function) {
  int64_t samples = 0;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto dim = function.getArgAttrOfType<IntegerAttr>(i, kBatchDimAttr);
    if (!dim)
      continue;
    int64_t size = cast<RankedTensorType>(function.getArgument(i).getType())
                       .getDimSize(dim.getInt());
    if (samples && size != samples)
      return 0;
    samples = size;
  }
  return samples;
}

namespace {

using Place = std::optional<SampleDim>;

class Cutter {
public:
  /// Part number `sample` of `samples`; `sums`: ops may add up over the part.
  Cutter(func::FuncOp function, int64_t sample, int64_t samples, bool sums)
      : function(function), sample(sample), samples(samples), sums(sums) {}

  FailureOr<SampleDims> run();
  /// Behind a failure: the op that cannot be cut; null if it is no op.
  Operation *obstacle = nullptr;

private:
  /// Where the result of an op holds the samples, given where an operand does;
  /// none: the op mixes samples, or has no rule.
  Place placeOfResult(Operation *op);
  Place placeIn(Operation *op, unsigned operand, SampleDim at);
  /// The dimension of an operand that belongs to the one of `result`; for
  /// elementwise ops, batches of products and concatenations.
  Place placeOfOperand(Operation *op, unsigned operand, SampleDim result);
  /// Whether the result is a sum over samples, here over those of the part.
  bool isSum(Operation *op) const;
  /// Cuts an operand that does not depend on samples but has a row for each.
  LogicalResult cutOperand(OpOperand &operand, SampleDim at);
  /// Of a product that sums over the samples of one operand: cuts the other
  /// operand to as many rows (a state with which every sample begins).
  LogicalResult cutOtherFactor(nn::MatmulOp op);
  /// Whether an op that reads totals gives the same, of parts, added up.
  bool addsUp(Operation *op) const;
  LogicalResult cut(Operation *op);
  RankedTensorType cutType(RankedTensorType type, SampleDim at) {
    SmallVector<int64_t> shape(type.getShape());
    shape[at.dim] = at.outer * at.inner;
    return type.clone(shape);
  }
  ArrayRef<int64_t> shapeOf(Value value) {
    return whole.find(value)->second.getShape();
  }

  func::FuncOp function;
  int64_t sample, samples;
  bool sums;
  llvm::DenseMap<Value, SampleDim> places;
  llvm::DenseSet<Value> summed; ///< of the part, or following from such a sum
  /// The values of `summed` that stand for sums over the whole batch: the sums
  /// of all parts are added up afterwards. (Statistics of BatchNorm are no
  /// such.)
  llvm::DenseSet<Value> totals;
  llvm::DenseMap<Value, RankedTensorType> whole; ///< before they were cut
};

/// The dimension of an operand over which a product sums.
int64_t summedDim(nn::MatmulOp op, unsigned operand) {
  bool isSecondToLast =
      operand == 0 ? op.getTransposeLhs() : !op.getTransposeRhs();
  return cast<RankedTensorType>(op->getOperand(operand).getType()).getRank() -
         (isSecondToLast ? 2 : 1);
}

bool isElementwise(Operation *op) {
  return op->hasTrait<nn::ByElement>() || isa<nn::BroadcastOp>(op);
}

} // namespace

Place Cutter::placeIn(Operation *op, unsigned operand, SampleDim at) {
  ArrayRef<int64_t> from = shapeOf(op->getOperand(operand));
  ArrayRef<int64_t> to = shapeOf(op->getResult(0));
  auto rank = static_cast<int64_t>(from.size());
  int64_t aligned = at.dim + static_cast<int64_t>(to.size()) - rank;
  auto moved = [&](int64_t dim) { return SampleDim{dim, at.outer, at.inner}; };
  bool first = operand == 0;
  if (isElementwise(op))
    return moved(aligned);
  if (auto it = dyn_cast<nn::TransposeOp>(op))
    return moved(llvm::find(it.getPerm(), at.dim) - it.getPerm().begin());
  if (isa<nn::ReshapeOp>(op)) {
    // Elements in front of the samples, in the operand and in the result.
    int64_t before = at.outer, prefix = 1;
    for (int64_t size : from.take_front(at.dim))
      before *= size;
    for (auto [dim, size] : llvm::enumerate(to)) {
      if (prefix > 0 && before % prefix == 0 &&
          size % (before / prefix * samples) == 0)
        return SampleDim{static_cast<int64_t>(dim), before / prefix,
                         size / (before / prefix * samples)};
      prefix *= size;
    }
    return std::nullopt;
  }
  if (auto it = dyn_cast<nn::MatmulOp>(op)) {
    bool transposed = first ? it.getTransposeLhs() : it.getTransposeRhs();
    if (at.dim < rank - 2)
      return moved(aligned);
    // The dimension that is kept: rows of the left, columns of the right.
    int64_t kept = first != transposed ? rank - 2 : rank - 1;
    if (at.dim != kept)
      return std::nullopt;
    return moved(static_cast<int64_t>(to.size()) - (first ? 2 : 1));
  }
  if (auto it = dyn_cast<nn::ConcatOp>(op))
    return at.dim == static_cast<int64_t>(it.getDim()) ? Place() : at;
  if (auto it = dyn_cast<nn::GatherOp>(op)) {
    auto dim = static_cast<int64_t>(it.getDim());
    int64_t shared = it.getBatched() ? dim : 0;
    int64_t numIndices =
        static_cast<int64_t>(shapeOf(it.getIndices()).size()) - shared;
    if (!first)
      return moved(dim - shared + at.dim);
    return at.dim == dim
               ? Place()
               : moved(at.dim < dim ? at.dim : at.dim + numIndices - 1);
  }
  if (auto it = dyn_cast<nn::ScatterOp>(op))
    return at.dim < static_cast<int64_t>(it.getDim()) ? Place(at)
                                                      : std::nullopt;
  if (isa<nn::TopKOp>(op))
    return at.dim < rank - 1 ? Place(at) : std::nullopt;
  if (auto it = dyn_cast<nn::GreedySuppressOp>(op))
    return at.dim + 2 < static_cast<int64_t>(shapeOf(it.getScores()).size())
               ? Place(at)
               : std::nullopt;
  if (isa<nn::MaxPoolGradientOp>(op))
    return at.dim == 0 ? Place(at) : std::nullopt;
  if (!first)
    return std::nullopt;
  if (isa<nn::ConvInputGradientOp, nn::AvgPoolGradientOp>(op))
    return at.dim == 0 ? Place(at) : std::nullopt;
  if (auto it = dyn_cast<nn::RowInterface>(op)) {
    llvm::SmallVector<int64_t> dims = it.getRowDims();
    int64_t gone =
        it.keepsRowDims()
            ? 0
            : llvm::count_if(dims, [&](int64_t dim) { return dim < at.dim; });
    return llvm::is_contained(dims, at.dim) ? Place() : moved(at.dim - gone);
  }
  if (isa<nn::BatchNormOp, nn::LRNOp>(op))
    return at.dim < rank - 1 ? Place(at) : std::nullopt;
  if (isa<nn::ConvOp, nn::MaxPoolOp, nn::AvgPoolOp>(op))
    return at.dim == 0 ? Place(at) : std::nullopt;
  if (auto it = dyn_cast<nn::SliceOp>(op))
    return to[at.dim] == from[at.dim] && it.getStarts()[at.dim] == 0 &&
                   it.getStrides()[at.dim] == 1
               ? Place(at)
               : std::nullopt;
  if (isa<nn::PadOp>(op))
    return to[at.dim] == from[at.dim] ? Place(at) : std::nullopt;
  return std::nullopt;
}

Place Cutter::placeOfOperand(Operation *op, unsigned operand,
                             SampleDim result) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(operand));
  if (isa<nn::ConcatOp>(op))
    return result;
  bool isBatch = isa<nn::MatmulOp>(op) &&
                 result.dim + 2 < int64_t(shapeOf(op->getResult(0)).size());
  if (!isElementwise(op) && !isBatch)
    return std::nullopt;
  int64_t dim = result.dim + static_cast<int64_t>(shape.size()) -
                static_cast<int64_t>(shapeOf(op->getResult(0)).size());
  if (dim < 0 || shape[dim] == 1)
    return std::nullopt;
  return SampleDim{dim, result.outer, result.inner};
}

Place Cutter::placeOfResult(Operation *op) {
  Place result;
  for (OpOperand &operand : op->getOpOperands()) {
    auto at = places.find(operand.get());
    if (at == places.end())
      continue;
    Place here = placeIn(op, operand.getOperandNumber(), at->second);
    if (!here || (result && !(*result == *here)))
      return std::nullopt;
    result = here;
  }
  return result;
}

bool Cutter::isSum(Operation *op) const {
  auto place = [&](unsigned operand) {
    auto at = places.find(op->getOperand(operand));
    return at == places.end() ? Place() : Place(at->second);
  };
  if (auto it = dyn_cast<nn::ReduceOp>(op))
    return it.getKind() == nn::ReduceKind::Sum &&
           llvm::is_contained(it.getDims(), place(0)->dim);
  if (auto it = dyn_cast<nn::MatmulOp>(op)) {
    Place lhs = place(0), rhs = place(1);
    if (!lhs || !rhs || lhs->outer != rhs->outer || lhs->inner != rhs->inner)
      return false;
    return lhs->dim == summedDim(it, 0) && rhs->dim == summedDim(it, 1);
  }
  if (isa<nn::ConvWeightGradientOp>(op))
    return place(0) && place(1) && place(0)->dim == 0 && place(1)->dim == 0;
  if (auto it = dyn_cast<nn::ScatterAddOp>(op))
    return place(0) && place(1) &&
           place(1)->dim == place(0)->dim + static_cast<int64_t>(it.getDim());
  return false;
}

bool Cutter::addsUp(Operation *op) const {
  if (isa<dist::AccumulateOp>(op))
    return true;
  SmallVector<unsigned> of;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (places.contains(operand))
      return false; // single samples with a sum over the batch
    if (totals.contains(operand))
      of.push_back(index);
  }
  auto sharded = dyn_cast<ShardingRuleInterface>(op);
  return sharded &&
         llvm::is_contained(sharded.getShardingRule().linearGroups, of);
}

LogicalResult Cutter::cutOperand(OpOperand &operand, SampleDim at) {
  Value value = operand.get();
  RankedTensorType type = whole.find(value)->second;
  if (at.outer != 1 || type.getDimSize(at.dim) != samples * at.inner)
    return failure();
  SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
  starts[at.dim] = sample * at.inner;
  Operation *op = operand.getOwner();
  OpBuilder builder(op);
  auto part = nn::SliceOp::create(builder, op->getLoc(), value, starts,
                                  cutType(type, at).getShape(), strides);
  whole[part] = type;
  operand.set(part);
  return success();
}

LogicalResult Cutter::cutOtherFactor(nn::MatmulOp op) {
  for (unsigned cutOne : {0U, 1U}) {
    OpOperand &other = op->getOpOperand(1 - cutOne);
    auto at = places.find(op->getOperand(cutOne));
    if (at == places.end() || places.contains(other.get()) ||
        at->second.dim != summedDim(op, cutOne))
      continue;
    SampleDim want = at->second;
    want.dim = summedDim(op, 1 - cutOne);
    if (failed(cutOperand(other, want)))
      return failure();
    places[other.get()] = want;
    return success();
  }
  return success();
}

LogicalResult Cutter::cut(Operation *op) {
  for (Value result : op->getResults())
    whole[result] = cast<RankedTensorType>(result.getType());
  if (llvm::any_of(op->getOperands(),
                   [&](Value operand) { return summed.contains(operand); }))
    summed.insert(op->result_begin(), op->result_end());
  if (llvm::any_of(op->getOperands(),
                   [&](Value operand) { return totals.contains(operand); })) {
    if (!addsUp(op))
      return failure();
    totals.insert(op->result_begin(), op->result_end());
  }
  if (llvm::none_of(op->getOperands(),
                    [&](Value operand) { return places.contains(operand); }))
    return success();
  if (auto product = dyn_cast<nn::MatmulOp>(op); product && sums)
    if (failed(cutOtherFactor(product)))
      return failure();
  if (sums && isSum(op)) {
    summed.insert(op->getResult(0));
    if (dist::getReductionReach(op) == dist::ReductionReach::Batch)
      totals.insert(op->getResult(0));
    return success();
  }
  Place at = placeOfResult(op);
  if (!at || op->getNumResults() != 1)
    return failure();
  for (OpOperand &operand : op->getOpOperands()) {
    Place want = places.contains(operand.get())
                     ? Place()
                     : placeOfOperand(op, operand.getOperandNumber(), *at);
    if (want && failed(cutOperand(operand, *want)))
      return failure();
  }
  Value result = op->getResult(0);
  if (whole.find(result)->second.getDimSize(at->dim) !=
      at->outer * samples * at->inner)
    return failure();
  result.setType(cutType(whole.find(result)->second, *at));
  places[result] = *at;
  return success();
}

FailureOr<SampleDims> Cutter::run() {
  if (samples < 1)
    return failure();
  SampleDims dims;
  for (BlockArgument argument : function.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    whole[argument] = type;
    auto dim = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                      kBatchDimAttr);
    dims.inputs.push_back(dim ? Place(SampleDim{dim.getInt(), 1, 1}) : Place());
    if (!dim)
      continue;
    places[argument] = *dims.inputs.back();
    if (type.getDimSize(dim.getInt()) % samples != 0)
      return failure();
    places[argument].inner = type.getDimSize(dim.getInt()) / samples;
    dims.inputs.back() = places[argument];
    argument.setType(cutType(type, places[argument]));
  }
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (failed(cut(&op))) {
      obstacle = &op;
      return failure();
    }
  SmallVector<Type> types;
  for (Value value : block.getTerminator()->getOperands()) {
    auto at = places.find(value);
    if (at != places.end() && (sums || at->second.outer != 1)) {
      obstacle = value.getDefiningOp();
      return failure();
    }
    dims.sums.push_back(summed.contains(value));
    dims.outputs.push_back(at == places.end() ? Place() : Place(at->second));
    types.push_back(value.getType());
  }
  function.setFunctionType(FunctionType::get(function.getContext(),
                                             block.getArgumentTypes(), types));
  return dims;
}

/// Its node and operator, as "gate (nn.mul) of the backward pass".
static std::string describe(Operation *op) {
  std::string text = op->getName().getStringRef().str();
  if (auto node = op->getLoc()->findInstanceOf<NameLoc>())
    text = node.getName().str() + " (" + text + ")";
  dist::Phase phase = dist::getPhase(op);
  bool isBackward = phase == dist::Phase::BackwardInput ||
                    phase == dist::Phase::BackwardWeight;
  return text + (isBackward ? " of the backward pass" : "");
}

FailureOr<SampleDims> kerf::interpret::cutSample(func::FuncOp function,
                                                 int64_t sample) {
  return Cutter(function, sample, numSamples(function), false).run();
}

FailureOr<SampleDims> kerf::interpret::cutPart(func::FuncOp function,
                                               int64_t part, int64_t parts,
                                               std::string &obstacle) {
  Cutter cutter(function, part, parts, true);
  FailureOr<SampleDims> dims = cutter.run();
  if (failed(dims) && cutter.obstacle)
    obstacle = describe(cutter.obstacle);
  return dims;
}
