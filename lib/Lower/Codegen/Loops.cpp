//===- Loops.cpp - loops, branches and reductions of a kernel -------------===//
//
// Trip counts are constants, so a loop has no exit test before its first
// iteration and vectors have no masks. A reduction keeps one accumulator per
// width; they are combined after the loops, in a fixed order.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kerf::codegen {

void KernelEmitter::forStatic(int64_t count, int64_t step, V base,
                              function_ref<void(V)> body) {
  if (count <= 0)
    return;
  if (count == 1)
    return body(base);
  BasicBlock *before = b.GetInsertBlock();
  BasicBlock *loop = BasicBlock::Create(context, "loop", function);
  BasicBlock *after = BasicBlock::Create(context, "after", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  PHINode *counter = b.CreatePHI(b.getInt64Ty(), 2);
  counter->addIncoming(b.getInt64(0), before);
  V offset = b.CreateMul(counter, b.getInt64(step), "", true, true);
  body(b.CreateAdd(base, offset, "", true, true));
  V next = b.CreateAdd(counter, b.getInt64(1), "", true, true);
  counter->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(count)), loop, after);
  b.SetInsertPoint(after);
}

void KernelEmitter::ifThen(V condition, Body then) {
  if (auto *known = dyn_cast<ConstantInt>(condition)) {
    if (known->isOne())
      then();
    return;
  }
  BasicBlock *taken = BasicBlock::Create(context, "then", function);
  BasicBlock *after = BasicBlock::Create(context, "endif", function);
  b.CreateCondBr(condition, taken, after);
  b.SetInsertPoint(taken);
  pushScope();
  then();
  popScope();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

KernelEmitter::V KernelEmitter::ifElse(V condition, function_ref<V()> then,
                                       function_ref<V()> otherwise) {
  BasicBlock *first = BasicBlock::Create(context, "then", function);
  BasicBlock *second = BasicBlock::Create(context, "else", function);
  BasicBlock *after = BasicBlock::Create(context, "endif", function);
  b.CreateCondBr(condition, first, second);
  // Both must end as wide as the wider one: always as vectors.
  auto branch = [&](BasicBlock *block, function_ref<V()> value) {
    b.SetInsertPoint(block);
    pushScope();
    V result = widen(value());
    popScope();
    BasicBlock *end = b.GetInsertBlock();
    b.CreateBr(after);
    return std::make_pair(result, end);
  };
  auto [a, aEnd] = branch(first, then);
  auto [c, cEnd] = branch(second, otherwise);
  b.SetInsertPoint(after);
  PHINode *result = b.CreatePHI(a->getType(), 2);
  result->addIncoming(a, aEnd);
  result->addIncoming(c, cEnd);
  return result;
}

void KernelEmitter::forLanes(AtomId atom, V base, int64_t extent, int64_t wide,
                             Body body) {
  int64_t savedLanes = lanes;
  AtomId savedAtom = laneAtom;
  V savedValue = atomValues.lookup(atom);
  V position = base;
  auto run = [&](int64_t count, int64_t width) {
    lanes = width;
    laneAtom = width == 1 ? ~0u : atom;
    forStatic(count, width, position, [&](V value) {
      atomValues[atom] = value;
      pushScope();
      body();
      popScope();
    });
    position = b.CreateAdd(position, b.getInt64(count * width));
    extent -= count * width;
  };
  if (wide > native && extent >= wide)
    run(extent / wide, wide);
  if (extent >= native)
    run(extent / native, native);
  if (extent)
    run(1, extent);
  lanes = savedLanes;
  laneAtom = savedAtom;
  atomValues[atom] = savedValue;
}

SmallVector<std::pair<int64_t, int64_t>>
KernelEmitter::segments(const LoopVar &var) {
  SmallVector<std::pair<int64_t, int64_t>> result;
  int64_t start = 0;
  if (auto it = plan.cuts.find(var.atom); it != plan.cuts.end()) {
    for (int64_t cut : it->second) {
      result.push_back({start, cut});
      start = cut;
    }
  }
  result.push_back({start, var.size});
  return result;
}

SmallVector<int64_t> KernelEmitter::rowWidths(const Flat &flat, int64_t wide) {
  if (plan.lanesOuter)
    return {lanes};
  SmallVector<int64_t> widths;
  auto add = [&](int64_t width) {
    if (width && !is_contained(widths, width))
      widths.push_back(width);
  };
  for (auto [start, end] : segments(flat.vars.back())) {
    int64_t extent = end - start;
    if (wide > native && extent >= wide) {
      add(wide);
      extent %= wide;
    }
    if (extent >= native)
      add(native);
    add(extent % native);
  }
  return widths;
}

void KernelEmitter::forRow(Flat &flat, int64_t wide, Body body) {
  if (!flat.size)
    return;
  std::function<void(size_t)> nest = [&](size_t at) {
    const LoopVar &var = flat.vars[at];
    bool last = at + 1 == flat.vars.size();
    if (last && !plan.lanesOuter) {
      for (auto [start, end] : segments(var)) {
        space.setRange(var.atom, start, end - 1);
        forLanes(var.atom, b.getInt64(start), end - start, wide, body);
      }
      space.setRange(var.atom, 0, var.size - 1);
      return;
    }
    forStatic(var.size, 1, b.getInt64(0), [&](V value) {
      atomValues[var.atom] = value;
      pushScope();
      if (last)
        body();
      else
        nest(at + 1);
      popScope();
    });
  };
  nest(0);
}

KernelEmitter::State KernelEmitter::foldLanes(State state,
                                              const State &identity,
                                              const Combine &combine) {
  auto widthOf = [](V v) -> int64_t {
    auto *type = dyn_cast<FixedVectorType>(v->getType());
    return type ? type->getNumElements() : 1;
  };
  int64_t width = widthOf(state[0]);
  int64_t full = PowerOf2Ceil(width);
  if (full != width) {
    SmallVector<int> mask;
    for (int64_t lane = 0; lane < full; ++lane)
      mask.push_back(lane < width ? lane : width);
    for (auto [value, neutral] : zip_equal(state, identity))
      value = b.CreateShuffleVector(value, b.CreateVectorSplat(width, neutral),
                                    mask);
  }
  for (width = full; width > 1; width /= 2) {
    State low, high;
    for (V value : state) {
      SmallVector<int> first, second;
      for (int64_t lane = 0; lane < width / 2; ++lane) {
        first.push_back(lane);
        second.push_back(lane + width / 2);
      }
      if (width == 2) {
        low.push_back(b.CreateExtractElement(value, uint64_t(0)));
        high.push_back(b.CreateExtractElement(value, uint64_t(1)));
      } else {
        low.push_back(b.CreateShuffleVector(value, first));
        high.push_back(b.CreateShuffleVector(value, second));
      }
    }
    state = combine(low, high);
  }
  return state;
}

KernelEmitter::State KernelEmitter::reduceRow(Flat &flat, int64_t wide,
                                              const State &identity,
                                              function_ref<State()> element,
                                              const Combine &combine) {
  if (!flat.size)
    return identity;
  std::map<int64_t, State> memory;
  for (int64_t width : rowWidths(flat, wide)) {
    State &slots = memory[width];
    for (V neutral : identity) {
      slots.push_back(entryAlloca(vectorOf(neutral->getType(), width)));
      b.CreateStore(widen(neutral, width), slots.back());
    }
  }
  auto loadAll = [&](const State &slots, int64_t width) {
    State state;
    for (auto [slot, neutral] : zip_equal(slots, identity))
      state.push_back(b.CreateLoad(vectorOf(neutral->getType(), width), slot));
    return state;
  };
  forRow(flat, wide, [&] {
    State value = element();
    for (V &part : value)
      part = widen(part);
    const State &slots = memory[lanes];
    State sum = combine(loadAll(slots, lanes), value);
    for (auto [part, slot] : zip_equal(sum, slots))
      b.CreateStore(part, slot);
  });
  if (plan.lanesOuter)
    return loadAll(memory[lanes], lanes);
  State total;
  for (auto &[width, slots] : memory) {
    State part = foldLanes(loadAll(slots, width), identity, combine);
    total = total.empty() ? part : combine(total, part);
  }
  return total;
}

} // namespace kerf::codegen
