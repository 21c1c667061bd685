//===- GpuRows.cpp - rows shared by the threads of a team -----------------===//
//
// Problem: softmax, norms and reductions combine the elements of a row, which
// lie side by side (a) or apart, with rows side by side (b).
//
// Idea: a team of threads shares a row. In case (a) the team is part of a warp,
// a warp or a whole block; neighbours read neighbouring vectors, and sums go
// over lanes, then by shuffles, then over warps through shared memory. In case
// (b) the 32 threads of a warp take neighbouring rows, each `lanes` of them; a
// team is a column of threads, and sums go through shared memory. A row that
// gives a thread few vectors stays in registers between its passes; the loops
// over it are unrolled.
//
// Invariant: teams beyond the last row compute the last one again, so that all
// threads meet at shuffles and barriers, and store nothing.
//
//===----------------------------------------------------------------------===//
#include "GpuEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kerf::cuda {

using V = Value;
using codegen::innerShape;

/// Vectors per thread that are worth unrolling, values that may be kept.
static constexpr int64_t kUnrolled = 8, kKeptRegisters = 64;
static constexpr int64_t kMaxColumnTeam = 16, kWarp = 32;
/// Bytes of a row of which a multiprocessor should hold two.
static constexpr int64_t kLongRow = 64 << 10;
/// Groups of at least this many ops need many registers.
static constexpr size_t kLargeGroup = 24;
/// Threads that keep a multiprocessor busy.
static constexpr int64_t kManyThreads = 1024;

/// Lanes in case (a).
int64_t GpuEmitter::lanesOf(const Flat &flat) {
  if (plan.lanesOuter)
    return lanes;
  int64_t width = maxLanes;
  const LoopVar &last = flat.vars.back();
  while (last.size % width)
    width /= 2;
  if (auto it = plan.cuts.find(last.atom); it != plan.cuts.end())
    for (int64_t cut : it->second)
      while (cut % width)
        width /= 2;
  return width;
}

void GpuEmitter::chooseTeam() {
  const Flat &outer = plan.outer;
  int64_t bytes = 4;
  for (auto &[value, flats] : plan.accesses)
    bytes = std::min<int64_t>(
        bytes, std::max(2u, b.bitsOf(storageType(elementOf(value))) / 8));
  maxLanes =
      plan.ops.size() > kLargeGroup ? 4 : target.getVectorBytes() / bytes;
  // A thread of a large block has few registers.
  bool large = plan.ops.size() > kLargeGroup;
  int64_t maxTeam = target.getBlockThreads() / (large ? 4 : 2);
  int64_t manyThreads = target.getProcessors() * kManyThreads;
  // Long rows are read again: only few are in work at a time, so that all of
  // them stay in the second-level cache.
  for (auto &[size, flat] : plan.inner)
    if (size * bytes >= kLongRow)
      maxTeam = target.getBlockThreads();
  int64_t maxColumnTeam = large ? kMaxColumnTeam / 2 : kMaxColumnTeam;
  V thread = threadIndex();
  if (!plan.lanesOuter) {
    int64_t vectors = 1;
    for (auto &[size, flat] : plan.inner)
      vectors = std::max(vectors, size / lanesOf(flat));
    int64_t rows = outer.size;
    teamSize = 1;
    while (teamSize < maxTeam && teamSize * 4 < vectors)
      teamSize *= 2;
    while (teamSize < maxTeam && teamSize < vectors &&
           rows * teamSize < manyThreads)
      teamSize *= 2;
    // A block of several warps has at least four.
    teams = teamSize >= 128 ? 1 : 128 / teamSize;
    if (teamSize > kWarp)
      teams = 1;
    launch.grid[0] = llvm::divideCeil(rows, teams);
    launch.block = {teams * teamSize, 1, 1};
    teamThread = b.CreateURem(thread, indexConstant(teamSize));
    teamNumber = b.CreateAdd(b.CreateMul(blockIndex(), indexConstant(teams)),
                             b.CreateUDiv(thread, indexConstant(teamSize)));
    V last = indexConstant(rows - 1);
    V row = rows % teams ? b.CreateBinaryIntrinsic(llvm::Intrinsic::umin,
                                                   teamNumber, last)
                         : teamNumber;
    lanes = 1;
    laneAtom = ~0u;
    decompose(row, outer.vars, 1);
    return;
  }
  const LoopVar &last = outer.vars.back();
  int64_t count = 1;
  for (auto &[size, flat] : plan.inner)
    count = std::max(count, size);
  teamSize = 1;
  while (teamSize < maxColumnTeam && teamSize * 4 < count)
    teamSize *= 2;
  // Wide vectors only if there are enough columns for them.
  int64_t width = std::min<int64_t>(maxLanes, 4);
  while (width > 1 &&
         (last.size % width || outer.size / width * teamSize < manyThreads))
    width /= 2;
  if (auto it = plan.cuts.find(last.atom); it != plan.cuts.end())
    for (int64_t cut : it->second)
      while (cut % width)
        width /= 2;
  int64_t columns = outer.size / width;
  teams = teamSize == 1 ? 128 : kWarp;
  launch.grid[0] = llvm::divideCeil(columns, teams);
  launch.block = {teams * teamSize, 1, 1};
  teamThread = b.CreateUDiv(thread, indexConstant(teams));
  teamNumber = b.CreateAdd(b.CreateMul(blockIndex(), indexConstant(teams)),
                           b.CreateURem(thread, indexConstant(teams)));
  V end = indexConstant(columns - 1);
  V column = columns % teams ? b.CreateBinaryIntrinsic(llvm::Intrinsic::umin,
                                                       teamNumber, end)
                             : teamNumber;
  lanes = width;
  laneAtom = width > 1 ? outer.last() : ~0u;
  decompose(column, outer.vars, width);
}

//===----------------------------------------------------------------------===//
// Loops over a row
//===----------------------------------------------------------------------===//

/// This thread's part of `count` vectors: numbers thread, thread + step, ...
void GpuEmitter::eachStep(int64_t count, int64_t step,
                          llvm::function_ref<void(V)> body) {
  int64_t full = count / step, rest = count % step;
  bool unrolled = llvm::divideCeil(count, step) <= kUnrolled;
  int64_t saved = rowStep;
  auto last = [&](int64_t at) {
    V number = b.CreateAdd(teamThread, indexConstant(at * step));
    ifThen(b.CreateICmpULT(number, indexConstant(count)),
           [&] { body(number); });
  };
  if (unrolled) {
    for (int64_t at = 0; at < full; ++at) {
      rowStep = at;
      pushScope();
      body(b.CreateAdd(teamThread, indexConstant(at * step)));
      popScope();
    }
    rowStep = full;
    if (rest)
      last(full);
  } else {
    rowStep = -1;
    forStatic(full, step, teamThread, [&](V number) {
      pushScope();
      body(number);
      popScope();
    });
    if (rest)
      last(full);
  }
  rowStep = saved;
}

void GpuEmitter::forRow(Flat &flat, int64_t wide, Body body) {
  if (!flat.size)
    return;
  int64_t width = lanesOf(flat), savedLanes = lanes;
  AtomId savedAtom = laneAtom;
  int64_t inVector = plan.lanesOuter ? 1 : width;
  if (!plan.lanesOuter) {
    lanes = width;
    laneAtom = width > 1 ? flat.last() : ~0u;
  }
  eachStep(flat.size / inVector, teamSize, [&](V number) {
    decompose(number, flat.vars, inVector);
    body();
  });
  lanes = savedLanes;
  laneAtom = savedAtom;
}

V GpuEmitter::rowBuffer(int64_t count, T type) {
  // The only element of a row may also be asked for outside of loops.
  if (count < 2)
    return nullptr;
  Flat &flat = plan.inner[count];
  int64_t width = lanesOf(flat), vectors = count;
  if (!plan.lanesOuter)
    vectors /= width;
  int64_t steps = llvm::divideCeil(vectors, teamSize);
  int64_t registers = steps * width * std::max<int64_t>(b.bitsOf(type) / 32, 1);
  if (steps > kUnrolled || keptRegisters + registers > kKeptRegisters)
    return nullptr;
  keptRegisters += registers;
  T stored = type.isInteger(1) ? b.getInt8Ty() : type;
  return entryAlloca(LLVM::LLVMArrayType::get(stored, steps * width));
}

V GpuEmitter::rowPlace(V buffer, T type, const Index &position) {
  return b.gep(type, buffer, b.getInt32(rowStep * lanes));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The value of the thread whose number differs in the bit `distance`.
V GpuEmitter::shuffle(V value, int64_t distance) {
  T type = value.getType();
  auto exchange = [&](V word) -> V {
    return mlir::gpu::ShuffleOp::create(b.ops, b.loc, word, distance, kWarp,
                                        mlir::gpu::ShuffleMode::XOR)
        .getShuffleResult();
  };
  if (type.isF32() || type.isInteger(32))
    return exchange(value);
  if (b.bitsOf(type) < 32)
    return b.CreateTrunc(exchange(b.CreateZExt(value, b.getInt32Ty())), type);
  V bits = b.CreateBitCast(value, b.getInt64Ty());
  V low = exchange(b.CreateTrunc(bits, b.getInt32Ty()));
  V high = exchange(b.CreateTrunc(b.CreateLShr(bits, 32), b.getInt32Ty()));
  V joined = b.CreateOr(b.CreateZExt(low, b.getInt64Ty()),
                        b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
  return b.CreateBitCast(joined, type);
}

/// A vector's lanes, in halves.
GpuEmitter::State GpuEmitter::foldLanes(State state, const Combine &combine) {
  int64_t width = b.widthOf(state[0]);
  SmallVector<State> parts;
  for (int64_t lane = 0; lane < width; ++lane) {
    State part;
    for (V value : state)
      part.push_back(b.CreateExtractElement(value, lane));
    parts.push_back(std::move(part));
  }
  for (; width > 1; width /= 2)
    for (int64_t lane = 0; lane < width / 2; ++lane)
      parts[lane] = combine(parts[lane], parts[lane + width / 2]);
  return parts[0];
}

/// Over the threads of a team; all of them get the result.
GpuEmitter::State GpuEmitter::foldTeam(State state, const Combine &combine) {
  if (teamSize == 1)
    return state;
  auto tree = [&](int64_t size) {
    for (int64_t distance = size / 2; distance >= 1; distance /= 2) {
      State other;
      for (V value : state)
        other.push_back(shuffle(value, distance));
      state = combine(state, other);
    }
  };
  V thread = threadIndex();
  if (!plan.lanesOuter) {
    tree(std::min(teamSize, kWarp));
    if (teamSize <= kWarp)
      return state;
    int64_t warps = teamSize / kWarp;
    V lane = b.CreateURem(thread, indexConstant(kWarp));
    SmallVector<V> memory;
    for (V value : state)
      memory.push_back(shared(value.getType(), warps));
    ifThen(b.CreateICmpEQ(lane, indexConstant(0)), [&] {
      V warp = b.CreateUDiv(thread, indexConstant(kWarp));
      for (auto [value, place] : llvm::zip_equal(state, memory))
        b.CreateStore(value, b.gep(value.getType(), place, warp));
    });
    barrier();
    V source = b.CreateURem(lane, indexConstant(warps));
    for (auto [value, place] : llvm::zip_equal(state, memory))
      value =
          b.CreateLoad(value.getType(), b.gep(value.getType(), place, source));
    tree(warps);
    return state;
  }
  // [part][thread of the team][lane][column], added in this order. The memory
  // is shared with the reduction before, which all threads must have read.
  int64_t width = b.widthOf(state[0]), bytes = 0;
  V column = b.CreateURem(thread, indexConstant(teams));
  SmallVector<int64_t> offsets;
  for (V value : state) {
    offsets.push_back(bytes);
    bytes += teamSize * width * teams *
             std::max<int64_t>(b.bitsOf(value.getType()) / 8, 1);
    bytes = llvm::alignTo(bytes, 16);
  }
  if (scratchBytes)
    barrier();
  V scratch = sharedScratch(bytes);
  SmallVector<V> memory;
  for (int64_t offset : offsets)
    memory.push_back(b.gep(b.getInt8Ty(), scratch, indexConstant(offset)));
  auto place = [&](V base, T element, V of, int64_t lane) {
    V at = b.CreateAdd(
        b.CreateMul(b.CreateAdd(b.CreateMul(of, indexConstant(width)),
                                indexConstant(lane)),
                    indexConstant(teams)),
        column);
    return b.gep(element, base, at);
  };
  for (auto [value, base] : llvm::zip_equal(state, memory)) {
    T element = GpuBuilder::elementOf(value.getType());
    for (int64_t lane = 0; lane < width; ++lane)
      b.CreateStore(b.CreateExtractElement(value, lane),
                    place(base, element, teamThread, lane));
  }
  barrier();
  auto read = [&](V of) {
    State result;
    for (auto [value, base] : llvm::zip_equal(state, memory)) {
      T element = GpuBuilder::elementOf(value.getType());
      SmallVector<V> elements;
      for (int64_t lane = 0; lane < width; ++lane)
        elements.push_back(
            b.CreateLoad(element, place(base, element, of, lane)));
      result.push_back(b.fromElements(elements));
    }
    return result;
  };
  State total = read(indexConstant(0));
  for (int64_t of = 1; of < teamSize; ++of)
    total = combine(total, read(indexConstant(of)));
  return total;
}

GpuEmitter::State GpuEmitter::reduceRow(Flat &flat, int64_t wide,
                                        const State &identity,
                                        llvm::function_ref<State()> element,
                                        const Combine &combine) {
  if (!flat.size)
    return identity;
  int64_t width = lanesOf(flat);
  State slots;
  for (V neutral : identity) {
    T type = b.vectorOf(neutral.getType(), width);
    slots.push_back(entryAlloca(type));
    b.CreateStore(b.CreateVectorSplat(width, neutral), slots.back());
  }
  auto loadAll = [&] {
    State state;
    for (auto [slot, neutral] : llvm::zip_equal(slots, identity))
      state.push_back(b.CreateLoad(b.vectorOf(neutral.getType(), width), slot));
    return state;
  };
  forRow(flat, width, [&] {
    State value = element();
    for (V &part : value)
      part = widen(part);
    State sum = combine(loadAll(), value);
    for (auto [part, slot] : llvm::zip_equal(sum, slots))
      b.CreateStore(part, slot);
  });
  State state = loadAll();
  return foldTeam(plan.lanesOuter ? state : foldLanes(state, combine), combine);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void GpuEmitter::emitRows() {
  chooseTeam();
  native = maxLanes;
  for (Operation *op : plan.rowOps)
    computeRow(op);
  int64_t rows = plan.lanesOuter ? plan.outer.size / lanes : plan.outer.size;
  guarded(teamNumber, rows, launch.grid[0] * teams, [&] {
    if (llvm::is_contained(plan.outputIsFull, true))
      forRow(plan.inner[llvm::product_of(innerShape(plan.rowOps.front()))],
             native, [&] { storeOutputs(computeOutputs(true), true); });
    if (!llvm::is_contained(plan.outputIsFull, false))
      return;
    ifThen(b.CreateICmpEQ(teamThread, indexConstant(0)),
           [&] { storeOutputs(computeOutputs(false), false); });
  });
}

} // namespace kerf::cuda
