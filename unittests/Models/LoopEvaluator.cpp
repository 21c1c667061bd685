//===- LoopEvaluator.cpp - upstream ops, element by element ---------------===//
#include "LoopEvaluator.h"

#include "TosaEvaluator.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/Transforms/RegionUtils.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::forEachIndex;
using interpret::Index;
using interpret::Tensor;
using Operands = ArrayRef<const Tensor *>;
using Results = SmallVector<Tensor, 1>;

namespace {

double maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }

bool compare(arith::CmpIPredicate predicate, double a, double b) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return a < b;
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return a >= b;
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return a > b;
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return a <= b;
  }
  llvm_unreachable("no such comparison");
}

/// Integers of 32 bits, which wrap. Doubles do not hold their products.
std::optional<double> wrapping(Operation *op, ArrayRef<double> x) {
  auto bits = [](double value) {
    return static_cast<uint32_t>(static_cast<int64_t>(value));
  };
  auto number = [](uint32_t value) {
    return static_cast<double>(static_cast<int32_t>(value));
  };
  if (isa<arith::AddIOp>(op))
    return number(bits(x[0]) + bits(x[1]));
  if (isa<arith::SubIOp>(op))
    return number(bits(x[0]) - bits(x[1]));
  if (isa<arith::MulIOp>(op))
    return number(bits(x[0]) * bits(x[1]));
  if (isa<arith::TruncIOp, arith::IndexCastOp>(op))
    return number(bits(x[0]));
  return std::nullopt;
}

/// The function of an op on numbers; none: the op is not known.
std::optional<double> scalar(Operation *op, ArrayRef<double> x) {
  if (op->getNumResults() == 1 && op->getResult(0).getType().isInteger(32))
    if (std::optional<double> wrapped = wrapping(op, x))
      return wrapped;
  if (isa<arith::AddFOp, arith::AddIOp, tosa::AddOp>(op))
    return x[0] + x[1];
  if (isa<arith::SubFOp, arith::SubIOp, tosa::SubOp>(op))
    return x[0] - x[1];
  if (isa<arith::MulFOp, arith::MulIOp, tosa::MulOp>(op))
    return x[0] * x[1];
  if (isa<arith::DivFOp>(op))
    return x[0] / x[1];
  if (isa<arith::MaximumFOp, arith::MaxSIOp>(op))
    return maximum(x[0], x[1]);
  if (isa<arith::MinimumFOp, arith::MinSIOp>(op))
    return minimum(x[0], x[1]);
  if (isa<arith::NegFOp, tosa::NegateOp>(op))
    return -x[0];
  if (isa<math::AbsFOp, tosa::AbsOp>(op))
    return std::fabs(x[0]);
  if (isa<tosa::SigmoidOp>(op))
    return 1 / (1 + std::exp(-x[0]));
  if (isa<arith::AndIOp>(op))
    return x[0] != 0 && x[1] != 0;
  if (isa<arith::IndexCastOp, arith::SIToFPOp, arith::ExtFOp>(op))
    return x[0];
  if (isa<arith::SelectOp>(op))
    return x[0] != 0 ? x[1] : x[2];
  if (auto cmp = dyn_cast<arith::CmpIOp>(op))
    return compare(cmp.getPredicate(), x[0], x[1]);
  if (isa<math::TanhOp, tosa::TanhOp>(op))
    return std::tanh(x[0]);
  if (isa<math::ExpOp>(op))
    return std::exp(x[0]);
  return std::nullopt;
}

double numberOf(Attribute attribute) {
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(attribute).getInt());
}

int64_t evaluateIndex(AffineExpr expr, ArrayRef<int64_t> loops) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return loops[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  auto binary = cast<AffineBinaryOpExpr>(expr);
  int64_t left = evaluateIndex(binary.getLHS(), loops);
  int64_t right = evaluateIndex(binary.getRHS(), loops);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return left + right;
  case AffineExprKind::Mul:
    return left * right;
  default:
    llvm_unreachable("an index that no test has");
  }
}

ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : ArrayRef<int64_t>();
}

/// Whether an op of a body multiplies a destination.
bool multipliesDestination(linalg::LinalgOp op, Operation *inner) {
  return isa<arith::MulFOp>(inner) &&
         llvm::any_of(op.getRegionOutputArgs(), [&](BlockArgument argument) {
           return llvm::is_contained(inner->getOperands(), argument);
         });
}

/// `asBounds`: what destinations are multiplied by counts as at least 1, so
/// that no product of some of the factors is larger than the result.
FailureOr<Results> evaluateStructured(linalg::LinalgOp op, Operands operands,
                                      bool asBounds = false) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  DenseMap<Value, double> outside;
  for (auto [value, tensor] :
       llvm::zip_equal(captured, operands.drop_front(op->getNumOperands())))
    outside[value] = tensor->data[0];
  Results results;
  for (int64_t init = 0; init < op.getNumDpsInits(); ++init)
    results.push_back(*operands[op.getNumDpsInputs() + init]);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Block &body = *op.getBlock();
  bool isKnown = true;
  forEachIndex(op.getStaticLoopRanges(), [&](ArrayRef<int64_t> loops) {
    auto placeOf = [&](unsigned operand) {
      Index place;
      for (AffineExpr expr : maps[operand].getResults())
        place.push_back(evaluateIndex(expr, loops));
      return place;
    };
    DenseMap<Value, double> values = outside;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      const Tensor &tensor = op.isDpsInit(&operand)
                                 ? results[number - op.getNumDpsInputs()]
                                 : *operands[number];
      values[body.getArgument(number)] = tensor.at(placeOf(number));
    }
    for (Operation &inner : body.without_terminator()) {
      double value = 0;
      if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
        value = static_cast<double>(loops[index.getDim()]);
      } else if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
        value = numberOf(constant.getValue());
      } else {
        SmallVector<double> x;
        for (Value operand : inner.getOperands())
          x.push_back(values.at(operand));
        if (asBounds && multipliesDestination(op, &inner))
          for (double &factor : x)
            factor = maximum(std::fabs(factor), 1);
        std::optional<double> found = scalar(&inner, x);
        isKnown &= found.has_value();
        value = found.value_or(0);
      }
      values[inner.getResult(0)] = value;
    }
    for (auto [init, value] :
         llvm::enumerate(body.getTerminator()->getOperands()))
      results[init].at(placeOf(op.getNumDpsInputs() + init)) = values.at(value);
  });
  if (!isKnown)
    return op.emitError("evaluator: the body has an op that is not known");
  return results;
}

/// Where an element of a slice lies in the whole.
template <typename Op> Index placeInWhole(Op op, ArrayRef<int64_t> index) {
  llvm::SmallBitVector dropped = op.getDroppedDims();
  Index place;
  size_t next = 0;
  for (size_t dim = 0; dim < op.getStaticOffsets().size(); ++dim)
    place.push_back(op.getStaticOffsets()[dim] +
                    op.getStaticStrides()[dim] *
                        (dropped.test(dim) ? 0 : index[next++]));
  return place;
}

/// Of softmax: e^(x - max) / sum, along one dimension.
Tensor softmax(const Tensor &x, int64_t dim) {
  Tensor result(x.shape);
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    double largest = -INFINITY, sum = 0;
    Index at(index);
    for (at[dim] = 0; at[dim] < x.shape[dim]; ++at[dim])
      largest = maximum(largest, x.at(at));
    for (at[dim] = 0; at[dim] < x.shape[dim]; ++at[dim])
      sum += std::exp(x.at(at) - largest);
    result.at(index) = std::exp(x.at(index) - largest) / sum;
  });
  return result;
}

/// Tiles that divide the tensor, in both directions: the place in the unpacked
/// tensor of an element of the packed one.
template <typename Op>
Index unpackedPlace(Op op, size_t rank, ArrayRef<int64_t> packed) {
  Index place(rank);
  ArrayRef<int64_t> order = op.getOuterDimsPerm();
  for (size_t dim = 0; dim < rank; ++dim)
    place[order.empty() ? dim : order[dim]] = packed[dim];
  for (auto [number, dim] : llvm::enumerate(op.getInnerDimsPos()))
    place[dim] =
        place[dim] * op.getStaticInnerTiles()[number] + packed[rank + number];
  return place;
}

/// One dimension, combined to size 1.
template <typename Op>
Tensor reduceDim(Op op, const Tensor &x, double start,
                 llvm::function_ref<double(double, double)> combine) {
  Tensor result(shapeOf(op), start);
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    Index at(index);
    at[op.getAxis()] = 0;
    result.at(at) = combine(result.at(at), x.at(index));
  });
  return result;
}

/// What is 0 beyond the image; NHWC, OHWI.
Tensor convolve(tosa::Conv2DOp op, Operands x) {
  Tensor result(shapeOf(op));
  ArrayRef<int64_t> pad = op.getPad(), stride = op.getStride(),
                    dilation = op.getDilation();
  forEachIndex(result.shape, [&](ArrayRef<int64_t> out) {
    double sum = x[2]->data[x[2]->shape[0] == 1 ? 0 : out[3]];
    forEachIndex(ArrayRef(x[1]->shape).drop_front(), [&](ArrayRef<int64_t> k) {
      Index at = {out[0], out[1] * stride[0] + k[0] * dilation[0] - pad[0],
                  out[2] * stride[1] + k[1] * dilation[1] - pad[2], k[2]};
      if (x[0]->contains(at))
        sum += x[0]->at(at) * x[1]->at({out[3], k[0], k[1], k[2]});
    });
    result.at(out) = sum;
  });
  return result;
}

/// Float ops of TOSA, whose zero points are 0; none: another op.
std::optional<Tensor> evaluateTosa(Operation *op, Operands x) {
  if (auto product = dyn_cast<tosa::MatMulOp>(op)) {
    Tensor result(shapeOf(product));
    forEachIndex(result.shape, [&](ArrayRef<int64_t> at) {
      for (int64_t k = 0; k < x[0]->shape[2]; ++k)
        result.at(at) +=
            x[0]->at({at[0], at[1], k}) * x[1]->at({at[0], k, at[2]});
    });
    return result;
  }
  if (auto conv = dyn_cast<tosa::Conv2DOp>(op))
    return convolve(conv, x);
  if (auto sum = dyn_cast<tosa::ReduceSumOp>(op))
    return reduceDim(sum, *x[0], 0, std::plus<double>());
  if (auto product = dyn_cast<tosa::ReduceProductOp>(op))
    return reduceDim(product, *x[0], 1, std::multiplies<double>());
  if (auto most = dyn_cast<tosa::ReduceMaxOp>(op))
    return reduceDim(most, *x[0], -INFINITY, maximum);
  if (auto least = dyn_cast<tosa::ReduceMinOp>(op))
    return reduceDim(least, *x[0], INFINITY, minimum);
  if (auto transposed = dyn_cast<tosa::TransposeOp>(op)) {
    Tensor result(shapeOf(transposed));
    forEachIndex(result.shape, [&](ArrayRef<int64_t> at) {
      Index from(at.size());
      for (auto [dim, source] : llvm::enumerate(transposed.getPerms()))
        from[source] = at[dim];
      result.at(at) = x[0]->at(from);
    });
    return result;
  }
  if (isa<tosa::ReshapeOp>(op)) {
    Tensor result(shapeOf(op->getResult(0)));
    result.data = x[0]->data;
    return result;
  }
  if (op->hasTrait<OpTrait::tosa::TosaElementwiseOperator>() ||
      isa<tosa::MulOp, tosa::NegateOp>(op)) {
    Tensor result(shapeOf(op->getResult(0)));
    size_t place = 0;
    bool isKnown = true;
    forEachIndex(result.shape, [&](ArrayRef<int64_t> at) {
      SmallVector<double> elements;
      for (const Tensor *operand :
           x.take_front(isa<tosa::MulOp>(op) ? 2 : x.size()))
        elements.push_back(operand->broadcastAt(at));
      std::optional<double> value = scalar(op, elements);
      isKnown &= value.has_value();
      result.data[place++] = value.value_or(0);
    });
    return isKnown ? std::optional(result) : std::nullopt;
  }
  return std::nullopt;
}

FailureOr<Results> evaluateTensorOp(Operation *op, Operands operands) {
  Tensor result(shapeOf(op->getResult(0)));
  if (isa<tensor::EmptyOp>(op)) {
    llvm::fill(result.data, NAN);
  } else if (isa<tensor::FromElementsOp>(op)) {
    for (auto [element, operand] : llvm::zip_equal(result.data, operands))
      element = operand->data[0];
  } else if (isa<tensor::ExtractOp>(op)) {
    Index at;
    for (const Tensor *index : operands.drop_front())
      at.push_back(static_cast<int64_t>(index->data[0]));
    result.data[0] = operands[0]->at(at);
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      result.at(index) = operands[0]->at(placeInWhole(slice, index));
    });
  } else if (auto slice = dyn_cast<tensor::InsertSliceOp>(op)) {
    result = *operands[1];
    forEachIndex(operands[0]->shape, [&](ArrayRef<int64_t> index) {
      result.at(placeInWhole(slice, index)) = operands[0]->at(index);
    });
  } else if (auto pad = dyn_cast<tensor::PadOp>(op)) {
    auto value =
        pad.getConstantPaddingValue().getDefiningOp<arith::ConstantOp>();
    llvm::fill(result.data, numberOf(value.getValue()));
    forEachIndex(operands[0]->shape, [&](ArrayRef<int64_t> index) {
      Index at(index);
      for (size_t dim = 0; dim < at.size(); ++dim)
        at[dim] += pad.getStaticLow()[dim];
      result.at(at) = operands[0]->at(index);
    });
  } else if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    int64_t begin = 0;
    for (const Tensor *operand : operands) {
      forEachIndex(operand->shape, [&](ArrayRef<int64_t> index) {
        Index at(index);
        at[concat.getDim()] += begin;
        result.at(at) = operand->at(index);
      });
      begin += operand->shape[concat.getDim()];
    }
  } else if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
    result.data = operands[0]->data;
  } else if (isa<tensor::SplatOp>(op)) {
    llvm::fill(result.data, operands[0]->data[0]);
  } else if (auto rows = dyn_cast<linalg::SoftmaxOp>(op)) {
    result = softmax(*operands[0], rows.getDimension());
  } else if (auto pack = dyn_cast<linalg::PackOp>(op)) {
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      result.at(index) = operands[0]->at(
          unpackedPlace(pack, operands[0]->shape.size(), index));
    });
  } else if (auto unpack = dyn_cast<linalg::UnPackOp>(op)) {
    forEachIndex(operands[0]->shape, [&](ArrayRef<int64_t> index) {
      result.at(unpackedPlace(unpack, result.shape.size(), index)) =
          operands[0]->at(index);
    });
  } else {
    return op->emitError("evaluator: '") << op->getName() << "' is not known";
  }
  return Results{std::move(result)};
}

} // namespace

static FailureOr<Results> evaluateLoop(scf::ForOp loop, Operands operands);
static FailureOr<Results> evaluateBranch(scf::IfOp branch, Operands operands);

FailureOr<Results> kerf::test::evaluateUpstream(Operation *op,
                                                Operands operands) {
  if (auto constant = dyn_cast<tosa::ConstOp>(op))
    return Results{
        interpret::fromElements(cast<DenseElementsAttr>(constant.getValues()))};
  if (isa<tosa::ConstShapeOp>(op))
    return Results{Tensor()};
  for (auto evaluate : {evaluateTosa, evaluateTosaMoves})
    if (std::optional<Tensor> result = evaluate(op, operands))
      return Results{std::move(*result)};
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (elements)
      return Results{interpret::fromElements(elements)};
    return Results{Tensor({}, numberOf(constant.getValue()))};
  }
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return evaluateStructured(structured, operands);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return evaluateLoop(loop, operands);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return evaluateBranch(branch, operands);
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
    Builder builder(op->getContext());
    SmallVector<Attribute> numbers, folded;
    for (const Tensor *operand : operands)
      numbers.push_back(
          builder.getIndexAttr(static_cast<int64_t>(operand->data[0])));
    if (failed(apply.getAffineMap().constantFold(numbers, folded)))
      return op->emitError("evaluator: divides by zero");
    return Results{Tensor({}, numberOf(folded[0]))};
  }
  if (isa<tensor::CastOp>(op))
    return Results{*operands[0]};
  if (isa<tensor::DimOp>(op)) {
    auto dim = static_cast<size_t>(operands[1]->data[0]);
    return Results{Tensor({}, static_cast<double>(operands[0]->shape[dim]))};
  }
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        op, call.getCalleeAttr());
    std::vector<Tensor> inputs;
    for (const Tensor *operand : operands)
      inputs.push_back(*operand);
    auto outputs = runUpstream(callee, inputs);
    if (failed(outputs))
      return failure();
    return Results(outputs->begin(), outputs->end());
  }
  if (!op->hasTrait<OpTrait::Elementwise>())
    return evaluateTensorOp(op, operands);
  Tensor result(shapeOf(op->getResult(0)));
  for (size_t place = 0; place < result.data.size(); ++place) {
    SmallVector<double> x;
    for (const Tensor *operand : operands)
      x.push_back(operand->data[operand->shape.empty() ? 0 : place]);
    std::optional<double> value = scalar(op, x);
    if (!value)
      return op->emitError("evaluator: '") << op->getName() << "' is not known";
    result.data[place] = *value;
  }
  return Results{std::move(result)};
}

/// Whether parts of a product may be infinite where the whole is 0 from an
/// early factor on: infinity times 0 is no number.
static bool mayOverflow(Operation *op, Operands operands) {
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  if (!structured ||
      llvm::none_of(*structured.getBlock(), [&](Operation &inner) {
        return multipliesDestination(structured, &inner);
      }))
    return false;
  auto bounds = evaluateStructured(structured, operands, /*asBounds=*/true);
  return succeeded(bounds) && llvm::any_of(*bounds, [](const Tensor &bound) {
           return !llvm::all_of(bound.data,
                                [](double x) { return std::isfinite(x); });
         });
}

static FailureOr<std::vector<Tensor>>
runBlock(Block &block, DenseMap<Value, Tensor> &values, double *largest) {
  for (Operation &op : block.without_terminator()) {
    SmallVector<const Tensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values.at(operand));
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op.getRegions(), captured);
    for (Value value : captured)
      operands.push_back(&values.at(value));
    auto results = evaluateUpstream(&op, operands);
    if (failed(results))
      return failure();
    bool isComputed =
        !isa<arith::ConstantOp, tensor::EmptyOp, linalg::FillOp>(op);
    if (largest && mayOverflow(&op, operands))
      *largest = INFINITY;
    for (auto [value, result] : llvm::zip_equal(op.getResults(), *results)) {
      if (isComputed && largest)
        for (double number : result.data)
          *largest = std::isnan(number) ? INFINITY
                                        : std::max(*largest, std::fabs(number));
      values[value] = std::move(result);
    }
  }
  std::vector<Tensor> outputs;
  for (Value value : block.getTerminator()->getOperands())
    outputs.push_back(values.at(value));
  return outputs;
}

static FailureOr<Results> evaluateLoop(scf::ForOp loop, Operands operands) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(loop->getRegions(), captured);
  DenseMap<Value, Tensor> values;
  for (auto [value, tensor] :
       llvm::zip_equal(captured, operands.drop_front(loop->getNumOperands())))
    values[value] = *tensor;
  std::vector<Tensor> carried;
  for (const Tensor *tensor :
       operands.slice(loop.getNumControlOperands(), loop.getInitArgs().size()))
    carried.push_back(*tensor);
  for (double i = operands[0]->data[0]; i < operands[1]->data[0];
       i += operands[2]->data[0]) {
    values[loop.getInductionVar()] = Tensor({}, i);
    for (auto [argument, tensor] :
         llvm::zip_equal(loop.getRegionIterArgs(), carried))
      values[argument] = tensor;
    auto next = runBlock(*loop.getBody(), values, nullptr);
    if (failed(next))
      return failure();
    carried = std::move(*next);
  }
  return Results(carried.begin(), carried.end());
}

static FailureOr<Results> evaluateBranch(scf::IfOp branch, Operands operands) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(branch->getRegions(), captured);
  DenseMap<Value, Tensor> values;
  for (auto [value, tensor] : llvm::zip_equal(captured, operands.drop_front(1)))
    values[value] = *tensor;
  Region &taken = operands[0]->data[0] != 0 ? branch.getThenRegion()
                                            : branch.getElseRegion();
  auto outputs = runBlock(taken.front(), values, nullptr);
  if (failed(outputs))
    return failure();
  return Results(outputs->begin(), outputs->end());
}

FailureOr<std::vector<Tensor>> kerf::test::runUpstream(func::FuncOp function,
                                                       ArrayRef<Tensor> inputs,
                                                       double *largest) {
  DenseMap<Value, Tensor> values;
  Block &block = function.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(block.getArguments(), inputs))
    values[argument] = input;
  return runBlock(block, values, largest);
}
