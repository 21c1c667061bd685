//===- Suppression.cpp - the best boxes that do not overlap ---------------===//
//
// NonMaxSuppression: nn.greedy_suppress chooses among the boxes of each class,
// and what is chosen is bounded (Bounds.h): as many boxes as all classes can
// have, the chosen ones first.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Indexing.h"

#include "kerf/NN/NN.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {
struct Suppression {
  int64_t batch, classes, boxes;
  Value corners; ///< [batch, boxes, 4]
  Value scores;  ///< [batch, classes, boxes]
  Value length;  ///< of boxes; null: all
  /// How many of a class: `most`, of which there are `limit`, if that is
  /// computed.
  int64_t most;
  Value limit;
};
} // namespace

/// Centre and size as corners. A size below 0 is none: no such box overlaps.
static Value cornersOf(Node &node, Value boxes) {
  Type f32 = node.ops.getF32Type();
  SmallVector<Value> low, high;
  for (int64_t axis : {1, 0}) {
    Value centre = node.slice(boxes, 2, axis, 1);
    Value size = node.slice(boxes, 2, axis + 2, 1);
    Value half = node.mul(node.make<MaxOp>({size, node.scalar(0, f32)}), 0.5);
    low.push_back(node.sub(centre, half));
    high.push_back(node.add(centre, half));
  }
  llvm::append_range(low, high);
  return llvm::is_contained(low, Value()) ? Value() : node.concat(low, 2);
}

/// An optional input of one number, in `element`.
static Value numberAt(Node &node, size_t index, Type element) {
  Value given = node.in(index);
  if (typeOf(given).getNumElements() != 1) {
    (void)node.error("input " + Twine(index) + " must be one number");
    return {};
  }
  return node.reshape(node.cast(given, element), {});
}

static std::optional<Suppression> read(Node &node) {
  Value boxes = node.in(0), scores = node.in(1);
  if (rankOf(boxes) != 3 || rankOf(scores) != 3 || shapeOf(boxes)[2] != 4 ||
      shapeOf(scores)[0] != shapeOf(boxes)[0] ||
      shapeOf(scores)[2] != shapeOf(boxes)[1]) {
    (void)node.error("expected boxes [batch, N, 4] and scores [batch, classes, "
                     "N]");
    return std::nullopt;
  }
  Suppression s;
  s.batch = shapeOf(scores)[0];
  s.classes = shapeOf(scores)[1];
  s.boxes = shapeOf(scores)[2];
  for (auto [value, dim] : {std::pair(boxes, 1), std::pair(scores, 2)})
    for (const Bound &bound : node.bounds.of(value)) {
      if (bound.dim != dim ||
          (s.length && !areSameNumber(s.length, bound.length))) {
        (void)node.unsupported("operator NonMaxSuppression of a number of "
                               "batches or classes that is known only when the "
                               "program runs",
                               "the number of boxes may be");
        return std::nullopt;
      }
      s.length = bound.length;
    }
  Type f32 = node.ops.getF32Type();
  s.scores = node.whole(node.cast(scores, f32));
  s.corners = node.whole(node.cast(boxes, f32));
  s.most = s.boxes;
  if (!node.has(2)) {
    s.most = 0;
  } else if (auto given = node.integerElements(node.in(2))) {
    if (given->size() != 1) {
      (void)node.error("max_output_boxes_per_class must be one number");
      return std::nullopt;
    }
    s.most = std::clamp<int64_t>(given->front(), 0, s.boxes);
  } else if (!(s.limit = numberAt(node, 2, node.ops.getI64Type()))) {
    return std::nullopt;
  }
  return s;
}

static LogicalResult nonMaxSuppression(Node &node) {
  if (failed(node.arity(2, 5)))
    return failure();
  int64_t isCentre = node.integer("center_point_box", 0);
  auto s = read(node);
  if (!s)
    return failure();
  if (isCentre != 0 && isCentre != 1)
    return node.error("center_point_box is " + Twine(isCentre) +
                      ", expected 0 or 1");
  Type i64 = node.ops.getI64Type(), f32 = node.ops.getF32Type();
  int64_t rows = s->batch * s->classes;
  if (rows == 0 || s->most == 0)
    return node.set(node.splat({0, 3}, 0, i64));
  if (isCentre)
    s->corners = cornersOf(node, s->corners);
  // What is no candidate has no score.
  Value none = node.scalar(std::numeric_limits<double>::quiet_NaN(), f32);
  if (node.has(4)) {
    Value least = numberAt(node, 4, f32);
    s->scores =
        node.select(node.make<LessOp>({least, s->scores}), s->scores, none);
  }
  if (s->length)
    s->scores =
        node.select(node.within(s->scores, 2, s->length), s->scores, none);
  Value threshold = node.has(3) ? numberAt(node, 3, f32) : node.scalar(0, f32);
  Value most = s->limit ? s->limit : node.scalar(double(s->most), i64);
  Value chosen = node.make<GreedySuppressOp>(
      {s->corners, s->scores, threshold, most}, {node.i64("count", s->most)});
  Value kept =
      chosen ? node.make<LessEqualOp>({node.scalar(0, i64), chosen}) : Value();
  if (!kept)
    return node.fail();
  int64_t total = rows * s->most;
  Value places = kept && chosen
                     ? placesOf(node, node.reshape(kept, {total}), total)
                     : Value();
  if (!places)
    return node.fail();
  auto number = [&](int64_t value) { return node.scalar(double(value), i64); };
  Value row = node.div(places, number(s->most));
  Value columns[] = {node.div(row, number(s->classes)),
                     node.make<RemOp>({row, number(s->classes)}),
                     node.gather(node.reshape(chosen, {total}), places, 0)};
  SmallVector<Value> parts;
  for (Value column : columns)
    parts.push_back(node.reshape(column, {shapeOf(places)[0], 1}));
  return node.set(llvm::is_contained(parts, Value()) ? Value()
                                                     : node.concat(parts, 1));
}

void kerf::onnx_import::addSuppression(HandlerTable &table) {
  table.add("NonMaxSuppression", 10, nonMaxSuppression);
}
