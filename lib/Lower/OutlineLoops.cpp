//===- OutlineLoops.cpp - the bodies of loops become functions ------------===//
//
// Everything that follows works on functions of one block: a body is prepared,
// fused and given buffers as any of them. What it captures and what is a source
// (a weight, a constant) is a source of its own, so that libraries can pack it.
// Linear in the ops.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_OUTLINELOOPS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Moves sources that the loop captures into its body.
static void moveSourcesInside(nn::LoopOp loop) {
  Block &body = loop.getBlock();
  unsigned first = 1 + loop.getNumCarried();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  for (unsigned index = loop.getCaptures().size(); index-- > 0;) {
    Operation *source = loop.getCaptures()[index].getDefiningOp();
    if (!isa_and_nonnull<SourceOpInterface>(source) || isMutableSource(source))
      continue;
    BlockArgument argument = body.getArgument(first + index);
    argument.replaceAllUsesWith(builder.clone(*source)->getResult(0));
    body.eraseArgument(first + index);
    loop.getCapturesMutable().erase(index);
  }
}

/// The body as a function behind `function`.
static func::FuncOp outline(nn::LoopOp loop, func::FuncOp function,
                            SymbolTable &symbols) {
  Block &body = loop.getBlock();
  OpBuilder builder(loop);
  auto outlined = func::FuncOp::create(
      loop.getLoc(), (function.getName() + "_loop0").str(),
      builder.getFunctionType(body.getArgumentTypes(),
                              body.getTerminator()->getOperandTypes()));
  outlined.setPrivate();
  for (NamedAttribute attribute : function->getDiscardableAttrs())
    outlined->setDiscardableAttr(attribute.getName(), attribute.getValue());
  symbols.insert(outlined, std::next(function->getIterator()));
  outlined.getBody().takeBody(loop.getBody());
  Operation *yield = outlined.getBody().front().getTerminator();
  builder.setInsertionPoint(yield);
  func::ReturnOp::create(builder, yield->getLoc(), yield->getOperands());
  yield->erase();
  return outlined;
}

static void outlineLoops(func::FuncOp function, SymbolTable &symbols) {
  SmallVector<nn::LoopOp> loops(function.getBody().getOps<nn::LoopOp>());
  for (nn::LoopOp loop : loops) {
    moveSourcesInside(loop);
    SmallVector<Type> types(loop->getResultTypes());
    func::FuncOp body = outline(loop, function, symbols);
    OpBuilder builder(loop);
    auto call = exec::LoopOp::create(
        builder, loop.getLoc(), types, FlatSymbolRefAttr::get(body),
        loop.getLimitAttr(), loop.getTrip(), loop.getCondition(),
        loop.getInits(), loop.getCaptures(), ValueRange(), ValueRange());
    if (Attribute step = loop->getDiscardableAttr(dist::kStep))
      call->setDiscardableAttr(dist::kStep, step);
    loop->replaceAllUsesWith(call.getResults());
    loop->erase();
    outlineLoops(body, symbols);
  }
}

namespace {
struct OutlineLoops : kerf::impl::OutlineLoopsBase<OutlineLoops> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      if (function.isExternal())
        continue;
      auto loops = function.getBody().getOps<nn::LoopOp>();
      if (loops.empty())
        continue;
      if (!exec::TargetAttr::of(function).getRunsLoops()) {
        (*loops.begin())
            .emitOpError("is a loop whose number of iterations is "
                         "computed, which has no code for GPUs");
        return signalPassFailure();
      }
      outlineLoops(function, symbols);
    }
  }
};
} // namespace
