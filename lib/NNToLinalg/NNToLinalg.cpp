//===- NNToLinalg.cpp - the pass ------------------------------------------===//
//
// Each op is replaced by itself, in place. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "NNToLinalg.h"

#include "kerf/Support/NarrowTypes.h"

namespace kerf::nntolinalg {
#define GEN_PASS_DEF_NNTOLINALG
#include "kerf/NNToLinalg/Passes.h.inc"
} // namespace kerf::nntolinalg

using namespace mlir;
using namespace kerf;
using namespace kerf::nntolinalg;

/// A type of elements that arith does not compute with, or that has another
/// form in memory there (codes of 2 to 8 bits).
static Type foreignElement(Operation *op) {
  for (TypeRange types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types) {
      Type element = cast<RankedTensorType>(type).getElementType();
      bool isComputed = isa<FloatType>(element) || element.isSignlessInteger();
      if (!isComputed || isNarrow(element))
        return element;
    }
  return {};
}

namespace {
struct NNToLinalg : nntolinalg::impl::NNToLinalgBase<NNToLinalg> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa_and_nonnull<nn::NNDialect>(op->getDialect()))
        ops.push_back(op);
    });
    bool failed = false;
    for (Operation *op : ops) {
      if (Type element = foreignElement(op)) {
        op->emitError("has elements of ")
            << element << ", with which upstream's dialects do not compute";
        failed = true;
        continue;
      }
      OpBuilder builder(op);
      Results made = lowerByElement(builder, op);
      if (made.empty())
        made = lowerShape(builder, op);
      if (made.empty()) {
        op->emitError("has no form in linalg");
        failed = true;
        continue;
      }
      op->replaceAllUsesWith(made);
      op->erase();
    }
    if (failed)
      signalPassFailure();
  }
};
} // namespace
