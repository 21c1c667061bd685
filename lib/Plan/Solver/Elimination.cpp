//===- Elimination.cpp - messages, backtracking and min-marginals ---------===//
//
// The inner loop adds rows: every input is stored with the eliminated node as
// its last axis, the scope is walked in row-major order, and partial sums of
// the inputs that do not depend on the innermost axes are kept per depth. The
// minimal choices are not stored; backtracking recomputes one row per node.
//
//===----------------------------------------------------------------------===//
#include "Elimination.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <map>

using namespace kerf::plan;

/// The joint table of a step, walked row by row.
template <typename V> struct Elimination<V>::Joint {
  struct Input {
    const V *values; ///< node's axis last
    std::vector<V> transposed;
    /// Stride of each scope position (0: independent of it).
    llvm::SmallVector<size_t, 4> strides;
  };
  llvm::SmallVector<uint32_t, 4> dims; ///< of the scope
  size_t rowSize = 1, numRows = 1;
  size_t entries() const { return rowSize * numRows; }
  const V *unary = nullptr;
  std::vector<Input> inputs;
  /// atDepth[d]: inputs whose last scope position is d - 1.
  std::vector<std::vector<uint32_t>> atDepth;

  /// `own`: the node's unary costs, as far as this step counts them.
  Joint(const Elimination &elimination, const EliminationStep &step,
        const std::vector<V> &own);

  /// The row for one assignment of the scope.
  void row(llvm::ArrayRef<uint32_t> index, std::vector<V> &out) const {
    out.assign(unary, unary + rowSize);
    for (const Input &input : inputs) {
      const V *from = input.values + offset(input, index);
      for (size_t i = 0; i < rowSize; ++i)
        out[i] = addCosts(out[i], from[i]);
    }
  }

  /// visit(rowIndex, row) for all rows in order.
  template <typename Fn> void walk(Fn visit) const {
    walkUpTo(dims.size(),
             [&](size_t row, const V *sums, auto) { visit(row, sums); });
  }
  /// visit(rowIndex, least of the row). Where a single input changes from row
  /// to row, sums are not stored on the way to their minimum.
  template <typename Fn> void walkMinima(Fn visit) const;

private:
  /// visit(rowIndex, sums of the inputs up to this depth, index) for all rows.
  template <typename Fn> void walkUpTo(size_t summed, Fn visit) const;
  static size_t offset(const Input &input, llvm::ArrayRef<uint32_t> index) {
    size_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at += index[i] * input.strides[i];
    return at;
  }
};

template <typename V>
Elimination<V>::Joint::Joint(const Elimination &elimination,
                             const EliminationStep &step,
                             const std::vector<V> &own) {
  const Model<V> &model = elimination.model;
  rowSize = own.size();
  unary = own.data();
  for (uint32_t node : step.scope) {
    dims.push_back(model.numChoices(node));
    numRows *= dims.back();
  }
  atDepth.resize(dims.size() + 1);
  inputs.resize(step.inputs.size());
  for (auto [id, from] : llvm::enumerate(step.inputs)) {
    const Table<V> &table = elimination.tableOf(from);
    Input &input = inputs[id];
    // Axes ascend by node; move the eliminated one to the end.
    size_t axis =
        llvm::find(from.positions, step.scope.size()) - from.positions.begin();
    size_t outer = 1, inner = 1;
    for (size_t i = 0; i < table.dims.size(); ++i)
      (i < axis ? outer : inner) *= i == axis ? 1 : table.dims[i];
    if (inner == 1) {
      input.values = table.values.data();
    } else {
      input.transposed.resize(table.values.size());
      for (size_t o = 0; o < outer; ++o)
        for (size_t c = 0; c < rowSize; ++c)
          for (size_t i = 0; i < inner; ++i)
            input.transposed[(o * inner + i) * rowSize + c] =
                table.values[(o * rowSize + c) * inner + i];
      input.values = input.transposed.data();
    }
    input.strides.assign(dims.size(), 0);
    size_t stride = rowSize, depth = 0;
    for (size_t i = table.dims.size(); i-- > 0;) {
      if (i == axis)
        continue;
      input.strides[from.positions[i]] = stride;
      stride *= table.dims[i];
      depth = std::max<size_t>(depth, from.positions[i] + 1);
    }
    atDepth[depth].push_back(id);
  }
}

template <typename V>
template <typename Fn>
void Elimination<V>::Joint::walkUpTo(size_t summed, Fn visit) const {
  size_t depth = dims.size();
  // sums[d]: unary and all inputs of depth <= d, for the current index.
  std::vector<std::vector<V>> sums(depth + 1, std::vector<V>(rowSize));
  llvm::SmallVector<uint32_t, 4> index(depth, 0);
  auto refresh = [&](size_t d) {
    const V *below = d == 0 ? unary : sums[d - 1].data();
    V *out = sums[d].data();
    std::copy(below, below + rowSize, out);
    size_t pending = 0;
    for (uint32_t id : atDepth[d]) {
      const V *from = inputs[id].values + offset(inputs[id], index);
      for (size_t i = 0; i < rowSize; ++i)
        out[i] += from[i];
      // 64 infinities would overflow.
      if (++pending % 16 == 0)
        for (size_t i = 0; i < rowSize; ++i)
          out[i] = std::min(out[i], infinity<V>());
    }
    if (pending + d > 16)
      for (size_t i = 0; i < rowSize; ++i)
        out[i] = std::min(out[i], infinity<V>());
  };
  for (size_t d = 0; d <= summed; ++d)
    refresh(d);
  for (size_t row = 0;; ++row) {
    visit(row, sums[summed].data(), llvm::ArrayRef<uint32_t>(index));
    size_t axis = depth;
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
    for (size_t d = axis; d <= summed; ++d)
      refresh(d);
  }
}

/// The least of a + b; four at a time, which do not wait for each other.
template <typename V> static V minSum(const V *a, const V *b, size_t size) {
  V min[4] = {2 * infinity<V>(), 2 * infinity<V>(), 2 * infinity<V>(),
              2 * infinity<V>()};
  size_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (size_t lane = 0; lane < 4; ++lane)
      min[lane] = std::min(min[lane], a[i + lane] + b[i + lane]);
  for (; i < size; ++i)
    min[0] = std::min(min[0], a[i] + b[i]);
  return std::min(std::min(min[0], min[1]), std::min(min[2], min[3]));
}

template <typename V>
template <typename Fn>
void Elimination<V>::Joint::walkMinima(Fn visit) const {
  size_t depth = dims.size();
  if (depth == 0 || atDepth[depth].size() != 1) {
    walk([&](size_t row, const V *values) {
      visit(row, *std::min_element(values, values + rowSize));
    });
    return;
  }
  const Input &last = inputs[atDepth[depth][0]];
  walkUpTo(depth - 1, [&](size_t row, const V *sums,
                          llvm::ArrayRef<uint32_t> index) {
    visit(row, minSum(sums, last.values + offset(last, index), rowSize));
  });
}

/// Computes the message of a step whose node has the costs `own`.
template <typename V>
void Elimination<V>::runStep(size_t index, const Table<V> &own) {
  ++computed;
  Joint joint(*this, order.steps[index], own.values);
  Table<V> message;
  message.dims.assign(joint.dims.begin(), joint.dims.end());
  message.values.resize(joint.numRows);
  V min = infinity<V>();
  model.count(WorkPiece::Step, 1);
  model.countEntries(joint.entries() *
                     std::max<size_t>(joint.atDepth.back().size(), 1));
  joint.walkMinima([&](size_t row, V best) {
    message.values[row] = clampBlocked(best);
    min = std::min(min, best);
  });
  // Stored relative to its minimum: such messages are equal more often.
  offsets[index] = clampBlocked(min);
  if (min != 0 && !blocked(min))
    for (V &value : message.values)
      if (!blocked(value))
        value -= min;
  messages[index] = model.store.intern(std::move(message));
}

/// Distributes the costs of a split node over its copies so that all see the
/// same min-marginals. The shares never add up to more than the costs.
template <typename V> void Elimination<V>::runGroup(size_t first) {
  const EliminationStep &head = order.steps[first];
  size_t count = head.groupSize;
  const Table<V> &own = model.store[unary[head.node]];
  size_t choices = own.values.size();
  std::vector<std::vector<V>> seen(count, std::vector<V>(choices));
  const std::vector<V> nothing(choices, 0);
  for (size_t copy = 0; copy < count; ++copy) {
    Joint joint(*this, order.steps[first + copy],
                copy == 0 ? own.values : nothing);
    model.countEntries(2 * joint.entries());
    std::vector<V> &marginal = seen[copy];
    marginal.assign(choices, infinity<V>());
    joint.walk([&](size_t, const V *values) {
      for (size_t i = 0; i < choices; ++i)
        marginal[i] = std::min(marginal[i], values[i]);
    });
  }
  for (size_t c = 0; c < choices; ++c) {
    V sum = 0;
    for (size_t copy = 0; copy < count; ++copy)
      sum = addCosts<V>(sum, seen[copy][c]);
    V mean = sum / static_cast<V>(count);
    if (sum < 0 && sum % static_cast<V>(count) != 0)
      --mean;
    for (size_t copy = 0; copy < count; ++copy) {
      V base = copy == 0 ? own.values[c] : 0;
      seen[copy][c] =
          blocked(sum) ? infinity<V>() : base + (mean - seen[copy][c]);
    }
  }
  for (size_t copy = 0; copy < count; ++copy) {
    Table<V> share;
    share.values = std::move(seen[copy]);
    runStep(first + copy, share);
  }
}

template <typename V> V Elimination<V>::run(llvm::ArrayRef<TableId> unaries) {
  unary.assign(unaries.begin(), unaries.end());
  messages.assign(order.steps.size(), 0);
  offsets.assign(order.steps.size(), 0);
  total = model.constant;
  // What a step depends on -> the step that had it first.
  std::map<std::vector<uint32_t>, size_t> known;
  model.count(WorkPiece::Step, static_cast<double>(order.steps.size()));
  for (size_t index = 0; index < order.steps.size(); ++index) {
    const EliminationStep &step = order.steps[index];
    if (step.groupSize != 1) {
      runGroup(index);
      for (size_t copy = 0; copy < step.groupSize; ++copy)
        total = addCosts(total, offsets[index + copy]);
      index += step.groupSize - 1;
      continue;
    }
    std::vector<uint32_t> key = {unary[step.node],
                                 static_cast<uint32_t>(step.scope.size())};
    for (const EliminationStep::Input &input : step.inputs) {
      key.push_back(input.isMessage ? messages[input.index]
                                    : model.factors[input.index].table);
      key.insert(key.end(), input.positions.begin(), input.positions.end());
    }
    auto [it, isNew] = known.try_emplace(std::move(key), index);
    if (isNew) {
      runStep(index, model.store[unary[step.node]]);
    } else {
      messages[index] = messages[it->second];
      offsets[index] = offsets[it->second];
      ++reused;
    }
    total = addCosts(total, offsets[index]);
  }
  return total;
}

template <typename V> std::vector<uint32_t> Elimination<V>::backtrack() const {
  return backtrack([](const std::vector<V> &row) -> uint32_t {
    return llvm::min_element(row) - row.begin();
  });
}

template <typename V>
std::vector<uint32_t> Elimination<V>::backtrack(
    llvm::function_ref<uint32_t(const std::vector<V> &)> pick) const {
  std::vector<uint32_t> choices(model.numNodes(), 0);
  std::vector<V> row;
  for (const EliminationStep &step : llvm::reverse(order.steps)) {
    // The steps of a split node come together, its head last.
    if (row.empty())
      row = model.store[unary[step.node]].values;
    for (const EliminationStep::Input &input : step.inputs) {
      const Table<V> &table = tableOf(input);
      size_t at = 0, stride = 0, running = 1;
      for (size_t i = table.dims.size(); i-- > 0;) {
        if (input.positions[i] == step.scope.size())
          stride = running;
        else
          at += choices[step.scope[input.positions[i]]] * running;
        running *= table.dims[i];
      }
      for (size_t c = 0; c < row.size(); ++c)
        row[c] = addCosts(row[c], table.values[at + c * stride]);
    }
    if (step.groupSize == 0)
      continue;
    choices[step.node] = pick(row);
    row.clear();
  }
  return choices;
}

template <typename V>
typename Elimination<V>::Marginals Elimination<V>::marginals() const {
  Marginals result;
  result.ofNode.resize(model.numNodes());
  result.completions.resize(order.steps.size());
  // The completion of a message is the cost of everything outside of it:
  // message + completion is the cost of a whole solution. Joint rows include
  // the offset of their step, messages do not.
  for (size_t index = order.steps.size(); index-- > 0;) {
    const EliminationStep &step = order.steps[index];
    Joint joint(*this, step, model.store[unary[step.node]].values);
    std::vector<V> &down = result.completions[index];
    if (step.scope.empty())
      down.assign(1, total);
    assert(down.size() == joint.numRows && "completed by its consumer");
    std::vector<V> &own = result.ofNode[step.node];
    own.assign(joint.rowSize, infinity<V>());
    std::vector<const EliminationStep::Input *> fed;
    std::vector<llvm::SmallVector<size_t, 4>> strides;
    std::vector<size_t> nodeStrides;
    for (const EliminationStep::Input &input : step.inputs) {
      if (!input.isMessage)
        continue;
      const Table<V> &table = messageOf(input.index);
      llvm::SmallVector<size_t, 4> scopeStrides(step.scope.size(), 0);
      size_t running = 1, nodeStride = 0;
      for (size_t i = table.dims.size(); i-- > 0;) {
        if (input.positions[i] == step.scope.size())
          nodeStride = running;
        else
          scopeStrides[input.positions[i]] = running;
        running *= table.dims[i];
      }
      fed.push_back(&input);
      strides.push_back(scopeStrides);
      nodeStrides.push_back(nodeStride);
      result.completions[input.index].assign(table.values.size(),
                                             infinity<V>());
    }
    llvm::SmallVector<uint32_t, 4> index4(step.scope.size(), 0);
    model.count(WorkPiece::Step, 1);
    model.countEntries(joint.entries() * (2 + 2 * fed.size()));
    joint.walk([&](size_t row, const V *values) {
      for (size_t c = 0; c < joint.rowSize; ++c) {
        if (blocked(values[c]) || blocked(down[row]))
          continue;
        V all = values[c] + (down[row] - offsets[index]);
        own[c] = std::min(own[c], all);
        for (size_t m = 0; m < fed.size(); ++m) {
          size_t at = c * nodeStrides[m];
          for (size_t i = 0; i < index4.size(); ++i)
            at += index4[i] * strides[m][i];
          const V part = messageOf(fed[m]->index).values[at];
          V &entry = result.completions[fed[m]->index][at];
          entry = std::min(entry, all - part);
        }
      }
      for (size_t axis = index4.size(); axis-- > 0;) {
        if (++index4[axis] < joint.dims[axis])
          break;
        index4[axis] = 0;
      }
    });
  }
  return result;
}

template class kerf::plan::Elimination<int64_t>;
template class kerf::plan::Elimination<Sum>;
