//===- GpuAttention.cpp - attention where the library has none ------------===//
//
// Problem: cuDNN's fused attention may be missing, or refuse a shape that
// another version takes, and a package must still run.
//
// Idea: each element of a result belongs to one thread, which visits its keys
// (or queries) once, with a running maximum. Scores are recomputed for every
// element of a head, so this is slow; it is right for every view, shape and
// type, and no sum depends on how threads are scheduled. Threads of the three
// gradients are consecutive ranges of one launch.
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
  template <typename Op>
  AttentionEmitter(Op call, mlir::gpu::GPUModuleOp module, StringRef name)
      : CallKernel(call, module, name), math(b) {
    wide = b.getFloatTy();
    element = exec::elementType(call.getQ());
    exec::AttentionSizesAttr sizes = call.getSizes();
    batch = sizes.getBatch();
    heads = sizes.getHeads();
    keyHeads = sizes.getKeyHeads();
    queries = sizes.getQueries();
    keys = sizes.getKeys();
    size = sizes.getHeadSize();
    width = sizes.getValueSize();
    causal = call.getCausal();
    scale = call.getScale().convertToDouble();
    for (exec::Role &role : call.getRoles()) {
      Tensor tensor{pointerOf(*role.operand),
                    exec::elementType(role.operand->get()),
                    role.view ? role.view.getOffset() : 0,
                    {}};
      if (role.view && !role.view.getStrides().empty())
        tensor.strides = llvm::to_vector(role.view.getStrides());
      else
        tensor.strides = denseStrides(role.shape);
      tensors[role.operand->getOperandNumber()] = tensor;
    }
    q = numberOf(call.getQMutable());
    k = numberOf(call.getKMutable());
    v = numberOf(call.getVMutable());
    dst = numberOf(call.getDstMutable());
    statistics = numberOf(call.getStatsMutable());
    if (call.getBias())
      bias = numberOf(*call.getBiasMutable().begin());
  }

  GpuLaunch emit(exec::AttentionOp) {
    emitForward(thread());
    return launched();
  }
  GpuLaunch emit(exec::AttentionGradientOp call) {
    out = numberOf(call.getOutMutable());
    diff = numberOf(call.getDiffMutable());
    dk = numberOf(call.getDkMutable());
    dv = numberOf(call.getDvMutable());
    emitGradient(thread());
    return launched();
  }

private:
  using Position = std::array<V, 4>; ///< batch, head, row, column
  /// Where an operand's elements lie.
  struct Tensor {
    V pointer;
    Type element;
    int64_t offset;
    SmallVector<int64_t> strides;
  };

  static unsigned numberOf(OpOperand &operand) {
    return operand.getOperandNumber();
  }
  static SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
    SmallVector<int64_t> strides(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;)
      strides[d - 1] = strides[d] * shape[d];
    return strides;
  }
  V thread() {
    return b.CreateAdd(b.CreateMul(blockId(), constant(kThreads)), threadId());
  }
  GpuLaunch launched() {
    launch.grid = {(total + kThreads - 1) / kThreads, 1, 1};
    launch.block = {kThreads, 1, 1};
    return finish();
  }

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
  /// The final value of a loop over `start`.
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

  V address(unsigned operand, ArrayRef<V> position) {
    const Tensor &tensor = tensors.find(operand)->second;
    V flat = constant(tensor.offset);
    for (auto [stride, at] : llvm::zip_equal(tensor.strides, position))
      if (stride != 0)
        flat = b.CreateAdd(flat, b.CreateMul(at, constant(stride)));
    return b.gep(tensor.element, tensor.pointer, flat);
  }
  V load(unsigned operand, const Position &p) {
    return b.CreateFPCast(b.CreateLoad(element, address(operand, p), 0, true),
                          wide);
  }
  void store(unsigned operand, const Position &p, V value) {
    b.CreateStore(b.CreateFPCast(value, element), address(operand, p));
  }
  V stats(const Position &p) { return address(statistics, {p[0], p[1], p[2]}); }

  /// sum_c x[row x, c] y[row y, c]
  V dot(unsigned x, Position px, unsigned y, Position py, int64_t count) {
    return fold(
        constant(0), constant(count), {real(0)}, [&](V c, ValueRange sum) {
          px[3] = py[3] = c;
          return SmallVector<V>{b.mulAdd(load(x, px), load(y, py), sum[0])};
        })[0];
  }
  V score(const Position &query, const Position &key) {
    V s = b.CreateFMul(dot(q, query, k, key, size), real(scale));
    if (bias) {
      Type type = tensors.find(*bias)->second.element;
      V added = b.CreateLoad(
          type, address(*bias, {query[0], query[1], query[2], key[2]}), 0,
          true);
      s = b.CreateFAdd(s, b.CreateFPCast(added, wide));
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
            V max = math.maximum(state[0], s);
            V shrink = math.expNonPositive(b.CreateFSub(state[0], max));
            V p = math.expNonPositive(b.CreateFSub(s, max));
            return SmallVector<V>{
                max, b.mulAdd(state[1], shrink, p),
                b.mulAdd(p, load(v, key), b.CreateFMul(state[2], shrink))};
          });
      store(dst, out, b.CreateFDiv(end[2], end[1]));
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
    V given = b.CreateFSub(dot(diff, query, v, key, width),
                           dot(diff, query, out, query, width));
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
                         b.mulAdd(slope(query, key), load(k, key), sum[0])};
                   })[0];
      store(dst, query, b.CreateFMul(sum, real(scale)));
    });
    part(ofQuery, ofKey, [&](V at) {
      Position key = split(at, keys, keyHeads, size);
      V sum = sumOfQueries(key, [&](const Position &query) {
        return b.CreateFMul(slope(query, key), load(q, query));
      });
      store(dk, key, b.CreateFMul(sum, real(scale)));
    });
    part(ofQuery + ofKey, ofValue, [&](V at) {
      Position key = split(at, keys, keyHeads, width);
      V sum = sumOfQueries(key, [&](const Position &query) {
        return b.CreateFMul(probability(query, key), load(diff, query));
      });
      store(dv, key, sum);
    });
  }

  codegen::VectorMathOf<GpuBuilder> math;
  llvm::SmallDenseMap<unsigned, Tensor> tensors; ///< by operand number
  /// Operands; those of the gradient alone are 0 in the forward.
  unsigned q, k, v, dst, statistics, out = 0, diff = 0, dk = 0, dv = 0;
  std::optional<unsigned> bias;
  Type element, wide;
  int64_t batch = 0, heads = 0, keyHeads = 0, queries = 0, keys = 0, size = 0,
          width = 0, total = 0;
  double scale = 1;
  bool causal = false;
};

} // namespace

GpuLaunch emitAttention(exec::AttentionOp call, mlir::gpu::GPUModuleOp module,
                        StringRef name) {
  return AttentionEmitter(call, module, name).emit(call);
}

GpuLaunch emitAttention(exec::AttentionGradientOp call,
                        mlir::gpu::GPUModuleOp module, StringRef name) {
  return AttentionEmitter(call, module, name).emit(call);
}

} // namespace kerf::cuda
