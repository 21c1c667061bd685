//===- ConvPlan.cpp - windows of the manifest in cuDNN's terms ------------===//
#include "ConvPlan.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
[[noreturn]] void refuse(const LibraryDesc &desc, const std::string &why) {
  throw Error(KERF_BAD_PACKAGE, cat(desc.kindName(), " on a GPU: ", why));
}

// A first spatial dimension of size 1 where there is only one.
void widen(Shape &list, int64_t value, size_t at) {
  list.insert(list.begin() + static_cast<int64_t>(at), value);
}

// [batch, spatial.., channels] -> (batch, channels, spatial..)
DnnTensor imageTensor(const LibraryDesc &desc, const Operand &operand,
                      const Shape &spatial, int64_t channels) {
  Shape dims{desc.batch[0]};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(channels);
  DnnTensor t{dims,
              operand.strides.empty() ? denseStrides(dims) : operand.strides};
  if (operand.transpose)
    refuse(desc, "a transposed image");
  for (Shape *list : {&t.dims, &t.strides})
    std::rotate(list->begin() + 1, list->end() - 1, list->end());
  if (spatial.size() == 1) {
    widen(t.strides, t.dims[2] * t.strides[2], 2);
    widen(t.dims, 1, 2);
  }
  return t;
}

// (O, I / groups, spatial..), stored in this order or channels last.
DnnTensor weightTensor(const LibraryDesc &desc, bool channelsLast) {
  Shape dims{desc.outChannels, desc.inChannels / desc.groups};
  dims.insert(dims.end(), desc.kernel.begin(), desc.kernel.end());
  DnnTensor t;
  if (channelsLast) {
    Shape last = dims;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    t.strides = denseStrides(last);
    std::rotate(t.strides.begin() + 1, t.strides.end() - 1, t.strides.end());
  } else {
    t.strides = denseStrides(dims);
  }
  t.dims = dims;
  if (desc.kernel.size() == 1) {
    widen(t.strides, t.dims[2] * t.strides[2], 2);
    widen(t.dims, 1, 2);
  }
  return t;
}
} // namespace

ConvPlan kerf::rt::planConv(const LibraryDesc &desc) {
  ConvPlan plan;
  bool pool = desc.kind == LibraryDesc::Pool;
  plan.imageOperand = &desc.lhs;
  plan.resultOperand = &desc.dst;
  switch (desc.kind) {
  case LibraryDesc::Conv:
    plan.weightsOperand = &desc.rhs;
    break;
  case LibraryDesc::ConvInputGradient:
    plan.weightsOperand = &desc.lhs;
    plan.imageOperand = &desc.dst;
    plan.resultOperand = &desc.rhs;
    break;
  case LibraryDesc::ConvWeightGradient:
    plan.resultOperand = &desc.rhs;
    plan.weightsOperand = &desc.dst;
    break;
  case LibraryDesc::Pool:
    break;
  default:
    refuse(desc, "cuDNN does not do it, a kernel must");
  }
  plan.image = imageTensor(desc, *plan.imageOperand, desc.in, desc.inChannels);
  plan.result =
      imageTensor(desc, *plan.resultOperand, desc.out, desc.outChannels);
  if (!pool) {
    for (const Operand *operand : {plan.weightsOperand})
      if (operand->transpose || !operand->strides.empty())
        refuse(desc, "weights with strides");
    plan.storedWeights = weightTensor(desc, false);
    plan.weights = weightTensor(desc, true);
    for (size_t d = 0; d < plan.weights.dims.size(); ++d)
      plan.reorders = plan.reorders || (plan.weights.dims[d] != 1 &&
                                        plan.weights.strides[d] !=
                                            plan.storedWeights.strides[d]);
  }
  plan.pre = desc.padsLow;
  plan.post = desc.padsHigh;
  plan.strides = desc.strides;
  plan.dilations = desc.dilations;
  plan.window = desc.kernel;
  if (desc.in.size() == 1) {
    for (Shape *list : {&plan.pre, &plan.post})
      widen(*list, 0, 0);
    for (Shape *list : {&plan.strides, &plan.dilations, &plan.window})
      widen(*list, 1, 0);
  }
  if (pool && std::any_of(desc.dilations.begin(), desc.dilations.end(),
                          [](int64_t d) { return d != 1; }))
    refuse(desc, "a dilated pool");
  if (desc.bias.kind != Operand::None)
    plan.bias = &desc.bias;
  size_t i = 0;
  if (i < desc.postOps.size() && desc.postOps[i].kind == "add") {
    plan.added = &desc.postOps[i++].operand;
    plan.addedTensor =
        imageTensor(desc, *plan.added, desc.out, desc.outChannels);
    for (int64_t stride : plan.addedTensor.strides)
      if (stride == 0)
        refuse(desc, "an added tensor that is broadcast");
  }
  if (i < desc.postOps.size() && desc.postOps[i].kind == "relu") {
    plan.relu = true;
    ++i;
  }
  if (i != desc.postOps.size())
    refuse(desc, "post-op " + desc.postOps[i].kind +
                     " does not follow a convolution there");
  return plan;
}
