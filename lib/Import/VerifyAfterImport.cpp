//===- VerifyAfterImport.cpp - import's contract --------------------------===//
//
// Checks the guarantees on which later phases rely.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_VERIFYAFTERIMPORT
#include "kerf/Import/Passes.h.inc"
} // namespace kerf

using namespace kerf;
using namespace mlir;

static LogicalResult checkInterface(func::FuncOp main) {
  FunctionType type = main.getFunctionType();
  for (unsigned index = 0; index < type.getNumInputs(); ++index) {
    if (!main.getArgAttrOfType<StringAttr>(index, kNameAttr))
      return main.emitError("argument ") << index << " has no kerf.name";
  }
  for (unsigned index = 0; index < type.getNumResults(); ++index)
    if (!main.getResultAttrOfType<StringAttr>(index, kNameAttr))
      return main.emitError("result ") << index << " has no kerf.name";
  return success();
}

static LogicalResult checkOp(Operation *op, int64_t numFiles) {
  if (!isa<func::ReturnOp, dist::AssignOp>(op) &&
      op->getName().getDialectNamespace() != "nn")
    return op->emitOpError("stands in an imported function, expected nn ops");
  for (Type type : op->getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        !tensor || !tensor.hasStaticShape())
      return op->emitOpError("has result ")
             << type << ", expected a tensor of static shape";
  if (auto weight = dyn_cast<nn::WeightOp>(op);
      weight && int64_t(weight.getFile()) >= numFiles)
    return op->emitOpError("refers to file ")
           << weight.getFile() << ", but kerf.files has " << numFiles;
  return success();
}

namespace {
struct VerifyAfterImport
    : kerf::impl::VerifyAfterImportBase<VerifyAfterImport> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || !llvm::hasSingleElement(getOperation().getOps())) {
      getOperation().emitError("expected one function, @main");
      return signalPassFailure();
    }
    auto files = getOperation()->getAttrOfType<ArrayAttr>(kFilesAttr);
    int64_t numFiles = files ? int64_t(files.size()) : 0;
    if (failed(checkInterface(main)))
      return signalPassFailure();
    for (Operation &op : main.getBody().getOps())
      if (failed(checkOp(&op, numFiles)))
        return signalPassFailure();
  }
};
} // namespace
