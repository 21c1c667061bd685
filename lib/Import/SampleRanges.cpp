//===- SampleRanges.cpp - what random elements of inputs may be -----------===//
#include "kerf/Import/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace kerf {
#define GEN_PASS_DEF_SAMPLERANGES
#include "kerf/Import/Passes.h.inc"
} // namespace kerf

using namespace kerf;
using namespace mlir;

/// The fewest rows that a gather takes which reads `value`, moved or of another
/// type, as its indices; 0 if none does. Linear in the uses.
static int64_t rowsRead(Value value) {
  int64_t rows = 0;
  llvm::SetVector<Value> moved;
  moved.insert(value);
  for (size_t at = 0; at < moved.size(); ++at)
    for (OpOperand &use : moved[at].getUses()) {
      Operation *user = use.getOwner();
      if (isa<nn::CastOp, nn::ReshapeOp, nn::TransposeOp, nn::SliceOp,
              nn::ConcatOp, nn::BroadcastOp>(user))
        moved.insert(user->getResult(0));
      auto gather = dyn_cast<nn::GatherOp>(user);
      if (!gather || use.get() != gather.getIndices())
        continue;
      int64_t size = gather.getData().getType().getDimSize(gather.getDim());
      if (size > 0)
        rows = rows ? std::min(rows, size) : size;
    }
  return rows;
}

namespace {
struct SampleRanges : kerf::impl::SampleRangesBase<SampleRanges> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : function.getArguments())
        if (auto type = dyn_cast<RankedTensorType>(argument.getType());
            type && type.getElementType().isInteger() &&
            !type.getElementType().isInteger(1))
          if (int64_t rows = rowsRead(argument))
            function.setArgAttr(
                argument.getArgNumber(), kSampleRangeAttr,
                Builder(&getContext()).getI64ArrayAttr({0, rows}));
  }
};
} // namespace
