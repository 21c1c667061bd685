//===- Boxes.cpp - library calls on boxes ---------------------------------===//
#include "kerf/Exec/Exec.h"

#include "Assembly.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

SmallVector<Role> GreedySuppressOp::getRoles() {
  auto outer = static_cast<int64_t>(getOuter()),
       rows = static_cast<int64_t>(getRows());
  return {Role{"boxes", &getBoxesMutable(), {}, {outer, rows, 4}},
          Role{"candidates", &getCandidatesMutable(), {}, {outer, rows}},
          Role{"threshold", &getThresholdMutable(), {}, {1}},
          Role{"dst", &getDstMutable(), {}, {outer, rows}}};
}

LogicalResult GreedySuppressOp::verify() {
  // greedy_suppress C2
  for (Value number : {getBoxes(), getThreshold()})
    if (!elementType(number).isF32())
      return emitOpError("boxes and threshold are of ")
             << elementType(number) << ", expected f32";
  for (Value mask : {getCandidates(), getDst()})
    if (!elementType(mask).isInteger(1))
      return emitOpError("candidates and dst are of ")
             << elementType(mask) << ", expected i1";
  return success();
}
