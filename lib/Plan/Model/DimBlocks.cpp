//===- DimBlocks.cpp - block sizes of dimensions --------------------------===//
#include "DimBlocks.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// A limit on compile time; nested reshapes give few units.
static constexpr size_t kMaxBlockSizes = 6;

/// The rule of ops whose results have the layout of their operands: one factor
/// per dimension.
static ShardingRule sameShape(Operation *op) {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : shapeOf(op->getOperand(0)))
    dims.push_back(size == 1 ? DimFactors{} : DimFactors{rule.addFactor(size)});
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(op->getNumResults(), dims);
  return rule;
}

/// The factor that cuts a dimension, and the product of the minor factors
/// behind it.
static std::pair<std::optional<unsigned>, int64_t>
majorOf(const ShardingRule &rule, ArrayRef<unsigned> list) {
  std::optional<unsigned> major;
  int64_t minor = 1;
  for (unsigned factor : list)
    if (rule.factors[factor].size == 1)
      continue;
    else if (!major)
      major = factor;
    else
      minor *= rule.factors[factor].size;
  if (major && rule.factors[*major].kind == FactorKind::Replicated)
    major = std::nullopt;
  return {major, minor};
}

/// Calls `visit(value, dim, factor, minor)` for each dimension that a factor
/// cuts.
static void
forEachCut(Operation *op, const ShardingRule &rule,
           llvm::function_ref<void(Value, size_t, unsigned, int64_t)> visit) {
  auto visitAll = [&](ArrayRef<TensorFactors> sides, ValueRange values) {
    for (auto [tensor, value] : llvm::zip(sides, values))
      for (auto [dim, list] : llvm::enumerate(tensor))
        if (auto [major, minor] = majorOf(rule, list); major)
          visit(value, dim, *major, minor);
  };
  visitAll(rule.operands, op->getOperands());
  visitAll(rule.results, op->getResults());
}

DimBlocks::DimBlocks(func::FuncOp function, const OpRules &rules) {
  auto all = std::make_shared<std::vector<Node>>();
  bool any = false;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op))
      continue;
    if (isa<ShardingRuleInterface>(op))
      all->push_back({&op, rules.of(&op)});
    else if (isa<dist::AccumulateOp, dist::AssignOp>(op))
      all->push_back({&op, sameShape(&op)});
    else
      continue;
    forEachCut(&op, all->back().rule,
               [&](Value value, size_t dim, unsigned, int64_t minor) {
                 if (minor == 1)
                   return;
                 add(value, dim, {0, minor});
                 any = true;
               });
  }
  nodes = std::move(all);
  if (any)
    spread();
}

static bool insert(BlockSizes &blockSizes, BlockSize blockSize) {
  auto *at = llvm::lower_bound(blockSizes, blockSize);
  if ((at != blockSizes.end() && *at == blockSize) ||
      (blockSize.shards == 0 && blockSizes.size() >= kMaxBlockSizes))
    return false;
  blockSizes.insert(at, blockSize);
  return true;
}

void DimBlocks::add(Value value, size_t dim, BlockSize blockSize) {
  std::vector<BlockSizes> &dims = blockSizes[value];
  dims.resize(shapeOf(value).size());
  insert(dims[dim], blockSize);
}

ArrayRef<BlockSizes> DimBlocks::of(Value value) const {
  auto found = blockSizes.find(value);
  if (found == blockSizes.end())
    return {};
  return found->second;
}

std::vector<BlockSizes> DimBlocks::ofFactors(Operation *op,
                                             const ShardingRule &rule) const {
  std::vector<BlockSizes> found;
  forEachCut(op, rule,
             [&](Value value, size_t dim, unsigned factor, int64_t minor) {
               ArrayRef<BlockSizes> dims = of(value);
               if (dims.empty())
                 return;
               for (BlockSize blockSize : dims[dim]) {
                 if (blockSize.size % minor != 0)
                   continue;
                 blockSize.size /= minor;
                 if (blockSize.shards == 0 && blockSize.size == 1)
                   continue; // blocks of ceiling size are always offered
                 if (found.empty())
                   found.resize(rule.factors.size());
                 insert(found[factor], blockSize);
               }
             });
  return found;
}

bool DimBlocks::visit(const Node &node) {
  std::vector<BlockSizes> factors = ofFactors(node.op, node.rule);
  if (factors.empty())
    return false;
  bool changed = false;
  forEachCut(node.op, node.rule,
             [&](Value value, size_t dim, unsigned factor, int64_t minor) {
               for (BlockSize blockSize : factors[factor]) {
                 blockSize.size *= minor;
                 if (blockSize.size >= shapeOf(value)[dim])
                   continue;
                 std::vector<BlockSizes> &dims = blockSizes[value];
                 dims.resize(shapeOf(value).size());
                 changed |= insert(dims[dim], blockSize);
               }
             });
  return changed;
}

void DimBlocks::spread() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Node &node : *nodes)
      changed |= visit(node);
    for (const Node &node : llvm::reverse(*nodes))
      changed |= visit(node);
  }
}

bool DimBlocks::areAlike(Operation *a, Operation *b) const {
  auto equal = [&](Value x, Value y) { return of(x) == of(y); };
  return llvm::all_of(llvm::zip_equal(a->getOperands(), b->getOperands()),
                      [&](auto pair) { return std::apply(equal, pair); }) &&
         llvm::all_of(llvm::zip_equal(a->getResults(), b->getResults()),
                      [&](auto pair) { return std::apply(equal, pair); });
}
