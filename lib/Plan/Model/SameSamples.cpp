//===- SameSamples.cpp - two programs, op by op ---------------------------===//
#include "kerf/Plan/SameSamples.h"
#include "Graph.h"
#include "kerf/Plan/BatchAnalysis.h"

#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {
class Comparison {
public:
  Comparison(func::FuncOp small, func::FuncOp large,
             const llvm::StringMap<int64_t> &batchDims)
      : small(small), large(large), rulesOfSmall(small), rulesOfLarge(large),
        inSmall(small, batchDims, rulesOfSmall),
        inLarge(large, batchDims, rulesOfLarge) {}

  /// Empty, or what differs.
  std::string run();
  int64_t axisOf(Value value) const {
    return inLarge.batchDim(value).value_or(-1);
  }

private:
  bool isScaled(int64_t a, int64_t b) const {
    return a * inLarge.batchSize() == b * inSmall.batchSize();
  }
  bool sameTypes(Value a, Value b) const;
  bool sameAttributes(Operation *a, Operation *b) const;
  bool sameElements(DenseElementsAttr here, DenseElementsAttr there) const;
  bool sameLiterals(Operation *a, Operation *b) const;
  std::string compare(Operation *a, Operation *b);

  func::FuncOp small, large;
  OpRules rulesOfSmall, rulesOfLarge;
  BatchAnalysis inSmall, inLarge;
  llvm::DenseMap<Value, Value> partner; // in `large`, by value in `small`
};

std::string nameOf(Operation *op) {
  ValueNames names(op->getParentOfType<func::FuncOp>());
  std::string name = op->getNumResults() ? names[op->getResult(0)].str() : "";
  return name + (name.empty() ? "" : ": ") + op->getName().getStringRef().str();
}

/// Equal but for the number of samples, which is in the same dimension.
bool Comparison::sameTypes(Value a, Value b) const {
  if (a.getType() == b.getType())
    return inSmall.batchDim(a) == inLarge.batchDim(b);
  auto here = dyn_cast<RankedTensorType>(a.getType());
  auto there = dyn_cast<RankedTensorType>(b.getType());
  std::optional<int64_t> batch = inSmall.batchDim(a);
  if (!here || !there || !batch || batch != inLarge.batchDim(b) ||
      here.getRank() != there.getRank() ||
      here.getElementType() != there.getElementType() ||
      here.getEncoding() != there.getEncoding())
    return false;
  for (int64_t dim = 0; dim < here.getRank(); ++dim) {
    int64_t sizeA = here.getDimSize(dim), sizeB = there.getDimSize(dim);
    if (dim == *batch ? !isScaled(sizeA, sizeB) : sizeA != sizeB)
      return false;
  }
  return true;
}

/// Numbers of a list may be those of samples, in their dimension.
bool sameButFor(ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                std::optional<int64_t> dim,
                llvm::function_ref<bool(int64_t, int64_t)> isScaled) {
  if (a.size() != b.size())
    return false;
  for (auto [index, pair] : llvm::enumerate(llvm::zip(a, b))) {
    auto [x, y] = pair;
    if (x != y &&
        !(dim && static_cast<size_t>(*dim) == index && isScaled(x, y)))
      return false;
  }
  return true;
}

bool Comparison::sameAttributes(Operation *a, Operation *b) const {
  DictionaryAttr here = a->getAttrDictionary(), there = b->getAttrDictionary();
  if (here == there)
    return true;
  if (here.size() != there.size() || a->getNumResults() != 1)
    return false;
  std::optional<int64_t> dim = inLarge.batchDim(b->getResult(0));
  for (NamedAttribute attr : here) {
    Attribute other = there.get(attr.getName());
    auto list = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
    auto otherList = dyn_cast_or_null<DenseI64ArrayAttr>(other);
    if (attr.getValue() != other &&
        !(list && otherList &&
          sameButFor(list, otherList, dim,
                     [&](int64_t x, int64_t y) { return isScaled(x, y); })))
      return false;
  }
  return true;
}

/// Whether two constants say the same of each sample: they are equal, or differ
/// in the size of one dimension, along which they repeat.
bool Comparison::sameElements(DenseElementsAttr here,
                              DenseElementsAttr there) const {
  if (here == there)
    return true;
  if (here.getElementType() != there.getElementType())
    return false;
  ArrayRef<int64_t> shapeA = here.getType().getShape();
  ArrayRef<int64_t> shapeB = there.getType().getShape();
  if (here.isSplat() && there.isSplat() && shapeA.size() == shapeB.size())
    return here.getSplatValue<Attribute>() == there.getSplatValue<Attribute>();
  std::optional<size_t> dim;
  if (shapeA.size() != shapeB.size())
    return false;
  for (size_t d = 0; d < shapeA.size(); ++d)
    if (shapeA[d] != shapeB[d]) {
      if (dim)
        return false;
      dim = d;
    }
  if (!dim)
    return false;
  // The rows of one sample, in each of them.
  int64_t rowsA = shapeA[*dim], rowsB = shapeB[*dim];
  int64_t period = rowsA / inSmall.batchSize();
  if (period == 0 || rowsA % inSmall.batchSize() ||
      rowsB != period * inLarge.batchSize())
    return false;
  auto valuesA = here.getValues<Attribute>();
  auto valuesB = there.getValues<Attribute>();
  auto product = [](ArrayRef<int64_t> sizes) {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  };
  int64_t outer = product(shapeA.take_front(*dim));
  int64_t inner = product(shapeA.drop_front(*dim + 1));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row = 0; row < rowsB; ++row)
      for (int64_t i = 0; i < inner; ++i) {
        Attribute first = valuesA[(o * rowsA + row % period) * inner + i];
        if (valuesB[(o * rowsB + row) * inner + i] != first ||
            (row < rowsA && valuesA[(o * rowsA + row) * inner + i] != first))
          return false;
      }
  return true;
}

bool Comparison::sameLiterals(Operation *a, Operation *b) const {
  DictionaryAttr here = a->getAttrDictionary(), there = b->getAttrDictionary();
  return here.size() == there.size() &&
         llvm::all_of(here, [&](NamedAttribute attr) {
           Attribute other = there.get(attr.getName());
           auto elements = dyn_cast<DenseElementsAttr>(attr.getValue());
           auto others = dyn_cast_or_null<DenseElementsAttr>(other);
           return attr.getValue() == other ||
                  (elements && others && sameElements(elements, others));
         });
}

/// Numbers that stand in the op.
bool isLiteral(Operation *op) {
  return op->getNumOperands() == 0 && op->getNumResults() == 1 &&
         llvm::any_of(op->getAttrDictionary(), [](NamedAttribute attr) {
           return isa<DenseElementsAttr>(attr.getValue());
         });
}

std::string Comparison::compare(Operation *a, Operation *b) {
  auto differs = [&](const char *how) {
    return "the model is another for that size: " + nameOf(b) + " " + how;
  };
  if (a->getName() != b->getName() ||
      a->getNumOperands() != b->getNumOperands() ||
      a->getNumResults() != b->getNumResults())
    return differs("is another op");
  for (auto [x, y] : llvm::zip(a->getOperands(), b->getOperands()))
    if (partner.lookup(x) != y)
      return differs("has other operands");
  if (a->getNumRegions() || b->getNumRegions())
    return differs("has a body");
  if (isLiteral(a) && isLiteral(b)) {
    if (!sameLiterals(a, b))
      return differs("has other values");
  } else {
    if (!sameAttributes(a, b))
      return differs("has other attributes");
    for (auto [x, y] : llvm::zip(a->getResults(), b->getResults()))
      if (!sameTypes(x, y))
        return differs("has a size that is not in proportion");
  }
  for (auto [x, y] : llvm::zip(a->getResults(), b->getResults()))
    partner[x] = y;
  return "";
}

std::string Comparison::run() {
  if (inSmall.batchSize() < 2)
    return "no input has a dimension of samples";
  for (const BatchAnalysis *batch : {&inLarge, &inSmall})
    if (!batch->breaks().empty()) {
      const BatchAnalysis::Break &first = batch->breaks().front();
      return "that samples are apart is not proven of " + nameOf(first.op) +
             ", which " + first.reason;
    }
  if (small.getNumArguments() != large.getNumArguments())
    return "the model has other inputs for that size";
  for (auto [x, y] : llvm::zip(small.getArguments(), large.getArguments())) {
    if (!sameTypes(x, y))
      return "an input has a size that is not in proportion";
    partner[x] = y;
  }
  Block &first = small.getBody().front(), &second = large.getBody().front();
  auto a = first.begin(), b = second.begin();
  for (; a != first.end() && b != second.end(); ++a, ++b)
    if (std::string wrong = compare(&*a, &*b); !wrong.empty())
      return wrong;
  if (a != first.end() || b != second.end())
    return "the model has other ops for that size";
  return "";
}
} // namespace

static StringRef nameIn(Attribute attr) {
  return cast<StringAttr>(attr).getValue();
}

std::string kerf::plan::whyNoSamples(func::FuncOp function,
                                     const AxesByName &inputs) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto input = inputs.find(nameIn(function.getArgAttr(i, kNameAttr)));
    if (input == inputs.end() || input->second < 0)
      continue;
    auto samples = function.getArgAttrOfType<IntegerAttr>(i, kBatchDimAttr);
    if (!samples || samples.getInt() != input->second)
      return "it does not count samples, and the rows of anything else may "
             "have to do with each other";
  }
  return "";
}

std::string
kerf::plan::whyNotSameForEachSample(func::FuncOp small, func::FuncOp large,
                                    const llvm::StringMap<int64_t> &batchDims,
                                    const AxesByName &inputs,
                                    AxesByName &outputs) {
  Comparison comparison(small, large, batchDims);
  if (std::string why = comparison.run(); !why.empty())
    return why;
  for (BlockArgument argument : large.getArguments()) {
    StringRef name =
        nameIn(large.getArgAttr(argument.getArgNumber(), kNameAttr));
    auto input = inputs.find(name);
    if (input == inputs.end() || input->second != comparison.axisOf(argument))
      return "input \"" + name.str() + "\" is not one of samples along it";
  }
  Operation *end = large.getBody().front().getTerminator();
  for (OpOperand &result : end->getOpOperands())
    if (int64_t axis = comparison.axisOf(result.get()); axis >= 0)
      outputs[nameIn(
          large.getResultAttr(result.getOperandNumber(), kNameAttr))] = axis;
  return "";
}
