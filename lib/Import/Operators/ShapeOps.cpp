//===- ShapeOps.cpp - operators that move elements ------------------------===//
//
// Attributes of older operator sets became inputs in later ones; both are read
// as constant integers here.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "BoundedShapes.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

static std::string listText(ArrayRef<int64_t> values) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(values, stream);
  stream << "]";
  return text;
}

static LogicalResult reshape(Node &node) {
  if (failed(node.arity(1, node.opset < 5 ? 1 : 2)))
    return failure();
  (void)node.integerList("consumed_inputs");
  bool allowZero = node.integer("allowzero", 0);
  if (node.has(1) &&
      (node.bounds.has(node.in(0)) || !node.elements(node.in(1))))
    return reshapeBounded(node, allowZero);
  auto wish =
      node.opset < 5 ? node.integerList("shape") : node.constantIntegers(1);
  if (!wish)
    return node.failed ? failure() : node.error("shape is missing");
  Value x = node.in(0);
  Integers shape;
  int64_t known = 1, unknown = -1;
  for (auto [index, size] : llvm::enumerate(*wish)) {
    if (size == 0 && !allowZero) {
      if (int64_t(index) >= rankOf(x))
        return node.error("shape " + listText(*wish) +
                          " copies a dimension that " + listText(shapeOf(x)) +
                          " does not have");
      size = shapeOf(x)[index];
    }
    if (size == -1 && unknown < 0) {
      unknown = int64_t(index);
    } else if (size < 0 || llvm::MulOverflow(known, size, known)) {
      return node.error("shape " + listText(*wish) + " is not a shape");
    }
    shape.push_back(size);
  }
  int64_t total = typeOf(x).getNumElements();
  if (unknown >= 0)
    shape[unknown] = known == 0 ? 0 : total / known;
  int64_t count = unknown >= 0 ? known * shape[unknown] : known;
  if (count != total)
    return node.error("cannot reshape " + listText(shapeOf(x)) + " to " +
                      listText(*wish) + ": " + Twine(total) +
                      " elements, expected " + Twine(count));
  return node.set(node.reshape(x, shape));
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

static LogicalResult flatten(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", 1), rankOf(x), true);
  if (!axis)
    return failure();
  return node.set(node.reshape(x, {product(shapeOf(x).take_front(*axis)),
                                   product(shapeOf(x).drop_front(*axis))}));
}

static LogicalResult squeeze(Node &node) {
  if (failed(node.arity(1, node.opset < 13 ? 1 : 2)))
    return failure();
  Value x = node.in(0);
  auto wish =
      node.opset < 13 ? node.integerList("axes") : node.constantIntegers(1);
  if (node.failed)
    return failure();
  Integers shape;
  if (!wish) {
    for (int64_t size : shapeOf(x))
      if (size != 1)
        shape.push_back(size);
    return node.set(node.reshape(x, shape));
  }
  auto axes = node.axesWithin(*wish, rankOf(x));
  if (!axes)
    return failure();
  for (auto [dim, size] : llvm::enumerate(shapeOf(x))) {
    if (!llvm::is_contained(*axes, int64_t(dim)))
      shape.push_back(size);
    else if (size != 1)
      return node.error("dimension " + Twine(dim) + " has size " + Twine(size) +
                        ", expected 1 (only PyTorch's squeeze leaves others "
                        "as they are: take it out of the model)");
  }
  return node.set(node.reshape(x, shape));
}

static LogicalResult unsqueeze(Node &node) {
  if (failed(node.arity(node.opset < 13 ? 1 : 2, node.opset < 13 ? 1 : 2)))
    return failure();
  Value x = node.in(0);
  auto wish =
      node.opset < 13 ? node.integerList("axes") : node.constantIntegers(1);
  if (!wish)
    return node.failed ? failure() : node.error("axes are missing");
  int64_t rank = rankOf(x) + int64_t(wish->size());
  auto axes = node.axesWithin(*wish, rank);
  if (!axes)
    return failure();
  Integers shape;
  size_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim)
    shape.push_back(llvm::is_contained(*axes, dim) ? 1 : shapeOf(x)[next++]);
  return node.set(node.reshape(x, shape));
}

static LogicalResult transpose(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  Integers perm;
  if (auto given = node.integerList("perm"))
    perm = *given;
  else
    for (int64_t dim = rankOf(x); dim-- > 0;)
      perm.push_back(dim);
  if (node.failed)
    return failure();
  Integers sorted(perm);
  llvm::sort(sorted);
  for (int64_t dim = 0; dim < rankOf(x); ++dim)
    if (int64_t(sorted.size()) != rankOf(x) || sorted[dim] != dim)
      return node.error("perm " + listText(perm) + " is not a permutation of " +
                        Twine(rankOf(x)) + " dimensions");
  return node.set(node.transpose(x, perm));
}

static LogicalResult concat(Node &node) {
  if (failed(node.arity(1, 1 << 16)))
    return failure();
  if (node.opset >= 4)
    node.requireAttribute("axis");
  auto axis = node.axisWithin(node.integer("axis", 1), rankOf(node.in(0)));
  if (!axis || node.failed)
    return failure();
  return node.set(node.concat(node.inputs, *axis));
}

static LogicalResult split(Node &node) {
  if (failed(node.arity(1, 2, 1 << 16)))
    return failure();
  Value x = node.in(0);
  auto axis = node.axisWithin(node.integer("axis", 0), rankOf(x));
  if (!axis)
    return failure();
  if (node.bounds.lengthOf(x, *axis))
    return node.unsupported("operator Split along a dimension whose size is "
                            "known only when the program runs");
  std::optional<Integers> sizes;
  if (node.opset < 2 || node.opset >= 13)
    sizes = node.constantIntegers(1);
  if (!sizes && node.opset < 13)
    sizes = node.integerList("split");
  if (node.failed)
    return failure();
  int64_t parts = int64_t(node.outputs.size()), size = shapeOf(x)[*axis];
  if (node.opset >= 18)
    parts = node.integer("num_outputs", parts);
  if (!sizes) {
    if (parts < 1 || parts > (1 << 20))
      return node.error("node has " + Twine(parts) + " outputs");
    // The last part gets the rest.
    int64_t each = (size + parts - 1) / parts;
    sizes.emplace();
    for (int64_t part = 0; part < parts; ++part)
      sizes->push_back(
          std::max<int64_t>(0, std::min(each, size - part * each)));
  }
  int64_t sum = 0;
  for (int64_t part : *sizes)
    if (part < 0 || llvm::AddOverflow(sum, part, sum))
      return node.error("split " + listText(*sizes) + " is negative");
  if (sum != size || sizes->size() < node.outputs.size())
    return node.error("split " + listText(*sizes) + " over " +
                      Twine(node.outputs.size()) + " outputs has sum " +
                      Twine(sum) + ", expected " + Twine(size));
  int64_t start = 0;
  for (size_t index = 0; index < node.outputs.size(); ++index) {
    if (node.wants(index) &&
        failed(node.set(index, node.slice(x, *axis, start, (*sizes)[index]))))
      return failure();
    start += (*sizes)[index];
  }
  return success();
}

static LogicalResult slice(Node &node) {
  if (failed(node.arity(node.opset < 10 ? 1 : 3, node.opset < 10 ? 1 : 5)))
    return failure();
  Value x = node.in(0);
  std::optional<Integers> starts, ends, axes, steps;
  if (node.opset < 10) {
    starts = node.integerList("starts");
    ends = node.integerList("ends");
    axes = node.integerList("axes");
  } else {
    auto isKnown = [&](size_t index) {
      return !node.has(index) || node.elements(node.in(index));
    };
    if (node.bounds.has(x) || !isKnown(1) || !isKnown(2))
      return sliceBounded(node);
    starts = node.constantIntegers(1);
    ends = node.constantIntegers(2);
    axes = node.constantIntegers(3);
    steps = node.constantIntegers(4);
  }
  if (node.failed)
    return failure();
  if (!starts || !ends)
    return node.error("starts or ends are missing");
  if (!axes) {
    axes.emplace();
    for (size_t dim = 0; dim < starts->size(); ++dim)
      axes->push_back(int64_t(dim));
  }
  if (!steps)
    steps = Integers(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps->size() != starts->size())
    return node.error("starts, ends, axes and steps have " +
                      Twine(starts->size()) + ", " + Twine(ends->size()) +
                      ", " + Twine(axes->size()) + " and " +
                      Twine(steps->size()) + " entries, expected one number");
  for (size_t i = 0; i < starts->size(); ++i) {
    auto axis = node.axisWithin((*axes)[i], rankOf(x));
    if (!axis)
      return failure();
    int64_t size = shapeOf(x)[*axis], step = (*steps)[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      return node.error("step is " + Twine(step));
    // Clamped as NumPy does.
    auto clamp = [&](int64_t at) {
      if (at < 0)
        at = at < -size ? -1 : at + size;
      return step > 0 ? std::min(std::max(at, int64_t(0)), size)
                      : std::min(std::max(at, int64_t(-1)), size - 1);
    };
    int64_t start = clamp((*starts)[i]), end = clamp((*ends)[i]);
    if (step > 0 && start > size)
      start = size;
    int64_t span = step > 0 ? end - start : start - end;
    int64_t width = step > 0 ? step : -step;
    int64_t count = span <= 0 ? 0 : (span - 1) / width + 1;
    if (count == 0) {
      start = 0;
      step = 1;
    } else if (count == 1) {
      step = 1;
    }
    x = node.slice(x, *axis, start, count, step);
    if (!x)
      return failure();
  }
  return node.set(x);
}

static LogicalResult expand(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  if (node.bounds.has(node.in(0)) || !node.elements(node.in(1)))
    return expandBounded(node);
  auto wish = node.constantIntegers(1);
  if (!wish)
    return failure();
  Value x = node.in(0);
  for (int64_t size : *wish)
    if (size < 0)
      return node.error("shape " + listText(*wish) + " is not a shape");
  auto shape = broadcastShapes(shapeOf(x), *wish);
  if (!shape)
    return node.error("cannot expand " + listText(shapeOf(x)) + " to " +
                      listText(*wish));
  return node.set(node.broadcast(x, *shape));
}

static LogicalResult tile(Node &node) {
  if (node.opset < 6)
    return node.unsupported("operator Tile before operator set 6",
                            "onnx.version_converter gives the newer form");
  if (failed(node.arity(2, 2)))
    return failure();
  auto repeats = node.constantIntegers(1);
  if (!repeats)
    return failure();
  Value x = node.in(0);
  if (int64_t(repeats->size()) != rankOf(x))
    return node.error("repeats has " + Twine(repeats->size()) +
                      " entries, expected " + Twine(rankOf(x)));
  Integers result;
  for (auto [size, count] : llvm::zip(shapeOf(x), *repeats)) {
    int64_t together;
    if (count < 0)
      return node.error("repeats " + listText(*repeats) + " are negative");
    if (llvm::MulOverflow(count, size, together))
      return node.error("result is larger than 2^47 bytes");
    result.push_back(together);
  }
  if (!tensorBytes(result, elementOf(x)))
    return node.error("result is larger than 2^47 bytes");
  // One dimension after the other: [a, b] -> [1, a, b] -> [r, a, b] -> [r a,
  // b]. All at once would double the rank, and the number of ways to cut the
  // tensor grows exponentially with the rank.
  for (int64_t dim = rankOf(x) - 1; dim >= 0; --dim) {
    Integers shape(shapeOf(x));
    if (result[dim] == shape[dim])
      continue;
    if (shape[dim] == 1) {
      shape[dim] = result[dim];
      x = node.broadcast(x, shape);
      continue;
    }
    Integers split = shape, merged = shape;
    split.insert(split.begin() + dim, 1);
    Integers full = split;
    full[dim] = (*repeats)[dim];
    merged[dim] = result[dim];
    x = node.reshape(node.broadcast(node.reshape(x, split), full), merged);
  }
  return node.set(x);
}

static LogicalResult trilu(Node &node) {
  if (failed(node.arity(1, 2)))
    return failure();
  Value x = node.in(0);
  bool upper = node.integer("upper", 1);
  int64_t k = 0;
  if (node.has(1)) {
    auto value = node.constantIntegers(1);
    if (!value || value->size() != 1)
      return node.failed ? failure() : node.error("k must be a scalar");
    k = (*value)[0];
  }
  if (rankOf(x) < 2)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected at least 2");
  int64_t rows = shapeOf(x)[rankOf(x) - 2], columns = shapeOf(x).back();
  k = std::min(std::max(k, -rows - 1), columns + 1);
  Type i64 = node.ops.getI64Type();
  Value row =
      node.add(node.reshape(node.iota(rows, i64), {rows, 1}), double(k));
  Value column = node.iota(columns, i64);
  Value keep = upper ? node.make<LessEqualOp>({row, column})
                     : node.make<LessEqualOp>({column, row});
  return node.set(node.select(keep, x, node.scalar(0, elementOf(x))));
}

/// constant, edge, reflect and wrap; negative pads crop.
static LogicalResult pad(Node &node) {
  if (failed(node.arity(1, node.opset < 11 ? 1 : 4)))
    return failure();
  Value x = node.in(0);
  std::string mode = node.text("mode", "constant");
  std::optional<Integers> pads;
  Attribute fill = node.number(0, elementOf(x));
  if (node.opset < 11) {
    pads = node.integerList(node.opset < 2 ? "paddings" : "pads");
    fill = node.number(node.real("value", 0), elementOf(x));
  } else {
    pads = node.constantIntegers(1);
    if (node.has(2) && !(fill = node.constantNumber(2, elementOf(x))))
      return failure();
  }
  if (!pads)
    return node.failed ? failure() : node.error("pads are missing");
  Integers axes;
  if (node.has(3)) {
    auto given = node.constantIntegers(3);
    if (!given)
      return failure();
    for (int64_t axis : *given) {
      auto within = node.axisWithin(axis, rankOf(x));
      if (!within)
        return failure();
      axes.push_back(*within);
    }
  } else {
    for (int64_t dim = 0; dim < rankOf(x); ++dim)
      axes.push_back(dim);
  }
  if (pads->size() != 2 * axes.size())
    return node.error("pads has " + Twine(pads->size()) +
                      " entries, expected " + Twine(2 * axes.size()));
  Integers low(rankOf(x), 0), high(rankOf(x), 0);
  for (auto [index, axis] : llvm::enumerate(axes)) {
    int64_t before = (*pads)[index], after = (*pads)[index + axes.size()];
    constexpr int64_t kMax = int64_t(1) << 40;
    int64_t size = shapeOf(x)[axis];
    if (before > kMax || after > kMax || before < -size || after < -size ||
        size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) < 0)
      return node.error("pads " + listText(*pads) + " do not fit " +
                        listText(shapeOf(x)));
    if (before < 0 || after < 0) {
      x = node.slice(x, axis, std::max<int64_t>(0, -before),
                     size + std::min<int64_t>(before, 0) +
                         std::min<int64_t>(after, 0));
      if (!x)
        return failure();
    }
    low[axis] = std::max<int64_t>(0, before);
    high[axis] = std::max<int64_t>(0, after);
  }
  if (mode == "constant")
    return node.set(
        node.make<PadOp>({x}, {node.i64s("low", low), node.i64s("high", high),
                               node.ops.getNamedAttr("value", fill)}));
  if (mode != "edge" && mode != "reflect" && mode != "wrap")
    return node.unsupported("mode \"" + mode + "\" of operator Pad",
                            "constant, edge, reflect and wrap are taken");
  // The other modes select existing elements.
  for (int64_t dim = 0; dim < rankOf(x); ++dim) {
    int64_t size = shapeOf(x)[dim];
    if (!low[dim] && !high[dim])
      continue;
    if (size == 0 || low[dim] + high[dim] > (1 << 24))
      return node.error("pads do not fit " + listText(shapeOf(x)));
    Integers indices;
    for (int64_t at = -low[dim]; at < size + high[dim]; ++at) {
      int64_t from;
      if (mode == "edge") {
        from = std::min(std::max(at, int64_t(0)), size - 1);
      } else if (mode == "wrap") {
        from = ((at % size) + size) % size;
      } else {
        int64_t period = std::max<int64_t>(1, 2 * (size - 1));
        from = ((at % period) + period) % period;
        from = from >= size ? period - from : from;
      }
      indices.push_back(from);
    }
    x = node.gather(x, node.integers(indices), dim);
    if (!x)
      return failure();
  }
  return node.set(x);
}

static LogicalResult spaceToDepth(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  std::string mode = node.text("mode", "DCR");
  node.requireAttribute("blocksize");
  int64_t b = node.integer("blocksize", 0);
  if (node.failed)
    return failure();
  ArrayRef<int64_t> s = shapeOf(x);
  if (s.size() != 4 || b < 1 || s[2] % b || s[3] % b)
    return node.error("blocksize " + Twine(b) + " does not fit " + listText(s));
  Value split = node.reshape(x, {s[0], s[1], s[2] / b, b, s[3] / b, b});
  Value moved = mode == "CRD" ? node.transpose(split, {0, 1, 3, 5, 2, 4})
                              : node.transpose(split, {0, 3, 5, 1, 2, 4});
  return node.set(
      node.reshape(moved, {s[0], s[1] * b * b, s[2] / b, s[3] / b}));
}

static LogicalResult depthToSpace(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  node.requireAttribute("blocksize");
  int64_t b = node.integer("blocksize", 0);
  std::string mode = node.text("mode", "DCR");
  if (node.failed)
    return failure();
  ArrayRef<int64_t> s = shapeOf(x);
  if (s.size() != 4 || b < 1 || b > (1 << 15) || s[1] % (b * b))
    return node.error("blocksize " + Twine(b) + " does not fit " + listText(s));
  int64_t c = s[1] / (b * b);
  Value moved =
      mode == "CRD"
          ? node.transpose(node.reshape(x, {s[0], c, b, b, s[2], s[3]}),
                           {0, 1, 4, 2, 5, 3})
          : node.transpose(node.reshape(x, {s[0], b, b, c, s[2], s[3]}),
                           {0, 3, 4, 1, 5, 2});
  return node.set(node.reshape(moved, {s[0], c, s[2] * b, s[3] * b}));
}

/// The middle of each axis that is too long, and zeros on both sides of each
/// that is too short; the smaller half comes first.
static LogicalResult centerCropPad(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0);
  auto wanted = node.constantIntegers(1);
  if (!wanted)
    return failure();
  Integers axes = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  if (auto given = node.integerList("axes"))
    axes = *given;
  if (axes.size() != wanted->size())
    return node.error("shape has " + Twine(wanted->size()) +
                      " entries, expected " + Twine(axes.size()));
  Integers low(rankOf(x), 0), high(rankOf(x), 0);
  for (auto [axis, size] : llvm::zip_equal(axes, *wanted)) {
    auto dim = node.axisWithin(axis, rankOf(x));
    if (!dim)
      return failure();
    int64_t old = shapeOf(x)[*dim];
    if (size < 0 || size > (int64_t(1) << 40))
      return node.error("size " + Twine(old) + " cannot become " + Twine(size));
    if (size <= old) {
      x = node.slice(x, *dim, (old - size) / 2, size);
      continue;
    }
    low[*dim] = (size - old) / 2;
    high[*dim] = size - old - low[*dim];
  }
  if (llvm::any_of(high, [](int64_t size) { return size > 0; }))
    x = node.make<PadOp>(
        {x}, {node.i64s("low", low), node.i64s("high", high),
              node.ops.getNamedAttr("value", node.number(0, elementOf(x)))});
  return node.set(x);
}

void kerf::onnx_import::addShapeOps(HandlerTable &table) {
  table.add("Reshape", 1, reshape);
  table.add("Flatten", 1, flatten);
  table.add("Squeeze", 1, squeeze);
  table.add("Unsqueeze", 1, unsqueeze);
  table.add("Transpose", 1, transpose);
  table.add("Concat", 1, concat);
  table.add("Split", 1, split);
  table.add("Slice", 1, slice);
  table.add("Expand", 8, expand);
  table.add("Tile", 1, tile);
  table.add("Trilu", 14, trilu);
  table.add("Pad", 1, pad);
  table.add("SpaceToDepth", 1, spaceToDepth);
  table.add("DepthToSpace", 1, depthToSpace);
  table.add("CenterCropPad", 18, centerCropPad);
}
