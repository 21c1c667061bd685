//===- Boxes.cpp - library calls on boxes ---------------------------------===//
#include "kerf/Exec/Exec.h"

#include "Assembly.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

SmallVector<Role> GreedySuppressOp::getRoles() {
  auto outer = static_cast<int64_t>(getOuter()),
       classes = static_cast<int64_t>(getClasses()),
       rows = static_cast<int64_t>(getRows()),
       count = static_cast<int64_t>(getCount());
  return {Role{"boxes", &getBoxesMutable(), {}, {outer, rows, 4}},
          Role{"scores", &getScoresMutable(), {}, {outer, classes, rows}},
          Role{"threshold", &getThresholdMutable(), {}, {1}},
          Role{"most", &getMostMutable(), {}, {1}},
          Role{"dst", &getDstMutable(), {}, {outer, classes, count}}};
}

LogicalResult GreedySuppressOp::verify() {
  // greedy_suppress C2
  for (Value number : {getBoxes(), getScores(), getThreshold()})
    if (!elementType(number).isF32())
      return emitOpError("boxes, scores and threshold are of ")
             << elementType(number) << ", expected f32";
  for (Value number : {getMost(), getDst()})
    if (!elementType(number).isInteger(64))
      return emitOpError("most and dst are of ")
             << elementType(number) << ", expected i64";
  // greedy_suppress C3
  if (getCount() > getRows())
    return emitOpError("count is ")
           << getCount() << ", expected at most rows, " << getRows();
  return success();
}
