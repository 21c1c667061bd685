//===- Models.cpp - interfaces of dialects that know nothing of Kerf ------===//
#include "kerf/Models/Models.h"

#include "Attach.h"

using namespace kerf;

void kerf::registerUpstreamModels(mlir::DialectRegistry &registry) {
  models::attachArith(registry);
  models::attachCalls(registry);
  models::attachCallCosts(registry);
  models::attachLinalg(registry);
  models::attachTensor(registry);
  models::attachTosa(registry);
  models::attachTosaMoves(registry);
}
