//===- ReshardSearch.cpp - shortest paths between layouts -----------------===//
#include "ReshardSearch.h"

#include "kerf/Support/CollectiveBytes.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

void ReshardSearch::setBlock(ReshardState &state, size_t dim,
                             int64_t block) const {
  int64_t cut = parts(state.dim(dim));
  if (cut == 1 || block == localSize(shape[dim], cut))
    block = 0;
  if (block && state.blocks.empty())
    state.blocks.resize(shape.size(), 0);
  if (state.blocks.empty())
    return;
  state.blocks[dim] = block;
  if (all_of(state.blocks, [](int64_t each) { return each == 0; }))
    state.blocks.clear();
}

/// The common prefix of start and target in a dimension stays in place, if it
/// divides the dimension or the dimension does not change at all. Atoms in time
/// always stay, and must be equal (false if they are not).
bool ReshardSearch::fixPrefixes(const ReshardState &start) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    ArrayRef<uint8_t> from = start.dim(dim), to = target.dim(dim);
    size_t common = 0, time = 0;
    while (common < from.size() && common < to.size() &&
           from[common] == to[common]) {
      ++common;
      if (isTime(from[common - 1]))
        time = common;
    }
    if (any_of(drop_begin(from, common), [&](uint8_t a) { return isTime(a); }))
      return false;
    bool divides = shape[dim] % parts(from) == 0 && shape[dim] % parts(to) == 0;
    bool hasBlocks = start.block(dim) || target.block(dim);
    // Larger blocks may be so large that leaving them on the way is cheaper.
    fixed.push_back((divides || from == to) && !hasBlocks ? common : time);
  }
  return true;
}

// Blocks with a size of their own are only made where the target has them; no
// others occur on the way.

ReshardSearch::Blocks ReshardSearch::blocksWhenCut(const ReshardState &state,
                                                   size_t dim,
                                                   int64_t inner) const {
  Blocks blocks;
  int64_t outer = parts(state.dim(dim)), held = local(state, dim);
  if (outer == 1 || inner * localSize(shape[dim], outer * inner) == held)
    blocks.push_back(0);
  int64_t wanted = target.block(dim);
  if (wanted && parts(target.dim(dim)) == outer * inner &&
      (outer == 1 || inner * wanted == held))
    blocks.push_back(wanted);
  return blocks;
}

ReshardSearch::Blocks
ReshardSearch::blocksWhenGathered(const ReshardState &state, size_t dim,
                                  int64_t outer, int64_t inner) const {
  if (outer == 1)
    return {0};
  int64_t joined = inner * local(state, dim);
  if (joined == localSize(shape[dim], outer))
    return {0};
  if (target.block(dim) == joined && parts(target.dim(dim)) == outer)
    return {joined};
  return {};
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

/// What a digit of an atom adds to the number of a block; dimensions are far
/// enough apart that their sums do not collide.
using Weights = SmallVector<int64_t, 8>;

static Weights weightsOf(const ReshardState &state, ArrayRef<int64_t> sizes) {
  Weights result(sizes.size(), 0);
  int64_t stride = 1;
  for (size_t dim = 0; dim < state.rank(); ++dim)
    for (uint8_t atom : reverse(state.dim(dim))) {
      result[atom] = stride;
      stride *= sizes[atom];
    }
  return result;
}

/// A list of atoms as a number system: the weight and the size of each digit.
/// Neighbouring digits that could be one digit of a larger size are joined, so
/// that two groups of ranks have the same blocks if their digits are equal.
static SmallVector<std::pair<int64_t, int64_t>, 8>
digitsOf(ArrayRef<uint8_t> list, const Weights &weights,
         ArrayRef<int64_t> sizes) {
  SmallVector<std::pair<int64_t, int64_t>, 8> digits;
  for (uint8_t atom : list)
    if (weights[atom] && sizes[atom] > 1)
      digits.push_back({weights[atom], sizes[atom]});
  std::sort(digits.begin(), digits.end()); // llvm::sort() allocates
  size_t last = 0;
  for (size_t next = 1; next < digits.size(); ++next) {
    if (digits[last].first * digits[last].second == digits[next].first)
      digits[last].second *= digits[next].second;
    else
      digits[++last] = digits[next];
  }
  digits.truncate(std::min(last + 1, digits.size()));
  return digits;
}

/// For a permute: the group, and how many of its ranks change their block.
/// None if the two states are not permutations of the same blocks.
std::optional<ReshardSearch::PermutedBlocks>
ReshardSearch::matchBlocks(const ReshardState &from, const ReshardState &to,
                           ReshardMove &move) const {
  Weights before = weightsOf(from, sizes), after = weightsOf(to, sizes);
  move.atoms.clear();
  for (size_t atom = 0; atom < sizes.size(); ++atom)
    if (before[atom] != after[atom]) {
      if (isTime(atom))
        return std::nullopt;
      move.atoms.push_back(atom);
    }
  int64_t size = parts(move.atoms);
  if (size > 4096 ||
      digitsOf(move.atoms, before, sizes) != digitsOf(move.atoms, after, sizes))
    return std::nullopt;
  auto number = [&](const Weights &weight) {
    SmallVector<int64_t, 64> blocks{0};
    for (uint8_t atom : move.atoms) {
      SmallVector<int64_t, 64> next;
      for (int64_t block : blocks)
        for (int64_t digit = 0; digit < sizes[atom]; ++digit)
          next.push_back(block + digit * weight[atom]);
      blocks = std::move(next);
    }
    return blocks;
  };
  PermutedBlocks blocks{number(before), number(after)};
  move.movedPairs = 0;
  for (auto [held, wanted] : zip_equal(blocks.held, blocks.wanted))
    move.movedPairs += held != wanted;
  return blocks;
}

/// Which position sends its block to which: blocks that stay first, the rest in
/// order.
static ReshardPairs pairUp(ArrayRef<int64_t> held, ArrayRef<int64_t> wanted) {
  ReshardPairs pairs;
  std::multimap<int64_t, int64_t> sources;
  for (auto [position, block] : enumerate(held))
    if (block != wanted[position])
      sources.insert({block, position});
  for (auto [position, block] : enumerate(wanted)) {
    if (block == held[position]) {
      pairs.push_back({position, position});
      continue;
    }
    auto source = sources.find(block);
    pairs.push_back({source->second, position});
    sources.erase(source);
  }
  sort(pairs);
  return pairs;
}

Wide ReshardSearch::bufferElements(const ReshardMove &move,
                                   const ReshardState &from,
                                   const ReshardState &to) const {
  Wide part = localElements(from);
  if (cuts(*move.kind))
    part = part / std::max<int64_t>(local(from, move.dim), 1) *
           local(to, move.dim);
  return fullBufferBytes(*move.kind, parts(move.atoms), part, move.movedPairs);
}

Wide ReshardSearch::elementsSent(const ReshardMove &move,
                                 const ReshardState &from,
                                 const ReshardState &to) const {
  if (!move.kind)
    return 0;
  Wide n = parts(move.atoms);
  return ringGroupBytes(*move.kind, n, bufferElements(move, from, to)) *
         (numRanks / n);
}

void ReshardSearch::relax(int parent, ReshardMove move, ReshardState next) {
  ReshardCost cost = nodes[parent].cost;
  cost.elements += elementsSent(move, nodes[parent].state, next);
  cost.collectives += move.kind.has_value();
  cost.steps += 1;
  auto [it, added] = index.try_emplace(next.key(), nodes.size());
  int at = it->second;
  if (added) {
    nodes.push_back({std::move(next), cost, parent, std::move(move)});
  } else {
    Node &node = nodes[at];
    if (node.done || !(cost < node.cost))
      return;
    node.cost = cost;
    node.parent = parent;
    node.move = std::move(move);
  }
  Node &node = nodes[at];
  Wide most = nodes[kGoal].cost.elements;
  if (cost.elements > most)
    return;
  if (node.least < 0)
    node.least = bound.minElements(node.state);
  Wide onWay = cost.elements + node.least;
  if (onWay > most)
    return;
  queue.push({onWay, cost.elements, cost.collectives, cost.steps, at});
}

/// all_gather and all_to_all of the last atoms of `dim`.
void ReshardSearch::expandGathers(int at, size_t dim) {
  const ReshardState &state = nodes[at].state;
  ArrayRef<uint8_t> list = state.dim(dim);
  for (size_t keep = list.size(); keep-- > fixed[dim];) {
    ArrayRef<uint8_t> outer = list.take_front(keep);
    ArrayRef<uint8_t> run = list.drop_front(keep);
    if (isTime(run[0]))
      return;
    Blocks joined = blocksWhenGathered(state, dim, parts(outer), parts(run));
    if (joined.empty())
      continue;
    ReshardState next = state;
    next.truncate(dim, keep);
    setBlock(next, dim, joined[0]);
    for (uint8_t atom : run)
      next.used &= ~(1u << atom);
    relax(at,
          {CollectiveKind::AllGather, AtomList(run), static_cast<int64_t>(dim),
           -1, 0},
          next);
    for (size_t other = 0; other < shape.size(); ++other) {
      if (other == dim)
        continue;
      for (int64_t block : blocksWhenCut(state, other, parts(run))) {
        ReshardState moved = next;
        moved.append(other, run);
        setBlock(moved, other, block);
        moved.used = state.used;
        relax(at,
              {CollectiveKind::AllToAll, AtomList(run),
               static_cast<int64_t>(other), static_cast<int64_t>(dim), 0},
              std::move(moved));
      }
    }
  }
}

/// all_slice and reduce_scatter that append atoms to `dim`.
void ReshardSearch::expandCuts(int at, size_t dim) {
  const ReshardState &state = nodes[at].state;
  ArrayRef<uint8_t> list = state.dim(dim);
  auto cut = [&](ArrayRef<uint8_t> run) {
    uint32_t mask = 0;
    for (uint8_t atom : run)
      mask |= 1u << atom;
    bool scatter = (mask & state.partial) == mask;
    if ((mask & state.used) || (mask & target.partial) ||
        (!scatter && (mask & state.partial)))
      return;
    for (int64_t block : blocksWhenCut(state, dim, parts(run))) {
      ReshardState next = state;
      next.append(dim, run);
      setBlock(next, dim, block);
      next.used |= mask;
      next.partial &= ~mask;
      relax(at,
            {scatter ? std::optional(CollectiveKind::ReduceScatter)
                     : std::nullopt,
             AtomList(run), static_cast<int64_t>(dim), -1, 0},
            std::move(next));
    }
  };
  // The rest of the target in one step, then single atoms.
  ArrayRef<uint8_t> goal = std::as_const(target).dim(dim);
  if (goal.size() > list.size() + 1 &&
      std::equal(list.begin(), list.end(), goal.begin()))
    for (size_t end = list.size() + 2; end <= goal.size(); ++end)
      cut(goal.slice(list.size(), end - list.size()));
  for (size_t atom = 0; atom < sizes.size(); ++atom)
    cut({static_cast<uint8_t>(atom)});
}

void ReshardSearch::expandReductions(int at) {
  const ReshardState &state = nodes[at].state;
  uint32_t open = state.partial & ~target.partial;
  auto reduce = [&](uint32_t mask) {
    ReshardMove move{CollectiveKind::AllReduce, {}, -1, -1, 0};
    for (size_t atom = 0; atom < sizes.size(); ++atom)
      if (mask >> atom & 1)
        move.atoms.push_back(atom);
    ReshardState next = state;
    next.partial &= ~mask;
    relax(at, std::move(move), std::move(next));
  };
  if (!open)
    return;
  reduce(open);
  if (open & (open - 1))
    for (size_t atom = 0; atom < sizes.size(); ++atom)
      if (open >> atom & 1)
        reduce(1u << atom);
}

void ReshardSearch::relaxPermute(int at, ReshardState next) {
  // Every way from here must move data: it cannot be better than the known one.
  if (nodes[kGoal].cost.elements <=
      nodes[at].cost.elements + localElements(nodes[at].state))
    return;
  if (auto known = index.find(next.key());
      known != index.end() && nodes[known->second].done)
    return;
  ReshardMove move{CollectiveKind::Permute, {}, -1, -1, 0};
  if (matchBlocks(nodes[at].state, next, move) && !move.atoms.empty())
    relax(at, std::move(move), std::move(next));
}

/// Straight to the target; another order of the atoms in a dimension; an atom
/// replaced by a free one, or exchanged with one of another dimension, of the
/// same size.
void ReshardSearch::expandPermutes(int at) {
  const ReshardState &state = nodes[at].state;
  bool sameShape = state.partial == target.partial;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    sameShape &= parts(state.dim(dim)) == parts(target.dim(dim)) &&
                 state.block(dim) == target.block(dim);
  if (sameShape)
    relaxPermute(at, target);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    ArrayRef<uint8_t> list = state.dim(dim);
    size_t moving = list.size() - fixed[dim];
    if (moving >= 2 && moving <= 4) {
      ReshardState next = state;
      MutableArrayRef<uint8_t> order = next.dim(dim);
      std::sort(order.begin() + fixed[dim], order.end());
      do {
        if (ArrayRef<uint8_t>(order) != list)
          relaxPermute(at, next);
      } while (std::next_permutation(order.begin() + fixed[dim], order.end()));
    }
    for (size_t i = fixed[dim]; i < list.size(); ++i) {
      uint8_t atom = list[i];
      for (uint8_t other = 0; other < sizes.size(); ++other) {
        if (other == atom || isTime(other) || sizes[other] != sizes[atom])
          continue;
        uint32_t bit = 1u << other;
        ReshardState next = state;
        next.dim(dim)[i] = other;
        if (!(bit & (state.used | state.partial))) {
          next.used = (state.used & ~(1u << atom)) | bit;
          relaxPermute(at, std::move(next));
          continue;
        }
        for (size_t d = dim + 1; d < shape.size(); ++d)
          for (size_t j = fixed[d]; j < state.dim(d).size(); ++j)
            if (state.dim(d)[j] == other) {
              next.dim(d)[j] = atom;
              relaxPermute(at, next);
            }
      }
    }
  }
}

void ReshardSearch::expand(int at) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    expandGathers(at, dim);
    expandCuts(at, dim);
  }
  expandReductions(at);
  expandPermutes(at);
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

std::optional<ReshardWay> ReshardSearch::run(const ReshardState &start) {
  ReshardWay way;
  if (target.partial & ~start.partial || !fixPrefixes(start))
    return std::nullopt;
  nodes.push_back({start, {}, -1, {}, 0});
  nodes.push_back({target, ReshardCost::infinite(), -1, {}, 0});
  index[target.key()] = kGoal;
  if (!index.try_emplace(start.key(), kStart).second)
    return way;
  queue.push({0, 0, 0, 0, kStart});
  while (!queue.empty() && !nodes[kGoal].done) {
    int at = std::get<4>(queue.top());
    queue.pop();
    if (nodes[at].done)
      continue;
    nodes[at].done = true;
    if (at != kGoal)
      expand(at);
  }
  if (!nodes[kGoal].done)
    return std::nullopt;
  SmallVector<int> path;
  for (int at = kGoal; nodes[at].parent >= 0; at = nodes[at].parent)
    path.push_back(at);
  for (int at : reverse(path)) {
    const Node &node = nodes[at];
    const ReshardState &before = nodes[node.parent].state;
    ReshardWay::Step &step = way.steps.emplace_back();
    step.move = node.move;
    step.state = node.state;
    step.groupSize = parts(node.move.atoms);
    if (node.move.kind == CollectiveKind::Permute) {
      ReshardMove move;
      auto blocks = matchBlocks(before, node.state, move);
      step.pairs = pairUp(blocks->held, blocks->wanted);
    }
    if (node.move.kind)
      step.bufferElements = bufferElements(node.move, before, node.state);
  }
  return way;
}
