//===- GpuAttention.cpp - attention where the library has none ------------===//
//
// Problem: cuDNN's fused attention may be missing or refuse a shape that a
// later or earlier version takes, and a package must run all the same.
//
// Idea: each element of a result belongs to one thread, which goes through its
// keys (or queries) once, with a running maximum. Scores are computed anew for
// every element of a head, so this is slow; it is right for every view, shape
// and type, and no sum depends on how threads are scheduled. Threads of the
// three gradients are consecutive ranges of one launch.
//
//===----------------------------------------------------------------------===//
#include "CallKernel.h"
#include "GpuCalls.h"

#include "../Codegen/VectorMath.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kerf::cuda {

namespace {

constexpr int64_t kThreads = 128;

class AttentionEmitter : CallKernel {
public:
  AttentionEmitter(DictionaryAttr descriptor, int64_t numBuffers,
                   mlir::gpu::GPUModuleOp module, StringRef name)
      : CallKernel(descriptor, numBuffers, module, name), math(b) {
    wide = b.getFloatTy();
    StringRef dtype = text("dtype");
    element = dtype == "bf16"  ? Type(b.ops.getBF16Type())
              : dtype == "f16" ? Type(b.ops.getF16Type())
                               : wide;
  }

  FailureOr<GpuLaunch> emit() {
    bool forward = text("kind") == "attention";
    SmallVector<StringRef> needed = {"q", "k", "v", "dst", "stats"};
    if (!forward)
      needed.append({"out", "diff", "dk", "dv"});
    for (StringRef key : needed)
      if (!operand(key))
        return failure();
    batch = number("batch");
    heads = number("heads");
    keyHeads = number("key_heads");
    queries = number("queries");
    keys = number("keys");
    size = number("head_size");
    width = number("value_size");
    causal = descriptor.getAs<BoolAttr>("causal") &&
             descriptor.getAs<BoolAttr>("causal").getValue();
    if (auto attr = descriptor.getAs<FloatAttr>("scale"))
      scale = attr.getValueAsDouble();
    V thread =
        b.CreateAdd(b.CreateMul(blockId(), constant(kThreads)), threadId());
    if (forward)
      emitForward(thread);
    else
      emitGradient(thread);
    launch.grid = {(total + kThreads - 1) / kThreads, 1, 1};
    launch.block = {kThreads, 1, 1};
    return finish();
  }

private:
  using Position = std::array<V, 4>; ///< batch, head, row, column

  V real(double value) { return b.real(wide, value); }
  /// `at` as a position in dimensions of these sizes.
  Position split(V at, int64_t rows, int64_t headCount, int64_t columns) {
    Position p;
    p[3] = b.CreateURem(at, constant(columns));
    at = b.CreateUDiv(at, constant(columns));
    p[2] = b.CreateURem(at, constant(rows));
    at = b.CreateUDiv(at, constant(rows));
    p[1] = b.CreateURem(at, constant(headCount));
    p[0] = b.CreateUDiv(at, constant(headCount));
    return p;
  }
  /// What a loop makes of `start`.
  SmallVector<V> fold(V from, V to, ArrayRef<V> start,
                      llvm::function_ref<SmallVector<V>(V, ValueRange)> body) {
    auto loop = scf::ForOp::create(b.ops, b.loc, from, to, constant(1), start);
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(loop.getBody());
    SmallVector<V> next =
        body(loop.getInductionVar(), loop.getRegionIterArgs());
    scf::YieldOp::create(b.ops, b.loc, next);
    return SmallVector<V>(loop.getResults());
  }

  V address(StringRef key, Type type, ArrayRef<int64_t> dense,
            ArrayRef<V> position) {
    DictionaryAttr given = operand(key);
    SmallVector<int64_t> strides(dense);
    if (auto array = given.getAs<ArrayAttr>("strides"))
      for (auto [d, entry] : llvm::enumerate(array))
        strides[d] = cast<IntegerAttr>(entry).getInt();
    auto offset = given.getAs<IntegerAttr>("offset");
    V flat = constant(offset ? offset.getInt() : 0);
    for (auto [stride, at] : llvm::zip_equal(strides, position))
      if (stride != 0)
        flat = b.CreateAdd(flat, b.CreateMul(at, constant(stride)));
    return b.gep(type, pointerOf(given), flat);
  }
  static SmallVector<int64_t> denseOf(int64_t headCount, int64_t rows,
                                      int64_t columns) {
    return {headCount * rows * columns, rows * columns, columns, 1};
  }
  V tensor(StringRef key, const Position &p) {
    bool isKey = key == "k" || key == "v" || key == "dk" || key == "dv";
    bool isValue = key != "q" && key != "k" && key != "dk" &&
                   !(key == "dst" && text("kind") != "attention");
    return address(key, element,
                   denseOf(isKey ? keyHeads : heads, isKey ? keys : queries,
                           isValue ? width : size),
                   p);
  }
  V load(StringRef key, const Position &p) {
    return b.CreateFPCast(b.CreateLoad(element, tensor(key, p), 0, true), wide);
  }
  void store(StringRef key, const Position &p, V value) {
    b.CreateStore(b.CreateFPCast(value, element), tensor(key, p));
  }
  V stats(const Position &p) {
    return address("stats", wide, {heads * queries, queries, 1},
                   {p[0], p[1], p[2]});
  }

  /// sum_c x[row x, c] y[row y, c]
  V dot(StringRef x, Position px, StringRef y, Position py, int64_t count) {
    return fold(
        constant(0), constant(count), {real(0)}, [&](V c, ValueRange sum) {
          px[3] = py[3] = c;
          return SmallVector<V>{b.mulAdd(load(x, px), load(y, py), sum[0])};
        })[0];
  }
  V score(const Position &query, const Position &key) {
    V s = b.CreateFMul(dot("q", query, "k", key, size), real(scale));
    if (operand("bias")) {
      Type type = text("bias_dtype") == "f32" ? wide : element;
      V bias = b.CreateLoad(
          type,
          address("bias", type,
                  {heads * queries * keys, queries * keys, keys, 1},
                  {query[0], query[1], query[2], key[2]}),
          0, true);
      s = b.CreateFAdd(s, b.CreateFPCast(bias, wide));
    }
    return s;
  }
  /// Keys that a query sees: 0 to here.
  V seen(V query) {
    if (!causal)
      return constant(keys);
    V end = b.CreateAdd(query, constant(1));
    return b.CreateSelect(b.CreateICmpULT(end, constant(keys)), end,
                          constant(keys));
  }
  V keyHead(V head) { return b.CreateUDiv(head, constant(heads / keyHeads)); }

  void emitForward(V thread) {
    total = batch * heads * queries * width;
    branch(b.CreateICmpULT(thread, constant(total)), [&] {
      Position out = split(thread, queries, heads, width);
      Position key = {out[0], keyHead(out[1]), {}, out[3]};
      SmallVector<V> end = fold(
          constant(0), seen(out[2]), {b.infinity(wide, true), real(0), real(0)},
          [&](V j, ValueRange state) {
            key[2] = j;
            V s = score(out, key);
            V most = math.maximum(state[0], s);
            V shrink = math.expNonPositive(b.CreateFSub(state[0], most));
            V p = math.expNonPositive(b.CreateFSub(s, most));
            return SmallVector<V>{
                most, b.mulAdd(state[1], shrink, p),
                b.mulAdd(p, load("v", key), b.CreateFMul(state[2], shrink))};
          });
      store("dst", out, b.CreateFDiv(end[2], end[1]));
      branch(b.CreateICmpEQ(out[3], constant(0)), [&] {
        b.CreateStore(b.CreateFAdd(end[0], math.log(end[1])), stats(out));
      });
    });
  }

  V probability(const Position &query, const Position &key) {
    V s = score(query, key);
    return math.exp(b.CreateFSub(s, b.CreateLoad(wide, stats(query), 0, true)));
  }
  /// p (dy . v - dy . out)
  V slope(const Position &query, const Position &key) {
    V given = b.CreateFSub(dot("diff", query, "v", key, width),
                           dot("diff", query, "out", query, width));
    return b.CreateFMul(probability(query, key), given);
  }
  /// Sum over the queries of a group that see the key at `at`.
  V sumOfQueries(const Position &at,
                 llvm::function_ref<V(const Position &)> f) {
    int64_t group = heads / keyHeads;
    V first = b.CreateMul(at[1], constant(group));
    return fold(first, b.CreateAdd(first, constant(group)), {real(0)},
                [&](V head, ValueRange outer) {
                  return fold(causal ? at[2] : constant(0), constant(queries),
                              outer[0], [&](V i, ValueRange sum) {
                                Position query = {at[0], head, i, at[3]};
                                return SmallVector<V>{
                                    b.CreateFAdd(sum[0], f(query))};
                              });
                })[0];
  }

  void emitGradient(V thread) {
    int64_t ofQuery = batch * heads * queries * size,
            ofKey = batch * keyHeads * keys * size,
            ofValue = batch * keyHeads * keys * width;
    total = ofQuery + ofKey + ofValue;
    auto part = [&](int64_t begin, int64_t count,
                    llvm::function_ref<void(V)> body) {
      V at = b.CreateSub(thread, constant(begin));
      branch(b.CreateICmpULT(at, constant(count)), [&] { body(at); });
    };
    part(0, ofQuery, [&](V at) {
      Position query = split(at, queries, heads, size);
      V sum = fold(constant(0), seen(query[2]), {real(0)},
                   [&](V j, ValueRange sum) {
                     Position key = {query[0], keyHead(query[1]), j, query[3]};
                     return SmallVector<V>{
                         b.mulAdd(slope(query, key), load("k", key), sum[0])};
                   })[0];
      store("dst", query, b.CreateFMul(sum, real(scale)));
    });
    part(ofQuery, ofKey, [&](V at) {
      Position key = split(at, keys, keyHeads, size);
      V sum = sumOfQueries(key, [&](const Position &query) {
        return b.CreateFMul(slope(query, key), load("q", query));
      });
      store("dk", key, b.CreateFMul(sum, real(scale)));
    });
    part(ofQuery + ofKey, ofValue, [&](V at) {
      Position key = split(at, keys, keyHeads, width);
      V sum = sumOfQueries(key, [&](const Position &query) {
        return b.CreateFMul(probability(query, key), load("diff", query));
      });
      store("dv", key, sum);
    });
  }

  codegen::VectorMathOf<GpuBuilder> math;
  Type element, wide;
  int64_t batch = 0, heads = 0, keyHeads = 0, queries = 0, keys = 0, size = 0,
          width = 0, total = 0;
  double scale = 1;
  bool causal = false;
};

} // namespace

FailureOr<GpuLaunch> emitAttention(DictionaryAttr descriptor,
                                   int64_t numBuffers,
                                   mlir::gpu::GPUModuleOp module,
                                   StringRef name) {
  return AttentionEmitter(descriptor, numBuffers, module, name).emit();
}

} // namespace kerf::cuda
