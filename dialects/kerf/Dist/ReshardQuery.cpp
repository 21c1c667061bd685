//===- ReshardQuery.cpp - what a way between layouts depends on -----------===//
#include "ReshardQuery.h"

#include "kerf/Support/CollectiveBytes.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

std::string ReshardQuery::key() const {
  std::string result;
  auto append = [&](const void *bytes, size_t size) {
    result.append(static_cast<const char *>(bytes), size);
  };
  const size_t numbers[] = {shape.size(), sizes.size(), time};
  append(numbers, sizeof(numbers));
  append(shape.data(), shape.size() * sizeof(int64_t));
  append(sizes.data(), sizes.size() * sizeof(int64_t));
  for (const ReshardState *state : {&from, &to}) {
    auto key = state->key();
    size_t size = key.size();
    append(&size, sizeof(size));
    append(key.data(), size);
  }
  return result;
}

std::optional<AxisList> dist::commonAtoms(const Layout &from, const Layout &to,
                                          const Mesh &mesh,
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
  AxisList atoms;
  for (auto [axis, list] : enumerate(bounds)) {
    sort(list);
    list.erase(llvm::unique(list), list.end());
    for (size_t i = 1; i < list.size(); ++i) {
      if (list[i] % list[i - 1] != 0) {
        conflict = axis;
        return std::nullopt;
      }
      atoms.push_back(
          {static_cast<unsigned>(axis), list[i - 1], list[i] / list[i - 1]});
    }
  }
  return atoms;
}

static AtomList toAtoms(ArrayRef<AxisRef> axes, ArrayRef<AxisRef> atoms) {
  AtomList result;
  for (const AxisRef &ref : axes)
    for (auto [number, atom] : enumerate(atoms))
      if (atom.axis == ref.axis && atom.preSize >= ref.preSize &&
          atom.preSize * atom.size <= ref.preSize * ref.size)
        result.push_back(number);
  return result;
}

int64_t NormalForm::parts(ArrayRef<uint8_t> list) const {
  int64_t result = 1;
  for (uint8_t atom : list)
    result *= atoms[atom].size;
  return result;
}

AxisList NormalForm::axesOf(ArrayRef<uint8_t> list) const {
  AxisList result;
  for (uint8_t atom : list)
    result.push_back(atoms[atom]);
  mergeAdjacent(result);
  return result;
}

void NormalForm::dropFixed(Dim &dim) const {
  if (dim.size % parts(dim.from) != 0 || dim.size % parts(dim.to) != 0)
    return;
  size_t common = 0;
  while (common < dim.from.size() && common < dim.to.size() &&
         dim.from[common] == dim.to[common])
    ++common;
  ArrayRef<uint8_t> front = ArrayRef<uint8_t>(dim.from).take_front(common);
  for (uint8_t atom : front)
    dim.fixed.push_back(atoms[atom]);
  dim.size /= parts(front);
  for (AtomList *list : {&dim.from, &dim.to})
    list->erase(list->begin(), list->begin() + common);
}

/// `block`, or 0 where it is what `parts` parts have anyway.
static int64_t ownBlock(int64_t block, int64_t size, int64_t parts) {
  return parts == 1 || block == localSize(size, parts) ? 0 : block;
}

NormalForm::NormalForm(const Layout &from, const Layout &to,
                       ArrayRef<int64_t> shape, const Mesh &mesh,
                       ArrayRef<AxisRef> common)
    : shape(shape), mesh(mesh), reduction(from.reduction), atoms(common) {
  SmallVector<Dim, 4> whole;
  SmallVector<bool, 32> named(atoms.size(), false);
  auto name = [&](ArrayRef<uint8_t> list) {
    for (uint8_t atom : list)
      named[atom] = true;
  };
  for (size_t number = 0; number < shape.size(); ++number) {
    Dim dim{static_cast<unsigned>(number),
            shape[number],
            {},
            toAtoms(from.dims[number], atoms),
            toAtoms(to.dims[number], atoms)};
    dim.heldBlock = ownBlock(from.block(number), dim.size, parts(dim.from));
    dim.wantedBlock = ownBlock(to.block(number), dim.size, parts(dim.to));
    if (!dim.hasBlocks())
      dropFixed(dim);
    name(dim.from);
    name(dim.to);
    whole.push_back(std::move(dim));
  }
  AtomList open = toAtoms(from.partial, atoms),
           stays = toAtoms(to.partial, atoms);
  name(open);
  name(stays);
  // The atoms that are left, in their order.
  SmallVector<uint8_t, 32> newNumber(atoms.size());
  AxisList left;
  for (auto [atom, isNamed] : enumerate(named))
    if (isNamed) {
      newNumber[atom] = left.size();
      left.push_back(atoms[atom]);
    }
  auto renumber = [&](AtomList &list) {
    for (uint8_t &atom : list)
      atom = newNumber[atom];
  };
  atoms = std::move(left);
  renumber(open);
  renumber(stays);
  Wide all = 1;
  for (auto [number, atom] : enumerate(atoms)) {
    query.sizes.push_back(atom.size);
    all *= atom.size;
    if (fits() && mesh.axes[atom.axis].isTime)
      query.time |= 1u << number;
  }
  if (!fits())
    return;
  for (Dim &dim : whole) {
    renumber(dim.from);
    renumber(dim.to);
    if (!dim.hasBlocks() && dim.size % all == 0) {
      scale *= dim.size / static_cast<int64_t>(all);
      dim.size = static_cast<int64_t>(all);
    }
    bool isOne = dim.size == 1 && dim.from.empty() && dim.to.empty();
    (isOne ? ones : dims).push_back(std::move(dim));
  }
  llvm::stable_sort(dims, [](const Dim &a, const Dim &b) {
    return std::tie(a.size, a.from, a.to, a.heldBlock, a.wantedBlock) <
           std::tie(b.size, b.from, b.to, b.heldBlock, b.wantedBlock);
  });
  for (const Dim &dim : dims) {
    query.shape.push_back(dim.size);
    query.from.addDim(dim.from);
    query.to.addDim(dim.to);
  }
  auto finish = [&](ReshardState &state, int64_t Dim::*block,
                    ArrayRef<uint8_t> partial) {
    for (size_t dim = 0; dim < dims.size(); ++dim)
      for (uint8_t atom : std::as_const(state).dim(dim))
        state.used |= 1u << atom;
    for (uint8_t atom : partial)
      state.partial |= 1u << atom;
    if (any_of(dims, [&](const Dim &dim) { return dim.*block != 0; }))
      for (const Dim &dim : dims)
        state.blocks.push_back(dim.*block);
  };
  finish(query.from, &Dim::heldBlock, open);
  finish(query.to, &Dim::wantedBlock, stays);
}

Layout NormalForm::layoutOf(const ReshardState &state) const {
  Layout layout(shape.size());
  if (!state.blocks.empty())
    layout.blocks.assign(shape.size(), 0);
  for (const Dim &dim : ones)
    layout.dims[dim.number] = dim.fixed;
  for (auto [at, dim] : enumerate(dims)) {
    AxisList &axes = layout.dims[dim.number];
    axes = dim.fixed;
    for (uint8_t atom : state.dim(at))
      axes.push_back(atoms[atom]);
    if (!state.blocks.empty())
      layout.blocks[dim.number] = state.blocks[at];
  }
  for (size_t atom = 0; atom < atoms.size(); ++atom)
    if (state.partial >> atom & 1)
      layout.partial.push_back(atoms[atom]);
  layout.reduction = reduction;
  layout.canonicalize();
  return layout;
}

Reshard NormalForm::describe(const ReshardWay &way,
                             int64_t elementBytes) const {
  Reshard result;
  auto dimOf = [&](int64_t dim) -> int64_t {
    return dim < 0 ? -1 : dims[dim].number;
  };
  Wide total = 0;
  for (const ReshardWay::Step &known : way.steps) {
    ReshardStep &step = result.steps.emplace_back();
    step.kind = known.move.kind;
    step.axes = axesOf(known.move.atoms);
    step.dim = dimOf(known.move.dim);
    step.concatDim = dimOf(known.move.concatDim);
    step.reduction = reduction;
    step.pairs = known.pairs;
    step.layout = layoutOf(known.state);
    step.localShape = step.layout.localShape(shape);
    step.groupSize = known.groupSize;
    if (!step.kind)
      continue;
    Wide buffer = known.bufferElements * scale * elementBytes;
    Wide group = ringGroupBytes(*step.kind, known.groupSize, buffer);
    step.bufferBytes = saturate(buffer);
    step.groupBytes = saturate(group);
    total += group * (mesh.numRanks() / known.groupSize);
  }
  result.totalBytes = saturate(total);
  return result;
}
