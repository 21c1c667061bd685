//===- DnnlNaN.cpp - NaN that oneDNN's post-ops would lose ----------------===//
//
// Problem: oneDNN's ReLU, clip, exp, maximum and minimum turn NaN into a number
// (PostOpLoops.h). A model that diverged would look healthy.
//
// Idea: a sum of products is NaN or infinite only if an operand is, or if
// operands are huge. So a call with such a post-op needs a bound on its
// operands. Parameters are scanned once; the bound of a buffer often follows
// from the call that wrote it (KnownBounds): a result is at most the number of
// terms times the largest factors. Else the call scans the buffer, at the speed
// of memory. If everything up to the last such post-op stays below 2^126, no
// NaN can be lost. Otherwise the same primitive runs without the post-ops that
// lose NaN, and loops of our own compute these.
//
// Invariant: results change only if something is NaN, infinite or huge.
//
//===----------------------------------------------------------------------===//
#include "DnnlPrimitive.h"
#include "Magnitude.h"
#include "PostOpLoops.h"

#include "../../../base/MappedFile.h"

#include <cmath>

using namespace kerf::rt;

size_t DnnlCall::firstThatLosesNaN() const {
  size_t i = 0;
  for (; i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i]))
      if (kerf::rt::losesNaN(op))
        return i;
  return i;
}

/// The pages of a mapped file are released slab by slab.
double DnnlCall::boundOf(const ParameterView &part, int64_t elements,
                         kerf_dtype_t dtype) const {
  constexpr int64_t slab = int64_t(2) << 20;
  double bound = 0;
  for (int64_t at = 0; at < elements; at += slab) {
    int64_t count = std::min(slab, elements - at);
    char *data = static_cast<char *>(const_cast<void *>(part.data)) +
                 at * dtypeSize(dtype);
    bound = std::max(bound, largestMagnitude(device, data, count, dtype));
    if (part.isMapped && elements > slab)
      forgetMapped(data, static_cast<size_t>(count * dtypeSize(dtype)));
  }
  return bound;
}

DnnlCall::Watched DnnlCall::watch(const Operand &operand, const View &view,
                                  kerf_dtype_t dtype) {
  Watched result;
  if (operand.kind == Operand::None)
    return result;
  result.elements = extent(view) - view.offset;
  result.dtype = dtype;
  if (operand.kind == Operand::Param) {
    result.bound = largestMagnitude(
        device, parameterAt(operand, view, dtype).data, result.elements, dtype);
  } else {
    result.buffer = operand.index;
    result.offsetBytes = view.offset * dtypeSize(dtype);
  }
  return result;
}

void DnnlCall::watchPostOps(
    const View &dst, const std::function<View(const Operand &)> &viewOfPostOp) {
  dstView = dst;
  watchedDst = watch(desc.dst, dst, desc.dstDtype);
  for (const PostOp &op : desc.postOps) {
    SecondTensor second;
    if (op.operand.kind != Operand::None) {
      second.view = viewOfPostOp(op.operand);
      second.desc = descOf(second.view, desc.dstDtype);
      second.watched = watch(op.operand, second.view, desc.dstDtype);
      if (op.operand.kind == Operand::Param) {
        ParameterView part =
            parameterAt(op.operand, second.view, desc.dstDtype);
        second.parameter = part.data;
        owners.push_back(part.owner);
      }
      for (size_t d = 0; d < dst.dims.size(); ++d)
        if (second.view.dims[d] != dst.dims[d])
          second.view.strides[d] = 0;
    }
    seconds.push_back(std::move(second));
  }
}

double DnnlCall::boundOf(const Watched &operand, void *const *buffers,
                         bool look) const {
  if (operand.buffer < 0)
    return operand.bound;
  const char *data =
      static_cast<const char *>(buffers[operand.buffer]) + operand.offsetBytes;
  if (!look)
    return known.of(data, operand.elements * dtypeSize(operand.dtype));
  // The scan is a launch, after which the device would forget all bounds.
  KnownBounds kept = known;
  double bound =
      largestMagnitude(device, data, operand.elements, operand.dtype);
  known = std::move(kept);
  return bound;
}

/// A bound of |f(x)| if |x| is at most `x` and the second tensor at most `y`.
static double boundAfter(const SimplePostOp &op, double x, double y) {
  switch (op.algorithm) {
  case dnnl_eltwise_linear:
    return std::abs(op.alpha) * x + std::abs(op.beta);
  case dnnl_eltwise_clip_v2:
    return std::max(std::abs(op.alpha), std::abs(op.beta));
  case dnnl_eltwise_square:
    return x * x;
  case dnnl_eltwise_exp:
    return std::exp(x);
  case dnnl_eltwise_sqrt:
  case dnnl_binary_div:
    return __builtin_inf(); // NaN of negative numbers, quotients by zero
  case dnnl_eltwise_relu:
  case dnnl_eltwise_elu:
    return std::max(1., std::abs(static_cast<double>(op.alpha))) *
           std::max(x, 1.);
  case dnnl_binary_mul:
    return x * y;
  case dnnl_binary_max:
  case dnnl_binary_min:
    return std::max(x, y);
  case dnnl_binary_add:
  case dnnl_binary_sub:
    return x + y;
  default: // tanh, sigmoid, abs, GELU, SiLU, hardswish
    return std::max(x, 1.);
  }
}

DnnlCall::Bounds DnnlCall::boundsOf(void *const *buffers, bool look) const {
  // Far above what float can hold, far below what double can.
  constexpr double huge = 1e60;
  auto of = [&](const Watched &operand) {
    return std::min(boundOf(operand, buffers, look), huge);
  };
  Bounds bounds;
  double x = of(watchedLhs);
  if (desc.kind != LibraryDesc::Pool)
    x = x * of(watchedRhs) * terms + of(watchedBias);
  bounds.largest = x;
  for (size_t i = 0; i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i])) {
      if (kerf::rt::losesNaN(op))
        bounds.beforeLoss = bounds.largest;
      x = op.kind == SimplePostOp::Sum
              ? x + of(watchedDst)
              : boundAfter(op, x, of(seconds[i].watched));
      x = std::isnan(x) ? huge : std::min(x, huge);
      bounds.largest = std::max(bounds.largest, x);
    }
  bounds.result = x;
  return bounds;
}

void DnnlCall::noteResult(void *const *buffers, const Bounds &bounds) {
  if (watchedDst.buffer < 0) // a gradient
    return known.forget();
  // Elements between the rows of a slice do not belong to the result.
  bool isDense = watchedDst.elements == numElements(dstView.dims);
  known.written(static_cast<const char *>(buffers[watchedDst.buffer]) +
                    watchedDst.offsetBytes,
                watchedDst.elements * dtypeSize(watchedDst.dtype),
                isDense && bounds.largest < largestSafe ? bounds.result
                                                        : __builtin_inf());
}

// The same operands in the same layouts as the main primitive's, with the first
// post-ops alone.
void DnnlCall::makeStepWithoutLoss() {
  const Dnnl &dnnl = Dnnl::get();
  const Step &main = steps[mainStep];
  size_t kept = std::min(fused, losing);
  std::vector<PostOp> ops(desc.postOps.begin(), desc.postOps.begin() + kept);
  std::vector<BinaryPostOp> binaries;
  binaries.reserve(ops.size());
  int next = 0;
  for (const PostOp &op : ops)
    next += static_cast<int>(simplify(op).size());
  auto operandOf = seconds.begin();
  auto attr = makeAttributes(
      ops,
      [&](const Operand &) {
        while (operandOf->view.dims.empty())
          ++operandOf;
        return (operandOf++)->desc;
      },
      binaries);
  dnnl_primitive_desc_t rawDesc = nullptr;
  std::visit(
      [&](auto op) {
        if constexpr (!std::is_same_v<decltype(op), dnnl_pooling_v2_desc_t>)
          op.weights_desc = *dnnl.dnnl_primitive_desc_query_md(
              primitiveDesc.get(), dnnl_query_weights_md, 0);
        Dnnl::check(dnnl.dnnl_primitive_desc_create(&rawDesc, &op, attr.get(),
                                                    context.engine.get(),
                                                    nullptr),
                    "this call without its last post-ops");
      },
      mainOp);
  DnnlHandle<dnnl_primitive_desc_t> owner(rawDesc,
                                          dnnl.dnnl_primitive_desc_destroy);
  dnnl_primitive_t raw = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_create(&raw, rawDesc), "this call");
  withoutLoss.primitive = {raw, dnnl.dnnl_primitive_destroy};
  for (const dnnl_exec_arg_t &arg : main.args)
    if (arg.arg != DNNL_ARG_SCRATCHPAD &&
        arg.arg < DNNL_ARG_ATTR_MULTIPLE_POST_OP(next))
      withoutLoss.args.push_back(arg);
  const dnnl_memory_desc_t *scratch =
      dnnl.dnnl_primitive_desc_query_md(rawDesc, dnnl_query_scratchpad_md, 0);
  if (!scratch || scratch->ndims == 0)
    return;
  withoutLossScratch = device.allocate(
      static_cast<int64_t>(dnnl.dnnl_memory_desc_get_size(scratch)), "scratch");
  auto memory =
      makeMemory(*scratch, context.engine.get(), withoutLossScratch->data);
  withoutLoss.args.push_back({DNNL_ARG_SCRATCHPAD, memory.get()});
  memories.push_back(std::move(memory));
}

void DnnlCall::runKeepingNaN(void *const *buffers) {
  if (!withoutLoss.primitive)
    makeStepWithoutLoss();
  for (size_t i = 0; i < mainStep; ++i) // reorders of weights and images
    execute(steps[i]);
  execute(withoutLoss);
  if (blocked)
    execute(steps[mainStep + 1]);
  auto at = [&](const Operand &operand, const View &view) {
    return static_cast<char *>(buffers[operand.index]) +
           view.offset * dtypeSize(desc.dstDtype);
  };
  for (size_t i = std::min(fused, losing); i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i])) {
      const SecondTensor &second = seconds[i];
      LoopOperand operand;
      if (op.kind == SimplePostOp::Binary)
        operand = {second.parameter ? second.parameter
                                    : at(desc.postOps[i].operand, second.view),
                   second.view.strides};
      applyInPlace(op, dstView.dims, dstView.strides, at(desc.dst, dstView),
                   desc.dstDtype, operand);
    }
}
