//===- CudnnAttention.cpp - attention by cuDNN ----------------------------===//
//
// Descriptors of AttentionPlan's graph, and the first plan that the heuristics
// give. Intermediate results between the graph's kernels (sums of rows, sums of
// dq in f32) are at the beginning of the workspace.
//
//===----------------------------------------------------------------------===//
#include "CudnnAttention.h"

#include "CudnnPlans.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
constexpr int64_t maxWorkspace = int64_t(2) << 30;

DnnDescriptor describeTensor(const Cudnn &library, const AttentionTensor &t,
                             int64_t id) {
  DnnDescriptor d(library, dnn::TensorDescriptor);
  d.setInt(dnn::TensorUniqueId, id);
  d.setEnum(dnn::TensorDataType, dnn::TypeDataType, dnnType(t.dtype));
  d.setInt(dnn::TensorByteAlignment, 16);
  d.setInts(dnn::TensorDimensions, t.layout.dims);
  d.setInts(dnn::TensorStrides, t.layout.strides);
  bool yes = true;
  if (t.kind == AttentionTensor::Virtual)
    d.set(dnn::TensorIsVirtual, dnn::TypeBoolean, &yes);
  if (t.kind == AttentionTensor::Scalar)
    d.set(dnn::TensorIsByValue, dnn::TypeBoolean, &yes);
  d.finalize("a tensor of attention");
  return d;
}

int modeOf(AttentionNode::Op op) {
  switch (op) {
  case AttentionNode::Add:
    return dnn::PointwiseAdd;
  case AttentionNode::Mul:
    return dnn::PointwiseMul;
  case AttentionNode::Sub:
    return dnn::PointwiseSub;
  case AttentionNode::Div:
    return dnn::PointwiseDiv;
  case AttentionNode::Exp:
    return dnn::PointwiseExp;
  case AttentionNode::Log:
    return dnn::PointwiseLog;
  case AttentionNode::Index:
    return dnn::PointwiseGenIndex;
  case AttentionNode::NotLess:
    return dnn::PointwiseNotLess;
  case AttentionNode::Select:
    return dnn::PointwiseBinarySelect;
  default:
    return dnn::PointwiseIdentity;
  }
}

/// Adds what says how, then the operation, to `parts`.
void describeNode(const Cudnn &library, const AttentionPlan &plan,
                  const AttentionNode &node,
                  std::vector<DnnDescriptor> &parts) {
  const auto tensor = [&](int number) -> const DnnDescriptor & {
    return parts[static_cast<size_t>(number)];
  };
  if (node.op == AttentionNode::Matmul) {
    DnnDescriptor how(library, dnn::MatmulDescriptor);
    how.setEnum(dnn::MatmulCompType, dnn::TypeDataType, dnn::Float);
    how.finalize("a product of attention");
    DnnDescriptor op(library, dnn::MatmulOperationDescriptor);
    op.setHandle(dnn::MatmulA, tensor(node.x));
    op.setHandle(dnn::MatmulB, tensor(node.b));
    op.setHandle(dnn::MatmulC, tensor(node.y));
    op.setHandle(dnn::MatmulDesc, how);
    op.finalize("a product of attention");
    parts.push_back(std::move(how));
    parts.push_back(std::move(op));
    return;
  }
  if (node.op == AttentionNode::Max || node.op == AttentionNode::Sum) {
    DnnDescriptor how(library, dnn::ReductionDescriptor);
    how.setEnum(dnn::ReductionOperator, dnn::TypeReductionOperator,
                node.op == AttentionNode::Max ? dnn::ReduceMax
                                              : dnn::ReduceAdd);
    how.setEnum(dnn::ReductionCompType, dnn::TypeDataType, dnn::Float);
    how.finalize("a reduction of attention");
    DnnDescriptor op(library, dnn::ReductionOperationDescriptor);
    op.setHandle(dnn::ReductionX, tensor(node.x));
    op.setHandle(dnn::ReductionY, tensor(node.y));
    op.setHandle(dnn::ReductionDesc, how);
    op.finalize("a reduction of attention");
    parts.push_back(std::move(how));
    parts.push_back(std::move(op));
    return;
  }
  if (node.op == AttentionNode::Reshape) {
    DnnDescriptor op(library, dnn::ReshapeOperationDescriptor);
    op.setHandle(dnn::ReshapeX, tensor(node.x));
    op.setHandle(dnn::ReshapeY, tensor(node.y));
    op.finalize("a reshape of attention");
    parts.push_back(std::move(op));
    return;
  }
  DnnDescriptor how(library, dnn::PointwiseDescriptor);
  how.setEnum(dnn::PointwiseMode, dnn::TypePointwiseMode, modeOf(node.op));
  bool isMask =
      node.op == AttentionNode::Index || node.op == AttentionNode::NotLess;
  how.setEnum(dnn::PointwiseMathPrecision, dnn::TypeDataType,
              isMask ? dnnType(plan.tensors[node.y].dtype)
                     : static_cast<int>(dnn::Float));
  if (node.axis >= 0)
    how.setInt(dnn::PointwiseAxis, node.axis);
  how.finalize("a pointwise operation of attention");
  DnnDescriptor op(library, dnn::PointwiseOperationDescriptor);
  op.setHandle(dnn::PointwiseOperationDesc, how);
  op.setHandle(dnn::PointwiseX, tensor(node.x));
  if (node.b >= 0)
    op.setHandle(dnn::PointwiseB, tensor(node.b));
  if (node.t >= 0)
    op.setHandle(dnn::PointwiseT, tensor(node.t));
  op.setHandle(dnn::PointwiseY, tensor(node.y));
  op.finalize("a pointwise operation of attention");
  parts.push_back(std::move(how));
  parts.push_back(std::move(op));
}

class CudnnAttention : public LibraryCall {
public:
  CudnnAttention(DnnContext &context, const LibraryDesc &given)
      : context(context), library(context.library), desc(given),
        plan(planAttention(desc)) {
    size_t version = library.getVersion ? library.getVersion() : 0;
    bool gradient = desc.kind == LibraryDesc::AttentionGradient;
    if (gradient && version < 91600 && desc.attention.keys % 128 != 0)
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("cuDNN before 9.16 takes no gradient of ",
                      desc.attention.keys, " keys, which 128 does not divide"));
    zeroesSums = gradient && version < 90600;
    parts = describeAttention(library, plan, context.handle);
    chosen = makeBestDnnPlan(context.target(), parts.back(), maxWorkspace, 0);
    if (!chosen)
      throw Error(
          KERF_UNSUPPORTED_HOST,
          cat("cuDNN ", version, " has no engine for this ", desc.kindName()));
    context.room(plan.workspaceBytes + chosen->workspace);
    for (AttentionTensor &tensor : plan.tensors)
      if (tensor.kind == AttentionTensor::Stored ||
          tensor.kind == AttentionTensor::Workspace ||
          tensor.kind == AttentionTensor::Scalar)
        bound.push_back(&tensor);
  }
  int64_t scratchBytes() const override { return 0; } // the context's

  void run(void *const *buffers, void *) override {
    auto *room = static_cast<char *>(context.workspace->data);
    std::vector<int64_t> ids;
    std::vector<void *> pointers;
    for (AttentionTensor *tensor : bound) {
      ids.push_back(tensor - plan.tensors.data() + 1);
      if (tensor->kind == AttentionTensor::Scalar)
        pointers.push_back(&tensor->value);
      else if (tensor->kind == AttentionTensor::Workspace)
        pointers.push_back(room + tensor->offset);
      else
        pointers.push_back(
            static_cast<char *>(buffers[tensor->operand->index]) +
            tensor->operand->offset * dtypeSize(tensor->dtype));
    }
    if (zeroesSums)
      context.device.zeroOn(room + plan.sumsOffset, plan.sumsBytes,
                            context.device.computeStream());
    void *own = room + plan.workspaceBytes;
    DnnDescriptor pack(library, dnn::VariantPackDescriptor);
    auto count = static_cast<int64_t>(ids.size());
    pack.set(dnn::VariantPackUniqueIds, dnn::TypeInt64, ids.data(), count);
    pack.set(dnn::VariantPackDataPointers, dnn::TypeVoidPtr, pointers.data(),
             count);
    pack.set(dnn::VariantPackWorkspace, dnn::TypeVoidPtr, &own);
    pack.finalize("a variant pack");
    library.check(
        library.execute(context.ready(), chosen->plan.get(), pack.get()),
        desc.kindName());
  }

private:
  DnnContext &context;
  const Cudnn &library;
  LibraryDesc desc;
  AttentionPlan plan;
  bool zeroesSums = false;
  std::vector<DnnDescriptor> parts;
  std::optional<DnnPlan> chosen;
  std::vector<AttentionTensor *> bound;
};
} // namespace

std::vector<DnnDescriptor>
kerf::rt::describeAttention(const Cudnn &library, const AttentionPlan &plan,
                            dnn::Handle handle) {
  std::vector<DnnDescriptor> parts;
  for (size_t i = 0; i < plan.tensors.size(); ++i)
    parts.push_back(
        describeTensor(library, plan.tensors[i], static_cast<int64_t>(i) + 1));
  std::vector<dnn::Descriptor> operations;
  for (const AttentionNode &node : plan.nodes) {
    describeNode(library, plan, node, parts);
    operations.push_back(parts.back().get());
  }
  DnnDescriptor graph(library, dnn::OperationGraphDescriptor);
  if (handle)
    graph.set(dnn::GraphHandle, dnn::TypeHandle, &handle);
  graph.set(dnn::GraphOps, dnn::TypeBackendDescriptor, operations.data(),
            static_cast<int64_t>(operations.size()));
  graph.finalize("the graph of attention");
  parts.push_back(std::move(graph));
  return parts;
}

std::unique_ptr<LibraryCall>
kerf::rt::makeCudnnAttention(DnnContext &context, const LibraryDesc &desc) {
  return std::make_unique<CudnnAttention>(context, desc);
}
