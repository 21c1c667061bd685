//===- MovePurpose.cpp - what a move is for -------------------------------===//
#include "kerf/Dist/MovePurpose.h"

#include "kerf/Interfaces/KerfDialect.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

PurposeAttr dist::movePurpose(Operation *producer, Operation *user) {
  for (Operation *op : {producer, user})
    if (op)
      if (PurposeAttr purpose = getPurpose(op))
        return purpose;
  if (!producer)
    return PurposeAttr();
  if (getPhase(producer) == Phase::BackwardWeight)
    return PurposeAttr::get(producer->getContext(), Purpose::Gradient);
  auto source = dyn_cast<SourceOpInterface>(producer);
  return source && source.isParameter()
             ? PurposeAttr::get(producer->getContext(), Purpose::Parameter)
             : PurposeAttr();
}
