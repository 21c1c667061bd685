//===- Strategies.cpp - axes on factors -----------------------------------===//
#include "Strategies.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

/// Where one digit of an axis goes: onto a factor, or to a linear group through
/// which a partial sum passes. Both -1: the op is repeated over the digit.
struct Digit {
  dist::AxisRef slice;
  int factor = -1;
  int group = -1;
};

class Enumerator {
public:
  Enumerator(const ShardingRule &rule, const MeshCandidate &mesh,
             const StrategyOptions &options, LayoutTable &layouts)
      : rule(rule), mesh(mesh), options(options), layouts(layouts) {
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
      if (isMajorEverywhere(factor))
        candidates.push_back(factor);
  }

  std::vector<Strategy> run() {
    shards.assign(rule.factors.size(), 1);
    if (mesh.timeAxis && !options.isOfStep) {
      dist::AxisRef time{*mesh.timeAxis, 1, mesh.microBatches};
      if (options.sumGroup) {
        digits.push_back({time, -1, static_cast<int>(*options.sumGroup)});
      } else if (options.batchFactor) {
        digits.push_back({time, static_cast<int>(*options.batchFactor), -1});
        shards[*options.batchFactor] = mesh.microBatches;
      }
    }
    order = axesInOrder();
    visitAxis(0);
    return std::move(found);
  }

private:
  /// A factor can be sharded if it is the outermost factor (of size above 1) of
  /// each dimension that it stands in, and is not replicated.
  bool isMajorEverywhere(unsigned factor) const {
    if (rule.factors[factor].kind == FactorKind::Replicated ||
        rule.factors[factor].size == 1)
      return false;
    for (const auto *side : {&rule.operands, &rule.results})
      for (const TensorFactors &tensor : *side)
        for (const DimFactors &list : tensor)
          for (size_t i = 1; i < list.size(); ++i)
            if (list[i] == factor)
              for (size_t j = 0; j < i; ++j)
                if (rule.factors[list[j]].size != 1)
                  return false;
    return true;
  }

  /// Whether `extra` more shards fit on the factor.
  bool fits(unsigned factor, int64_t extra, AxisRole role) const {
    bool isBatch = options.batchFactor == factor;
    if ((role == AxisRole::Batch && !isBatch && !options.mayCutMore) ||
        (role == AxisRole::NonBatch && isBatch))
      return false;
    int64_t total = shards[factor] * extra;
    const Factor &info = rule.factors[factor];
    if (isBatch && options.batchSize % total != 0 &&
        (info.mustDivide || mesh.microBatches > 1))
      return false;
    if (info.size % total == 0)
      return true;
    if (info.mustDivide)
      return false;
    return isThin(factor, total, dist::localSize(info.size, total)) ||
           llvm::any_of(blockSizesOf(factor), [&](const BlockSize &blockSize) {
             return blockSize.shards == total;
           });
  }

  llvm::ArrayRef<BlockSize> blockSizesOf(unsigned factor) const {
    if (options.blockSizes.empty())
      return {};
    llvm::ArrayRef<BlockSize> sizes = options.blockSizes[factor];
    // A batch may lie in blocks of whole samples, not in those that a hint asks
    // for, which may have any padding. Units come before these.
    return options.batchFactor == factor
               ? sizes.take_while([](const BlockSize &blockSize) {
                   return blockSize.shards == 0;
                 })
               : sizes;
  }

  /// Whether `total` blocks of this size have little enough padding. A batch
  /// may have more, as long as it is filled up by less than its own size: all
  /// that a device would do otherwise is to compute it whole.
  bool isThin(unsigned factor, int64_t total, int64_t block) const {
    int64_t size = rule.factors[factor].size;
    if (options.batchFactor == factor)
      return block * total < 2 * size;
    return size >= total && static_cast<double>(block * total) <=
                                options.maxPadding * static_cast<double>(size);
  }

  /// The block sizes that are offered for a factor and its shards.
  SmallVector<int64_t, 2> blocksOf(unsigned factor) const {
    int64_t size = rule.factors[factor].size, total = shards[factor];
    int64_t min = dist::localSize(size, total);
    SmallVector<int64_t, 2> blocks;
    auto add = [&](int64_t block) {
      if (!llvm::is_contained(blocks, block))
        blocks.push_back(block);
    };
    if (blockSizesOf(factor).empty() || size % total == 0 ||
        isThin(factor, total, min))
      add(min);
    if (total == 1 || rule.factors[factor].mustDivide)
      return blocks;
    for (const BlockSize &blockSize : blockSizesOf(factor)) {
      if (blockSize.shards == total &&
          (blockSize.size == min ||
           (blockSize.size > min && blockSize.size < size)))
        add(blockSize.size);
      int64_t units = dist::localSize(size, blockSize.size);
      int64_t block = blockSize.size * dist::localSize(units, total);
      if (blockSize.shards == 0 && isThin(factor, total, block) &&
          (units >= total || options.batchFactor == factor))
        add(block);
    }
    return blocks;
  }

  /// Axes of the mesh, outermost first. Batch axes that may cut any factor come
  /// last, so that they cut the blocks that other axes leave, and an all-gather
  /// over them joins neighbouring blocks.
  std::vector<size_t> axesInOrder() const {
    std::vector<size_t> order(mesh.roles.size());
    std::iota(order.begin(), order.end(), 0);
    if (options.mayCutMore)
      std::stable_partition(order.begin(), order.end(), [&](size_t axis) {
        return mesh.roles[axis] != AxisRole::Batch;
      });
    return order;
  }

  void visitAxis(size_t number) {
    if (number == order.size()) {
      chosen.clear();
      if (!options.blockSizes.empty()) {
        chooseBlocks();
        return;
      }
      for (auto [factor, total] : llvm::enumerate(shards))
        chosen.push_back(dist::localSize(rule.factors[factor].size, total));
      emit();
      return;
    }
    size_t axis = order[number];
    if (mesh.roles[axis] == AxisRole::Fixed) {
      visitAxis(number + 1);
      return;
    }
    int64_t size = mesh.mesh.axes[axis].size;
    auto id = static_cast<unsigned>(axis);
    AxisRole role = mesh.roles[axis];
    if (role == AxisRole::Batch && options.mustCutBatch &&
        options.batchFactor &&
        llvm::is_contained(candidates, *options.batchFactor) &&
        fits(*options.batchFactor, size, role)) {
      place({{id, 1, size}, static_cast<int>(*options.batchFactor), -1},
            number);
      return;
    }
    if (role == AxisRole::Batch && options.mustCutMore && cutMore(number))
      return;
    visitAxis(number + 1);
    for (unsigned factor : candidates) {
      if (fits(factor, size, role)) {
        place({{id, 1, size}, static_cast<int>(factor), -1}, number);
        if (rule.factors[factor].size % (shards[factor] * size) == 0)
          continue;
      }
      // The largest major part that divides the rest of the factor.
      int64_t rest = rule.factors[factor].size / shards[factor];
      for (int64_t major = size / 2; major > 1; --major) {
        if (size % major != 0 || rest % major != 0 ||
            !fits(factor, major, role))
          continue;
        digits.push_back({{id, 1, major}, static_cast<int>(factor), -1});
        shards[factor] *= major;
        dist::AxisRef minor{id, major, size / major};
        visitAxis(number + 1);
        for (unsigned other : candidates)
          if (other != factor && fits(other, minor.size, role))
            place({minor, static_cast<int>(other), -1}, number);
        shards[factor] /= major;
        digits.pop_back();
        break;
      }
    }
    for (int group = 0; group < static_cast<int>(rule.linearGroups.size());
         ++group)
      if (!llvm::is_contained(options.closedGroups, unsigned(group)))
        place({{id, 1, size}, -1, group}, number);
  }

  /// Places the axis on each factor that it divides, else on each that it fits;
  /// whether there is any.
  bool cutMore(size_t number) {
    size_t axis = order[number];
    int64_t size = mesh.mesh.axes[axis].size;
    auto id = static_cast<unsigned>(axis);
    for (bool divides : {true, false}) {
      bool found = false;
      for (unsigned factor : candidates)
        if (fits(factor, size, AxisRole::Batch) &&
            (rule.factors[factor].size % (shards[factor] * size) == 0) ==
                divides) {
          place({{id, 1, size}, static_cast<int>(factor), -1}, number);
          found = true;
        }
      if (found)
        return true;
    }
    return false;
  }

  void place(const Digit &digit, size_t number) {
    digits.push_back(digit);
    if (digit.factor >= 0)
      shards[digit.factor] *= digit.slice.size;
    visitAxis(number + 1);
    if (digit.factor >= 0)
      shards[digit.factor] /= digit.slice.size;
    digits.pop_back();
  }

  /// All ways to choose a block for each factor.
  void chooseBlocks() {
    auto factor = static_cast<unsigned>(chosen.size());
    if (factor == rule.factors.size()) {
      emit();
      return;
    }
    for (int64_t block : blocksOf(factor)) {
      chosen.push_back(block);
      chooseBlocks();
      chosen.pop_back();
    }
  }

  dist::Layout layoutOf(const TensorFactors &tensor) const {
    dist::Layout layout(tensor.size());
    for (size_t dim = 0; dim < tensor.size(); ++dim) {
      std::optional<unsigned> cut;
      for (const Digit &digit : digits)
        if (digit.factor >= 0 &&
            llvm::is_contained(tensor[dim], unsigned(digit.factor))) {
          layout.dims[dim].push_back(digit.slice);
          cut = digit.factor;
        }
      if (!cut || chosen[*cut] * shards[*cut] == rule.factors[*cut].size)
        continue;
      int64_t minor = 1;
      for (unsigned factor : tensor[dim])
        minor *= factor == *cut ? 1 : rule.factors[factor].size;
      layout.setBlock(dim, rule.factors[*cut].size * minor,
                      chosen[*cut] * minor);
    }
    return layout;
  }

  /// Whether the op's reduction over this digit is meant to stay local,
  /// unsummed.
  bool staysLocal(const Digit &digit) const {
    return digit.group < 0 &&
           (options.reach == dist::ReductionReach::Device ||
            (options.reach == dist::ReductionReach::MicroBatch &&
             mesh.timeAxis == digit.slice.axis));
  }

  void emit() {
    Strategy strategy;
    std::optional<ReductionKind> reduction;
    dist::AxisList partial;
    std::optional<int> group;
    for (const Digit &digit : digits) {
      // Only one group of operands may be partial over an axis: in two groups
      // the op would multiply two sums.
      if (digit.group >= 0 && group.value_or(digit.group) != digit.group)
        return;
      if (digit.group >= 0)
        group = digit.group;
      std::optional<ReductionKind> kind;
      if (digit.group >= 0)
        kind = ReductionKind::Sum;
      else if (rule.factors[digit.factor].kind == FactorKind::Reduction)
        kind = rule.factors[digit.factor].reduction;
      if (!kind || staysLocal(digit))
        continue;
      // A partial value has one reduction, and a reduction that is not a sum
      // is resolved where it arises.
      if (reduction && *reduction != *kind)
        return;
      reduction = kind;
      partial.push_back(digit.slice);
    }
    llvm::sort(partial);
    for (const TensorFactors &tensor : rule.results) {
      dist::Layout layout = layoutOf(tensor);
      layout.partial = partial;
      layout.reduction = reduction.value_or(ReductionKind::Sum);
      layout.canonicalize();
      strategy.results.push_back(layouts.intern(layout));
    }
    for (auto [index, tensor] : llvm::enumerate(rule.operands)) {
      dist::Layout layout = layoutOf(tensor);
      for (const Digit &digit : digits)
        if (digit.group >= 0 &&
            llvm::is_contained(rule.linearGroups[digit.group], index))
          layout.partial.push_back(digit.slice);
      layout.canonicalize();
      strategy.operands.push_back(layouts.intern(layout));
    }
    std::vector<LayoutId> key(strategy.operands.begin(),
                              strategy.operands.end());
    key.insert(key.end(), strategy.results.begin(), strategy.results.end());
    if (seen.insert(key).second)
      found.push_back(std::move(strategy));
  }

  const ShardingRule &rule;
  const MeshCandidate &mesh;
  const StrategyOptions &options;
  LayoutTable &layouts;
  std::vector<unsigned> candidates;
  std::vector<int64_t> shards; ///< per factor, of the digits so far
  std::vector<int64_t> chosen; ///< per factor, its blocks
  std::vector<size_t> order;   ///< of axes
  std::vector<Digit> digits;
  std::set<std::vector<LayoutId>> seen;
  std::vector<Strategy> found;
};

} // namespace

std::vector<Strategy> kerf::plan::enumerateStrategies(
    const ShardingRule &rule, const MeshCandidate &mesh,
    const StrategyOptions &options, LayoutTable &layouts) {
  return Enumerator(rule, mesh, options, layouts).run();
}

LayoutId kerf::plan::sumOverTime(LayoutId id, const MeshCandidate &mesh,
                                 LayoutTable &layouts) {
  if (!mesh.timeAxis)
    return id;
  dist::Layout layout = layouts[id];
  layout.partial.push_back({*mesh.timeAxis, 1, mesh.microBatches});
  layout.reduction = ReductionKind::Sum;
  layout.canonicalize();
  return layouts.intern(layout);
}

std::vector<Strategy>
kerf::plan::asMadeStrategies(llvm::ArrayRef<LayoutId> made, bool sums,
                             const MeshCandidate &mesh, LayoutTable &layouts) {
  std::vector<Strategy> found;
  llvm::DenseSet<LayoutId> seen;
  for (LayoutId id : made) {
    dist::Layout layout = layouts[id];
    if (!seen.insert(id).second ||
        (layout.isPartial() && layout.reduction != ReductionKind::Sum))
      continue;
    if (sums)
      llvm::erase_if(layout.partial, [&](const dist::AxisRef &ref) {
        return mesh.timeAxis == ref.axis;
      });
    layout.canonicalize();
    Strategy &strategy = found.emplace_back();
    strategy.operands.push_back(id);
    strategy.results.push_back(layouts.intern(layout));
  }
  return found;
}

std::vector<Strategy> kerf::plan::sumInPartsStrategies(
    llvm::ArrayRef<LayoutId> made, llvm::ArrayRef<LayoutId> cut,
    const MeshCandidate &mesh, LayoutTable &layouts) {
  auto withoutBatch = [&](dist::Layout layout) {
    auto drop = [&](dist::AxisList &axes) {
      llvm::erase_if(axes, [&](const dist::AxisRef &ref) {
        return mesh.roles[ref.axis] == AxisRole::Batch;
      });
    };
    for (dist::AxisList &axes : layout.dims)
      drop(axes);
    drop(layout.partial);
    layout.canonicalize();
    return layout;
  };
  std::vector<LayoutId> taken;
  for (LayoutId id : made) {
    dist::Layout rest = withoutBatch(layouts[id]);
    size_t before = taken.size();
    for (LayoutId other : cut) {
      dist::Layout parts = layouts[other];
      if (withoutBatch(parts).dims != rest.dims)
        continue;
      parts.partial = rest.partial;
      parts.reduction = rest.reduction;
      parts.canonicalize();
      taken.push_back(layouts.intern(parts));
    }
    if (taken.size() == before)
      taken.push_back(id);
  }
  return asMadeStrategies(taken, /*sums=*/true, mesh, layouts);
}

std::vector<LayoutId> kerf::plan::enumerateLayouts(
    RankedTensorType type, std::optional<int64_t> batchDim,
    const MeshCandidate &mesh, const StrategyOptions &options,
    LayoutTable &layouts) {
  ShardingRule rule;
  rule.results.emplace_back();
  StrategyOptions local = options;
  local.batchFactor = std::nullopt;
  local.blockSizes.clear();
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    DimFactors factors;
    if (size != 1) {
      factors.push_back(rule.addFactor(size));
      if (!options.blockSizes.empty())
        local.blockSizes.push_back(options.blockSizes[dim]);
    }
    if (batchDim == static_cast<int64_t>(dim) && !factors.empty())
      local.batchFactor = factors[0];
    rule.results[0].push_back(factors);
  }
  local.isOfStep |= options.isSum;
  std::vector<LayoutId> ids;
  for (const Strategy &strategy :
       enumerateStrategies(rule, mesh, local, layouts)) {
    LayoutId id = strategy.results[0];
    ids.push_back(options.isSum ? sumOverTime(id, mesh, layouts) : id);
  }
  return ids;
}
