//===- Calls.cpp - library calls and collectives as exec ops --------------===//
//
// See Calls.h.
//
//===----------------------------------------------------------------------===//
#include "Calls.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/NN/IR/Elements.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/STLExtras.h"

#include <type_traits>

using namespace mlir;
using namespace kerf;

exec::Phase kerf::toPhase(dist::Phase phase) {
  switch (phase) {
  case dist::Phase::Prologue:
    return exec::Phase::Prologue;
  case dist::Phase::Forward:
    return exec::Phase::Forward;
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return exec::Phase::Backward;
  case dist::Phase::Update:
    return exec::Phase::Update;
  }
  return exec::Phase::Forward;
}

exec::PhaseAttr kerf::phaseOf(Operation *op) {
  dist::Phase phase = dist::getPhase(op);
  return phase == dist::Phase::Forward
             ? exec::PhaseAttr()
             : exec::PhaseAttr::get(op->getContext(), toPhase(phase));
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

/// Null for dense elements from the first on.
static exec::ViewAttr viewOf(MLIRContext *context, const StridedView &view) {
  bool dense = view.strides == denseStrides(view.sizes);
  if (dense && view.offset == 0)
    return {};
  return exec::ViewAttr::get(
      context, dense ? ArrayRef<int64_t>() : ArrayRef<int64_t>(view.strides),
      view.offset);
}

namespace {
class CallEmitter {
public:
  CallEmitter(OpBuilder &builder, const LibraryCall &call, int64_t index,
              CallPlaces places)
      : builder(builder), call(call), places(places), index(index),
        loc(call.anchor->getLoc()), node(modelNode(loc)),
        phase(phaseOf(call.anchor)) {}

  exec::LibraryCallInterface emit() {
    // `make` has an overload for every op that a library computes.
    auto makeOf = [this](auto op) -> decltype(this->make(op)) {
      return make(op);
    };
    exec::LibraryCallInterface made;
    nn::visitOps(call.anchor, [&](auto op) {
      if constexpr (std::is_invocable_v<decltype(makeOf), decltype(op)>)
        made = makeOf(op);
      return true;
    });
    return made;
  }

private:
  /// The roles shared by a convolution and its gradients: the image, the result
  /// of the forward convolution, the weights.
  struct Conv {
    template <typename Op>
    Conv(Op op, Value x, Value y, Value w)
        : batch(sizeOf(x, 0)), inChannels(sizeOf(x, -1)),
          outChannels(sizeOf(y, -1)), groups(op.getGroups()),
          window(exec::WindowAttr::get(op.getContext(), spatialOf(x),
                                       spatialOf(y), shapeOf(w).drop_front(2),
                                       op.getStrides(), op.getLow(),
                                       op.getHigh(), op.getDilations())) {}
    int64_t batch, inChannels, outChannels, groups;
    exec::WindowAttr window;
  };

  static ArrayRef<int64_t> spatialOf(Value image) {
    return shapeOf(image).drop_front().drop_back();
  }
  /// The size of a dimension; a negative one means the last.
  static int64_t sizeOf(Value value, int64_t dim) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return dim < 0 ? shape.back() : shape[dim];
  }
  template <typename Op>
  static exec::WindowAttr poolWindow(Op op, Value x, Value y) {
    return exec::WindowAttr::get(op.getContext(), spatialOf(x), spatialOf(y),
                                 op.getKernel(), op.getStrides(), op.getLow(),
                                 op.getHigh(), op.getDilations());
  }

  Value read(const StridedView &view) { return places.read(view.base); }
  exec::ViewAttr view(const StridedView &strided) {
    return viewOf(builder.getContext(), strided);
  }
  UnitAttr mark(bool set) { return set ? builder.getUnitAttr() : UnitAttr(); }

  /// Bias and second tensors, behind the other operands.
  struct Epilogue {
    Value bias;
    exec::ViewAttr biasView;
    SmallVector<Value> operands;
    ArrayAttr postOps;
  };
  Epilogue readEpilogue() {
    Epilogue epilogue;
    if (call.bias) {
      epilogue.bias = read(*call.bias);
      if (call.bias->offset != 0)
        epilogue.biasView =
            exec::ViewAttr::get(builder.getContext(), {}, call.bias->offset);
    }
    SmallVector<Attribute> list;
    for (const PostOp &post : call.postOps) {
      auto number = [&](std::optional<double> value) {
        return value ? builder.getF64FloatAttr(*value) : FloatAttr();
      };
      exec::ViewAttr second;
      if (post.operand) {
        epilogue.operands.push_back(read(*post.operand));
        second = view(*post.operand);
      }
      list.push_back(exec::PostOpAttr::get(builder.getContext(), post.kind,
                                           number(post.alpha),
                                           number(post.beta), second));
    }
    if (!list.empty())
      epilogue.postOps = builder.getArrayAttr(list);
    return epilogue;
  }

  exec::LibraryCallInterface make(nn::MatmulOp) {
    Value lhs = read(call.lhs), rhs = read(call.rhs);
    Epilogue epilogue = readEpilogue();
    Value dst = places.write(call.result);
    return exec::MatmulOp::create(
        builder, loc, dst.getType(), index, node, phase, call.batch, call.m,
        call.n, call.k, lhs, view(call.lhs), rhs, view(call.rhs), epilogue.bias,
        epilogue.biasView, epilogue.operands, epilogue.postOps, dst,
        view(call.dst), Value(), exec::BiasGradientAttr(),
        exec::ReluGradientAttr(), exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::ConvOp op) {
    Conv conv(op, op.getX(), op.getResult(), op.getWeights());
    Value src = read(call.lhs), weights = read(call.rhs);
    Epilogue epilogue = readEpilogue();
    Value dst = places.write(call.result);
    return exec::ConvOp::create(
        builder, loc, dst.getType(), index, node, phase, conv.batch,
        conv.inChannels, conv.outChannels, conv.groups, conv.window, src,
        view(call.lhs), weights, view(call.rhs), epilogue.bias,
        epilogue.biasView, epilogue.operands, epilogue.postOps, dst,
        view(call.dst), exec::GpuKernelAttr());
  }

  /// Dense operands.
  template <typename Op>
  exec::LibraryCallInterface makeConvGradient(const Conv &conv) {
    Value first = read(call.lhs), second = read(call.rhs);
    Value dst = places.write(call.result);
    return Op::create(builder, loc, dst.getType(), index, node, phase,
                      conv.batch, conv.inChannels, conv.outChannels,
                      conv.groups, conv.window, first, second, dst,
                      exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::ConvInputGradientOp op) {
    Conv conv(op, op.getResult(), op.getDy(), op.getWeights());
    return makeConvGradient<exec::ConvInputGradientOp>(conv);
  }

  exec::LibraryCallInterface make(nn::ConvWeightGradientOp op) {
    Conv conv(op, op.getX(), op.getDy(), op.getResult());
    return makeConvGradient<exec::ConvWeightGradientOp>(conv);
  }

  exec::LibraryCallInterface make(nn::MaxPoolGradientOp op) {
    Value src = read(call.lhs), diff = read(call.rhs),
          dst = places.write(call.result);
    return exec::MaxPoolGradientOp::create(
        builder, loc, dst.getType(), index, node, phase, sizeOf(op.getX(), 0),
        sizeOf(op.getX(), -1), poolWindow(op, op.getX(), op.getDy()), src, diff,
        dst, exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::AvgPoolGradientOp op) {
    Value diff = read(call.lhs), image = op.getResult(),
          dst = places.write(call.result);
    return exec::AvgPoolGradientOp::create(
        builder, loc, TypeRange(dst.getType()),
        builder.getI64IntegerAttr(index), builder.getStringAttr(node), phase,
        builder.getI64IntegerAttr(sizeOf(image, 0)),
        builder.getI64IntegerAttr(sizeOf(image, -1)),
        poolWindow(op, image, op.getDy()), mark(op.getCountIncludePad()),
        op.getCountHighAttr(), diff, dst, exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::TopKOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getX());
    Value src = read(call.lhs), dst = places.write(call.result);
    return exec::TopKOp::create(builder, loc, dst.getType(), index, node, phase,
                                llvm::product_of(shape.drop_back()),
                                shape.back(), op.getK(), op.getSmallest(), src,
                                dst, exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::GreedySuppressOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getScores());
    Value boxes = read(call.lhs), scores = read(call.rhs),
          threshold = read(call.moreOperands[0]),
          most = read(call.moreOperands[1]), dst = places.write(call.result);
    return exec::GreedySuppressOp::create(
        builder, loc, dst.getType(), index, node, phase,
        llvm::product_of(shape.drop_back(2)), shape[shape.size() - 2],
        shape.back(), op.getCount(), boxes, scores, threshold, most, dst,
        exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::ScatterAddOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    auto dim = static_cast<int64_t>(op.getDim());
    int64_t count =
        cast<RankedTensorType>(op.getIndices().getType()).getNumElements();
    Value indices = read(call.lhs), updates = read(call.rhs);
    Value base = call.base ? read(*call.base) : Value();
    Value dst = places.write(call.result);
    return exec::ScatterAddOp::create(
        builder, loc, dst.getType(), index, node, phase,
        llvm::product_of(shape.take_front(dim)), shape[dim],
        llvm::product_of(shape.drop_front(dim + 1)), count, op.getPartial(),
        indices, updates, base, dst, exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::ScatterOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    auto dim = static_cast<int64_t>(op.getDim());
    int64_t count = llvm::product_of(shapeOf(op.getIndices()).drop_front(dim));
    Value base = read(call.lhs), indices = read(call.rhs),
          updates = read(call.moreOperands[0]), dst = places.write(call.result);
    return exec::ScatterOp::create(
        builder, loc, dst.getType(), index, node, phase,
        *exec::symbolizeScatterKind(nn::stringifyScatterKind(op.getKind())),
        llvm::product_of(shape.take_front(dim)), shape[dim],
        llvm::product_of(shape.drop_front(dim + 1)), count, op.getPartial(),
        indices, updates, base, dst, exec::GpuKernelAttr());
  }

  template <typename Op> exec::AttentionSizesAttr attentionSizes(Op op) {
    ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK());
    return exec::AttentionSizesAttr::get(op.getContext(), q[0], q[1], k[1],
                                         q[2], k[2], q[3],
                                         sizeOf(op.getV(), 3));
  }
  FloatAttr scaleOf(const APFloat &scale) {
    return builder.getF64FloatAttr(scale.convertToDouble());
  }

  exec::LibraryCallInterface make(nn::AttentionOp op) {
    ArrayRef<StridedView> more = call.moreOperands; // v, bias
    Value q = read(call.lhs), k = read(call.rhs), v = read(more[0]);
    bool biased = more.size() > 1;
    Value bias = biased ? read(more[1]) : Value();
    Value dst = places.write(call.result),
          stats = places.write(call.moreResults[0].value);
    return exec::AttentionOp::create(
        builder, loc, TypeRange{dst.getType(), stats.getType()},
        builder.getI64IntegerAttr(index), builder.getStringAttr(node), phase,
        attentionSizes(op), scaleOf(op.getScale()), mark(op.getCausal()), q,
        view(call.lhs), k, view(call.rhs), v, view(more[0]), bias,
        biased ? view(more[1]) : exec::ViewAttr(), dst, view(call.dst), stats,
        exec::GpuKernelAttr());
  }

  exec::LibraryCallInterface make(nn::AttentionGradientOp op) {
    ArrayRef<StridedView> more = call.moreOperands; // v, out, stats, diff, bias
    Value q = read(call.lhs), k = read(call.rhs), v = read(more[0]),
          out = read(more[1]), stats = read(more[2]), diff = read(more[3]);
    bool biased = more.size() > 4;
    Value bias = biased ? read(more[4]) : Value();
    const LibraryCall::Result &dk = call.moreResults[0],
                              &dv = call.moreResults[1];
    Value dstBuffer = places.write(call.result),
          dkBuffer = places.write(dk.value), dvBuffer = places.write(dv.value);
    return exec::AttentionGradientOp::create(
        builder, loc,
        TypeRange{dstBuffer.getType(), dkBuffer.getType(), dvBuffer.getType()},
        builder.getI64IntegerAttr(index), builder.getStringAttr(node), phase,
        attentionSizes(op), scaleOf(op.getScale()), mark(op.getCausal()), q,
        view(call.lhs), k, view(call.rhs), v, view(more[0]), out, view(more[1]),
        stats, diff, view(more[3]), bias,
        biased ? view(more[4]) : exec::ViewAttr(), dstBuffer, view(call.dst),
        dkBuffer, view(dk.view), dvBuffer, view(dv.view),
        exec::GpuKernelAttr());
  }

  OpBuilder &builder;
  const LibraryCall &call;
  CallPlaces places;
  int64_t index;
  Location loc;
  std::string node;
  exec::PhaseAttr phase;
};
} // namespace

exec::LibraryCallInterface kerf::emitLibraryCall(OpBuilder &builder,
                                                 const LibraryCall &call,
                                                 int64_t index,
                                                 CallPlaces places) {
  return CallEmitter(builder, call, index, places).emit();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Value kerf::emitCollective(OpBuilder &builder, Operation *op, int64_t index,
                           Value source, Value result, bool starts) {
  auto collective = cast<dist::CollectiveOpInterface>(op);
  MLIRContext *context = op->getContext();
  dist::Mesh mesh = dist::getMesh(op).toMesh();
  auto axes = llvm::cantFail(dist::toAxisList(collective.getGroup(), mesh));
  // In a function of several phases ops have a phase of their own.
  dist::Phase phase =
      collective.getOwnPhase().value_or(dist::getPhase(op->getParentOp()));
  dist::CollectiveArguments arguments = collective.getArguments();
  auto create = [&](auto type, auto... event) {
    using Op = typename decltype(type)::type;
    return Op::create(
        builder, op->getLoc(), event..., builder.getI64IntegerAttr(index),
        dist::CollectiveKindAttr::get(context, collective.getKind()),
        arguments.reduction, collective.getGroup(), arguments.dim,
        arguments.split, arguments.concat, arguments.root, arguments.pairs,
        source, result,
        builder.getI64IntegerAttr(
            collective.getGroupBytes(dist::numShards(axes))),
        dist::PurposeAttr::get(context, collective.getPurposeOrDefault()),
        exec::PhaseAttr::get(context, toPhase(phase)),
        builder.getStringAttr(modelNode(op->getLoc())));
  };
  if (starts)
    return create(llvm::type_identity<exec::CollectiveStartOp>{},
                  exec::EventType::get(context))
        .getEvent();
  create(llvm::type_identity<exec::CollectiveOp>{});
  return {};
}
