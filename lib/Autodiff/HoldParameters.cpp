//===- HoldParameters.cpp - arguments that stay at the ranks --------------===//
//
// What training writes, and ranks keep from run to run, are sources. Of front
// ends that know functions alone, arguments with a mark become such.
//
//===----------------------------------------------------------------------===//
#include "HoldParameters.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

namespace kerf::autodiff {
#define GEN_PASS_DEF_HOLDPARAMETERS
#include "kerf/Autodiff/Passes.h.inc"
} // namespace kerf::autodiff

using namespace mlir;
using namespace kerf;

LogicalResult kerf::autodiff::holdParameters(func::FuncOp function) {
  Block &body = function.getBody().front();
  auto builder = OpBuilder::atBlockBegin(&body);
  // A file of their own, in which each has its place: what is in it is not
  // known, the host writes it to the ranks.
  auto module = function->getParentOfType<ModuleOp>();
  auto files = module->getAttrOfType<ArrayAttr>(kFilesAttr);
  int64_t file = files ? static_cast<int64_t>(files.size()) : 0, offset = 0;
  BitVector held(function.getNumArguments());
  for (BlockArgument argument : body.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!function.getArgAttr(index, kParameterAttr))
      continue;
    if (!canBeCut(argument.getType()))
      return emitError(argument.getLoc())
             << "parameter " << index << " of @" << function.getName() << " is "
             << argument.getType()
             << ", expected a tensor of static shape of numbers";
    auto type = cast<RankedTensorType>(argument.getType());
    int64_t length;
    if (llvm::MulOverflow(type.getNumElements(),
                          dist::elementBytes(type.getElementType()), length) ||
        llvm::AddOverflow(offset, length, offset))
      return emitError(argument.getLoc())
             << "the parameters of @" << function.getName()
             << " have more than 2^63 bytes";
    auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
    auto weight = nn::WeightOp::create(
        builder, argument.getLoc(), type,
        name ? name : builder.getStringAttr("arg" + Twine(index)),
        builder.getI64IntegerAttr(file),
        builder.getI64IntegerAttr(offset - length),
        builder.getI64IntegerAttr(length), TypeAttr::get(type),
        DenseI64ArrayAttr(), UnitAttr(), UnitAttr());
    argument.replaceAllUsesWith(weight.getResult());
    held.set(index);
  }
  return function.eraseArguments(held);
}

namespace {

struct HoldParameters : autodiff::impl::HoldParametersBase<HoldParameters> {
  void runOnOperation() override {
    func::FuncOp function = dist::findEntryOrEmit(getOperation());
    if (!function || function.isExternal() ||
        failed(autodiff::holdParameters(function)))
      signalPassFailure();
  }
};

} // namespace
