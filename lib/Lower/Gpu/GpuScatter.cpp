//===- GpuScatter.cpp - rows changed by index -----------------------------===//
//
// Problem: updates of one row must be added (multiplied, ...) in the order of
// their indices, whether most rows have none or one row has them all.
//
// Idea: a block owns some rows of the result, at most one per lane of a warp,
// and an element is only ever touched by one thread. The block goes through all
// indices in portions; of each portion it sorts by row, keeping their order,
// those that name its rows:
//
//   find    a warp reads its part of the portion, 32 indices at a time, and
//           lists the hits among them in order (ballots)
//   count   lane r counts the hits of row r in the warp's list
//   place   from all warps' counts, lane r knows where the hits of row r in the
//           warp's list belong, and puts them there
//   combine a thread goes through the rows that were hit, with its element in
//           registers and the loads of several updates in flight
//
// A portion without hits ends behind `count`, at its only barrier. Reads the
// indices once per block, the updates once.
//
// Invariants: lists and places within them depend on the indices alone.
// `counts` is there twice, in turn: a warp may count the next portion while
// another still reads these.
//
//===----------------------------------------------------------------------===//
#include "CallKernel.h"
#include "GpuCalls.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kerf::cuda {

namespace {

constexpr int64_t kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;
constexpr int64_t kRows = kWarp; ///< of a block, at most
constexpr int64_t kSteps = 16;   ///< indices of a thread in a portion, at most
constexpr int64_t kReads = 8;    ///< indices that a thread reads at once
constexpr int64_t kUpdates = 8;  ///< updates that a thread reads at once
constexpr int64_t kCopies = 4;   ///< rows that a thread copies at once
constexpr int64_t kBlocks =
    512; ///< rows are divided among as many, if they can
constexpr int64_t kPlaceBits = 9; ///< of a hit: its place in the warp's part
static_assert(kSteps * kWarp <= 1 << kPlaceBits);

using V = Value;

class ScatterEmitter : CallKernel {
public:
  template <typename Op>
  ScatterEmitter(Op call, mlir::gpu::GPUModuleOp module, StringRef name)
      : CallKernel(call, module, name), outer(call.getOuter()),
        rows(call.getRows()), inner(call.getInner()), count(call.getCount()),
        partial(call.getPartial()), element(call.getResultType()),
        indexType(exec::elementType(call.getIndices())), word(b.getInt32Ty()),
        half(b.getIntNTy(16)) {
    indices = pointerOf(call.getIndicesMutable());
    updates = pointerOf(call.getUpdatesMutable());
    dst = pointerOf(call.getDstMutable());
  }

  GpuLaunch emit(exec::ScatterAddOp op) {
    if (op.getBase())
      base = pointerOf(*op.getBaseMutable().begin());
    run(/*ownIndices=*/false);
    return finish();
  }
  GpuLaunch emit(exec::ScatterOp op) {
    base = pointerOf(op.getBaseMutable());
    kind = op.getUpdate();
    run(/*ownIndices=*/true);
    return finish();
  }

private:
  /// `ownIndices`: each outer index has indices of its own.
  void run(bool ownIndices);
  void divide();
  void copyBase();
  void portion(V step);
  /// Lists the hits of the warp's part of a portion; their number.
  V find(V start);
  /// The row of the block that an index names, and whether it names one.
  std::pair<V, V> rowOf(V raw);
  void combine(V start, V hitRows);
  V combined(V x, V update);

  V add(V x, V y) { return b.CreateAdd(x, y); }
  V mul(V x, int64_t k) { return b.CreateMul(x, b.integer(x.getType(), k)); }
  V number(int64_t value) { return b.getInt32(value); }
  V wide(V x) { return b.CreateZExt(x, index); }
  V loadWord(V array, V at) {
    return b.CreateLoad(word, b.gep(word, array, at));
  }
  V loadHalf(V array, V at) {
    return b.CreateZExt(b.CreateLoad(half, b.gep(half, array, at)), word);
  }
  V shared(Type type, int64_t size, StringRef suffix);
  V ballot(V condition) {
    return NVVM::VoteSyncOp::create(b.ops, b.loc, word, number(-1), condition,
                                    NVVM::VoteSyncKind::ballot);
  }
  V countBits(V x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x); }
  void barrier() { mlir::gpu::BarrierOp::create(b.ops, b.loc); }
  /// The final value of a loop over `start`.
  V fold(V from, V to, int64_t step, V start, llvm::function_ref<V(V, V)> body);
  /// What `body` gives, or `otherwise`.
  V valueIf(V condition, V otherwise, llvm::function_ref<V()> body);
  void loop(V to, llvm::function_ref<void(V)> body);
  /// The thread's part of a row, of `height` rows.
  V cell(V pointer, int64_t height, V row) {
    V flat = add(mul(add(mul(outerIndex, height), row), inner), columnStart);
    return b.gep(element, pointer, flat);
  }

  int64_t outer, rows, inner, count;
  bool partial;
  exec::ScatterKind kind = exec::ScatterKind::Add;
  Type element, indexType, word, half;
  V indices, updates, dst, base;

  // How the work is divided.
  int64_t width;  ///< elements of a row that a thread owns
  int64_t side;   ///< threads beside each other in a row
  int64_t height; ///< rows of a block
  int64_t groups; ///< of threads; each owns every groups-th row of the block
  int64_t steps;  ///< indices of a thread in a portion
  Type vector;
  unsigned bytes;
  V lane, warp, group, mine; ///< i32; `mine`: the thread owns elements
  V outerIndex, firstRow, columnStart, rowsHere; ///< i64
  V list, sorted;                                ///< hits: i16
  V counts, starts, ends;                        ///< per row: i32
};

V ScatterEmitter::shared(Type type, int64_t size, StringRef suffix) {
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(module.getBody());
  auto global = LLVM::GlobalOp::create(
      b.ops, b.loc, LLVM::LLVMArrayType::get(type, size), false,
      LLVM::Linkage::Internal, (name + suffix).str(), Attribute(), 16, 3);
  b.ops.setInsertionPointToStart(&function.getBody().front());
  return LLVM::AddressOfOp::create(b.ops, b.loc, global);
}

V ScatterEmitter::fold(V from, V to, int64_t step, V start,
                       llvm::function_ref<V(V, V)> body) {
  auto loop = scf::ForOp::create(b.ops, b.loc, from, to,
                                 b.integer(from.getType(), step), start);
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(loop.getBody());
  V next = body(loop.getInductionVar(), loop.getRegionIterArg(0));
  scf::YieldOp::create(b.ops, b.loc, next);
  return loop.getResult(0);
}

void ScatterEmitter::loop(V to, llvm::function_ref<void(V)> body) {
  auto loop = scf::ForOp::create(b.ops, b.loc, b.zero(to.getType()), to,
                                 b.integer(to.getType(), 1));
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

V ScatterEmitter::valueIf(V condition, V otherwise,
                          llvm::function_ref<V()> body) {
  auto branch =
      scf::IfOp::create(b.ops, b.loc, otherwise.getType(), condition, true);
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(branch.thenBlock());
  V value = body();
  scf::YieldOp::create(b.ops, b.loc, value);
  b.ops.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b.ops, b.loc, otherwise);
  return branch.getResult(0);
}

V ScatterEmitter::combined(V x, V update) {
  bool isFloat = isa<FloatType>(element);
  auto keepUnless = [&](V replaces) {
    return b.CreateSelect(replaces, update, x);
  };
  switch (kind) {
  case exec::ScatterKind::Set:
    return update;
  case exec::ScatterKind::Add:
    return isFloat ? b.CreateFAdd(x, update) : b.CreateAdd(x, update);
  case exec::ScatterKind::Mul:
    return isFloat ? b.CreateFMul(x, update) : b.CreateMul(x, update);
  case exec::ScatterKind::Min:
    return keepUnless(isFloat ? b.CreateOr(b.CreateFCmpOLT(update, x),
                                           b.CreateFCmpUNO(update, update))
                              : b.CreateICmpSLT(update, x));
  case exec::ScatterKind::Max:
    return keepUnless(isFloat ? b.CreateOr(b.CreateFCmpOGT(update, x),
                                           b.CreateFCmpUNO(update, update))
                              : b.CreateICmpSLT(x, update));
  }
  llvm_unreachable("bad ScatterKind");
}

/// Who owns what: blocks by outer index, rows and columns, threads by columns
/// and, where these are few, rows.
void ScatterEmitter::divide() {
  width = 128 / b.bitsOf(element);
  while (inner % width)
    width /= 2;
  vector = b.vectorOf(element, width);
  bytes = b.bitsOf(element) / 8 * width;
  int64_t columns = inner / width;
  side = std::min<int64_t>(llvm::PowerOf2Ceil(columns), kThreads);
  int64_t strips = llvm::divideCeil(columns, side);
  height = kRows;
  while (height > 1 &&
         outer * llvm::divideCeil(rows, height) * strips < kBlocks)
    height /= 2;
  groups = std::min(kThreads / side, height);
  steps = std::min<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeil(count, kThreads)), kSteps);
  int64_t parts = llvm::divideCeil(rows, height);
  launch.grid = {outer * parts * strips, 1, 1};
  launch.block = {kThreads, 1, 1};

  V thread = b.CreateTrunc(threadId(), word);
  V block = b.CreateTrunc(blockId(), word);
  lane = b.CreateAnd(thread, number(kWarp - 1));
  warp = b.CreateLShr(thread, llvm::Log2_64(kWarp));
  group = b.CreateLShr(thread, llvm::Log2_64(side));
  V column = add(mul(b.CreateURem(block, number(strips)), side),
                 b.CreateAnd(thread, number(side - 1)));
  V rest = b.CreateUDiv(block, number(strips));
  mine = b.CreateAnd(b.CreateICmpULT(wide(column), constant(columns)),
                     b.CreateICmpULT(group, number(groups)));
  outerIndex = wide(b.CreateUDiv(rest, number(parts)));
  firstRow = mul(wide(b.CreateURem(rest, number(parts))), height);
  columnStart = mul(wide(column), width);
  V left = b.CreateSub(constant(rows), firstRow);
  rowsHere = b.CreateSelect(b.CreateICmpULT(left, constant(height)), left,
                            constant(height));
}

void ScatterEmitter::copyBase() {
  int64_t each = height / groups, atOnce = std::min(each, kCopies);
  loop(number(each / atOnce), [&](V step) {
    SmallVector<std::pair<V, V>> targets; // whether there is one, its address
    SmallVector<V> values;
    for (int64_t k = 0; k < atOnce; ++k) {
      V local = add(mul(add(mul(step, atOnce), number(k)), groups), group);
      V here = b.CreateAnd(mine, b.CreateICmpULT(wide(local), rowsHere));
      V row = add(firstRow, wide(local));
      targets.push_back({here, cell(dst, rows, row)});
      V zero = b.zero(vector);
      values.push_back(base ? valueIf(here, zero,
                                      [&] {
                                        return b.CreateLoad(
                                            vector, cell(base, rows, row),
                                            bytes);
                                      })
                            : zero);
    }
    for (size_t k = 0; k < targets.size(); ++k)
      branch(targets[k].first,
             [&] { b.CreateStore(values[k], targets[k].second, bytes); });
  });
}

void ScatterEmitter::run(bool ownIndices) {
  divide();
  copyBase();
  if (count == 0)
    return;
  if (ownIndices)
    indices = b.gep(indexType, indices, mul(outerIndex, count));
  updates =
      b.gep(element, updates, add(mul(outerIndex, count * inner), columnStart));
  list = shared(half, kThreads * steps, "_list");
  sorted = shared(half, kThreads * steps, "_sorted");
  counts = shared(word, 2 * kThreads, "_counts");
  starts = shared(word, kRows, "_starts");
  ends = shared(word, kRows, "_ends");
  loop(constant(llvm::divideCeil(count, kThreads * steps)),
       [&](V step) { portion(step); });
}

std::pair<V, V> ScatterEmitter::rowOf(V raw) {
  // Below the number of rows, i32 holds every row and its negative.
  Type type = rows <= INT32_MAX ? indexType : index;
  V limit = b.CreateTrunc(rowsHere, type);
  V local = b.CreateSub(b.CreateSExt(raw, type), b.CreateTrunc(firstRow, type));
  V hit = b.CreateICmpULT(local, limit);
  if (!partial) {
    V fromEnd = add(local, b.integer(type, rows));
    V hitFromEnd = b.CreateICmpULT(fromEnd, limit);
    local = b.CreateSelect(hitFromEnd, fromEnd, local);
    hit = b.CreateOr(hit, hitFromEnd);
  }
  return {b.CreateTrunc(local, word), hit};
}

V ScatterEmitter::find(V start) {
  int64_t reads = std::min(steps, kReads), part = kWarp * steps;
  V before = b.CreateSub(b.CreateShl(number(1), lane), number(1));
  V own = mul(warp, part);
  return fold(
      number(0), number(part), kWarp * reads, number(0),
      [&](V first, V known) -> V {
        SmallVector<V> places, locals, hits;
        V any = b.getFalse();
        for (int64_t k = 0; k < reads; ++k) {
          V place = add(add(first, number(k * kWarp)), lane);
          V at = add(start, wide(add(own, place)));
          V exists = b.CreateICmpULT(at, constant(count));
          if (count % (kThreads * steps))
            at = b.CreateSelect(exists, at, constant(count - 1));
          V raw =
              b.CreateLoad(indexType, b.gep(indexType, indices, at), 0, true);
          auto [local, hit] = rowOf(raw);
          if (count % (kThreads * steps))
            hit = b.CreateAnd(hit, exists);
          any = b.CreateOr(any, hit);
          places.push_back(place);
          locals.push_back(local);
          hits.push_back(hit);
        }
        // Most often there is none.
        V some = b.CreateICmpNE(ballot(any), number(0));
        return valueIf(some, known, [&] {
          V total = known;
          for (int64_t k = 0; k < reads; ++k) {
            V mask = ballot(hits[k]);
            V to = add(add(own, total), countBits(b.CreateAnd(mask, before)));
            branch(hits[k], [&] {
              V hit = b.CreateOr(b.CreateShl(locals[k], kPlaceBits), places[k]);
              b.CreateStore(b.CreateTrunc(hit, half), b.gep(half, list, to));
            });
            total = add(total, countBits(mask));
          }
          return total;
        });
      });
}

void ScatterEmitter::portion(V step) {
  V start = mul(step, kThreads * steps);
  V own = mul(warp, kWarp * steps);
  V found = find(start);
  NVVM::SyncWarpOp::create(b.ops, b.loc, number(-1));
  auto rowOfHit = [&](V hit) { return b.CreateLShr(hit, kPlaceBits); };
  V ofLane = fold(number(0), found, 1, number(0), [&](V at, V sum) {
    V same = b.CreateICmpEQ(rowOfHit(loadHalf(list, add(own, at))), lane);
    return add(sum, b.CreateZExt(same, word));
  });
  V turn = mul(b.CreateAnd(b.CreateTrunc(step, word), number(1)), kThreads);
  V column = add(turn, lane);
  b.CreateStore(ofLane, b.gep(word, counts, add(column, mul(warp, kWarp))));
  barrier();

  V total = number(0), earlier = number(0);
  for (int64_t other = 0; other < kWarps; ++other) {
    V theirs = loadWord(counts, add(column, number(other * kWarp)));
    total = add(total, theirs);
    earlier = add(earlier, b.CreateSelect(b.CreateICmpULT(number(other), warp),
                                          theirs, number(0)));
  }
  V hitRows = ballot(b.CreateICmpNE(total, number(0)));
  branch(b.CreateICmpNE(hitRows, number(0)), [&] {
    // Hits of lower rows, by exchange between lanes.
    V lower = number(0), sum = total;
    for (int64_t distance = 1; distance < kWarp; distance *= 2) {
      V theirs =
          mlir::gpu::ShuffleOp::create(b.ops, b.loc, sum, distance, kWarp,
                                       mlir::gpu::ShuffleMode::XOR)
              .getShuffleResult();
      V above = b.CreateICmpNE(b.CreateAnd(lane, number(distance)), number(0));
      lower = add(lower, b.CreateSelect(above, theirs, number(0)));
      sum = add(sum, theirs);
    }
    branch(b.CreateICmpEQ(warp, number(0)), [&] {
      b.CreateStore(lower, b.gep(word, starts, lane));
      b.CreateStore(add(lower, total), b.gep(word, ends, lane));
    });
    fold(number(0), found, 1, add(lower, earlier), [&](V at, V to) {
      V hit = loadHalf(list, add(own, at));
      V same = b.CreateICmpEQ(rowOfHit(hit), lane);
      branch(same, [&] {
        V place = b.CreateAnd(hit, number((1 << kPlaceBits) - 1));
        b.CreateStore(b.CreateTrunc(add(own, place), half),
                      b.gep(half, sorted, to));
      });
      return add(to, b.CreateZExt(same, word));
    });
    barrier();
    combine(start, hitRows);
  });
}

/// Applies the sorted hits of a portion.
void ScatterEmitter::combine(V start, V hitRows) {
  int64_t pattern = 0;
  for (int64_t row = 0; row < height; row += groups)
    pattern |= int64_t(1) << row;
  V owned = b.CreateShl(number(pattern), b.CreateAnd(group, number(kRows - 1)));
  V rest = b.CreateSelect(mine, b.CreateAnd(hitRows, owned), number(0));
  V source = b.gep(element, updates, mul(start, inner));
  auto offset = [&](V place) {
    bool small = kThreads * steps * inner <= INT32_MAX;
    return small ? wide(mul(place, inner)) : mul(wide(place), inner);
  };
  auto rowLoop =
      scf::WhileOp::create(b.ops, b.loc, TypeRange{word}, ValueRange{rest});
  OpBuilder::InsertionGuard guard(b.ops);
  Block *condition =
      b.ops.createBlock(&rowLoop.getBefore(), {}, {word}, {b.loc});
  V left = condition->getArgument(0);
  scf::ConditionOp::create(b.ops, b.loc, b.CreateICmpNE(left, number(0)),
                           ValueRange{left});
  Block *body = b.ops.createBlock(&rowLoop.getAfter(), {}, {word}, {b.loc});
  left = body->getArgument(0);
  V less = b.CreateSub(left, number(1));
  V local = countBits(b.CreateAnd(b.CreateNot(left), less));
  V target = cell(dst, rows, add(firstRow, wide(local)));
  V end = loadWord(ends, local);
  V old = b.CreateLoad(vector, target, bytes);
  auto update = [&](V hit) {
    V from = b.gep(element, source, offset(loadHalf(sorted, hit)));
    return b.CreateLoad(vector, from, bytes, true);
  };
  V first = loadWord(starts, local);
  V full = add(first, b.CreateAnd(b.CreateSub(end, first), number(-kUpdates)));
  // Without conditions, so that no load waits for another's.
  V most = fold(first, full, kUpdates, old, [&](V at, V sum) -> V {
    SmallVector<V> values;
    for (int64_t k = 0; k < kUpdates; ++k)
      values.push_back(update(add(at, number(k))));
    for (V value : values)
      sum = combined(sum, value);
    return sum;
  });
  V value = fold(full, end, kUpdates, most, [&](V at, V sum) -> V {
    SmallVector<V> exists, values;
    for (int64_t k = 0; k < kUpdates; ++k) {
      V hit = add(at, number(k));
      exists.push_back(b.CreateICmpULT(hit, end));
      values.push_back(
          valueIf(exists[k], b.zero(vector), [&] { return update(hit); }));
    }
    for (int64_t k = 0; k < kUpdates; ++k)
      sum = b.CreateSelect(exists[k], combined(sum, values[k]), sum);
    return sum;
  });
  b.CreateStore(value, target, bytes);
  scf::YieldOp::create(b.ops, b.loc, b.CreateAnd(left, less));
}

} // namespace

GpuLaunch emitScatter(exec::ScatterAddOp call, mlir::gpu::GPUModuleOp module,
                      StringRef name) {
  return ScatterEmitter(call, module, name).emit(call);
}

GpuLaunch emitScatter(exec::ScatterOp call, mlir::gpu::GPUModuleOp module,
                      StringRef name) {
  return ScatterEmitter(call, module, name).emit(call);
}

} // namespace kerf::cuda
