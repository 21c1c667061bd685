//===- KnownAttributes.cpp - a dialect's discardable attributes -----------===//
#include "kerf/Interfaces/KnownAttributes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;

static StringRef placeName(AttributePlace place) {
  switch (place) {
  case OnModule:
    return "a module";
  case OnFunction:
    return "a function";
  case OnArgument:
    return "an argument";
  case OnResult:
    return "a result of a function";
  case OnOp:
    return "an op";
  }
  llvm_unreachable("a place");
}

AttributePlace kerf::placeOf(Operation *op) {
  return isa<ModuleOp>(op)              ? OnModule
         : isa<FunctionOpInterface>(op) ? OnFunction
                                        : OnOp;
}

LogicalResult kerf::checkKnown(Operation *op, NamedAttribute attribute,
                               AttributePlace place,
                               ArrayRef<KnownAttribute> table) {
  StringRef name = attribute.getName();
  const KnownAttribute *known = llvm::find_if(
      table, [&](const KnownAttribute &entry) { return entry.name == name; });
  if (known == table.end()) {
    InFlightDiagnostic error = op->emitError() << "unknown attribute " << name
                                               << " on " << placeName(place);
    bool first = true;
    for (const KnownAttribute &entry : table)
      if (entry.places & place) {
        error << (first ? ", expected one of " : ", ") << entry.name;
        first = false;
      }
    if (first)
      error << ", which takes none of this dialect";
    return error;
  }
  if (!(known->places & place))
    return op->emitError() << name << " has no meaning on " << placeName(place);
  if (!known->isKind(attribute.getValue()))
    return op->emitError() << name << " must be " << known->kind;
  return success();
}
