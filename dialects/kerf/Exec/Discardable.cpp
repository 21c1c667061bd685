//===- Discardable.cpp - exec.* on other dialects' ops --------------------===//
#include "kerf/Exec/Exec.h"

#include "kerf/Interfaces/KnownAttributes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

template <typename Attr> static bool is(Attribute attribute) {
  return isa<Attr>(attribute);
}

// As the dialect's description has them.
static constexpr KnownAttribute kKnown[] = {
    {TargetAttr::kName, OnModule, is<TargetAttr>, "an #exec.target"},
    {kMesh, OnModule, is<dist::MeshAttr>, "a #dist.mesh"},
    {kUpdateMark, OnOp, is<UnitAttr>, "a mark without a value"},
    {kStoredMark, OnOp, is<UnitAttr>, "a mark without a value"},
    {kAtLoad, OnOp, is<UnitAttr>, "a mark without a value"},
};

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  return checkKnown(op, attribute, placeOf(op), kKnown);
}

LogicalResult ExecDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned,
                                                    NamedAttribute attribute) {
  return checkKnown(op, attribute, OnArgument, kKnown);
}

LogicalResult
ExecDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                         NamedAttribute attribute) {
  return checkKnown(op, attribute, OnResult, kKnown);
}
