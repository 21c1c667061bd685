//===- Calls.cpp - rules of calls, of the loops and branches in them ------===//
//
// Problem: a call that is not inlined (kerf-flatten makes one of a loop over
// tensors) hides its ops from the planner. If every device computed the whole
// call, all its operands would have to be gathered.
//
// Idea: its rule is that of the callee's body (BodyRule.h). A loop's initial
// value, carried value, yielded value and result are one, and so are the values
// that two branches yield. A class of dimensions is a factor of the call if it
// reaches every result. On local shapes the call is one of a copy of the
// callee.
//
// Nothing is cut if an op reads its own index (linalg.index), or if a region of
// another op uses values from outside of it. Linear in the callee.
//
//===----------------------------------------------------------------------===//
#include "Attach.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/BodyRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

func::FuncOp calleeOf(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  return callee && callee.getBody().hasOneBlock() ? callee : func::FuncOp();
}

/// The rule of an op of a callee. What is called there is computed whole: it
/// may call its caller.
ShardingRule ruleInside(Operation *op) {
  return isa<func::CallOp>(op) ? replicatedShardingRule(op)
                               : shardingRuleOf(op);
}

/// Classes of dimensions of a function's values.
class CalleeClasses {
public:
  static DimClasses of(func::FuncOp callee) {
    CalleeClasses own;
    own.visit(callee.getBody().front());
    own.classes.finish();
    return std::move(own.classes);
  }

private:
  void visit(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        for (auto [init, carried, yielded, result] :
             llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                             loop.getYieldedValues(), loop.getResults())) {
          classes.unite(carried, init);
          classes.unite(carried, yielded);
          classes.unite(carried, result);
        }
        visit(*loop.getBody());
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        for (Region *region :
             {&branch.getThenRegion(), &branch.getElseRegion()}) {
          if (region->empty())
            continue;
          for (auto [result, yielded] :
               llvm::zip(branch.getResults(),
                         region->front().getTerminator()->getOperands()))
            classes.unite(result, yielded);
          visit(region->front());
        }
      } else {
        visit(&op);
      }
    }
  }

  void visit(Operation *op) {
    if (!capturedValues(op).empty())
      classes.giveUp();
    auto structured = dyn_cast<linalg::LinalgOp>(op);
    classes.visit(op, ruleInside(op),
                  /*needsAll=*/structured && structured.hasIndexSemantics());
  }

  DimClasses classes;
};

/// The factors of a call, and the classes that they stand for.
struct CallRule : BodyRule {
  CallRule(func::CallOp call, func::FuncOp callee) {
    classes = CalleeClasses::of(callee);
    rule = replicatedShardingRule(call);
    Block &body = callee.getBody().front();
    add(rule.operands, body.getArguments(),
        body.getTerminator()->getOperands());
    add(rule.results, body.getTerminator()->getOperands(),
        body.getTerminator()->getOperands());
  }

private:
  void add(SmallVectorImpl<TensorFactors> &side, ValueRange values,
           ValueRange results) {
    for (auto [tensor, value] : llvm::zip_equal(side, values))
      for (unsigned dim = 0; dim < tensor.size(); ++dim) {
        std::optional<unsigned> found = classes.find(value, dim);
        if (found && reaches(*found, results))
          tensor[dim] = {addFactor(*found, value, dim)};
      }
  }

  bool reaches(unsigned root, ValueRange results) const {
    return llvm::all_of(results, [&](Value result) {
      if (!canBeCut(result.getType())) // a number, the same on every device
        return true;
      for (int64_t dim = 0; dim < plannedType(result).getRank(); ++dim)
        if (classes.find(result, dim) == root)
          return true;
      return false;
    });
  }
};

/// The offset of what is not cut.
Value makeZero(OpBuilder &builder) {
  return dist::ShardIndexOp::create(
      builder, builder.getUnknownLoc(),
      RankedTensorType::get({}, builder.getI64Type()),
      dist::AxesAttr::get(builder.getContext(), {}), 1);
}

/// Builds the local copy of a callee.
class LocalCallee {
public:
  LocalCallee(const CallRule &call, LocalContext &context)
      : call(call), context(context) {}

  FailureOr<func::FuncOp> build(func::FuncOp callee) {
    SmallVector<Type> arguments, results;
    Block &body = callee.getBody().front();
    for (Value argument : body.getArguments())
      arguments.push_back(localType(argument));
    for (Value result : body.getTerminator()->getOperands())
      results.push_back(localType(result));
    OpBuilder builder(callee->getContext());
    auto local = func::FuncOp::create(
        callee.getLoc(), (callee.getName() + "_local").str(),
        builder.getFunctionType(arguments, results));
    local.setPrivate();
    local.setNoInline(true);
    Block *block = local.addEntryBlock();
    map(body.getArguments(), block->getArguments());
    builder.setInsertionPointToEnd(block);
    if (failed(buildOps(builder, body))) {
      local.erase();
      return failure();
    }
    func::ReturnOp::create(builder, callee.getLoc(),
                           lookup(body.getTerminator()->getOperands()));
    SymbolTable(callee->getParentOp())
        .insert(local, std::next(callee->getIterator()));
    return local;
  }

private:
  Type localType(Value value) const { return call.localType(value, context); }

  void map(ValueRange from, ValueRange to) { mapping.map(from, to); }
  SmallVector<Value> lookup(ValueRange values) const {
    return llvm::map_to_vector(
        values, [&](Value value) { return mapping.lookup(value); });
  }

  LogicalResult buildOps(OpBuilder &builder, Block &block) {
    for (Operation &op : block.without_terminator()) {
      LogicalResult built = success();
      if (auto loop = dyn_cast<scf::ForOp>(op))
        built = buildLoop(builder, loop);
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        built = buildBranch(builder, branch);
      else
        built = buildOp(builder, &op);
      if (failed(built))
        return failure();
    }
    return success();
  }

  LogicalResult buildOp(OpBuilder &builder, Operation *op) {
    ShardingRule rule = ruleInside(op);
    BodyContext inner(op, rule, call, context, makeZero);
    SmallVector<Type> types;
    for (Value result : op->getResults())
      types.push_back(localType(result));
    auto results =
        buildLocalOp(op, builder, lookup(op->getOperands()), types, inner);
    if (failed(results))
      return failure();
    map(op->getResults(), *results);
    return success();
  }

  LogicalResult buildLoop(OpBuilder &builder, scf::ForOp loop) {
    auto local = scf::ForOp::create(
        builder, loop.getLoc(), mapping.lookup(loop.getLowerBound()),
        mapping.lookup(loop.getUpperBound()), mapping.lookup(loop.getStep()),
        lookup(loop.getInitArgs()));
    map(loop.getBody()->getArguments(), local.getBody()->getArguments());
    map(loop.getResults(), local.getResults());
    return buildRegion(builder, *loop.getBody(), *local.getBody());
  }

  LogicalResult buildBranch(OpBuilder &builder, scf::IfOp branch) {
    SmallVector<Type> types;
    for (Value result : branch.getResults())
      types.push_back(localType(result));
    bool hasElse = !branch.getElseRegion().empty();
    auto local = scf::IfOp::create(builder, branch.getLoc(), types,
                                   mapping.lookup(branch.getCondition()),
                                   /*addThenBlock=*/true, hasElse);
    map(branch.getResults(), local.getResults());
    if (failed(buildRegion(builder, *branch.thenBlock(), *local.thenBlock())))
      return failure();
    return hasElse
               ? buildRegion(builder, *branch.elseBlock(), *local.elseBlock())
               : success();
  }

  LogicalResult buildRegion(OpBuilder &builder, Block &from, Block &to) {
    OpBuilder::InsertionGuard guard(builder);
    to.clear();
    builder.setInsertionPointToEnd(&to);
    if (failed(buildOps(builder, from)))
      return failure();
    scf::YieldOp::create(builder, from.getTerminator()->getLoc(),
                         lookup(from.getTerminator()->getOperands()));
    return success();
  }

  const CallRule &call;
  LocalContext &context;
  IRMapping mapping;
};

struct CallModel
    : ShardingRuleInterface::ExternalModel<CallModel, func::CallOp> {
  ShardingRule getShardingRule(Operation *op) const {
    func::FuncOp callee = calleeOf(cast<func::CallOp>(op));
    return callee ? CallRule(cast<func::CallOp>(op), callee).rule
                  : replicatedShardingRule(op);
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &context) const {
    auto local = cast<func::CallOp>(cloneLocal(op, builder, operands, types));
    if (llvm::equal(op->getOperandTypes(), local->getOperandTypes()) &&
        llvm::equal(op->getResultTypes(), types))
      return SmallVector<Value>(local->getResults());
    func::FuncOp callee = calleeOf(cast<func::CallOp>(op));
    CallRule call(cast<func::CallOp>(op), callee);
    auto made = LocalCallee(call, context).build(callee);
    if (failed(made))
      return failure();
    local.setCallee(made->getName());
    return SmallVector<Value>(local->getResults());
  }
};

} // namespace

void kerf::models::attachCalls(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, func::FuncDialect *) {
    func::CallOp::attachInterface<CallModel>(*context);
  });
}
