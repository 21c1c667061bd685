//===- Calls.cpp - rules of calls, of the loops and branches in them ------===//
//
// Problem: a call that is not inlined (kerf-flatten makes one of a loop over
// tensors) hides its ops from the planner. If every device computed the whole
// call, all its operands would have to be gathered.
//
// Idea: dimensions of values in the callee form classes that can only be cut
// together. Two dimensions are in one class if an op indexes both by one
// parallel factor; if they are the same dimension of a loop's initial value,
// carried value, yielded value and result; or of the values that two branches
// yield. A class is a factor of the call if it reaches every result and no op
// needs the whole of one of its dimensions: then nothing is communicated inside
// of the call. On local shapes the call is one of a copy of the callee that is
// built op by op.
//
// Nothing is cut if an op reads its own index (linalg.index), or if a region of
// another op uses values from outside of it. Linear in the callee.
//
//===----------------------------------------------------------------------===//
#include "Attach.h"

#include "kerf/Dist/Dist.h"

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

/// Classes of dimensions of a function's values that are cut together.
class Classes {
public:
  explicit Classes(func::FuncOp callee) {
    visit(callee.getBody().front());
    for (auto [value, first] : firsts)
      separate(value);
  }

  /// The class of a dimension; none: it is whole.
  std::optional<unsigned> find(Value value, unsigned dim) const {
    auto it = firsts.find(value);
    if (!isKnown || it == firsts.end())
      return std::nullopt;
    unsigned root = rootOf(it->second + dim);
    return whole[root] ? std::nullopt : std::optional(root);
  }
  bool mustDivide(unsigned root) const { return divides[root]; }

private:
  unsigned rootOf(unsigned id) const {
    while (parents[id] != id)
      id = parents[id] = parents[parents[id]];
    return id;
  }

  unsigned idOf(Value value, unsigned dim) {
    auto [it, isNew] =
        firsts.try_emplace(value, static_cast<unsigned>(parents.size()));
    if (isNew)
      for (int64_t i = 0; i < plannedType(value).getRank(); ++i) {
        parents.push_back(static_cast<unsigned>(parents.size()));
        whole.push_back(false);
        divides.push_back(false);
      }
    return it->second + dim;
  }

  void unite(unsigned a, unsigned b) {
    a = rootOf(a);
    b = rootOf(b);
    if (a == b)
      return;
    parents[std::max(a, b)] = std::min(a, b);
    whole[std::min(a, b)] = whole[a] || whole[b];
    divides[std::min(a, b)] = divides[a] || divides[b];
  }

  /// Two values that are one at different times.
  void unite(Value a, Value b) {
    for (int64_t dim = 0; dim < plannedType(a).getRank(); ++dim)
      unite(idOf(a, dim), idOf(b, dim));
  }

  /// A tensor is cut along one dimension of a class alone.
  void separate(Value value) {
    llvm::SmallDenseSet<unsigned> seen;
    for (int64_t dim = 0; dim < plannedType(value).getRank(); ++dim)
      if (unsigned root = rootOf(idOf(value, dim)); !seen.insert(root).second)
        whole[root] = true;
  }

  void visit(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        for (auto [init, carried, yielded, result] :
             llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                             loop.getYieldedValues(), loop.getResults())) {
          unite(carried, init);
          unite(carried, yielded);
          unite(carried, result);
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
            unite(result, yielded);
          visit(region->front());
        }
      } else {
        visit(&op);
      }
    }
  }

  void visit(Operation *op) {
    isKnown &= capturedValues(op).empty();
    ShardingRule rule = ruleInside(op);
    auto structured = dyn_cast<linalg::LinalgOp>(op);
    bool isIndexed = structured && structured.hasIndexSemantics();
    SmallVector<std::optional<unsigned>> ids(rule.factors.size());
    auto visitSide = [&](ArrayRef<TensorFactors> side, ValueRange values) {
      for (auto [tensor, value] : llvm::zip_equal(side, values))
        for (auto [dim, factors] : llvm::enumerate(tensor)) {
          unsigned id = idOf(value, dim);
          bool isWhole = factors.size() != 1 || isIndexed;
          for (unsigned number : factors) {
            const Factor &factor = rule.factors[number];
            isWhole |= factor.kind != FactorKind::Parallel;
            if (ids[number])
              unite(id, *ids[number]);
            ids[number] = id;
            unsigned root = rootOf(id);
            divides[root] = divides[root] || factor.mustDivide ||
                            !rule.paddingFills.empty();
          }
          if (isWhole)
            whole[rootOf(id)] = true;
        }
    };
    visitSide(rule.operands, op->getOperands());
    visitSide(rule.results, op->getResults());
  }

  llvm::MapVector<Value, unsigned> firsts;
  mutable std::vector<unsigned> parents;
  std::vector<bool> whole, divides;
  bool isKnown = true;
};

/// The factors of a call, and the classes that they stand for.
struct CallRule {
  CallRule(func::CallOp call, func::FuncOp callee) : classes(callee) {
    rule = replicatedShardingRule(call);
    Block &body = callee.getBody().front();
    add(rule.operands, body.getArguments(),
        body.getTerminator()->getOperands());
    add(rule.results, body.getTerminator()->getOperands(),
        body.getTerminator()->getOperands());
  }

  std::optional<unsigned> factorOf(Value value, unsigned dim) const {
    std::optional<unsigned> found = classes.find(value, dim);
    if (!found)
      return std::nullopt;
    auto it = factors.find(*found);
    return it == factors.end() ? std::nullopt : std::optional(it->second);
  }

  Classes classes;
  ShardingRule rule;

private:
  void add(SmallVectorImpl<TensorFactors> &side, ValueRange values,
           ValueRange results) {
    for (auto [tensor, value] : llvm::zip_equal(side, values))
      for (unsigned dim = 0; dim < tensor.size(); ++dim) {
        std::optional<unsigned> found = classes.find(value, dim);
        if (!found || !reaches(*found, results))
          continue;
        auto [it, isNew] = factors.try_emplace(*found, 0);
        if (isNew) {
          it->second = rule.addFactor(plannedType(value).getDimSize(dim));
          rule.factors[it->second].mustDivide = classes.mustDivide(*found);
        }
        tensor[dim] = {it->second};
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

  DenseMap<unsigned, unsigned> factors;
};

/// What an op of the callee asks, answered for the factors of the call.
class InnerContext : public LocalContext {
public:
  InnerContext(Operation *op, const ShardingRule &rule, const CallRule &call,
               LocalContext &outer)
      : rule(rule), outer(outer), outerFactors(rule.factors.size()) {
    auto visit = [&](ArrayRef<TensorFactors> side, ValueRange values) {
      for (auto [tensor, value] : llvm::zip_equal(side, values))
        for (auto [dim, factors] : llvm::enumerate(tensor))
          if (factors.size() == 1 && !outerFactors[factors[0]])
            outerFactors[factors[0]] = call.factorOf(value, dim);
    };
    visit(rule.operands, op->getOperands());
    visit(rule.results, op->getResults());
  }

  int64_t shards(unsigned factor) const override {
    return outerFactors[factor] ? outer.shards(*outerFactors[factor]) : 1;
  }
  int64_t localSize(unsigned factor) const override {
    return outerFactors[factor] ? outer.localSize(*outerFactors[factor])
                                : rule.factors[factor].size;
  }
  Value shardOffset(OpBuilder &builder, unsigned factor) override {
    if (outerFactors[factor])
      return outer.shardOffset(builder, *outerFactors[factor]);
    return dist::ShardIndexOp::create(
        builder, builder.getUnknownLoc(),
        RankedTensorType::get({}, builder.getI64Type()),
        dist::AxesAttr::get(builder.getContext(), {}), 1);
  }

private:
  const ShardingRule &rule;
  LocalContext &outer;
  SmallVector<std::optional<unsigned>> outerFactors;
};

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
  Type localType(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !canBeCut(type))
      return value.getType();
    SmallVector<int64_t> shape(type.getShape());
    for (unsigned dim = 0; dim < shape.size(); ++dim)
      if (std::optional<unsigned> factor = call.factorOf(value, dim))
        shape[dim] = context.localSize(*factor);
    return type.clone(shape);
  }

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
    InnerContext inner(op, rule, call, context);
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
