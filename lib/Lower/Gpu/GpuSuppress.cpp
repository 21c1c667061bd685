//===- GpuSuppress.cpp - boxes that no better one overlaps ----------------===//
//
// Problem: whether a box is kept depends on all that are kept before it.
//
// Idea: a block owns a class of a sample. One box after the other, from the
// best on: the threads divide the scores among them and find the best one that
// comes behind the box before, by keys that differ, then divide those that are
// kept among them and look whether one overlaps it. The block ends with the
// last box that is wanted, so its time is that of the boxes that it looks at,
// and nothing is sorted.
//
// Invariant: the key of the present box and the number of those that are kept
// are the same for all threads of the block, so they reach each barrier
// together.
//
//===----------------------------------------------------------------------===//
#include "CallKernel.h"
#include "GpuCalls.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kerf::cuda {

namespace {

constexpr int64_t kThreads = 256;

class SuppressEmitter : CallKernel {
public:
  SuppressEmitter(exec::GreedySuppressOp call, mlir::gpu::GPUModuleOp module,
                  StringRef name)
      : CallKernel(call, module, name),
        outer(static_cast<int64_t>(call.getOuter())),
        classes(static_cast<int64_t>(call.getClasses())),
        rows(static_cast<int64_t>(call.getRows())),
        count(static_cast<int64_t>(call.getCount())),
        number(b.ops.getF32Type()), word(b.getInt32Ty()),
        boxes(pointerOf(call.getBoxesMutable())),
        scores(pointerOf(call.getScoresMutable())),
        threshold(pointerOf(call.getThresholdMutable())),
        most(pointerOf(call.getMostMutable())),
        dst(pointerOf(call.getDstMutable())) {}

  GpuLaunch emit() {
    launch.grid[0] = outer * classes;
    launch.block = {kThreads, 1, 1};
    keys = shared(index, kThreads, "_keys");
    hit = shared(word, 1, "_hit");
    limit = b.CreateLoad(number, threshold, 0, true);
    V wanted = smaller(b.CreateLoad(index, most, 0, true), constant(count));
    thread = threadId();
    V row = blockId();
    scores = b.gep(number, scores, b.CreateMul(row, constant(rows)));
    boxes = b.gep(
        number, boxes,
        b.CreateMul(b.CreateUDiv(row, constant(classes)), constant(rows * 4)));
    dst = b.gep(index, dst, b.CreateMul(row, constant(count)));
    fold(constant(count), constant(0), [&](V at, V unused) {
      b.CreateStore(constant(-1), b.gep(index, dst, at));
      return unused;
    });
    barrier();
    auto loop = scf::WhileOp::create(b.ops, b.loc, TypeRange{index, index},
                                     ValueRange{constant(-1), constant(0)});
    OpBuilder::InsertionGuard guard(b.ops);
    Block *before = b.ops.createBlock(&loop.getBefore(), {}, {index, index},
                                      {b.loc, b.loc});
    V last = before->getArgument(0), kept = before->getArgument(1);
    scf::ConditionOp::create(b.ops, b.loc,
                             b.CreateAnd(b.CreateICmpNE(last, constant(0)),
                                         b.CreateICmpSLT(kept, wanted)),
                             before->getArguments());
    Block *body =
        b.ops.createBlock(&loop.getAfter(), {}, {index, index}, {b.loc, b.loc});
    scf::YieldOp::create(b.ops, b.loc,
                         step(body->getArgument(0), body->getArgument(1)));
    b.ops.setInsertionPointAfter(loop);
    return finish();
  }

private:
  struct Box {
    V y0, x0, y1, x1, area;
  };

  /// Looks at the box behind the one with the key `last`: its key, 0 if there
  /// is none, and how many are kept now.
  SmallVector<V> step(V last, V kept) {
    V own = fold(constant(rows), constant(0), [&](V at, V best) {
      V score = b.CreateLoad(number, b.gep(number, scores, at), 0, true);
      V key = keyOf(score, at);
      V better =
          b.CreateAnd(b.CreateICmpULT(key, last), b.CreateICmpUGT(key, best));
      return b.CreateSelect(b.CreateAnd(better, b.CreateFCmpOEQ(score, score)),
                            key, best);
    });
    b.CreateStore(own, b.gep(index, keys, thread));
    V isFirst = b.CreateICmpEQ(thread, constant(0));
    branch(isFirst, [&] { b.CreateStore(b.getInt32(0), hit); });
    barrier();
    for (int64_t distance = kThreads / 2; distance > 0; distance /= 2) {
      branch(b.CreateICmpSLT(thread, constant(distance)), [&] {
        V place = b.gep(index, keys, thread);
        V mine = b.CreateLoad(index, place);
        V other = b.CreateLoad(
            index, b.gep(index, keys, b.CreateAdd(thread, constant(distance))));
        b.CreateStore(b.CreateSelect(b.CreateICmpUGT(other, mine), other, mine),
                      place);
      });
      barrier();
    }
    V key = b.CreateLoad(index, keys);
    V isThere = b.CreateICmpNE(key, constant(0));
    V box = b.CreateZExt(b.CreateNot(b.CreateTrunc(key, word)), index);
    branch(isThere, [&] {
      Box present = load(box);
      fold(kept, constant(0), [&](V at, V unused) {
        Box better = load(b.CreateLoad(index, b.gep(index, dst, at)));
        branch(overlap(better, present),
               [&] { b.CreateStore(b.getInt32(1), hit); });
        return unused;
      });
    });
    barrier();
    V isKept = b.CreateAnd(
        isThere, b.CreateICmpEQ(b.CreateLoad(word, hit), b.getInt32(0)));
    branch(b.CreateAnd(isFirst, isKept),
           [&] { b.CreateStore(box, b.gep(index, dst, kept)); });
    barrier();
    return {key, b.CreateAdd(kept, b.CreateZExt(isKept, index))};
  }

  /// The score, as an integer of the same order, above; below the number of the
  /// box, where the lower one is larger. Of a number never 0.
  V keyOf(V score, V at) {
    V bits =
        b.CreateBitCast(b.CreateSelect(b.CreateFCmpOEQ(score, b.zero(number)),
                                       b.zero(number), score),
                        word);
    V rank =
        b.CreateSelect(b.CreateICmpSLT(bits, b.getInt32(0)), b.CreateNot(bits),
                       b.CreateOr(bits, b.getInt32(INT32_MIN)));
    V place = b.CreateZExt(b.CreateNot(b.CreateTrunc(at, word)), index);
    return b.CreateOr(b.CreateShl(b.CreateZExt(rank, index), 32), place);
  }

  V shared(Type type, int64_t size, StringRef suffix) {
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(module.getBody());
    auto global = LLVM::GlobalOp::create(
        b.ops, b.loc, LLVM::LLVMArrayType::get(type, size), false,
        LLVM::Linkage::Internal, (name + suffix).str(), Attribute(), 16, 3);
    b.ops.setInsertionPointToStart(&function.getBody().front());
    return LLVM::AddressOfOp::create(b.ops, b.loc, global);
  }
  void barrier() { mlir::gpu::BarrierOp::create(b.ops, b.loc); }
  /// The final value of a loop over those of `to` that are this thread's.
  V fold(V to, V start, llvm::function_ref<V(V, V)> body) {
    auto loop =
        scf::ForOp::create(b.ops, b.loc, thread, to, constant(kThreads), start);
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(loop.getBody());
    V next = body(loop.getInductionVar(), loop.getRegionIterArg(0));
    scf::YieldOp::create(b.ops, b.loc, next);
    return loop.getResult(0);
  }
  V smaller(V x, V y) { return b.CreateSelect(b.CreateICmpSLT(x, y), x, y); }
  V lower(V x, V y) { return b.CreateSelect(b.CreateFCmpOLT(y, x), y, x); }
  V larger(V x, V y) { return b.CreateSelect(b.CreateFCmpOLT(x, y), y, x); }
  V positive(V x) { return b.CreateFCmpOGT(x, b.zero(number)); }

  Box load(V i) {
    V row = b.CreateMul(i, constant(4));
    auto corner = [&](int64_t at) {
      return b.CreateLoad(number,
                          b.gep(number, boxes, b.CreateAdd(row, constant(at))),
                          0, true);
    };
    V ya = corner(0), xa = corner(1), yb = corner(2), xb = corner(3);
    Box box{lower(ya, yb), lower(xa, xb), larger(ya, yb), larger(xa, xb), V()};
    box.area = b.CreateFMul(b.CreateFSub(box.x1, box.x0),
                            b.CreateFSub(box.y1, box.y0));
    return box;
  }

  V overlap(const Box &x, const Box &y) {
    V height = b.CreateFSub(lower(x.y1, y.y1), larger(x.y0, y.y0));
    V width = b.CreateFSub(lower(x.x1, y.x1), larger(x.x0, y.x0));
    V common = b.CreateFMul(width, height);
    V both = b.CreateFSub(b.CreateFAdd(x.area, y.area), common);
    V isLarge = b.CreateFCmpOGT(b.CreateFDiv(common, both), limit);
    for (V size : {height, width, x.area, y.area, common, both})
      isLarge = b.CreateAnd(isLarge, positive(size));
    return isLarge;
  }

  int64_t outer, classes, rows, count;
  Type number, word;
  V boxes, scores, threshold, most, dst;
  V limit, thread, keys, hit;
};

} // namespace

GpuLaunch emitGreedySuppress(exec::GreedySuppressOp call,
                             mlir::gpu::GPUModuleOp module, StringRef name) {
  return SuppressEmitter(call, module, name).emit();
}

} // namespace kerf::cuda
