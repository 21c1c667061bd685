//===- GpuCalls.cpp - library calls that are kernels on GPUs --------------===//
//
// top_k: a thread owns an element of a row and counts those that come before
// it, which is its place in the result.
//
// Gradients of pools: a thread owns an element of the image and goes through
// the windows that it lies in, in row-major order. That of a maximum looks
// whether the element is the first largest of each.
//
//===----------------------------------------------------------------------===//
#include "GpuCalls.h"
#include "CallKernel.h"

#include "kerf/Lower/Gpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kerf::cuda {

namespace {

constexpr int64_t kThreads = 256;

class CallEmitter : CallKernel {
public:
  CallEmitter(exec::LibraryCallInterface call, mlir::gpu::GPUModuleOp module,
              StringRef name)
      : CallKernel(call, module, name) {
    element = call.getResultType();
  }

  GpuLaunch emit(exec::TopKOp op) {
    topK(op);
    return finish();
  }
  GpuLaunch emit(exec::MaxPoolGradientOp op) {
    setSizes(op.getWindow(), op.getBatch(), op.getChannels());
    pool(pointerOf(op.getSrcMutable()), pointerOf(op.getDiffMutable()),
         pointerOf(op.getDstMutable()));
    return finish();
  }
  GpuLaunch emit(exec::AvgPoolGradientOp op) {
    setSizes(op.getWindow(), op.getBatch(), op.getChannels());
    countPadding = op.getCountPadding();
    if (op.getCountHigh())
      high.assign(op.getCountHigh()->begin(), op.getCountHigh()->end());
    pool(V(), pointerOf(op.getDiffMutable()), pointerOf(op.getDstMutable()));
    return finish();
  }

private:
  void setSizes(exec::WindowAttr window, int64_t images, int64_t count) {
    in.assign(window.getIn().begin(), window.getIn().end());
    out.assign(window.getOut().begin(), window.getOut().end());
    kernel.assign(window.getKernel().begin(), window.getKernel().end());
    strides.assign(window.getStrides().begin(), window.getStrides().end());
    low.assign(window.getLow().begin(), window.getLow().end());
    high.assign(window.getHigh().begin(), window.getHigh().end());
    dilations.assign(window.getDilations().begin(),
                     window.getDilations().end());
    batch = images;
    channels = count;
  }

  V add(V x, V y) { return b.CreateAdd(x, y); }
  V mul(V x, int64_t k) { return b.CreateMul(x, constant(k)); }
  V slot(Type type) {
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(&function.getBody().front());
    V one = b.getInt32(1);
    return LLVM::AllocaOp::create(b.ops, b.loc, b.pointer(), type, one, 16);
  }
  void loop(int64_t count, llvm::function_ref<void(V)> body) {
    auto loop = scf::ForOp::create(b.ops, b.loc, constant(0), constant(count),
                                   constant(1));
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  V less(V x, int64_t limit) { return b.CreateICmpULT(x, constant(limit)); }

  void topK(exec::TopKOp op);
  /// x > y, where NaN is larger than every number.
  V larger(V x, V y);
  /// For the gradient of a maximum over windows the image `x`; null: of a mean.
  void pool(V x, V diff, V dst);
  /// Through all windows in which a position lies, in row-major order; `body`
  /// gets the window and, per dimension, the place in it.
  void forWindows(ArrayRef<V> position,
                  llvm::function_ref<void(ArrayRef<V>, ArrayRef<V>)> body);
  V isFirstLargest(V x, V image, V channel, ArrayRef<V> window,
                   ArrayRef<V> place, V value);
  V dividedBy(ArrayRef<V> window);
  /// The element of channels-last [.., sizes, channels].
  V at(V outer, ArrayRef<V> spatial, ArrayRef<int64_t> sizes, V channel);

  Type element;
  // Of a pool.
  SmallVector<int64_t> in, out, kernel, strides, low, high, dilations;
  int64_t batch = 0, channels = 0;
  bool countPadding = false;
};

Value CallEmitter::larger(V x, V y) {
  if (!isa<FloatType>(x.getType()))
    return b.CreateICmpSLT(y, x);
  return b.CreateOr(
      b.CreateFCmpOGT(x, y),
      b.CreateAnd(b.CreateFCmpUNO(x, x), b.CreateNot(b.CreateFCmpUNO(y, y))));
}

void CallEmitter::topK(exec::TopKOp op) {
  auto rows = static_cast<int64_t>(op.getRows()),
       count = static_cast<int64_t>(op.getCount());
  int64_t total = static_cast<int64_t>(op.getOuter()) * rows;
  Type read = exec::elementType(op.getSrc()), word = b.getInt64Ty();
  V src = pointerOf(op.getSrcMutable()), dst = pointerOf(op.getDstMutable());
  launch.grid[0] = llvm::divideCeil(total, kThreads);
  launch.block = {kThreads, 1, 1};
  V own = add(mul(blockId(), kThreads), threadId());
  branch(less(own, total), [&] {
    V place = b.CreateURem(own, constant(rows));
    V row = b.CreateUDiv(own, constant(rows));
    V value = b.CreateLoad(read, b.gep(read, src, own), 0, true);
    V rank = slot(word);
    b.CreateStore(b.integer(word, 0), rank);
    loop(rows, [&](V at) {
      V rival = b.CreateLoad(read, b.gep(read, src, add(mul(row, rows), at)), 0,
                             true);
      V wins = op.getSmallest() ? larger(value, rival) : larger(rival, value);
      V loses = op.getSmallest() ? larger(rival, value) : larger(value, rival);
      V before = b.CreateOr(
          wins, b.CreateAnd(b.CreateNot(loses), b.CreateICmpSLT(at, place)));
      V known = b.CreateLoad(word, rank);
      b.CreateStore(b.CreateAdd(known, b.CreateZExt(before, word)), rank);
    });
    V final = b.CreateSExtOrTrunc(b.CreateLoad(word, rank), index);
    branch(less(final, count), [&] {
      b.CreateStore(b.CreateSExtOrTrunc(place, word),
                    b.gep(word, dst, add(mul(row, count), final)));
    });
  });
}

//===----------------------------------------------------------------------===//
// Gradients of pools
//===----------------------------------------------------------------------===//

Value CallEmitter::at(V outer, ArrayRef<V> spatial, ArrayRef<int64_t> sizes,
                      V channel) {
  V flat = outer;
  for (auto [position, size] : llvm::zip_equal(spatial, sizes))
    flat = add(mul(flat, size), position);
  return add(mul(flat, channels), channel);
}

void CallEmitter::forWindows(
    ArrayRef<V> position,
    llvm::function_ref<void(ArrayRef<V>, ArrayRef<V>)> body) {
  SmallVector<V> window, place;
  std::function<void(size_t)> nest = [&](size_t d) {
    if (d == position.size())
      return body(window, place);
    // The last place in a window first: it belongs to the first window.
    loop(kernel[d], [&](V step) {
      V k = b.CreateSub(constant(kernel[d] - 1), step);
      V start =
          b.CreateSub(add(position[d], constant(low[d])), mul(k, dilations[d]));
      V o = b.CreateSDiv(start, constant(strides[d]));
      V exact = b.CreateICmpEQ(mul(o, strides[d]), start);
      V inside = b.CreateAnd(b.CreateNot(b.CreateICmpSLT(start, constant(0))),
                             less(o, out[d]));
      branch(b.CreateAnd(exact, inside), [&] {
        window.push_back(o);
        place.push_back(k);
        nest(d + 1);
        window.pop_back();
        place.pop_back();
      });
    });
  };
  nest(0);
}

Value CallEmitter::isFirstLargest(V x, V image, V channel, ArrayRef<V> window,
                                  ArrayRef<V> place, V value) {
  V own = constant(0);
  for (auto [k, size] : llvm::zip_equal(place, kernel))
    own = add(mul(own, size), k);
  V result = slot(b.getInt8Ty());
  b.CreateStore(b.integer(b.getInt8Ty(), 1), result);
  SmallVector<V> other;
  std::function<void(size_t, V)> nest = [&](size_t d, V flat) {
    if (d < window.size()) {
      loop(kernel[d], [&](V k) {
        V p = b.CreateSub(add(mul(window[d], strides[d]), mul(k, dilations[d])),
                          constant(low[d]));
        branch(less(p, in[d]), [&] {
          other.push_back(p);
          nest(d + 1, add(mul(flat, kernel[d]), k));
          other.pop_back();
        });
      });
      return;
    }
    V rival = b.CreateLoad(
        element, b.gep(element, x, at(image, other, in, channel)), 0, true);
    V rivalNaN = b.CreateFCmpUNO(rival, rival);
    V larger = b.CreateOr(
        b.CreateFCmpOGT(rival, value),
        b.CreateAnd(rivalNaN, b.CreateNot(b.CreateFCmpUNO(value, value))));
    V same = b.CreateOr(b.CreateFCmpOEQ(rival, value), rivalNaN);
    V before = b.CreateICmpSLT(flat, own);
    V beaten = b.CreateOr(larger, b.CreateAnd(before, same));
    branch(beaten, [&] { b.CreateStore(b.integer(b.getInt8Ty(), 0), result); });
  };
  nest(0, constant(0));
  return b.CreateICmpNE(b.CreateLoad(b.getInt8Ty(), result),
                        b.integer(b.getInt8Ty(), 0));
}

Value CallEmitter::dividedBy(ArrayRef<V> window) {
  V count = constant(1);
  for (auto [d, o] : llvm::enumerate(window)) {
    V part = constant(0);
    int64_t from = countPadding ? 0 : low[d];
    int64_t size = countPadding ? low[d] + in[d] + high[d] : in[d];
    for (int64_t k = 0; k < kernel[d]; ++k) {
      V p = add(mul(o, strides[d]), constant(k * dilations[d] - from));
      part = add(part, b.CreateZExt(less(p, size), index));
    }
    count = b.CreateMul(count, part);
  }
  return b.CreateSIToFP(count, element);
}

void CallEmitter::pool(V x, V diff, V dst) {
  int64_t total = batch * channels * llvm::product_of(in);
  launch.grid[0] = llvm::divideCeil(total, kThreads);
  launch.block = {kThreads, 1, 1};
  V own = add(mul(blockId(), kThreads), threadId());
  branch(less(own, total), [&] {
    V channel = b.CreateURem(own, constant(channels));
    V rest = b.CreateUDiv(own, constant(channels));
    SmallVector<V> position(in.size());
    for (size_t d = in.size(); d-- > 0;) {
      position[d] = b.CreateURem(rest, constant(in[d]));
      rest = b.CreateUDiv(rest, constant(in[d]));
    }
    V image = rest, sum = slot(element);
    b.CreateStore(b.zero(element), sum);
    V value = x ? b.CreateLoad(element, b.gep(element, x, own), 0, true) : V();
    forWindows(position, [&](ArrayRef<V> window, ArrayRef<V> place) {
      auto take = [&] {
        V dy = b.CreateLoad(
            element, b.gep(element, diff, at(image, window, out, channel)), 0,
            true);
        if (!x)
          dy = b.CreateFDiv(dy, dividedBy(window));
        b.CreateStore(b.CreateFAdd(b.CreateLoad(element, sum), dy), sum);
      };
      if (x)
        branch(isFirstLargest(x, image, channel, window, place, value), take);
      else
        take();
    });
    b.CreateStore(b.CreateLoad(element, sum), b.gep(element, dst, own));
  });
}

} // namespace

FailureOr<GpuLaunch> emitCall(exec::LibraryCallInterface call,
                              mlir::gpu::GPUModuleOp module, StringRef name) {
  if (exec::MatmulOp product = productWithEpilogueKernel(call))
    return emitEpilogue(product, module, name);
  return llvm::TypeSwitch<Operation *, FailureOr<GpuLaunch>>(call)
      .Case<exec::AttentionOp, exec::AttentionGradientOp>(
          [&](auto op) { return emitAttention(op, module, name); })
      .Case<exec::ScatterAddOp, exec::ScatterOp>(
          [&](auto op) { return emitScatter(op, module, name); })
      .Case<exec::GreedySuppressOp>([&](exec::GreedySuppressOp op) {
        return emitGreedySuppress(op, module, name);
      })
      .Case<exec::TopKOp, exec::MaxPoolGradientOp, exec::AvgPoolGradientOp>(
          [&](auto op) { return CallEmitter(call, module, name).emit(op); })
      .Default([](Operation *) { return failure(); });
}

} // namespace kerf::cuda

bool kerf::isGpuKernelCall(exec::LibraryCallInterface call) {
  return call.hasGpuKernel() || cuda::productWithEpilogueKernel(call);
}
