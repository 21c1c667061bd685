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

func::FuncOp kerf::plan::entryToPlan(ModuleOp module, std::string &message,
                                     OpRules *rules) {
  func::FuncOp function = dist::findEntry(module, &message);
  if (!function)
    return {};
  std::string name = "@" + function.getName().str();
  if (!llvm::hasSingleElement(function.getBody())) {
    message =
        name + (function.isExternal() ? " has no body"
                                      : " has control flow, expected one "
                                        "block\nnote: kerf-flatten makes "
                                        "calls of structured control flow");
    return {};
  }
  for (Operation &op : function.getBody().front()) {
    if (!capturedValues(&op).empty()) {
      op.emitError("has a region that uses values from outside, expected them "
                   "to be operands: run kerf-flatten before planning");
      message = name + " cannot be planned";
      return {};
    }
    ShardingRule rule = shardingRuleOf(&op);
    if (isa<ShardingRuleInterface>(op) &&
        failed(verifyShardingRule(&op, rule))) {
      message = name + " cannot be planned";
      return {};
    }
    if (rules)
      rules->add(&op, std::move(rule));
  }
  auto isTensor = [&](Type type, Location loc, const Twine &what) {
    if (canBeCut(type))
      return true;
    emitError(loc) << what << " of @" << function.getName() << " is " << type
                   << ", expected a tensor of static shape of numbers";
    message = name + " cannot be planned";
    return false;
  };
  for (BlockArgument argument : function.getArguments())
    if (!isTensor(argument.getType(), argument.getLoc(),
                  "argument " + Twine(argument.getArgNumber())))
      return {};
  for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
    if (!isTensor(type, function.getLoc(), "result " + Twine(index)))
      return {};
  return function;
}
