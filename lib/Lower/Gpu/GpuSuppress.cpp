//===- GpuSuppress.cpp - boxes that no better one overlaps ----------------===//
//
// Problem: whether a box is kept depends on all that are kept before it.
//
// Idea: a block owns a row, and the result itself says which boxes are still
// there: the candidates at first. One box after the other, from the best on: if
// it is still there it is kept, and the threads divide those behind it among
// them and take away what overlaps it. A barrier ends each step, so the choice
// is that of one thread that goes through all pairs.
//
// Invariant: whether a box is there is the same for all threads of the block,
// so they reach each barrier together.
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
        rows(static_cast<int64_t>(call.getRows())), number(b.ops.getF32Type()),
        boxes(pointerOf(call.getBoxesMutable())),
        candidates(pointerOf(call.getCandidatesMutable())),
        threshold(pointerOf(call.getThresholdMutable())),
        dst(pointerOf(call.getDstMutable())) {}

  GpuLaunch emit() {
    launch.grid[0] = outer;
    launch.block = {kThreads, 1, 1};
    V limit = b.CreateLoad(number, threshold, 0, true);
    first = b.CreateMul(blockId(), constant(rows));
    V thread = threadId();
    loop(thread, kThreads, [&](V i) {
      V at = b.CreateAdd(first, i);
      V mark = b.CreateLoad(b.getInt8Ty(), b.gep(b.getInt8Ty(), candidates, at),
                            0, true);
      b.CreateStore(mark, b.gep(b.getInt8Ty(), dst, at));
    });
    barrier();
    loop(constant(0), 1, [&](V i) {
      branch(isThere(i), [&] {
        Box better = load(i);
        V next = b.CreateAdd(b.CreateAdd(i, constant(1)), thread);
        loop(next, kThreads, [&](V j) {
          branch(isThere(j), [&] {
            branch(overlap(better, load(j), limit), [&] {
              b.CreateStore(b.integer(b.getInt8Ty(), 0), place(j));
            });
          });
        });
      });
      barrier();
    });
    return finish();
  }

private:
  struct Box {
    V y0, x0, y1, x1, area;
  };

  void barrier() { mlir::gpu::BarrierOp::create(b.ops, b.loc); }
  /// Over the boxes of the row from `from` on.
  void loop(V from, int64_t step, llvm::function_ref<void(V)> body) {
    auto loop =
        scf::ForOp::create(b.ops, b.loc, from, constant(rows), constant(step));
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  V place(V i) { return b.gep(b.getInt8Ty(), dst, b.CreateAdd(first, i)); }
  V isThere(V i) {
    return b.CreateICmpNE(b.CreateLoad(b.getInt8Ty(), place(i)),
                          b.integer(b.getInt8Ty(), 0));
  }
  V lower(V x, V y) { return b.CreateSelect(b.CreateFCmpOLT(y, x), y, x); }
  V larger(V x, V y) { return b.CreateSelect(b.CreateFCmpOLT(x, y), y, x); }
  V positive(V x) { return b.CreateFCmpOGT(x, b.zero(number)); }

  Box load(V i) {
    V row = b.CreateMul(b.CreateAdd(first, i), constant(4));
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

  V overlap(const Box &x, const Box &y, V limit) {
    V height = b.CreateFSub(lower(x.y1, y.y1), larger(x.y0, y.y0));
    V width = b.CreateFSub(lower(x.x1, y.x1), larger(x.x0, y.x0));
    V common = b.CreateFMul(width, height);
    V both = b.CreateFSub(b.CreateFAdd(x.area, y.area), common);
    V isLarge = b.CreateFCmpOGT(b.CreateFDiv(common, both), limit);
    for (V size : {height, width, x.area, y.area, common, both})
      isLarge = b.CreateAnd(isLarge, positive(size));
    return isLarge;
  }

  int64_t outer, rows;
  Type number;
  V boxes, candidates, threshold, dst, first;
};

} // namespace

GpuLaunch emitGreedySuppress(exec::GreedySuppressOp call,
                             mlir::gpu::GPUModuleOp module, StringRef name) {
  return SuppressEmitter(call, module, name).emit();
}

} // namespace kerf::cuda
