//===- Target.cpp - the properties of devices -----------------------------===//
#include "kerf/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Device, bool, bool, int64_t rowBytes) {
  if (rowBytes < 1 || !llvm::isPowerOf2_64(rowBytes))
    return emitError() << "row_bytes is " << rowBytes
                       << ", expected a power of two";
  return success();
}

TargetAttr TargetAttr::cpu(MLIRContext *context) {
  return get(context, Device::Cpu, /*half_products=*/false,
             /*memory_bound=*/false, /*row_bytes=*/1);
}

TargetAttr TargetAttr::cuda(MLIRContext *context) {
  return get(context, Device::Cuda, /*half_products=*/true,
             /*memory_bound=*/true, /*row_bytes=*/16);
}

TargetAttr TargetAttr::of(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto target = op->getAttrOfType<TargetAttr>(kName))
      return target;
    else if (!op->getParentOp())
      return cpu(op->getContext());
  return {};
}

dist::MeshAttr kerf::exec::getMesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<dist::MeshAttr>(kMesh)
                : dist::MeshAttr();
}

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kUpdateMark || name == kStoredMark || name == kAtLoad) {
    if (!isa<UnitAttr>(attribute.getValue()))
      return op->emitError() << name << " is a mark and has no value";
    return success();
  }
  bool known =
      (name == TargetAttr::kName && isa<TargetAttr>(attribute.getValue())) ||
      (name == kMesh && isa<dist::MeshAttr>(attribute.getValue()));
  if (!known || !isa<ModuleOp>(op))
    return op->emitError() << name << " = " << attribute.getValue()
                           << " has no meaning here";
  return success();
}
