//===- Lives.cpp - from when to when buffers are needed -------------------===//
#include "Lives.h"

using namespace mlir;
using namespace kerf;

Value kerf::baseOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<exec::ViewOp>())
    buffer = view.getSource();
  return buffer;
}

Lives::Lives(exec::FuncOp function) {
  for (auto arena : function.getBody().getOps<exec::ArenaOp>())
    buffers[arena.getResult()] = {-1, -1,
                                  exec::sizeBytes(arena.getResult().getType())};
  int64_t step = 0;
  for (Operation &op : function.getBody().front()) {
    ++step;
    if (isa<exec::ViewOp, exec::ArenaOp, exec::ParamOp>(op))
      continue;
    for (Value operand : op.getOperands())
      if (isa<MemRefType>(operand.getType()))
        use(operand, step);
    if (auto wait = dyn_cast<exec::CollectiveWaitOp>(op))
      for (Value operand : wait.getEvent().getDefiningOp()->getOperands())
        use(operand, step);
  }
}

void Lives::use(Value value, int64_t step) {
  auto *it = buffers.find(baseOf(value));
  if (it == buffers.end())
    return;
  if (it->second.begin < 0)
    it->second.begin = step;
  it->second.end = step;
}
