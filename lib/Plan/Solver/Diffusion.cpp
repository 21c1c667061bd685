//===- Diffusion.cpp - bounds by message passing --------------------------===//
//
// Tables are only read: what a factor has given to its nodes is kept beside it,
// as one message for each of them, and an entry is worth its value less these.
//
//===----------------------------------------------------------------------===//
#include "Diffusion.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf::plan;

template <typename V>
Diffusion<V>::Diffusion(const Model<V> &model)
    : model(model), constant(model.constant) {
  size_t numNodes = model.numNodes();
  arcs.resize(numNodes);
  choices.assign(numNodes, 0);
  for (uint32_t node = 0; node < numNodes; ++node) {
    own.push_back(model.costs(node));
    out.emplace_back(own.back().size(), 0);
  }
  for (auto [index, factor] : llvm::enumerate(model.factors)) {
    firstMessage.push_back(messages.size());
    numEntries += static_cast<double>(model.store[factor.table].values.size()) *
                  static_cast<double>(factor.scope.size());
    for (auto [axis, node] : llvm::enumerate(factor.scope)) {
      messages.emplace_back(model.numChoices(node), 0);
      arcs[node].push_back({static_cast<uint32_t>(index),
                            static_cast<uint32_t>(axis), axis > 0,
                            axis + 1 < factor.scope.size()});
    }
  }
  for (uint32_t node = 0; node < numNodes; ++node)
    for (uint32_t c = 0; c < own[node].size(); ++c)
      if (blocked(own[node][c]))
        drop(node, c);
  // Nothing may be negative from here on.
  for (uint32_t factor = 0; factor < model.factors.size(); ++factor)
    take(factor, 0);
  for (uint32_t node = 0; node < numNodes && !empty; ++node)
    settle(node);
}

template <typename V> void Diffusion<V>::settle(uint32_t node) {
  std::vector<V> &costs = own[node];
  V min = kDropped;
  for (uint32_t c = 0; c < costs.size(); ++c)
    if (!out[node][c])
      min = std::min(min, costs[c]);
  constant += min;
  for (uint32_t c = 0; c < costs.size(); ++c)
    if (!out[node][c])
      costs[c] -= min;
}

template <typename V>
void Diffusion<V>::setPrices(const std::vector<Sum> &prices) {
  Penalties<V> next = penaltiesAt(model, prices);
  constant += penalties.constant - next.constant;
  penalties.ofNode.resize(model.numNodes());
  for (uint32_t node = 0; node < model.numNodes() && !empty; ++node) {
    const std::vector<V> &before = penalties.ofNode[node];
    const std::vector<V> &after = next.ofNode[node];
    if (before == after)
      continue;
    for (uint32_t c = 0; c < own[node].size(); ++c)
      if (!out[node][c])
        own[node][c] +=
            (after.empty() ? 0 : after[c]) - (before.empty() ? 0 : before[c]);
    settle(node);
  }
  penalties = std::move(next);
}

template <typename V> void Diffusion<V>::drop(uint32_t node, uint32_t choice) {
  if (out[node][choice])
    return;
  out[node][choice] = 1;
  ++dropped;
  own[node][choice] = 0;
  for (const Arc &arc : arcs[node])
    messageOf(arc.factor, arc.axis)[choice] = -kDropped;
  empty |= !llvm::is_contained(out[node], 0);
}

template <typename V>
void Diffusion<V>::pull(uint32_t factor, uint32_t axis, std::vector<V> &out) {
  const auto &scope = model.factors[factor].scope;
  const Table<V> &table = model.store[model.factors[factor].table];
  const V *values = table.values.data();
  out.assign(table.dims[axis], 2 * kDropped);
  auto worth = [](V value, V taken) {
    return blocked(value) ? kDropped : value - taken;
  };
  if (scope.size() == 2) {
    size_t rows = table.dims[0], columns = table.dims[1];
    if (axis == 0) {
      const V *taken = messageOf(factor, 1).data();
      for (size_t a = 0; a < rows; ++a) {
        V min = kDropped;
        for (size_t b = 0; b < columns; ++b)
          min = std::min(min, worth(values[a * columns + b], taken[b]));
        out[a] = min;
      }
    } else {
      const std::vector<V> &taken = messageOf(factor, 0);
      for (size_t a = 0; a < rows; ++a)
        for (size_t b = 0; b < columns; ++b)
          out[b] = std::min(out[b], worth(values[a * columns + b], taken[a]));
    }
    return;
  }
  llvm::SmallVector<uint32_t, 4> index(scope.size(), 0);
  for (size_t entry = 0; entry < table.values.size(); ++entry) {
    V rest = blocked(values[entry]) ? kDropped : values[entry];
    for (uint32_t other = 0; other < scope.size() && !isOut(rest); ++other)
      if (other != axis)
        rest -= messageOf(factor, other)[index[other]];
    out[index[axis]] = std::min(out[index[axis]], rest);
    for (size_t i = scope.size(); i-- > 0;) {
      if (++index[i] < table.dims[i])
        break;
      index[i] = 0;
    }
  }
}

/// Moves to the node all that each of its choices costs in the factor.
template <typename V> void Diffusion<V>::take(uint32_t factor, uint32_t axis) {
  uint32_t node = model.factors[factor].scope[axis];
  pull(factor, axis, share);
  std::vector<V> &message = messageOf(factor, axis);
  for (uint32_t c = 0; c < share.size(); ++c) {
    if (out[node][c])
      continue;
    if (isOut(share[c])) {
      drop(node, c);
      continue;
    }
    own[node][c] += share[c] - message[c];
    message[c] = share[c];
  }
}

/// Given the choices of the nodes that the pass has seen.
template <typename V>
uint32_t Diffusion<V>::decode(uint32_t node, bool forward) {
  sum = own[node];
  for (const Arc &arc : arcs[node]) {
    const auto &factor = model.factors[arc.factor];
    const Table<V> &table = model.store[factor.table];
    if (forward ? arc.behind : arc.before)
      continue;
    // All others are chosen: the entry instead of the least of its row.
    size_t entry = 0, stride = 0;
    for (auto [axis, other] : llvm::enumerate(factor.scope)) {
      bool isOwn = axis == arc.axis;
      entry = entry * table.dims[axis] + (isOwn ? 0 : choices[other]);
      stride = isOwn ? 1 : stride * table.dims[axis];
    }
    const std::vector<V> &message = messageOf(arc.factor, arc.axis);
    for (uint32_t c = 0; c < sum.size(); ++c) {
      if (out[node][c])
        continue;
      V value = table.values[entry + c * stride];
      sum[c] = blocked(value) || isOut(sum[c]) ? kDropped
                                               : sum[c] - message[c] + value;
    }
  }
  uint32_t best = 0;
  bool found = false;
  for (uint32_t c = 0; c < sum.size(); ++c)
    if (!out[node][c] && (!found || sum[c] < sum[best])) {
      best = c;
      found = true;
    }
  return best;
}

template <typename V> void Diffusion<V>::pass(bool forward, V goal) {
  size_t numNodes = model.numNodes();
  model.count(WorkPiece::Visit,
              static_cast<double>(numNodes + model.factors.size()));
  model.countEntries(static_cast<size_t>(numEntries));
  for (size_t number = 0; number < numNodes && !empty; ++number) {
    auto node = static_cast<uint32_t>(forward ? number : numNodes - 1 - number);
    size_t numBefore = 0, numBehind = 0;
    for (const Arc &arc : arcs[node]) {
      take(arc.factor, arc.axis);
      numBefore += arc.before;
      numBehind += arc.behind;
    }
    std::vector<V> &costs = own[node];
    for (uint32_t c = 0; c < costs.size(); ++c)
      if (!out[node][c] && constant + costs[c] >= goal)
        drop(node, c);
    if (empty)
      return;
    settle(node);
    choices[node] = decode(node, forward);
    auto parts = static_cast<V>(std::max(numBefore, numBehind));
    if (parts == 0)
      continue;
    share.assign(costs.size(), 0);
    for (uint32_t c = 0; c < costs.size(); ++c)
      if (!out[node][c])
        share[c] = costs[c] / parts;
    for (const Arc &arc : arcs[node]) {
      if (!(forward ? arc.behind : arc.before))
        continue;
      std::vector<V> &message = messageOf(arc.factor, arc.axis);
      for (uint32_t c = 0; c < costs.size(); ++c)
        if (!out[node][c]) {
          message[c] -= share[c];
          costs[c] -= share[c];
        }
    }
  }
}

template <typename V>
std::vector<std::vector<char>> Diffusion<V>::kept() const {
  std::vector<std::vector<char>> keep = out;
  for (std::vector<char> &flags : keep)
    for (char &flag : flags)
      flag = !flag;
  return keep;
}

template class kerf::plan::Diffusion<int64_t>;
template class kerf::plan::Diffusion<Sum>;
