//===- Reshard.cpp - shortest paths between layouts -----------------------===//
//
// Axes are split into atoms: the coarsest digits of which every axis reference
// of both layouts is made. A state lists the atoms of each dimension and the
// partial ones; the steps of Reshard.h are the edges, their bytes the lengths;
// Dijkstra. Atoms in a common prefix of a dimension never move (where the
// dimension divides), nor do atoms that neither layout names: with k moving
// atoms and r dimensions there are at most (r+1)^k k! states, usually < 20.
//
// Two layouts that cut an axis in incompatible ways (12 as 3 x 4 and as 4 x 3)
// have no common atoms: such an axis is first gathered, then cut again.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Reshard.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <map>
#include <queue>
#include <unordered_map>

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

StringRef dist::stringifyStepKind(StepKind kind) {
  switch (kind) {
  case StepKind::AllReduce:
    return "all_reduce";
  case StepKind::ReduceScatter:
    return "reduce_scatter";
  case StepKind::AllGather:
    return "all_gather";
  case StepKind::AllSlice:
    return "all_slice";
  case StepKind::AllToAll:
    return "all_to_all";
  case StepKind::Permute:
    return "permute";
  }
  llvm_unreachable("bad StepKind");
}

namespace {

using Wide = __int128;

int64_t saturate(Wide value) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return value > most ? most : static_cast<int64_t>(value);
}

Wide wideGroupBytes(StepKind kind, Wide n, Wide source, Wide result,
                    Wide splitSource, Wide movedPairs) {
  switch (kind) {
  case StepKind::AllReduce:
    return 2 * (n - 1) * source;
  case StepKind::ReduceScatter:
    return (n - 1) * n * result;
  case StepKind::AllGather:
    return (n - 1) * n * source;
  case StepKind::AllSlice:
    return 0;
  case StepKind::AllToAll:
    return (n - 1) * n * splitSource;
  case StepKind::Permute:
    return source * movedPairs;
  }
  llvm_unreachable("bad StepKind");
}

using AtomList = SmallVector<uint8_t, 4>;

struct State {
  SmallVector<AtomList, 4> dims;
  uint32_t partial = 0;
  /// Atoms in use by a dimension.
  uint32_t used = 0;

  std::string key() const {
    std::string result;
    for (const AtomList &atoms : dims) {
      result.append(atoms.begin(), atoms.end());
      result.push_back('\xff');
    }
    result.append(reinterpret_cast<const char *>(&partial), sizeof(partial));
    return result;
  }
};

struct Cost {
  Wide bytes = 0;
  int collectives = 0, steps = 0;
  bool operator<(const Cost &other) const {
    return std::tie(bytes, collectives, steps) <
           std::tie(other.bytes, other.collectives, other.steps);
  }
};

/// An edge of the search.
struct Move {
  StepKind kind;
  AtomList atoms;
  int64_t dim = -1, concatDim = -1;
  SmallVector<std::pair<int64_t, int64_t>, 0> pairs;
  int64_t movedPairs = 0;
};

class Search {
public:
  Search(ArrayRef<int64_t> shape, int64_t elementBytes, const Mesh &mesh,
         ReductionKind reduction)
      : shape(shape), elementBytes(elementBytes), mesh(mesh),
        reduction(reduction) {}

  /// Atoms of both layouts; false if an axis has no common ones (it is put in
  /// `conflict`) or there are more than 32.
  bool makeAtoms(const Layout &from, const Layout &to, unsigned &conflict);
  /// Appends the steps and bytes to `result`; false if there is no way.
  bool run(const Layout &from, const Layout &to, Reshard &result);

private:
  struct Node {
    State state;
    Cost cost;
    int parent = -1;
    Move move;
    bool done = false;
  };

  AtomList toAtoms(ArrayRef<AxisRef> axes) const;
  AxisList toAxes(ArrayRef<uint8_t> list) const;
  State toState(const Layout &layout) const;
  Layout toLayout(const State &state) const;
  bool fixPrefixes();

  int64_t parts(ArrayRef<uint8_t> list) const {
    int64_t result = 1;
    for (uint8_t atom : list)
      result *= atoms[atom].size;
    return result;
  }
  int64_t local(const State &state, size_t dim) const {
    return localSize(shape[dim], parts(state.dims[dim]));
  }
  Wide localBytes(const State &state) const {
    Wide bytes = elementBytes;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      bytes *= local(state, dim);
    return bytes;
  }
  bool isTime(uint8_t atom) const { return mesh.axes[atoms[atom].axis].isTime; }
  /// Whether blocks of dim cut by `outer` are made of blocks cut by both.
  bool aligned(size_t dim, int64_t outer, int64_t inner) const {
    return outer == 1 || inner * localSize(shape[dim], outer * inner) ==
                             localSize(shape[dim], outer);
  }
  bool matchBlocks(const State &from, const State &to, Move &move) const;
  Wide moveBytes(const Move &move, const State &from, const State &to,
                 ReshardStep *step) const;

  void relax(int index, Move move, State next);
  void relaxPermute(int index, State next);
  void expand(int index);
  void expandGathers(int index, size_t dim);
  void expandCuts(int index, size_t dim);
  void expandReductions(int index);
  void expandPermutes(int index);

  ArrayRef<int64_t> shape;
  int64_t elementBytes;
  const Mesh &mesh;
  ReductionKind reduction;
  SmallVector<AxisRef, 8> atoms;
  SmallVector<size_t, 4> fixed; // per dimension: atoms that never move
  State target;
  std::vector<Node> nodes;
  std::map<std::string, int> index;
  using Entry = std::tuple<Wide, int, int, int>; // cost, then node number
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
};

} // namespace

int64_t dist::groupBytes(StepKind kind, int64_t groupSize, int64_t sourceBytes,
                         int64_t resultBytes, int64_t splitSourceBytes,
                         int64_t movedPairs) {
  return saturate(wideGroupBytes(kind, groupSize, sourceBytes, resultBytes,
                                 splitSourceBytes, movedPairs));
}

//===----------------------------------------------------------------------===//
// Atoms
//===----------------------------------------------------------------------===//

bool Search::makeAtoms(const Layout &from, const Layout &to,
                       unsigned &conflict) {
  SmallVector<SmallVector<int64_t, 4>, 4> bounds(mesh.axes.size());
  auto add = [&](ArrayRef<AxisRef> axes) {
    for (const AxisRef &ref : axes) {
      bounds[ref.axis].push_back(ref.preSize);
      bounds[ref.axis].push_back(ref.preSize * ref.size);
    }
  };
  for (const Layout *layout : {&from, &to}) {
    for (const AxisList &axes : layout->dims)
      add(axes);
    add(layout->partial);
  }
  for (auto [axis, list] : enumerate(bounds)) {
    sort(list);
    list.erase(llvm::unique(list), list.end());
    for (size_t i = 1; i < list.size(); ++i) {
      if (list[i] % list[i - 1] != 0) {
        conflict = axis;
        return false;
      }
      atoms.push_back(
          {static_cast<unsigned>(axis), list[i - 1], list[i] / list[i - 1]});
    }
  }
  conflict = 0;
  return atoms.size() <= 32;
}

AtomList Search::toAtoms(ArrayRef<AxisRef> axes) const {
  AtomList result;
  for (const AxisRef &ref : axes)
    for (auto [number, atom] : enumerate(atoms))
      if (atom.axis == ref.axis && atom.preSize >= ref.preSize &&
          atom.preSize * atom.size <= ref.preSize * ref.size)
        result.push_back(number);
  return result;
}

AxisList Search::toAxes(ArrayRef<uint8_t> list) const {
  AxisList result;
  for (uint8_t atom : list)
    result.push_back(atoms[atom]);
  mergeAdjacent(result);
  return result;
}

State Search::toState(const Layout &layout) const {
  State state;
  for (const AxisList &axes : layout.dims) {
    state.dims.push_back(toAtoms(axes));
    for (uint8_t atom : state.dims.back())
      state.used |= 1u << atom;
  }
  for (uint8_t atom : toAtoms(layout.partial))
    state.partial |= 1u << atom;
  return state;
}

Layout Search::toLayout(const State &state) const {
  Layout layout;
  for (const AtomList &list : state.dims)
    layout.dims.push_back(toAxes(list));
  for (size_t atom = 0; atom < atoms.size(); ++atom)
    if (state.partial >> atom & 1)
      layout.partial.push_back(atoms[atom]);
  layout.reduction = reduction;
  layout.canonicalize();
  return layout;
}

/// What start and target have in common at the front of a dimension stays,
/// where the dimension divides or does not change at all; atoms in time always
/// stay, and must be alike (false if they are not).
bool Search::fixPrefixes() {
  const State &start = nodes[0].state;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AtomList &from = start.dims[dim], &to = target.dims[dim];
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
    fixed.push_back(divides || from == to ? common : time);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

/// For a permute: which rank of the group hands its block to which, keeping as
/// many blocks in place as possible. False if the two states are not
/// permutations of the same blocks.
bool Search::matchBlocks(const State &from, const State &to, Move &move) const {
  // Where an atom stands: (dimension, weight of its digit).
  auto places = [&](const State &state) {
    SmallVector<std::pair<int, int64_t>, 8> result(atoms.size(), {-1, 0});
    for (auto [dim, list] : enumerate(state.dims)) {
      int64_t weight = 1;
      for (uint8_t atom : reverse(list)) {
        result[atom] = {static_cast<int>(dim), weight};
        weight *= atoms[atom].size;
      }
    }
    return result;
  };
  auto before = places(from), after = places(to);
  move.atoms.clear();
  for (size_t atom = 0; atom < atoms.size(); ++atom)
    if (before[atom] != after[atom]) {
      if (isTime(atom))
        return false;
      move.atoms.push_back(atom);
    }
  int64_t size = parts(move.atoms);
  if (size > 4096)
    return false;
  auto block = [&](int64_t position, ArrayRef<std::pair<int, int64_t>> place) {
    SmallVector<int64_t, 4> result(shape.size(), 0);
    for (uint8_t atom : reverse(move.atoms)) {
      int64_t digit = position % atoms[atom].size;
      position /= atoms[atom].size;
      if (place[atom].first >= 0)
        result[place[atom].first] += digit * place[atom].second;
    }
    return result;
  };
  struct Ends {
    SmallVector<int64_t, 4> sources, targets;
  };
  std::map<SmallVector<int64_t, 4>, Ends> blocks;
  move.pairs.clear();
  for (int64_t position = 0; position < size; ++position) {
    auto held = block(position, before), wanted = block(position, after);
    if (held == wanted) {
      move.pairs.push_back({position, position});
      continue;
    }
    blocks[held].sources.push_back(position);
    blocks[wanted].targets.push_back(position);
  }
  for (const auto &[key, ends] : blocks) {
    if (ends.sources.size() != ends.targets.size())
      return false;
    for (auto [source, to] : zip(ends.sources, ends.targets))
      move.pairs.push_back({source, to});
    move.movedPairs += ends.sources.size();
  }
  sort(move.pairs);
  return true;
}

/// Bytes over the whole mesh; fills the counts of `step` if given.
Wide Search::moveBytes(const Move &move, const State &from, const State &to,
                       ReshardStep *step) const {
  Wide n = parts(move.atoms);
  Wide source = localBytes(from), result = localBytes(to), split = 0;
  if (move.kind == StepKind::AllToAll)
    split = source / std::max<int64_t>(local(from, move.dim), 1) *
            local(to, move.dim);
  Wide bytes =
      wideGroupBytes(move.kind, n, source, result, split, move.movedPairs);
  if (step) {
    step->groupSize = static_cast<int64_t>(n);
    step->groupBytes = saturate(bytes);
    switch (move.kind) {
    case StepKind::AllReduce:
      step->bufferBytes = saturate(source);
      break;
    case StepKind::ReduceScatter:
      step->bufferBytes = saturate(n * result);
      break;
    case StepKind::AllGather:
      step->bufferBytes = saturate(n * source);
      break;
    case StepKind::AllToAll:
      step->bufferBytes = saturate(n * n * split);
      break;
    case StepKind::Permute:
      step->bufferBytes = saturate(source * move.movedPairs);
      break;
    case StepKind::AllSlice:
      return 0;
    }
  }
  return move.kind == StepKind::AllSlice ? 0 : bytes * (mesh.numRanks() / n);
}

void Search::relax(int parent, Move move, State next) {
  Cost cost = nodes[parent].cost;
  cost.bytes += moveBytes(move, nodes[parent].state, next, nullptr);
  cost.collectives += move.kind != StepKind::AllSlice;
  cost.steps += 1;
  auto [it, added] = index.try_emplace(next.key(), nodes.size());
  if (added) {
    nodes.push_back({std::move(next), cost, parent, std::move(move), false});
  } else {
    Node &node = nodes[it->second];
    if (node.done || !(cost < node.cost))
      return;
    node.cost = cost;
    node.parent = parent;
    node.move = std::move(move);
  }
  queue.push({cost.bytes, cost.collectives, cost.steps, it->second});
}

/// all_gather and all_to_all of the last atoms of `dim`.
void Search::expandGathers(int at, size_t dim) {
  const State state = nodes[at].state;
  const AtomList &list = state.dims[dim];
  for (size_t keep = list.size(); keep-- > fixed[dim];) {
    ArrayRef<uint8_t> outer = ArrayRef(list).take_front(keep);
    ArrayRef<uint8_t> run = ArrayRef(list).drop_front(keep);
    if (isTime(run[0]))
      return;
    if (!aligned(dim, parts(outer), parts(run)))
      continue;
    State next = state;
    next.dims[dim].assign(outer.begin(), outer.end());
    for (uint8_t atom : run)
      next.used &= ~(1u << atom);
    relax(at,
          {StepKind::AllGather,
           AtomList(run),
           static_cast<int64_t>(dim),
           -1,
           {},
           0},
          next);
    for (size_t other = 0; other < shape.size(); ++other) {
      if (other == dim || !aligned(other, parts(state.dims[other]), parts(run)))
        continue;
      State moved = next;
      moved.dims[other].append(run.begin(), run.end());
      moved.used = state.used;
      relax(at,
            {StepKind::AllToAll,
             AtomList(run),
             static_cast<int64_t>(other),
             static_cast<int64_t>(dim),
             {},
             0},
            std::move(moved));
    }
  }
}

/// all_slice and reduce_scatter that append atoms to `dim`.
void Search::expandCuts(int at, size_t dim) {
  const State state = nodes[at].state;
  const AtomList &list = state.dims[dim];
  auto cut = [&](ArrayRef<uint8_t> run) {
    uint32_t mask = 0;
    for (uint8_t atom : run)
      mask |= 1u << atom;
    bool scatter = (mask & state.partial) == mask;
    if ((mask & state.used) || (mask & target.partial) ||
        (!scatter && (mask & state.partial)) ||
        !aligned(dim, parts(list), parts(run)))
      return;
    State next = state;
    next.dims[dim].append(run.begin(), run.end());
    next.used |= mask;
    next.partial &= ~mask;
    relax(at,
          {scatter ? StepKind::ReduceScatter : StepKind::AllSlice,
           AtomList(run),
           static_cast<int64_t>(dim),
           -1,
           {},
           0},
          std::move(next));
  };
  // The rest of the target in one step, then single atoms.
  const AtomList &goal = target.dims[dim];
  if (goal.size() > list.size() + 1 &&
      std::equal(list.begin(), list.end(), goal.begin()))
    for (size_t end = list.size() + 2; end <= goal.size(); ++end)
      cut(ArrayRef(goal).slice(list.size(), end - list.size()));
  for (size_t atom = 0; atom < atoms.size(); ++atom)
    cut({static_cast<uint8_t>(atom)});
}

void Search::expandReductions(int at) {
  const State state = nodes[at].state;
  uint32_t open = state.partial & ~target.partial;
  auto reduce = [&](uint32_t mask) {
    Move move{StepKind::AllReduce, {}, -1, -1, {}, 0};
    for (size_t atom = 0; atom < atoms.size(); ++atom)
      if (mask >> atom & 1)
        move.atoms.push_back(atom);
    State next = state;
    next.partial &= ~mask;
    relax(at, std::move(move), std::move(next));
  };
  if (!open)
    return;
  reduce(open);
  if (open & (open - 1))
    for (size_t atom = 0; atom < atoms.size(); ++atom)
      if (open >> atom & 1)
        reduce(1u << atom);
}

void Search::relaxPermute(int at, State next) {
  Move move{StepKind::Permute, {}, -1, -1, {}, 0};
  if (matchBlocks(nodes[at].state, next, move) && !move.atoms.empty())
    relax(at, std::move(move), std::move(next));
}

/// Straight to the target; another order of the atoms in a dimension; an atom
/// replaced by a free one, or exchanged with one of another dimension, of the
/// same size.
void Search::expandPermutes(int at) {
  const State state = nodes[at].state;
  bool sameShape = state.partial == target.partial;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    sameShape &= local(state, dim) == local(target, dim);
  if (sameShape)
    relaxPermute(at, target);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AtomList &list = state.dims[dim];
    size_t moving = list.size() - fixed[dim];
    if (moving >= 2 && moving <= 4) {
      State next = state;
      AtomList &order = next.dims[dim];
      std::sort(order.begin() + fixed[dim], order.end());
      do {
        if (order != list)
          relaxPermute(at, next);
      } while (std::next_permutation(order.begin() + fixed[dim], order.end()));
    }
    for (size_t i = fixed[dim]; i < list.size(); ++i) {
      uint8_t atom = list[i];
      for (uint8_t other = 0; other < atoms.size(); ++other) {
        if (other == atom || isTime(other) ||
            atoms[other].size != atoms[atom].size)
          continue;
        uint32_t bit = 1u << other;
        State next = state;
        next.dims[dim][i] = other;
        if (!(bit & (state.used | state.partial))) {
          next.used = (state.used & ~(1u << atom)) | bit;
          relaxPermute(at, std::move(next));
          continue;
        }
        for (size_t d = dim + 1; d < shape.size(); ++d)
          for (size_t j = fixed[d]; j < state.dims[d].size(); ++j)
            if (state.dims[d][j] == other) {
              next.dims[d][j] = atom;
              relaxPermute(at, next);
            }
      }
    }
  }
}

void Search::expand(int at) {
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

bool Search::run(const Layout &from, const Layout &to, Reshard &result) {
  target = toState(to);
  nodes.push_back(
      {toState(from), {}, -1, {StepKind::AllSlice, {}, -1, -1, {}, 0}, false});
  if (target.partial & ~nodes[0].state.partial)
    return false;
  if (!fixPrefixes())
    return false;
  index[nodes[0].state.key()] = 0;
  queue.push({0, 0, 0, 0});
  std::string goal = target.key();
  int found = -1;
  while (!queue.empty()) {
    int at = std::get<3>(queue.top());
    queue.pop();
    if (nodes[at].done)
      continue;
    nodes[at].done = true;
    if (nodes[at].state.key() == goal) {
      found = at;
      break;
    }
    expand(at);
  }
  if (found < 0)
    return false;
  SmallVector<int> path;
  for (int at = found; nodes[at].parent >= 0; at = nodes[at].parent)
    path.push_back(at);
  for (int at : reverse(path)) {
    const Node &node = nodes[at];
    ReshardStep step;
    step.kind = node.move.kind;
    step.axes = toAxes(node.move.atoms);
    step.dim = node.move.dim;
    step.concatDim = node.move.concatDim;
    step.reduction = reduction;
    step.pairs = node.move.pairs;
    step.layout = toLayout(node.state);
    step.localShape = step.layout.localShape(shape);
    Wide bytes =
        moveBytes(node.move, nodes[node.parent].state, node.state, &step);
    result.totalBytes = saturate(Wide(result.totalBytes) + bytes);
    result.steps.push_back(std::move(step));
  }
  return true;
}

std::optional<Reshard> dist::decomposeReshard(const Layout &from,
                                              const Layout &to,
                                              ArrayRef<int64_t> shape,
                                              int64_t elementBytes,
                                              const Mesh &mesh) {
  if (to.isPartial() && from.isPartial() && to.reduction != from.reduction)
    return std::nullopt;
  Reshard result;
  if (from == to)
    return result;
  Search search(shape, elementBytes, mesh, from.reduction);
  unsigned conflict = 0;
  if (search.makeAtoms(from, to, conflict)) {
    if (!search.run(from, to, result))
      return std::nullopt;
    return result;
  }
  // No common atoms on this axis: let go of it, then take it up again.
  Layout middle = from;
  auto drop = [&](AxisList &axes) {
    erase_if(axes, [&](const AxisRef &ref) { return ref.axis == conflict; });
  };
  for (AxisList &axes : middle.dims)
    drop(axes);
  drop(middle.partial);
  if (middle == from)
    return std::nullopt;
  auto first = decomposeReshard(from, middle, shape, elementBytes, mesh);
  auto second = decomposeReshard(middle, to, shape, elementBytes, mesh);
  if (!first || !second)
    return std::nullopt;
  first->steps.append(second->steps);
  first->totalBytes = saturate(Wide(first->totalBytes) + second->totalBytes);
  return first;
}

//===----------------------------------------------------------------------===//
// ReshardCache
//===----------------------------------------------------------------------===//

namespace {
struct Query {
  Layout from, to;
  SmallVector<int64_t, 4> shape;
  int64_t elementBytes;
  bool operator==(const Query &other) const {
    return from == other.from && to == other.to && shape == other.shape &&
           elementBytes == other.elementBytes;
  }
};
struct QueryHash {
  size_t operator()(const Query &query) const {
    return hash_combine(
        hash_value(query.from), hash_value(query.to),
        hash_combine_range(query.shape.begin(), query.shape.end()),
        query.elementBytes);
  }
};
} // namespace

struct ReshardCache::Table
    : std::unordered_map<Query, std::optional<Reshard>, QueryHash> {};

ReshardCache::ReshardCache(Mesh mesh)
    : mesh(std::move(mesh)), table(std::make_unique<Table>()) {}
ReshardCache::~ReshardCache() = default;

const Reshard *ReshardCache::get(const Layout &from, const Layout &to,
                                 ArrayRef<int64_t> shape,
                                 int64_t elementBytes) {
  Query query{from, to, SmallVector<int64_t, 4>(shape), elementBytes};
  auto [it, added] = table->try_emplace(std::move(query));
  if (added)
    it->second = decomposeReshard(from, to, shape, elementBytes, mesh);
  return it->second ? &*it->second : nullptr;
}
