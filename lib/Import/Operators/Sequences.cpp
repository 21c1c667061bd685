//===- Sequences.cpp - lists of tensors whose length is known -------------===//
//
// Problem: PyTorch's exporter writes a chunk or split as SplitToSequence and
// SequenceAt. nn has tensors only.
//
// Idea: while a model is imported, a sequence is a value of tuple type, made of
// its elements by builtin.unrealized_conversion_cast. Lengths and positions are
// constants, so every operator on sequences picks elements or makes another
// list, and only its tensors are computed. None of these casts is left behind
// import. Operators that are not in this file's table take no sequence.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Graph/Sequence.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

/// More elements are an error, as a split of a huge dimension into ones is.
static constexpr size_t kMaxLength = 1 << 16;

/// The elements of a sequence that is an input of the node; none, and an error,
/// for a tensor.
static std::optional<SmallVector<Value>> sequenceInput(Node &node,
                                                       size_t index) {
  if (!isSequence(node.in(index))) {
    (void)node.error("input " + Twine(index) +
                     " is a tensor, expected a sequence");
    return std::nullopt;
  }
  return elementsOf(node.in(index));
}

static LogicalResult setSequence(Node &node, ArrayRef<Value> elements) {
  if (elements.size() > kMaxLength)
    return node.error("sequence has " + Twine(elements.size()) +
                      " elements, expected at most " + Twine(kMaxLength));
  for (Value element : elements)
    if (elementOf(element) != elementOf(elements.front()))
      return node.error("elements of a sequence have different types");
  return node.set(makeSequence(node.ops, node.loc, elements));
}

/// The position in input `index`, counted from the front: at most `max`, and
/// `otherwise` where it is absent.
static std::optional<size_t> position(Node &node, size_t index, size_t length,
                                      int64_t max, int64_t otherwise) {
  int64_t at = otherwise;
  if (isSequence(node.in(index))) {
    (void)node.error("the position is a sequence, expected a tensor");
    return std::nullopt;
  }
  if (node.has(index)) {
    auto given = node.constantIntegers(index);
    if (!given)
      return std::nullopt;
    if (given->size() != 1) {
      (void)node.error("position has " + Twine(given->size()) +
                       " elements, expected 1");
      return std::nullopt;
    }
    at = given->front();
  }
  auto size = static_cast<int64_t>(length);
  if (at < -size || at > max) {
    (void)node.error("position is " + Twine(at) + ", the sequence has " +
                     Twine(length) + " elements");
    return std::nullopt;
  }
  return static_cast<size_t>(at < 0 ? at + size : at);
}

static LogicalResult splitToSequence(Node &node) {
  if (failed(node.arity(1, 2)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", 0), rankOf(x));
  bool keepsDims = node.integer("keepdims", 1) != 0 || node.has(1);
  if (!axis || node.failed)
    return failure();
  int64_t size = shapeOf(x)[*axis], each = 1, sum = 0;
  std::optional<SmallVector<int64_t>> sizes;
  if (node.has(1)) {
    sizes = node.constantIntegers(1);
    if (!sizes)
      return failure();
    if (rankOf(node.in(1)) == 0) {
      each = sizes->front();
      sizes.reset();
      if (each < 1)
        return node.error("split is " + Twine(each) + ", expected at least 1");
    }
  }
  if (!sizes) {
    if (size / each > static_cast<int64_t>(kMaxLength))
      return node.error("a dimension of " + Twine(size) + " in parts of " +
                        Twine(each) + " are more than " + Twine(kMaxLength) +
                        " elements");
    sizes.emplace();
    for (int64_t start = 0; start < size; start += each)
      sizes->push_back(std::min(each, size - start));
  }
  for (int64_t part : *sizes)
    if (part < 0 || llvm::AddOverflow(sum, part, sum))
      return node.error("a part of the split is negative or too large");
  if (sum != size)
    return node.error("the parts of the split are " + Twine(sum) +
                      " together, the dimension has " + Twine(size));
  SmallVector<int64_t> squeezed(shapeOf(x));
  squeezed.erase(squeezed.begin() + *axis);
  SmallVector<Value> elements;
  int64_t start = 0;
  for (int64_t part : *sizes) {
    Value element = node.slice(x, *axis, start, part);
    if (!keepsDims)
      element = node.reshape(element, squeezed);
    if (!element)
      return node.fail();
    elements.push_back(element);
    start += part;
  }
  return setSequence(node, elements);
}

static LogicalResult sequenceConstruct(Node &node) {
  if (failed(node.arity(1, kMaxLength)))
    return failure();
  for (size_t index = 0; index < node.inputs.size(); ++index)
    if (!node.in(index))
      return node.error("input " + Twine(index) + " is absent");
  return setSequence(node, node.inputs);
}

static LogicalResult sequenceEmpty(Node &node) {
  if (failed(node.arity(0, 0)))
    return failure();
  (void)node.integer("dtype", onnx::TensorProto::FLOAT);
  return node.failed ? failure() : setSequence(node, {});
}

static LogicalResult sequenceAt(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  auto elements = sequenceInput(node, 0);
  if (!elements)
    return failure();
  auto at =
      position(node, 1, elements->size(), int64_t(elements->size()) - 1, 0);
  return at ? node.set((*elements)[*at]) : failure();
}

static LogicalResult sequenceInsert(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  auto elements = sequenceInput(node, 0);
  if (!elements)
    return failure();
  if (isSequence(node.in(1)))
    return node.error("input 1 is a sequence, expected a tensor");
  auto end = static_cast<int64_t>(elements->size());
  auto at = position(node, 2, elements->size(), end, end);
  if (!at)
    return failure();
  elements->insert(elements->begin() + static_cast<ptrdiff_t>(*at), node.in(1));
  return setSequence(node, *elements);
}

static LogicalResult sequenceErase(Node &node) {
  if (failed(node.arity(1, 2)))
    return failure();
  auto elements = sequenceInput(node, 0);
  if (!elements)
    return failure();
  int64_t last = static_cast<int64_t>(elements->size()) - 1;
  auto at = position(node, 1, elements->size(), last, last);
  if (!at)
    return failure();
  elements->erase(elements->begin() + static_cast<ptrdiff_t>(*at));
  return setSequence(node, *elements);
}

static LogicalResult sequenceLength(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  auto elements = sequenceInput(node, 0);
  if (!elements)
    return failure();
  return node.set(node.constant(
      DenseElementsAttr::get(RankedTensorType::get({}, node.ops.getI64Type()),
                             static_cast<int64_t>(elements->size()))));
}

/// An optional is what it holds, or an input that is absent.
static LogicalResult optionalHasElement(Node &node) {
  if (failed(node.arity(0, 1)))
    return failure();
  return node.set(node.scalar(node.has(0), node.ops.getI1Type()));
}

static LogicalResult optionalGetElement(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  return node.set(node.in(0));
}

static LogicalResult concatFromSequence(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  auto elements = sequenceInput(node, 0);
  node.requireAttribute("axis");
  bool isNew = node.integer("new_axis", 0) != 0;
  int64_t given = node.integer("axis", 0);
  if (!elements || node.failed)
    return failure();
  if (elements->empty())
    return node.error("the sequence has no element");
  int64_t rank = rankOf(elements->front());
  auto axis = node.axisWithin(given, rank + isNew);
  if (!axis)
    return failure();
  if (isNew) {
    SmallVector<int64_t> shape(shapeOf(elements->front()));
    for (Value element : *elements)
      if (shapeOf(element) != ArrayRef(shape))
        return node.error("elements have different shapes");
    shape.insert(shape.begin() + *axis, 1);
    for (Value &element : *elements)
      element = node.reshape(element, shape);
  }
  return node.set(node.concat(*elements, *axis));
}

void kerf::onnx_import::addSequences(HandlerTable &table) {
  table.add("SplitToSequence", 11, splitToSequence);
  table.add("SequenceConstruct", 11, sequenceConstruct);
  table.add("SequenceEmpty", 11, sequenceEmpty);
  table.add("SequenceAt", 11, sequenceAt, /*takesSequences=*/true);
  table.add("SequenceInsert", 11, sequenceInsert, /*takesSequences=*/true);
  table.add("SequenceErase", 11, sequenceErase, /*takesSequences=*/true);
  table.add("SequenceLength", 11, sequenceLength, /*takesSequences=*/true);
  table.add("OptionalHasElement", 15, optionalHasElement,
            /*takesSequences=*/true);
  table.add("OptionalGetElement", 15, optionalGetElement,
            /*takesSequences=*/true);
  table.add("ConcatFromSequence", 11, concatFromSequence,
            /*takesSequences=*/true);
}
