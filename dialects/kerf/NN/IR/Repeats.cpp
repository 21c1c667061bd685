//===- Repeats.cpp - tensors that repeat, stored once ---------------------===//
#include "Repeats.h"

#include "PatternUtils.h"
#include "kerf/NN/IR/Evaluate.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

using Sizes = SmallVector<int64_t>;

/// Compares raw bytes; elements of less than a byte are never the same.
static bool repeatsAlong(DenseElementsAttr elements, int64_t dim) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(elements.getType()).getShape();
  unsigned bits = elements.getElementType().getIntOrFloatBitWidth();
  if (bits % 8 != 0)
    return false;
  int64_t inner = bits / 8, outer = 1;
  for (int64_t d = dim + 1; d < int64_t(shape.size()); ++d)
    inner *= shape[d];
  for (int64_t d = 0; d < dim; ++d)
    outer *= shape[d];
  ArrayRef<char> bytes = elements.getRawData();
  if (int64_t(bytes.size()) != outer * shape[dim] * inner)
    return false;
  for (int64_t o = 0; o < outer; ++o) {
    ArrayRef<char> first = bytes.slice(o * shape[dim] * inner, inner);
    for (int64_t i = 1; i < shape[dim]; ++i)
      if (first != bytes.slice((o * shape[dim] + i) * inner, inner))
        return false;
  }
  return true;
}

/// What lies at the front of a dimension along which repeatsAlong().
static DenseElementsAttr firstAlong(DenseElementsAttr elements, int64_t dim) {
  auto type = cast<RankedTensorType>(elements.getType());
  Sizes shape(type.getShape());
  ArrayRef<char> bytes = elements.getRawData();
  int64_t outer = 1;
  for (int64_t d = 0; d < dim; ++d)
    outer *= shape[d];
  int64_t whole = int64_t(bytes.size()) / outer, part = whole / shape[dim];
  std::vector<char> data;
  data.reserve(outer * part);
  for (int64_t o = 0; o < outer; ++o)
    llvm::append_range(data, bytes.slice(o * whole, part));
  shape[dim] = 1;
  return DenseElementsAttr::getFromRawBuffer(
      RankedTensorType::get(shape, type.getElementType()), data);
}

DenseElementsAttr kerf::nn::shrink(DenseElementsAttr elements,
                                   ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(elements.getType());
  if (elements.isSplat() || type.getNumElements() == 0)
    return elements;
  for (int64_t dim : dims)
    if (type.getDimSize(dim) != 1 && !elements.isSplat() &&
        repeatsAlong(elements, dim))
      elements = firstAlong(elements, dim);
  return elements;
}

DenseElementsAttr kerf::nn::shrink(DenseElementsAttr elements) {
  return shrink(elements,
                llvm::to_vector(llvm::seq<int64_t>(
                    0, cast<RankedTensorType>(elements.getType()).getRank())));
}

template <typename T>
static void repeatAlong(std::vector<T> &numbers, int64_t inner, int64_t size) {
  std::vector<T> repeated;
  repeated.reserve(numbers.size() * size);
  for (size_t at = 0; at < numbers.size(); at += inner)
    for (int64_t i = 0; i < size; ++i)
      repeated.insert(repeated.end(), numbers.begin() + int64_t(at),
                      numbers.begin() + int64_t(at) + inner);
  numbers = std::move(repeated);
}

std::optional<HostTensor> kerf::nn::repeat(const HostTensor &core,
                                           ArrayRef<int64_t> shape) {
  HostTensor result = core;
  result.type = core.type.clone(shape);
  if (core.splat || core.type.getShape() == shape)
    return result;
  if (result.type.getNumElements() > kMaxEvaluatedElements)
    return std::nullopt;
  int64_t inner = 1;
  for (int64_t dim = core.type.getRank() - 1; dim >= 0; --dim) {
    int64_t size = core.type.getDimSize(dim);
    if (size != shape[dim] && result.isFloat())
      repeatAlong(result.floats, inner, shape[dim]);
    else if (size != shape[dim])
      repeatAlong(result.integers, inner, shape[dim]);
    inner *= shape[dim];
  }
  return result;
}

namespace {
/// For one op; `cores` may grow.
class CoreShape {
public:
  CoreShape(Operation *op, MutableArrayRef<HostTensor> cores)
      : op(op), cores(cores) {}

  std::optional<Sizes> run() {
    Sizes shape = find();
    return fits ? std::optional(shape) : std::nullopt;
  }

private:
  Sizes find() {
    if (isElementwise(op))
      return ofElements();
    return llvm::TypeSwitch<Operation *, Sizes>(op)
        .Case<TransposeOp>([&](TransposeOp transpose) {
          Sizes shape;
          for (int64_t dim : transpose.getPerm())
            shape.push_back(sizes(0)[dim]);
          return shape;
        })
        .Case<SliceOp>([&](auto) {
          Sizes shape(full());
          for (auto [size, core] : llvm::zip_equal(shape, sizes(0)))
            size = core == 1 ? 1 : size;
          return shape;
        })
        .Case<ReduceOp>([&](ReduceOp reduce) {
          grow(0, reduce.getDims());
          Sizes shape;
          for (auto [dim, size] : llvm::enumerate(sizes(0)))
            if (!llvm::is_contained(reduce.getDims(), int64_t(dim)))
              shape.push_back(size);
          return shape;
        })
        .Case<ReshapeOp>([&](auto) { return ofReshape(); })
        .Case<ConcatOp>([&](ConcatOp concat) { return ofConcat(concat); })
        .Case<GatherOp>([&](GatherOp gather) {
          return gather.getBatched() ? whole() : ofGather(gather);
        })
        .Default([&](Operation *) { return whole(); });
  }

  ArrayRef<int64_t> full() const {
    return cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  }
  ArrayRef<int64_t> full(size_t operand) const {
    return cast<RankedTensorType>(op->getOperand(operand).getType()).getShape();
  }
  ArrayRef<int64_t> sizes(size_t operand) const {
    return cores[operand].type.getShape();
  }

  void grow(size_t operand, ArrayRef<int64_t> dims) {
    Sizes shape(sizes(operand));
    for (int64_t dim : dims)
      shape[dim] = full(operand)[dim];
    auto grown = repeat(cores[operand], shape);
    fits &= grown.has_value();
    if (grown)
      cores[operand] = std::move(*grown);
  }
  Sizes whole() {
    for (size_t k = 0; k < cores.size(); ++k)
      grow(k, llvm::to_vector(llvm::seq<int64_t>(0, full(k).size())));
    return Sizes(full());
  }

  Sizes ofElements() const {
    Sizes shape(full().size(), 1);
    for (size_t k = 0; k < cores.size(); ++k)
      for (auto [size, core] :
           llvm::zip(llvm::reverse(shape), llvm::reverse(sizes(k))))
        size = core == 1 ? size : core;
    return shape;
  }

  /// Dimensions that the reshape keeps may repeat, also where it adds or drops
  /// sizes of 1 beside them.
  Sizes ofReshape() {
    auto groups = reshapeGroups(full(0), full());
    if (!groups)
      return whole();
    Sizes shape(full());
    auto only = [](ArrayRef<int64_t> all, int64_t from,
                   int64_t to) -> std::optional<int64_t> {
      std::optional<int64_t> found;
      for (int64_t dim = from; dim < to; ++dim)
        if (all[dim] != 1) {
          if (found)
            return std::nullopt;
          found = dim;
        }
      return found;
    };
    for (const ReshapeGroup &group : *groups) {
      auto from = only(full(0), group.from, group.fromEnd),
           to = only(full(), group.to, group.toEnd);
      if (from && to)
        shape[*to] = sizes(0)[*from];
      else
        grow(0, llvm::to_vector(llvm::seq<int64_t>(group.from, group.fromEnd)));
    }
    return shape;
  }

  Sizes ofConcat(ConcatOp concat) {
    Sizes shape(full());
    for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
      bool repeats = dim != int64_t(concat.getDim());
      for (size_t k = 0; k < cores.size(); ++k)
        repeats &= sizes(k)[dim] == 1;
      for (size_t k = 0; k < cores.size() && !repeats; ++k)
        grow(k, dim);
      if (repeats)
        shape[dim] = 1;
    }
    return shape;
  }

  Sizes ofGather(GatherOp gather) {
    auto dim = int64_t(gather.getDim());
    grow(0, dim);
    Sizes shape(sizes(0).take_front(dim));
    llvm::append_range(shape, sizes(1));
    llvm::append_range(shape, sizes(0).drop_front(dim + 1));
    return shape;
  }

  Operation *op;
  MutableArrayRef<HostTensor> cores;
  bool fits = true;
};
} // namespace

std::optional<SmallVector<int64_t>>
kerf::nn::coreOfResult(Operation *op, MutableArrayRef<HostTensor> cores) {
  return CoreShape(op, cores).run();
}
