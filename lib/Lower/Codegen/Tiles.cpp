//===- Tiles.cpp - transposed reads ---------------------------------------===//
//
// Problem: x[j, i] read in vectors over j touches a cache line per element, and
// lines of a large stride fall into the same few sets of the cache.
//
// Idea: a square of i and j, as wide as a vector, is read in vectors over i,
// transposed in registers, and put into a small buffer in whose rows j is
// contiguous; the kernel's body then reads rows. Each line is read once.
//
// Invariant: only reads that no guard can forbid; whatever does not fill a
// square is gathered as usual. log2(n) shuffles per vector of n.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kerf::codegen {

void KernelEmitter::chooseTile() {
  const Flat &outer = plan.outer;
  const LoopVar &last = outer.vars.back();
  if (plan.form != KernelForm::Elementwise || last.size < native ||
      segments(last).size() > 1)
    return;
  for (auto &[value, flat] : plan.freeAccesses) {
    int64_t stride = flat.coefficient(last.atom);
    if (stride == 0 || stride == 1 || !plan.inputs.contains(value))
      continue;
    bool linear = all_of(flat.terms, [&](const auto &term) {
      return space[term.first].kind == Atom::Kind::Loop;
    });
    for (int64_t at = 0; linear && at + 1 < (int64_t)outer.vars.size(); ++at) {
      const LoopVar &var = outer.vars[at];
      if (flat.coefficient(var.atom) != 1 || var.size < native ||
          (tileLoop >= 0 && tileLoop != at))
        continue;
      tileLoop = at;
      tileBlock = var.size >= 4 * native ? 4 * native : native;
      tiles.push_back({value, flat, nullptr});
    }
  }
}

void KernelEmitter::transpose(MutableArrayRef<V> rows) {
  int64_t n = rows.size();
  SmallVector<int> low, high;
  for (int64_t lane = 0; lane < n; ++lane) {
    low.push_back(lane / 2 + (lane % 2) * n);
    high.push_back(n / 2 + lane / 2 + (lane % 2) * n);
  }
  // Each round moves the top bit of the row number to the bottom of the column
  // number and vice versa.
  for (int64_t round = 1; round < n; round *= 2) {
    SmallVector<V> next(n);
    for (int64_t k = 0; k < n / 2; ++k) {
      next[2 * k] = b.CreateShuffleVector(rows[k], rows[k + n / 2], low);
      next[2 * k + 1] = b.CreateShuffleVector(rows[k], rows[k + n / 2], high);
    }
    llvm::copy(next, rows.begin());
  }
}

/// Reads the square that starts at the current values of both loops.
void KernelEmitter::fillTiles() {
  AtomId j = plan.outer.last();
  V first = atomValues.lookup(j);
  for (Tile &tile : tiles) {
    Type *type = storageType(elementOf(tile.value));
    Align align(type->getScalarSizeInBits() / 8);
    V pointer = pointers.lookup(tile.value);
    SmallVector<V> rows;
    for (int64_t at = 0; at < native; ++at) {
      atomValues[j] = b.CreateAdd(first, b.getInt64(at));
      V address = b.CreateInBoundsGEP(type, pointer, scalarIndex(tile.flat));
      rows.push_back(
          b.CreateAlignedLoad(vectorOf(type, native), address, align));
    }
    atomValues[j] = first;
    transpose(rows);
    if (!tile.buffer)
      tile.buffer = entryAlloca(ArrayType::get(type, native * native));
    for (auto [at, row] : enumerate(rows))
      b.CreateAlignedStore(
          row, b.CreateConstGEP1_64(type, tile.buffer, at * native), align);
  }
}

void KernelEmitter::emitTiles(V iteration) {
  ArrayRef<LoopVar> vars = plan.outer.vars;
  const LoopVar &i = vars[tileLoop], &j = vars.back();
  // All loops but the vectors', with blocks in place of i.
  SmallVector<LoopVar> parallel(vars.drop_back());
  parallel[tileLoop].size = divideCeil(i.size, tileBlock);
  decompose(iteration, parallel);
  V block = atomValues.lookup(i.atom);
  V start = b.CreateMul(block, b.getInt64(tileBlock));

  // Rows [from, from + count) of i, the whole of j or from `begin`.
  auto gathered = [&](V from, int64_t count, int64_t begin) {
    forStatic(count, 1, from, [&](V row) {
      atomValues[i.atom] = row;
      pushScope();
      pullHoists();
      forLanes(j.atom, b.getInt64(begin), j.size - begin, native,
               [&] { storeOutputs(true); });
      popScope();
    });
  };
  auto squares = [&](int64_t count) {
    int64_t whole = j.size / native * native;
    forStatic(j.size / native, native, b.getInt64(0), [&](V column) {
      forStatic(count / native, native, start, [&](V first) {
        atomValues[i.atom] = first;
        atomValues[j.atom] = column;
        fillTiles();
        forStatic(native, 1, b.getInt64(0), [&](V row) {
          atomValues[i.atom] = b.CreateAdd(first, row);
          tileRow = row;
          pushScope();
          pullHoists();
          forLanes(j.atom, column, native, native, [&] { storeOutputs(true); });
          popScope();
          tileRow = nullptr;
        });
      });
    });
    int64_t rows = count / native * native;
    if (whole < j.size)
      gathered(start, rows, whole);
    gathered(b.CreateAdd(start, b.getInt64(rows)), count - rows, 0);
  };
  int64_t full = i.size / tileBlock, rest = i.size % tileBlock;
  if (!rest)
    return squares(tileBlock);
  V isFull = b.CreateICmpULT(block, b.getInt64(full));
  ifThen(isFull, [&] { squares(tileBlock); });
  ifThen(b.CreateNot(isFull), [&] { squares(rest); });
}

} // namespace kerf::codegen
