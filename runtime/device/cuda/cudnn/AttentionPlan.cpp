//===- AttentionPlan.cpp - attention as cuDNN's operation graph -----------===//
#include "AttentionPlan.h"

#include "../../../package/AttentionOperands.h"

#include <limits>

using namespace kerf::rt;

namespace {

class Planner {
public:
  explicit Planner(const LibraryDesc &desc)
      : a(desc.attention), batch(desc.batch[0]), type(desc.dtype),
        scores{batch, a.heads, a.queries, a.keys},
        rows{batch, a.heads, a.queries, 1} {
    for (const AttentionOperand &operand : attentionOperands(desc))
      operands.push_back(operand);
  }

  AttentionPlan forward() {
    int q = stored("q"), k = transposed("k"), v = stored("v");
    int s = masked(biased(scaled(product(q, k))));
    int max = reduce(AttentionNode::Max, s, virtualOf(rows));
    int e = point(AttentionNode::Exp, point(AttentionNode::Sub, s, max));
    int sum = reduce(AttentionNode::Sum, e, virtualOf(rows));
    add({AttentionNode::Add, max,
         add({AttentionNode::Log, sum, -1, -1, virtualOf(rows)}), -1,
         stored("stats")});
    // The second product takes its operands in the type of values.
    int p = virtualOf(scores, type);
    add({AttentionNode::Div, e, sum, -1, p});
    add({AttentionNode::Matmul, p, v, -1, stored("dst")});
    return std::move(plan);
  }

  AttentionPlan gradient() {
    int q = stored("q"), k = transposed("k"), v = transposed("v");
    int dy = stored("diff"), out = stored("out");
    // delta = sum dy out, kept for all keys.
    int one = scalar(1);
    int both = virtualOf(layoutOf("out").dims);
    add({AttentionNode::Mul, dy, out, -1, both});
    int delta = workspace(rows, KERF_F32);
    add({AttentionNode::Mul, reduce(AttentionNode::Sum, both, virtualOf(rows)),
         one, -1, delta});
    // p = exp(scores - stats)
    scaleTensor = scalar(static_cast<float>(a.scale));
    int s = biased(scaled(product(q, k)));
    s = masked(point(AttentionNode::Sub, s, stored("stats")));
    int p = point(AttentionNode::Exp, s);
    toKeys(p, dy, "dv");
    // ds = p (dy v^T - delta) scale
    int ds = point(AttentionNode::Sub, product(dy, v), delta);
    ds = scaled(point(AttentionNode::Mul, ds, p));
    toKeys(ds, q, "dk");
    int keys = addTensor(layoutOf("k"), type);
    add({AttentionNode::Reshape, k, -1, -1, keys});
    plan.sumsOffset = plan.workspaceBytes;
    int sums = workspace(layoutOf("dst").dims, KERF_F32);
    plan.sumsBytes = plan.workspaceBytes - plan.sumsOffset;
    add({AttentionNode::Matmul, ds, keys, -1, sums});
    add({AttentionNode::Identity, sums, -1, -1, stored("dst")});
    return std::move(plan);
  }

private:
  const AttentionOperand &find(const std::string &name) const {
    for (const AttentionOperand &operand : operands)
      if (name == operand.name)
        return operand;
    throw Error(KERF_INTERNAL, "attention has no operand " + name);
  }

  int add(AttentionNode node) {
    plan.nodes.push_back(node);
    return node.y;
  }
  int addTensor(DnnTensor layout, kerf_dtype_t dtype,
                AttentionTensor::Kind kind = AttentionTensor::Virtual) {
    AttentionTensor tensor;
    tensor.kind = kind;
    tensor.layout = std::move(layout);
    tensor.dtype = dtype;
    plan.tensors.push_back(std::move(tensor));
    return static_cast<int>(plan.tensors.size()) - 1;
  }
  int virtualOf(const Shape &dims, kerf_dtype_t dtype = KERF_F32) {
    return addTensor({dims, denseStrides(dims)}, dtype);
  }
  int scalar(float value) {
    int tensor = addTensor({{1, 1, 1, 1}, {1, 1, 1, 1}}, KERF_F32,
                           AttentionTensor::Scalar);
    plan.tensors[tensor].value = value;
    return tensor;
  }
  int workspace(const Shape &dims, kerf_dtype_t dtype) {
    int tensor = addTensor({dims, denseStrides(dims)}, dtype,
                           AttentionTensor::Workspace);
    plan.tensors[tensor].offset = plan.workspaceBytes;
    plan.workspaceBytes +=
        ceilDiv(numElements(dims) * dtypeSize(dtype), 256) * 256;
    return tensor;
  }

  /// In cuDNN's form: four dimensions, size 1 where an operand repeats.
  DnnTensor layoutOf(const std::string &name) const {
    const AttentionOperand &operand = find(name);
    DnnTensor layout{operand.dims, operand.strides()};
    if (layout.dims.size() == 3) {
      layout.dims.push_back(1);
      layout.strides.push_back(1);
    }
    for (size_t d = 0; d < layout.dims.size(); ++d)
      if (layout.strides[d] == 0)
        layout.dims[d] = 1;
    // A dimension of size 1 has the stride that a dense row would have.
    for (size_t d = layout.dims.size(); d-- > 0;)
      if (layout.dims[d] == 1)
        layout.strides[d] = d + 1 == layout.dims.size()
                                ? 1
                                : layout.dims[d + 1] * layout.strides[d + 1];
    return layout;
  }
  int stored(const std::string &name) {
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i].first == name)
        return known[i].second;
    const AttentionOperand &operand = find(name);
    int tensor =
        addTensor(layoutOf(name), operand.dtype, AttentionTensor::Stored);
    plan.tensors[tensor].operand = operand.operand;
    known.push_back({name, tensor});
    return tensor;
  }
  /// Rows and columns exchanged by strides.
  int transposed(const std::string &name) {
    int tensor = stored(name);
    DnnTensor &layout = plan.tensors[tensor].layout;
    std::swap(layout.dims[2], layout.dims[3]);
    std::swap(layout.strides[2], layout.strides[3]);
    return tensor;
  }

  int product(int x, int b) {
    return add({AttentionNode::Matmul, x, b, -1, virtualOf(scores)});
  }
  /// Adds a pointwise operation on tensors of the shape of the scores.
  int point(AttentionNode::Op op, int x, int b = -1) {
    return add({op, x, b, -1, virtualOf(scores)});
  }
  int reduce(AttentionNode::Op op, int x, int y) {
    return add({op, x, -1, -1, y});
  }
  int scaled(int s) {
    if (scaleTensor < 0)
      scaleTensor = scalar(static_cast<float>(a.scale));
    return point(AttentionNode::Mul, s, scaleTensor);
  }
  int biased(int s) {
    return find("bias").operand->kind == Operand::None
               ? s
               : point(AttentionNode::Add, s, stored("bias"));
  }
  /// Replaces the scores of keys that query i must not see by the lowest
  /// number.
  int masked(int s) {
    if (!a.causal)
      return s;
    AttentionNode row{AttentionNode::Index,        s, -1, -1,
                      virtualOf(scores, KERF_I32), 2};
    AttentionNode column{AttentionNode::Index,        s, -1, -1,
                         virtualOf(scores, KERF_I32), 3};
    int i = add(row), j = add(column);
    int sees =
        add({AttentionNode::NotLess, i, j, -1, virtualOf(scores, KERF_BOOL)});
    int hidden = scalar(std::numeric_limits<float>::lowest());
    return add({AttentionNode::Select, s, hidden, sees, virtualOf(scores)});
  }
  /// x^T b, summed over the heads of a group.
  void toKeys(int x, int b, const std::string &name) {
    Shape turned = {batch, a.heads, a.keys, a.queries};
    int t = addTensor(
        {turned, {a.heads * a.queries * a.keys, a.queries * a.keys, 1, a.keys}},
        type);
    add({AttentionNode::Reshape, x, -1, -1, t});
    if (a.heads == a.keyHeads) {
      add({AttentionNode::Matmul, t, b, -1, stored(name)});
      return;
    }
    Shape all = layoutOf(name).dims;
    all[1] = a.heads;
    int each = add({AttentionNode::Matmul, t, b, -1, virtualOf(all, type)});
    reduce(AttentionNode::Sum, each, stored(name));
  }

  const AttentionDesc &a;
  int64_t batch;
  kerf_dtype_t type;
  Shape scores, rows;
  std::vector<AttentionOperand> operands;
  std::vector<std::pair<std::string, int>> known;
  int scaleTensor = -1;
  AttentionPlan plan;
};
} // namespace

AttentionPlan kerf::rt::planAttention(const LibraryDesc &desc) {
  Planner planner(desc);
  return desc.kind == LibraryDesc::Attention ? planner.forward()
                                             : planner.gradient();
}
