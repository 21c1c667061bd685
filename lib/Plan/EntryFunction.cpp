//===- EntryFunction.cpp - the function that is planned -------------------===//
//
// Rules of ops are others' code: what they say is checked once, here, so that
// the search can rely on it.
//
//===----------------------------------------------------------------------===//
#include "EntryFunction.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/AnyOp.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// What is wrong with the body of a function, at the op that it is about.
static LogicalResult checkBody(func::FuncOp function) {
  if (function.isExternal())
    return emitError(function.getLoc())
           << "@" << function.getName() << " has no body";
  if (llvm::hasSingleElement(function.getBody()))
    return success();
  InFlightDiagnostic error = emitError(function.getLoc())
                             << "@" << function.getName()
                             << " has several blocks, expected one";
  error.attachNote(function.getBody().front().getTerminator()->getLoc())
      << "branches here: run lift-cf-to-scf, which makes loops and branches "
         "ops with regions, then kerf-flatten";
  return error;
}

static LogicalResult checkSignature(func::FuncOp function) {
  auto isTensor = [&](Type type, Location loc, const Twine &what) {
    if (canBeCut(type))
      return success();
    InFlightDiagnostic error = emitError(loc)
                               << what << " of @" << function.getName()
                               << " is " << type
                               << ", expected a tensor of static shape of "
                                  "numbers";
    if (type.isIntOrIndexOrFloat())
      error.attachNote() << "kerf-flatten makes numbers tensors without "
                            "dimensions";
    return LogicalResult(error);
  };
  for (BlockArgument argument : function.getArguments())
    if (failed(isTensor(argument.getType(), argument.getLoc(),
                        "argument " + Twine(argument.getArgNumber()))))
      return failure();
  for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(isTensor(type, function.getLoc(), "result " + Twine(index))))
      return failure();
  return success();
}

func::FuncOp kerf::plan::entryToPlan(ModuleOp module, OpRules *rules) {
  func::FuncOp function = dist::findEntryOrEmit(module);
  if (!function || failed(checkBody(function)))
    return {};
  for (Operation &op : function.getBody().front()) {
    if (!capturedValues(&op).empty()) {
      op.emitError("has a region that uses values from outside, expected them "
                   "to be operands: run kerf-flatten before planning");
      return {};
    }
    ShardingRule rule = shardingRuleOf(&op);
    if (isa<ShardingRuleInterface>(op) && failed(verifyShardingRule(&op, rule)))
      return {};
    if (rules)
      rules->add(&op, std::move(rule));
  }
  if (failed(checkSignature(function)))
    return {};
  return function;
}
