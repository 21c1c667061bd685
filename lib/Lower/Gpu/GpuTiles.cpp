//===- GpuTiles.cpp - transposed reads through shared memory --------------===//
//
// Problem: x[j, i] read by threads along j touches a line per element.
//
// Idea: a block of 32 x 8 threads reads a square of 32 x 32 elements along i,
// puts it into shared memory whose rows have one element more than 32, so that
// columns lie in different banks, and computes along j from there. The other
// inputs and the outputs are read and written along j as always.
//
// Invariant: only reads that no guard can forbid; elements outside of the loops
// are neither read nor written. One barrier.
//
//===----------------------------------------------------------------------===//
#include "GpuEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kerf::cuda {

using V = Value;

static constexpr int64_t kSquare = 32, kRows = 8, kPitch = kSquare + 1;

bool GpuEmitter::chooseTiles() {
  const Flat &outer = plan.outer;
  const LoopVar &last = outer.vars.back();
  if (plan.form != KernelForm::Elementwise || last.size < kRows)
    return false;
  int64_t bytes = 0;
  for (const auto &access : plan.freeAccesses) {
    Value value = access.first;
    const Index &flat = access.second;
    int64_t stride = flat.coefficient(last.atom);
    if (stride == 0 || stride == 1 || !plan.inputs.contains(value))
      continue;
    bool linear = llvm::all_of(flat.terms, [&](const auto &term) {
      return space[term.first].kind == codegen::Atom::Kind::Loop;
    });
    for (int64_t at = 0; linear && at + 1 < (int64_t)outer.vars.size(); ++at) {
      const LoopVar &var = outer.vars[at];
      int64_t size = kSquare * kPitch * b.bitsOf(storageType(elementOf(value)));
      if (flat.coefficient(var.atom) != 1 || var.size < kRows ||
          (tileLoop >= 0 && tileLoop != at) ||
          bytes + size / 8 > target.getSharedBytes())
        continue;
      if (llvm::any_of(tiles, [&](const Tile &known) {
            return known.value == value && known.flat == flat;
          }))
        continue;
      bytes += size / 8;
      tileLoop = at;
      tiles.push_back({value, flat, nullptr});
    }
  }
  return !tiles.empty();
}

void GpuEmitter::emitTiles() {
  ArrayRef<LoopVar> vars = plan.outer.vars;
  const LoopVar &i = vars[tileLoop], &j = vars.back();
  lanes = 1;
  laneAtom = ~0u;
  // The number of a square: all loops but j's, with squares instead of i, then
  // squares of j.
  SmallVector<LoopVar> squares(vars);
  squares[tileLoop].size = llvm::divideCeil(i.size, kSquare);
  squares.back().size = llvm::divideCeil(j.size, kSquare);
  int64_t blocks = 1;
  for (const LoopVar &var : squares)
    blocks *= var.size;
  launch.grid = {blocks, 1, 1};
  launch.block = {kSquare * kRows, 1, 1};
  decompose(blockIndex(), squares, 1);
  V i0 = b.CreateMul(atomValues.lookup(i.atom), indexConstant(kSquare));
  V j0 = b.CreateMul(atomValues.lookup(j.atom), indexConstant(kSquare));
  V x = b.CreateURem(threadIndex(), indexConstant(kSquare));
  V y = b.CreateUDiv(threadIndex(), indexConstant(kSquare));
  auto inside = [&](V value, const LoopVar &var) {
    return var.size % kSquare ? b.CreateICmpULT(value, indexConstant(var.size))
                              : b.getTrue();
  };
  for (Tile &tile : tiles)
    tile.memory = shared(storageType(elementOf(tile.value)), kSquare * kPitch);

  for (int64_t row = 0; row < kSquare; row += kRows) {
    V line = b.CreateAdd(y, indexConstant(row));
    atomValues[i.atom] = b.CreateAdd(i0, x);
    atomValues[j.atom] = b.CreateAdd(j0, line);
    V both = b.CreateAnd(inside(atomValues[i.atom], i),
                         inside(atomValues[j.atom], j));
    ifThen(both, [&] {
      for (Tile &tile : tiles) {
        T type = storageType(elementOf(tile.value));
        V at = b.gep(type, pointers.lookup(tile.value), scalarIndex(tile.flat));
        V raw = b.CreateLoad(type, at, 0, invariant.lookup(tile.value));
        V place = b.CreateAdd(b.CreateMul(line, indexConstant(kPitch)), x);
        b.CreateStore(raw, b.gep(type, tile.memory, place));
      }
    });
  }
  barrier();
  for (int64_t row = 0; row < kSquare; row += kRows) {
    V line = b.CreateAdd(y, indexConstant(row));
    atomValues[i.atom] = b.CreateAdd(i0, line);
    atomValues[j.atom] = b.CreateAdd(j0, x);
    tilePosition = b.CreateAdd(b.CreateMul(x, indexConstant(kPitch)), line);
    V both = b.CreateAnd(inside(atomValues[i.atom], i),
                         inside(atomValues[j.atom], j));
    pushScope();
    ifThen(both, [&] { storeOutputs(computeOutputs(true), true); });
    popScope();
    tilePosition = nullptr;
  }
}

} // namespace kerf::cuda
