//===- DnnlNaN.cpp - NaN that oneDNN's post-ops would lose ----------------===//
//
// Problem: oneDNN's ReLU, clip, exp, maximum and minimum turn NaN into a number
// (PostOpLoops.h). A model that has gone wrong would look well, and a loss that
// is NaN would look fine.
//
// Idea: a sum of products is NaN or infinite only where an operand is, or where
// operands are huge. So a call with such a post-op looks at its operands first,
// at the speed of memory, a few hundredths of the call's own time; parameters
// are looked at once. Where all are below 2^50 nothing can be lost, since sums
// of fewer than 2^26 terms stay below 2^126. Else the same primitive runs
// without what loses NaN, and loops of our own do the rest.
// A post-op that makes NaN of numbers in front of one that loses it is always
// done so.
//
// Invariant: bits do not change where nothing is NaN, infinite or huge.
//
//===----------------------------------------------------------------------===//
#include "DnnlPrimitive.h"
#include "Magnitude.h"
#include "PostOpLoops.h"

using namespace kerf::rt;

constexpr int hugeExponent = 50;

size_t DnnlCall::firstThatLosesNaN() const {
  size_t i = 0;
  for (; i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i]))
      if (kerf::rt::losesNaN(op))
        return i;
  return i;
}

void DnnlCall::watch(const Operand &operand, const View &view,
                     kerf_dtype_t dtype) {
  if (!losesNaN() || operand.kind == Operand::None)
    return;
  int64_t elements = extent(view) - view.offset;
  if (operand.kind == Operand::Buffer)
    watched.push_back(
        {operand.index, view.offset * dtypeSize(dtype), elements, dtype});
  else if (!alwaysKeepNaN)
    alwaysKeepNaN = !allBelow(device, parameterAt(operand, view, dtype).data,
                              elements, dtype, hugeExponent);
}

void DnnlCall::watchPostOps(
    const View &dst, const std::function<View(const Operand &)> &viewOfPostOp) {
  if (!losesNaN())
    return;
  dstView = dst;
  if (desc.postOps[0].kind == "sum") // which reads what dst holds
    watch(desc.dst, dst, desc.dstDtype);
  bool made = false;
  for (size_t i = 0; i < desc.postOps.size(); ++i) {
    const Operand &operand = desc.postOps[i].operand;
    for (const SimplePostOp &op : simplify(desc.postOps[i])) {
      alwaysKeepNaN |= made && kerf::rt::losesNaN(op);
      made |= makesNonFinite(op);
    }
    TailOperand tail;
    if (operand.kind != Operand::None) {
      tail.view = viewOfPostOp(operand);
      tail.desc = descOf(tail.view, desc.dstDtype);
      watch(operand, tail.view, desc.dstDtype);
      if (operand.kind == Operand::Param) {
        ParameterView part = parameterAt(operand, tail.view, desc.dstDtype);
        tail.parameter = part.data;
        owners.push_back(part.owner);
      }
      for (size_t d = 0; d < dst.dims.size(); ++d)
        if (tail.view.dims[d] != dst.dims[d])
          tail.view.strides[d] = 0;
    }
    tailOperands.push_back(std::move(tail));
  }
}

bool DnnlCall::mayMeetNaN(void *const *buffers) const {
  if (!losesNaN())
    return false;
  if (alwaysKeepNaN)
    return true;
  for (const Watched &each : watched)
    if (!allBelow(device,
                  static_cast<const char *>(buffers[each.buffer]) +
                      each.offsetBytes,
                  each.elements, each.dtype, hugeExponent))
      return true;
  return false;
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
  auto operandOf = tailOperands.begin();
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
  for (size_t i = 0; i < mainStep; ++i) // reorders of weights
    execute(steps[i]);
  execute(withoutLoss);
  auto at = [&](const Operand &operand, const View &view) {
    return static_cast<char *>(buffers[operand.index]) +
           view.offset * dtypeSize(desc.dstDtype);
  };
  for (size_t i = std::min(fused, losing); i < desc.postOps.size(); ++i)
    for (const SimplePostOp &op : simplify(desc.postOps[i])) {
      const TailOperand &tail = tailOperands[i];
      LoopOperand operand;
      if (op.kind == SimplePostOp::Binary)
        operand = {tail.parameter ? tail.parameter
                                  : at(desc.postOps[i].operand, tail.view),
                   tail.view.strides};
      applyInPlace(op, dstView.dims, dstView.strides, at(desc.dst, dstView),
                   desc.dstDtype, operand);
    }
}
