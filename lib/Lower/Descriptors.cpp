//===- Descriptors.cpp - library calls and collectives as entries ---------===//
//
// See Descriptors.h.
//
//===----------------------------------------------------------------------===//
#include "Descriptors.h"

#include "Dict.h"
#include "Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;

std::string kerf::modelNode(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations()) {
      std::string name = modelNode(part);
      if (!name.empty())
        return name;
    }
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return modelNode(call.getCallee());
  return "";
}

StringRef kerf::phaseName(Attribute phase) {
  auto attr = dyn_cast_or_null<dist::PhaseAttr>(phase);
  switch (attr ? attr.getValue() : dist::Phase::Forward) {
  case dist::Phase::Prologue:
    return "prologue";
  case dist::Phase::Forward:
    return "forward";
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return "backward";
  case dist::Phase::Update:
    return "update";
  }
  return "forward";
}

Attribute kerf::phaseOf(Location loc) {
  auto fused = dyn_cast<FusedLoc>(loc);
  if (!fused)
    return {};
  if (isa_and_nonnull<dist::PhaseAttr>(fused.getMetadata()))
    return fused.getMetadata();
  for (Location part : fused.getLocations())
    if (Attribute phase = phaseOf(part))
      return phase;
  return {};
}

/// {base, strides unless dense, offset unless 0}.
static DictionaryAttr describeOperand(const StridedView &view,
                                      DictionaryAttr base) {
  Dict entry(base.getContext());
  for (NamedAttribute attribute : base)
    entry.set(attribute.getName(), attribute.getValue());
  if (view.strides != denseStrides(view.sizes))
    entry.set("strides", view.strides);
  if (view.offset != 0)
    entry.set("offset", view.offset);
  return entry.get();
}

static void describeMatmul(Dict &entry, const LibraryCall &call) {
  entry.set("kind", "matmul").set("batch", call.batch);
  entry.set("m", call.m).set("n", call.n).set("k", call.k);
}

/// What conv and its gradients share: `x`, `y`, `w` are the image, the result
/// of the forward and the weights.
template <typename Op>
static void describeConv(Dict &entry, StringRef kind, Op conv, Value image,
                         Value result, Value weights) {
  auto x = cast<RankedTensorType>(image.getType()).getShape();
  auto y = cast<RankedTensorType>(result.getType()).getShape();
  auto w = cast<RankedTensorType>(weights.getType()).getShape();
  entry.set("kind", kind).set("batch", x[0]);
  entry.set("in_channels", x.back()).set("out_channels", y.back());
  entry.set("groups", static_cast<int64_t>(conv.getGroups()));
  entry.set("in", x.slice(1, x.size() - 2));
  entry.set("out", y.slice(1, y.size() - 2));
  entry.set("kernel", w.drop_front(2));
  entry.set("strides", conv.getStrides());
  entry.set("pads_low", conv.getLow()).set("pads_high", conv.getHigh());
  entry.set("dilations", conv.getDilations());
}

template <typename Op>
static void describePool(Dict &entry, StringRef kind, Op pool, Value image,
                         Value diff) {
  auto x = cast<RankedTensorType>(image.getType()).getShape();
  auto y = cast<RankedTensorType>(diff.getType()).getShape();
  entry.set("kind", kind).set("batch", x[0]).set("channels", x.back());
  entry.set("in", x.slice(1, x.size() - 2));
  entry.set("out", y.slice(1, y.size() - 2));
  entry.set("kernel", pool.getKernel()).set("strides", pool.getStrides());
  entry.set("pads_low", pool.getLow()).set("pads_high", pool.getHigh());
  entry.set("dilations", pool.getDilations());
}

static void describeScatter(Dict &entry, nn::ScatterAddOp scatter) {
  ArrayRef<int64_t> shape = scatter.getResult().getType().getShape();
  auto indices = cast<RankedTensorType>(scatter.getIndices().getType());
  auto dim = static_cast<int64_t>(scatter.getDim());
  entry.set("kind", "scatter_add");
  entry.set("outer", llvm::product_of(shape.take_front(dim)));
  entry.set("rows", shape[dim]);
  entry.set("inner", llvm::product_of(shape.drop_front(dim + 1)));
  entry.set("count", indices.getNumElements());
  entry.set("index_dtype", exec::dtypeName(indices.getElementType()));
  if (scatter.getPartial())
    entry.set("partial", true);
}

template <typename Op> static void describeAttention(Dict &entry, Op op) {
  ArrayRef<int64_t> q = op.getQ().getType().getShape(),
                    k = op.getK().getType().getShape();
  entry.set("batch", q[0]).set("heads", q[1]).set("key_heads", k[1]);
  entry.set("queries", q[2]).set("keys", k[2]).set("head_size", q[3]);
  entry.set("value_size", op.getV().getType().getShape()[3]);
  entry.set("scale", op.getScale().convertToDouble());
  entry.set("causal", static_cast<bool>(op.getCausal()));
  if (op.getBias() && op.getBias().getType().getElementType() !=
                          op.getQ().getType().getElementType())
    entry.set("bias_dtype",
              exec::dtypeName(op.getBias().getType().getElementType()));
}

/// The kind, its sizes, and the names of the two operands.
static std::pair<StringRef, StringRef> describeKind(Dict &entry,
                                                    const LibraryCall &call) {
  using Names = std::pair<StringRef, StringRef>;
  return llvm::TypeSwitch<Operation *, Names>(call.anchor)
      .Case<nn::ConvOp>([&](nn::ConvOp op) {
        describeConv(entry, "conv", op, op.getX(), op.getResult(),
                     op.getWeights());
        return Names("src", "weights");
      })
      .Case<nn::ConvInputGradientOp>([&](nn::ConvInputGradientOp op) {
        describeConv(entry, "conv_input_gradient", op, op.getResult(),
                     op.getDy(), op.getWeights());
        return Names("diff", "weights");
      })
      .Case<nn::ConvWeightGradientOp>([&](nn::ConvWeightGradientOp op) {
        describeConv(entry, "conv_weight_gradient", op, op.getX(), op.getDy(),
                     op.getResult());
        return Names("src", "diff");
      })
      .Case<nn::MaxPoolGradientOp>([&](nn::MaxPoolGradientOp op) {
        describePool(entry, "max_pool_gradient", op, op.getX(), op.getDy());
        return Names("src", "diff");
      })
      .Case<nn::AvgPoolGradientOp>([&](nn::AvgPoolGradientOp op) {
        describePool(entry, "avg_pool_gradient", op, op.getResult(),
                     op.getDy());
        if (op.getCountIncludePad())
          entry.set("count_padding", true);
        if (op.getCountHighAttr())
          entry.set("count_high", op.getCountHighAttr().asArrayRef());
        return Names("diff", "");
      })
      .Case<nn::ScatterAddOp>([&](nn::ScatterAddOp op) {
        describeScatter(entry, op);
        return Names("indices", "updates");
      })
      .Case<nn::AttentionOp>([&](nn::AttentionOp op) {
        entry.set("kind", "attention");
        describeAttention(entry, op);
        return Names("q", "k");
      })
      .Case<nn::AttentionGradientOp>([&](nn::AttentionGradientOp op) {
        entry.set("kind", "attention_gradient");
        describeAttention(entry, op);
        return Names("q", "k");
      })
      .Default([&](Operation *) {
        describeMatmul(entry, call);
        return Names("lhs", "rhs");
      });
}

DictionaryAttr kerf::describeLibraryCall(const LibraryCall &call,
                                         DictionaryAttr dst,
                                         DescribeBase describeBase) {
  MLIRContext *context = dst.getContext();
  Dict entry(context);
  auto [first, second] = describeKind(entry, call);
  entry.set("node", StringRef(modelNode(call.anchor->getLoc())));
  if (Attribute phase = phaseOf(call.anchor->getLoc()))
    entry.set("phase", phaseName(phase));
  entry.set("dtype", exec::dtypeName(call.inputType));
  if (call.resultType != call.inputType)
    entry.set("dst_dtype", exec::dtypeName(call.resultType));
  auto operand = [&](StringRef name, const StridedView &view, bool packed) {
    entry.set(name, describeOperand(view, describeBase(view.base, packed)));
  };
  operand(first, call.lhs, false);
  if (!second.empty())
    operand(second, call.rhs, second == "rhs" || second == "weights");
  if (call.base)
    operand("base", *call.base, false);
  for (const LibraryCall::Named &more : call.moreOperands)
    operand(more.name, more.view, false);
  // Results are numbered one after the other.
  auto number = dst.getAs<IntegerAttr>("buffer");
  for (auto [i, more] : llvm::enumerate(call.moreResults)) {
    Dict place(context);
    if (number)
      place.set("buffer", number.getInt() + 1 + static_cast<int64_t>(i));
    entry.set(more.name, describeOperand(more.view, place.get()));
  }
  if (call.bias) {
    Dict bias(context);
    for (NamedAttribute attribute : describeBase(call.bias->base, true))
      bias.set(attribute.getName(), attribute.getValue());
    if (call.bias->offset != 0)
      bias.set("offset", call.bias->offset);
    entry.set("bias", bias.get());
  }
  entry.set("dst", describeOperand(call.dst, dst));
  SmallVector<Attribute> postOps;
  for (const PostOp &post : call.postOps) {
    Dict op(context);
    op.set("kind", StringRef(post.kind));
    if (post.alpha)
      op.set("alpha", *post.alpha);
    if (post.beta)
      op.set("beta", *post.beta);
    if (post.operand)
      op.set("operand",
             describeOperand(*post.operand,
                             describeBase(post.operand->base, true)));
    postOps.push_back(op.get());
  }
  if (!postOps.empty())
    entry.set("post_ops", ArrayRef<Attribute>(postOps));
  return entry.get();
}

DictionaryAttr kerf::describeCollective(Operation *op) {
  auto collective = cast<dist::CollectiveOpInterface>(op);
  RankedTensorType src = collective.getSourceType(),
                   dst = collective.getResultTensorType();
  dist::Mesh mesh = dist::getMesh(op).toMesh();
  auto axes = llvm::cantFail(dist::toAxisList(collective.getGroup(), mesh));
  Dict entry(op->getContext());
  entry.set("kind", collective.getKindName());
  entry.set("dtype", exec::dtypeName(src.getElementType()));
  entry.set("axes", axesEntry(op->getContext(), collective.getGroup()));
  entry.set("src_shape", src.getShape()).set("dst_shape", dst.getShape());
  entry.set("group_bytes", collective.getGroupBytes(dist::numShards(axes)));
  entry.set("node", StringRef(modelNode(op->getLoc())));
  entry.set("tensor", StringRef(modelNode(op->getLoc())));
  entry.set("purpose",
            dist::stringifyPurpose(collective.getPurposeOrDefault()));
  Attribute phase = op->getAttr(dist::kPhase);
  if (!phase)
    phase = op->getParentOp()->getAttr(dist::kPhase);
  entry.set("phase", phaseName(phase));
  auto integer = [](IntegerAttr attr) { return attr.getInt(); };
  // Parts that are larger than they need to be are named.
  int64_t ranks = dist::numShards(axes);
  auto setPart = [&](const char *key, RankedTensorType part,
                     RankedTensorType whole, int64_t dim) {
    int64_t size = part.getDimSize(dim);
    if (size != dist::localSize(whole.getDimSize(dim), ranks))
      entry.set(key, size);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case<dist::AllReduceOp>([&](auto reduce) {
        entry.set("reduction",
                  stringifyReductionKind(reduce.getReduction().getValue()));
      })
      .Case<dist::ReduceScatterOp>([&](auto reduce) {
        entry.set("reduction",
                  stringifyReductionKind(reduce.getReduction().getValue()));
        entry.set("dim", integer(reduce.getDimAttr()));
        setPart("part", dst, src, integer(reduce.getDimAttr()));
      })
      .Case<dist::AllGatherOp>([&](auto gather) {
        entry.set("dim", integer(gather.getDimAttr()));
        setPart("part", src, dst, integer(gather.getDimAttr()));
      })
      .Case<dist::AllToAllOp>([&](auto all) {
        entry.set("split_dim", integer(all.getSplitAttr()));
        entry.set("concat_dim", integer(all.getConcatAttr()));
        setPart("part", dst, src, integer(all.getSplitAttr()));
        setPart("concat_part", src, dst, integer(all.getConcatAttr()));
      })
      .Case<dist::BroadcastOp>(
          [&](auto root) { entry.set("root", integer(root.getRootAttr())); })
      .Case<dist::PermuteOp>([&](dist::PermuteOp permute) {
        SmallVector<Attribute> pairs;
        Builder builder(op->getContext());
        ArrayRef<int64_t> flat = permute.getPairs();
        for (size_t i = 0; i + 1 < flat.size(); i += 2)
          pairs.push_back(builder.getI64ArrayAttr(flat.slice(i, 2)));
        entry.set("pairs", ArrayRef<Attribute>(pairs));
      });
  return entry.get();
}
